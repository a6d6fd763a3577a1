// dma-bufs as real exporters make them: a dma-buf heap, udmabuf, dumb buffers
// of a DRM device, capture buffers of a V4L2 device. And CPU access to them as
// the kernel wants it.
// Owns: what each class says. Thread-safety: compatible.
// Source: linux/dma-buf.h, linux/dma-heap.h, linux/udmabuf.h, drm_mode.h,
// linux/videodev2.h; the fences of drivers/gpu/drm/vgem.
#ifndef TESTS_VM_DEVICE_MEMORY_H_
#define TESTS_VM_DEVICE_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

enum class ExporterKind { kHeap, kUdmabuf, kDumb, kVideo };

// Lower case, for names of tests.
const char* ExporterName(ExporterKind kind);

// A device that exports memory. Buffers outlive it.
class Exporter {
 public:
  virtual ~Exporter() = default;
  // A dma-buf of at least `min_bytes`, opened read-write or read-only.
  // Errors: kUnimplemented      the exporter cannot open it read-only
  //         kResourceExhausted  it has no memory of that size (kVideo: above
  //                             kVideoBytes, or all kVideoBuffers are taken)
  virtual absl::StatusOr<UniqueFd> Export(uint64_t min_bytes,
                                          bool writable) = 0;
};

// Errors: kNotFound  this machine has no such device; the message says why
absl::StatusOr<std::unique_ptr<Exporter>> OpenExporter(ExporterKind kind);

// A vivid capture device at 640x360 NV12.
inline constexpr int kVideoWidth = 640;
inline constexpr int kVideoHeight = 360;
inline constexpr uint64_t kVideoBytes = 640 * 360 * 3 / 2;
inline constexpr uint32_t kVideoBuffers = 8;

class VideoDevice {
 public:
  // Errors: kNotFound  no vivid capture device, or it is taken
  static absl::StatusOr<std::unique_ptr<VideoDevice>> Open();
  // The driver's own buffers, or `fds` for it to capture into.
  // Errors: kInternal  the driver refused
  absl::Status AllocateBuffers();
  absl::Status TakeBuffers(uint32_t count);
  absl::StatusOr<UniqueFd> ExportBuffer(uint32_t index, bool writable);
  // Captures one frame into each of the buffers 0..count - 1; `fds` as for
  // TakeBuffers, empty for the driver's own. Errors: kInternal
  absl::Status CaptureInto(uint32_t count, std::span<const int> fds);

 private:
  explicit VideoDevice(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

// A vgem device: dumb buffers to which fences can be attached, as a GPU
// attaches them while it works.
class FencedBuffer {
 public:
  // Errors: kNotFound  no vgem device
  static absl::StatusOr<FencedBuffer> Create(uint64_t size_bytes);
  int fd() const { return dma_buf_.get(); }
  // A fence that says: being written (or only read) until Signal. The kernel
  // itself signals it after 10 seconds.
  absl::Status Attach(bool writing);
  absl::Status Signal();

 private:
  UniqueFd device_;
  UniqueFd dma_buf_;
  uint32_t handle_ = 0;
  uint32_t fence_ = 0;
};

// The fences of `fd` as a sync file, and back into another dma-buf.
absl::StatusOr<UniqueFd> ExportSyncFile(int fd, bool for_writing);
absl::Status ImportSyncFile(int fd, int sync_file, bool writing);

// What the kernel says: bytes of the dma-buf.
uint64_t KernelSize(int fd);

// The whole dma-buf, mapped, between the two sync ioctls.
class CpuAccess {
 public:
  explicit CpuAccess(int fd, bool writable = true);
  ~CpuAccess();
  CpuAccess(const CpuAccess&) = delete;
  CpuAccess& operator=(const CpuAccess&) = delete;
  // Empty when the kernel refused.
  std::span<uint8_t> bytes() const { return bytes_; }

 private:
  int fd_;
  uint64_t direction_;
  std::span<uint8_t> bytes_;
};

}  // namespace preprocd

#endif  // TESTS_VM_DEVICE_MEMORY_H_
