// Makes buffers: memfd everywhere, udmabuf and dma-heap where the kernel has
// them, heap for private scratch.
// Thread-safety: safe. Limits: kMaxBytesPerSession is the caller's concern.
// Source: memfd_create(2); linux/udmabuf.h; linux/dma-heap.h.
#ifndef ENGINE_MEMORY_ALLOCATOR_H_
#define ENGINE_MEMORY_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"
#include "engine/memory/buffer.h"

namespace preprocd {

// Numbers equal preproc.v1.AllocatorKind.
enum class AllocatorKind : uint8_t {
  kUnspecified = 0,  // memfd
  kMemfd = 1,
  kUdmabuf = 2,
  kDmaHeap = 3,
  kHeap = 4,
};

// What this machine offers, probed at each call. `detail` says why not,
// e.g. "/dev/udmabuf: No such file or directory".
struct AllocatorStatus {
  AllocatorKind kind = AllocatorKind::kMemfd;
  bool available = false;
  std::string detail;
};
std::vector<AllocatorStatus> ProbeAllocators();

// A writable buffer of `size_bytes` (rounded up to pages where the kernel
// wants it), zero-filled. A memfd is created with SHRINK, GROW and SEAL
// sealed, close-on-exec, non-executable where the kernel knows that flag.
// Errors: kInvalidArgument   size 0
//         kUnimplemented     this machine has no such allocator (detail says)
//         kResourceExhausted the kernel refused memory, or has not so much
//                            left that a dma-buf may take it
absl::StatusOr<std::shared_ptr<Buffer>> AllocateBuffer(AllocatorKind kind,
                                                       uint64_t size_bytes,
                                                       absl::string_view name);

// A memfd holding a copy of `bytes`, sealed against every change.
absl::StatusOr<UniqueFd> MakeSealedMemfd(std::span<const std::byte> bytes,
                                         absl::string_view name);

}  // namespace preprocd

#endif  // ENGINE_MEMORY_ALLOCATOR_H_
