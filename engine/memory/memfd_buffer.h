// Buffers over memfds and private memory: mapped when the size is sealed,
// copied when it is not.
// Owns: the descriptor and its mapping. Thread-safety: safe.
// Source: memfd_create(2), mmap(2). Why a mapped buffer does not raise
// SIGBUS: the SHRINK seal, set before the size was read, keeps every page
// inside the file; a punched hole reads as zeros; memfds of huge pages, whose
// pool can be empty when a hole is touched, are never mapped. What is left is
// a hole touched under vm.overcommit_memory=2 with nothing left to commit.
#ifndef ENGINE_MEMORY_MEMFD_BUFFER_H_
#define ENGINE_MEMORY_MEMFD_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"
#include "engine/memory/buffer.h"

namespace preprocd {

// Facts about a descriptor that the kernel reported.
struct FileFacts {
  uint64_t size_bytes = 0;
  bool writable = false;
  bool immutable = false;
  BufferIdentity identity;
};

class MemfdBuffer : public Buffer {
 public:
  // Maps the whole file. REQUIRES: SHRINK and GROW seals.
  // Errors: kResourceExhausted mmap refused
  static absl::StatusOr<std::shared_ptr<Buffer>> Create(UniqueFd fd,
                                                        const FileFacts& facts);
  ~MemfdBuffer() override;
  int fd() const override { return fd_.get(); }
  absl::StatusOr<Mapping> Map(Access access) override;

 private:
  MemfdBuffer(UniqueFd fd, const FileFacts& facts, std::byte* address);
  absl::Status EndAccess(Mapping& mapping, bool write_back) override;

  UniqueFd fd_;
  std::byte* const address_;
};

// A memfd whose size its owner may still change: every access goes through
// private memory with pread and pwrite, which cannot fault.
class MemfdCopyBuffer : public Buffer {
 public:
  MemfdCopyBuffer(UniqueFd fd, const FileFacts& facts);
  int fd() const override { return fd_.get(); }
  absl::StatusOr<Mapping> Map(Access access) override;

 private:
  absl::Status EndAccess(Mapping& mapping, bool write_back) override;

  UniqueFd fd_;
};

class HeapBuffer : public Buffer {
 public:
  // Errors: kResourceExhausted  no memory
  static absl::StatusOr<std::shared_ptr<Buffer>> Create(uint64_t size_bytes);
  ~HeapBuffer() override;
  int fd() const override { return -1; }
  absl::StatusOr<Mapping> Map(Access access) override;

 private:
  HeapBuffer(uint64_t size_bytes, std::byte* address);
  absl::Status EndAccess(Mapping& mapping, bool write_back) override;

  std::byte* const address_;
};

}  // namespace preprocd

#endif  // ENGINE_MEMORY_MEMFD_BUFFER_H_
