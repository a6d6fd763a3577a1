#include "engine/memory/buffer.h"

#include <utility>

namespace preprocd {

Mapping::Mapping(Mapping&& other) noexcept
    : buffer_(std::exchange(other.buffer_, nullptr)),
      access_(other.access_),
      bytes_(std::exchange(other.bytes_, {})),
      copy_(std::move(other.copy_)),
      bytes_copied_(other.bytes_copied_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  if (this != &other) {
    if (buffer_ != nullptr) Finish().IgnoreError();
    buffer_ = std::exchange(other.buffer_, nullptr);
    access_ = other.access_;
    bytes_ = std::exchange(other.bytes_, {});
    copy_ = std::move(other.copy_);
    bytes_copied_ = other.bytes_copied_;
  }
  return *this;
}

Mapping::~Mapping() {
  if (buffer_ != nullptr) Finish().IgnoreError();
}

absl::Status Mapping::Finish() {
  if (buffer_ == nullptr) return absl::OkStatus();
  Buffer* buffer = std::exchange(buffer_, nullptr);
  absl::Status status = buffer->EndAccess(*this, true);
  bytes_ = {};
  copy_.reset();
  return status;
}

void Mapping::Abandon() {
  if (buffer_ == nullptr) return;
  Buffer* buffer = std::exchange(buffer_, nullptr);
  buffer->EndAccess(*this, false).IgnoreError();
  bytes_ = {};
  copy_.reset();
}

}  // namespace preprocd
