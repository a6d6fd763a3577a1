#include "engine/memory/dma_buf_buffer.h"

#include <linux/dma-buf.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/memory/buffer_release.h"

namespace preprocd {
namespace {

// linux/magic.h, DMA_BUF_MAGIC ("DMAB").
constexpr long kDmaBufMagic = 0x444d4142;

absl::Status DmaBufError(absl::string_view call, int error) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kDmaBuf;
  detail.field = "buffer";
  return MakeError(absl::StatusCode::kUnavailable, detail,
                   absl::StrCat("dma-buf ", call, ": ", strerror(error)));
}

uint64_t SyncDirection(Access access) {
  switch (access) {
    case Access::kRead:
      return DMA_BUF_SYNC_READ;
    case Access::kWrite:
      return DMA_BUF_SYNC_WRITE;
    case Access::kReadWrite:
      break;
  }
  return DMA_BUF_SYNC_RW;
}

// A reader waits for the writers, a writer for everybody.
absl::Status AwaitFences(int fd, Access access) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(kMaxFenceWaitMs);
  pollfd waited = {};
  waited.fd = fd;
  waited.events = access == Access::kRead ? POLLIN : POLLOUT;
  int ready = -1;
  do {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now());
    ready = poll(&waited, 1, std::max(0, static_cast<int>(left.count())));
  } while (ready < 0 && errno == EINTR);
  if (ready < 0) return DmaBufError("poll", errno);
  if (ready == 0) return DmaBufError("fence wait", ETIMEDOUT);
  return absl::OkStatus();
}

absl::Status Sync(int fd, uint64_t flags) {
  dma_buf_sync sync = {};
  sync.flags = flags;
  int result = -1;
  do {
    result = ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync);
  } while (result < 0 && (errno == EINTR || errno == EAGAIN));
  if (result < 0) return DmaBufError("sync", errno);
  return absl::OkStatus();
}

}  // namespace

bool IsDmaBuf(int fd) {
  struct statfs facts = {};
  return fstatfs(fd, &facts) == 0 && facts.f_type == kDmaBufMagic;
}

DmaBufBuffer::DmaBufBuffer(UniqueFd fd, const FileFacts& facts)
    : Buffer(BufferKind::kDmaBuf, facts.size_bytes, facts.writable,
             /*immutable=*/false, facts.identity),
      fd_(std::move(fd)) {
  NoteBufferMade(identity());
}

DmaBufBuffer::~DmaBufBuffer() {
  NoteBufferReleased(identity());
  if (address_ != nullptr) munmap(address_, size_bytes());
}

absl::Status DmaBufBuffer::MapOnce() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (address_ != nullptr) return absl::OkStatus();
  const int protection = writable() ? PROT_READ | PROT_WRITE : PROT_READ;
  void* address =
      mmap(nullptr, size_bytes(), protection, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) return DmaBufError("mmap", errno);
  address_ = static_cast<std::byte*>(address);
  return absl::OkStatus();
}

absl::StatusOr<Mapping> DmaBufBuffer::Map(Access access) {
  if (access != Access::kRead && !writable()) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kBufferReadOnly;
    detail.field = "buffer";
    return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                     "buffer is read-only");
  }
  RETURN_IF_ERROR(MapOnce());
  RETURN_IF_ERROR(AwaitFences(fd_.get(), access));
  RETURN_IF_ERROR(Sync(fd_.get(), DMA_BUF_SYNC_START | SyncDirection(access)));
  Mapping mapping;
  mapping.buffer_ = this;
  mapping.access_ = access;
  mapping.bytes_ = {address_, size_bytes()};
  return mapping;
}

absl::Status DmaBufBuffer::EndAccess(Mapping& mapping, bool) {
  return Sync(fd_.get(), DMA_BUF_SYNC_END | SyncDirection(mapping.access_));
}

}  // namespace preprocd
