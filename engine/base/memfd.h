// Anonymous memory files: creation and seals. Shared by the engine and the
// client library, so that both ends mean the same by "sealed".
// Thread-safety: safe. Source: memfd_create(2), fcntl(2) F_ADD_SEALS.
#ifndef ENGINE_BASE_MEMFD_H_
#define ENGINE_BASE_MEMFD_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

// A zero-filled memfd of `size_bytes` with sealing allowed, close-on-exec,
// not executable where the kernel knows that flag (MFD_NOEXEC_SEAL).
// Errors: kInvalidArgument size 0; kResourceExhausted the kernel refused
absl::StatusOr<UniqueFd> CreateMemfd(const std::string& name,
                                     uint64_t size_bytes);

// Forbids shrinking and growing: the size can be trusted from here on, the
// bytes can still change. What the daemon needs to map the memory.
absl::Status SealSize(int fd);

// Forbids every change, further seals included; fails while a writable
// mapping exists.
absl::Status SealImmutable(int fd);

}  // namespace preprocd

#endif  // ENGINE_BASE_MEMFD_H_
