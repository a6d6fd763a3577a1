// A dma-buf: mapped on first use, every CPU access bracketed by the sync
// ioctl. The ioctl waits for the buffer's fences without a bound, so they are
// polled first; a fence that is added between the two is still waited for.
// Owns: the descriptor and its mapping. Thread-safety: safe.
// Limits: kMaxFenceWaitMs.
// Source: linux/dma-buf.h; kernel Documentation/driver-api/dma-buf.rst.
#ifndef ENGINE_MEMORY_DMA_BUF_BUFFER_H_
#define ENGINE_MEMORY_DMA_BUF_BUFFER_H_

#include <cstddef>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "engine/memory/buffer.h"
#include "engine/memory/memfd_buffer.h"

namespace preprocd {

// How long an access may wait for the work of devices and other processes.
inline constexpr int kMaxFenceWaitMs = 2000;

// True when `fd` is a dma-buf, by its file system's magic number.
bool IsDmaBuf(int fd);

class DmaBufBuffer : public Buffer {
 public:
  DmaBufBuffer(UniqueFd fd, const FileFacts& facts);
  ~DmaBufBuffer() override;
  int fd() const override { return fd_.get(); }
  // Errors also: kUnavailable DMA_BUF  the exporter refuses mmap or sync
  absl::StatusOr<Mapping> Map(Access access) override;

 private:
  absl::Status EndAccess(Mapping& mapping, bool write_back) override;
  absl::Status MapOnce();

  UniqueFd fd_;
  std::mutex mutex_;
  std::byte* address_ = nullptr;  // guarded by mutex_ until set
};

}  // namespace preprocd

#endif  // ENGINE_MEMORY_DMA_BUF_BUFFER_H_
