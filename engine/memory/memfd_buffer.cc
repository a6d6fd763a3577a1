#include "engine/memory/memfd_buffer.h"

#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/memory/buffer_release.h"

namespace preprocd {
namespace {

bool Writes(Access access) {
  return (static_cast<int>(access) & static_cast<int>(Access::kWrite)) != 0;
}

absl::Status ReadOnly() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferReadOnly;
  detail.field = "buffer";
  return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                   "buffer is read-only");
}

absl::Status Shrank(uint64_t have, uint64_t want) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferTooSmall;
  detail.field = "buffer";
  detail.got = absl::StrCat(have);
  detail.limit = absl::StrCat(want);
  return MakeError(
      absl::StatusCode::kInvalidArgument, detail,
      absl::StrCat("buffer shrank to ", have, " of ", want, " bytes"));
}

absl::Status WriteError(int error) {
  ErrorDetail detail;
  detail.field = "buffer";
  const std::string message = absl::StrCat("buffer: pwrite: ", strerror(error));
  switch (error) {
    case EPERM:  // its owner sealed it after it was registered
      detail.reason = ErrorReason::kBufferSealed;
      return MakeError(absl::StatusCode::kFailedPrecondition, detail, message);
    case ENOMEM:
    case ENOSPC:
      detail.reason = ErrorReason::kQuota;
      return MakeError(absl::StatusCode::kResourceExhausted, detail, message);
    default:
      return absl::UnavailableError(message);
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<Buffer>> MemfdBuffer::Create(
    UniqueFd fd, const FileFacts& facts) {
  const int protection = facts.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address =
      mmap(nullptr, facts.size_bytes, protection, MAP_SHARED, fd.get(), 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "mmap of ", facts.size_bytes, " bytes: ", strerror(errno)));
  }
  return std::shared_ptr<Buffer>(
      new MemfdBuffer(std::move(fd), facts, static_cast<std::byte*>(address)));
}

MemfdBuffer::MemfdBuffer(UniqueFd fd, const FileFacts& facts,
                         std::byte* address)
    : Buffer(BufferKind::kMemfd, facts.size_bytes, facts.writable,
             facts.immutable, facts.identity),
      fd_(std::move(fd)),
      address_(address) {
  NoteBufferMade(identity());
}

MemfdBuffer::~MemfdBuffer() {
  NoteBufferReleased(identity());
  munmap(address_, size_bytes());
}

absl::StatusOr<Mapping> MemfdBuffer::Map(Access access) {
  if (Writes(access) && !writable()) return ReadOnly();
  Mapping mapping;
  mapping.buffer_ = this;
  mapping.access_ = access;
  mapping.bytes_ = {address_, size_bytes()};
  return mapping;
}

absl::Status MemfdBuffer::EndAccess(Mapping&, bool) { return absl::OkStatus(); }

MemfdCopyBuffer::MemfdCopyBuffer(UniqueFd fd, const FileFacts& facts)
    : Buffer(BufferKind::kMemfdCopy, facts.size_bytes, facts.writable,
             /*immutable=*/false, facts.identity),
      fd_(std::move(fd)) {}

absl::StatusOr<Mapping> MemfdCopyBuffer::Map(Access access) {
  if (Writes(access) && !writable()) return ReadOnly();
  Mapping mapping;
  mapping.copy_.reset(new (std::nothrow) std::byte[size_bytes()]);
  if (mapping.copy_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a copy of ", size_bytes(), " bytes"));
  }
  uint64_t done = 0;
  while (done < size_bytes()) {
    const ssize_t got = pread(fd_.get(), mapping.copy_.get() + done,
                              size_bytes() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return absl::UnavailableError(absl::StrCat("pread: ", strerror(errno)));
    }
    if (got == 0) return Shrank(done, size_bytes());
    done += static_cast<uint64_t>(got);
  }
  mapping.buffer_ = this;
  mapping.access_ = access;
  mapping.bytes_ = {mapping.copy_.get(), size_bytes()};
  mapping.bytes_copied_ = done;
  return mapping;
}

absl::Status MemfdCopyBuffer::EndAccess(Mapping& mapping, bool write_back) {
  if (!write_back || !Writes(mapping.access_)) return absl::OkStatus();
  // Writing past the end would grow a file that its owner shrank.
  const off_t end = lseek(fd_.get(), 0, SEEK_END);
  if (end < 0 || static_cast<uint64_t>(end) < size_bytes()) {
    return Shrank(end < 0 ? 0 : static_cast<uint64_t>(end), size_bytes());
  }
  uint64_t done = 0;
  while (done < size_bytes()) {
    const ssize_t put = pwrite(fd_.get(), mapping.copy_.get() + done,
                               size_bytes() - done, static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return WriteError(put < 0 ? errno : ENOSPC);
    done += static_cast<uint64_t>(put);
  }
  mapping.bytes_copied_ += done;
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Buffer>> HeapBuffer::Create(
    uint64_t size_bytes) {
  void* address = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for ", size_bytes, " bytes"));
  }
  return std::shared_ptr<Buffer>(
      new HeapBuffer(size_bytes, static_cast<std::byte*>(address)));
}

HeapBuffer::HeapBuffer(uint64_t size_bytes, std::byte* address)
    : Buffer(BufferKind::kHeap, size_bytes, /*writable=*/true,
             /*immutable=*/false,
             // No file: the address is unique while the buffer lives.
             {0, reinterpret_cast<uint64_t>(address)}),
      address_(address) {}

HeapBuffer::~HeapBuffer() { munmap(address_, size_bytes()); }

absl::StatusOr<Mapping> HeapBuffer::Map(Access access) {
  Mapping mapping;
  mapping.buffer_ = this;
  mapping.access_ = access;
  mapping.bytes_ = {address_, size_bytes()};
  return mapping;
}

absl::Status HeapBuffer::EndAccess(Mapping&, bool) { return absl::OkStatus(); }

}  // namespace preprocd
