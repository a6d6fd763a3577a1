// Turns a file descriptor received from a client into a Buffer.
// Owns: the fd, from the call on. Thread-safety: safe (no state).
// Limits: `max_bytes` of the options.
// Source: memfd seals, fcntl(2) F_GET_SEALS; dma-buf magic and size, kernel
// Documentation/driver-api/dma-buf.rst; sync ioctl, linux/dma-buf.h.
#ifndef ENGINE_MEMORY_BUFFER_IMPORT_H_
#define ENGINE_MEMORY_BUFFER_IMPORT_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "engine/memory/buffer.h"

namespace preprocd {

struct ImportOptions {
  // What the client wants to do; kWrite and kReadWrite need a writable fd.
  Access access = Access::kReadWrite;
  // Upper bound for the buffer's cost in bytes: max(file size, blocks * 512).
  uint64_t max_bytes = 1ull << 30;
};

// What is accepted:
//   memfd with SHRINK and GROW seals   -> kMemfd, mapped once, here
//   memfd without them                 -> kMemfdCopy, never mapped
//   memfd of huge pages, to be read    -> kMemfdCopy, whatever its seals
//   dma-buf (by its file system)       -> kDmaBuf, sized by lseek
// Everything else (regular file, socket, pipe, directory, device, shm file
// that is no memfd and cannot be sealed) is refused.
// The mapping is never executable and is read-only when access is kRead or
// the WRITE / FUTURE_WRITE seals are set.
// Seals are read before the size, so that a file which is sealed meanwhile
// is never mapped past its end.
// Errors: kInvalidArgument    BUFFER_KIND       none of the kinds above
//                             BUFFER_TOO_SMALL  empty
//                             TOO_LARGE         above max_bytes
//         kFailedPrecondition BUFFER_SEALED     write access to a sealed or
//                                               read-only descriptor
//         kResourceExhausted                    mmap refused
absl::StatusOr<std::shared_ptr<Buffer>> ImportBuffer(
    UniqueFd fd, const ImportOptions& options);

}  // namespace preprocd

#endif  // ENGINE_MEMORY_BUFFER_IMPORT_H_
