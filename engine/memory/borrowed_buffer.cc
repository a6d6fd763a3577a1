#include "engine/memory/borrowed_buffer.h"

#include <cstdint>
#include <string>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

bool Writes(Access access) {
  return (static_cast<int>(access) & static_cast<int>(Access::kWrite)) != 0;
}

}  // namespace

BorrowedBuffer::BorrowedBuffer(std::span<std::byte> bytes, Access access)
    : Buffer(BufferKind::kHeap, bytes.size(), Writes(access),
             /*immutable=*/false,
             {0, reinterpret_cast<uint64_t>(bytes.data())}),
      bytes_(bytes) {}

absl::StatusOr<Mapping> BorrowedBuffer::Map(Access access) {
  if (Writes(access) && !writable()) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kBufferReadOnly;
    detail.field = "buffer";
    return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                     "buffer was mapped for reading only");
  }
  Mapping mapping;
  mapping.buffer_ = this;
  mapping.access_ = access;
  mapping.bytes_ = bytes_;
  return mapping;
}

absl::Status BorrowedBuffer::EndAccess(Mapping&, bool) {
  return absl::OkStatus();
}

}  // namespace preprocd
