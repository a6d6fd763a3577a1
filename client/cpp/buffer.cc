#include "preprocd/buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/session_state.h"
#include "engine/base/checked_math.h"

namespace preprocd {
inline namespace client_v1 {
namespace {

// A destructor does not wait for a daemon that hangs.
constexpr absl::Duration kMaxReleaseWait = absl::Seconds(5);

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  Release().IgnoreError();
  session_ = std::move(other.session_);
  id_ = std::exchange(other.id_, 0);
  generation_ = std::exchange(other.generation_, 0);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  fds_ = std::exchange(other.fds_, {});
  data_ = std::exchange(other.data_, nullptr);
  mapped_bytes_ = std::exchange(other.mapped_bytes_, 0);
  layout_ = std::move(other.layout_);
  warnings_ = std::exchange(other.warnings_, {});
  return *this;
}

Buffer::~Buffer() { Release().IgnoreError(); }

v1::BufferRef Buffer::ref(uint64_t offset_bytes, uint64_t size_bytes) const {
  v1::BufferRef reference;
  reference.set_buffer_id(id_);
  reference.set_generation(generation_);
  reference.set_offset_bytes(offset_bytes);
  reference.set_size_bytes(size_bytes);
  return reference;
}

int Buffer::fd(size_t index) const {
  return index < fds_.size() ? fds_[index].get() : -1;
}

absl::Status Buffer::Release() {
  absl::Status status;
  const auto session = std::exchange(session_, {}).lock();
  if (id_ != 0 && session != nullptr) {
    v1::UnregisterBufferRequest request;
    request.set_buffer_id(id_);
    request.set_generation(generation_);
    status =
        session
            ->CallDirect(preproc::v1::ClientFrame::kUnregisterBufferFieldNumber,
                         request, {},
                         std::min(session->call_timeout, kMaxReleaseWait))
            .status();
  }
  if (data_ != nullptr) munmap(data_, mapped_bytes_);
  id_ = 0;
  generation_ = 0;
  size_bytes_ = 0;
  data_ = nullptr;
  mapped_bytes_ = 0;
  fds_.clear();
  layout_.Clear();
  warnings_.clear();
  return status;
}

absl::Status Buffer::Map(uint64_t size_bytes, bool writable) {
  const auto size = CheckedCast<size_t>(size_bytes);
  if (!size) {
    return absl::ResourceExhaustedError(
        absl::StrCat(size_bytes, " bytes do not fit this address space"));
  }
  const int protection = writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address = mmap(nullptr, *size, protection, MAP_SHARED, fd(), 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("mmap of ", size_bytes, " bytes: ", strerror(errno)));
  }
  data_ = static_cast<std::byte*>(address);
  mapped_bytes_ = *size;
  return absl::OkStatus();
}

}  // namespace client_v1
}  // namespace preprocd
