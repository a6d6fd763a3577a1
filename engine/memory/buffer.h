// A piece of memory that jobs read and write, whatever holds it: memfd,
// dma-buf or heap. CPU access happens only inside a Mapping scope.
// Owns: its descriptor and mapping; shared between a session's table and the
// running jobs (shared_ptr), because a job must outlive an unregister.
// Thread-safety: safe; two writers of the same bytes are the caller's race.
// Life cycle:  ImportBuffer / Allocate -> Map ... Mapping::Finish -> destroyed
#ifndef ENGINE_MEMORY_BUFFER_H_
#define ENGINE_MEMORY_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

// Numbers equal preproc.v1.BufferKind.
enum class BufferKind : uint8_t {
  kUnspecified = 0,
  kMemfd = 1,      // sealed against shrinking and growing; mapped
  kMemfdCopy = 2,  // without those seals; never mapped, pread/pwrite
  kDmaBuf = 3,
  kHeap = 4,  // private to this process; has no fd
};

enum class Access : uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

// Same (device, inode) = same memory while a descriptor of it is held.
struct BufferIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;
  bool operator==(const BufferIdentity&) const = default;
};

class Buffer;

// CPU view of a whole buffer for a scope. For a dma-buf the constructor and
// Finish bracket the access with the sync ioctl; for kMemfdCopy, read access
// copies in and write access copies out at Finish.
// Owns: nothing of the buffer; the Buffer must outlive it.
// Thread-safety: compatible.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  // Ends the access; an error of a write-back is lost here, so writers call
  // Finish first.
  ~Mapping();

  std::span<std::byte> bytes() const { return bytes_; }
  // Ends the access and reports whether written bytes reached the buffer.
  // Errors: kUnavailable DMA_BUF  the sync ioctl failed
  //         kInvalidArgument      the file shrank (kMemfdCopy)
  //         kFailedPrecondition BUFFER_SEALED  sealed since it was imported
  //                               (kMemfdCopy)
  //         kResourceExhausted    no memory for the file (kMemfdCopy)
  absl::Status Finish();
  // Ends the access without writing back (after a failed job): for
  // kMemfdCopy the client's bytes stay untouched.
  void Abandon();
  // Bytes that were copied so far because this buffer could not be mapped.
  uint64_t bytes_copied() const { return bytes_copied_; }

 private:
  friend class Buffer;
  friend class MemfdBuffer;
  friend class MemfdCopyBuffer;
  friend class DmaBufBuffer;
  friend class HeapBuffer;
  friend class BorrowedBuffer;
  Buffer* buffer_ = nullptr;
  Access access_ = Access::kRead;
  std::span<std::byte> bytes_;
  // Private memory of a kMemfdCopy access.
  std::unique_ptr<std::byte[]> copy_;
  uint64_t bytes_copied_ = 0;
};

class Buffer {
 public:
  virtual ~Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  BufferKind kind() const { return kind_; }
  // As the kernel reported it at import; never a client's word.
  uint64_t size_bytes() const { return size_bytes_; }
  // False when seals, the fd's mode or the registration forbid writing.
  bool writable() const { return writable_; }
  // True when nobody, its owner included, can change the bytes any more
  // (write seal): encoded data may then be parsed in place.
  bool immutable() const { return immutable_; }
  // True when using this buffer costs a copy in or out (kMemfdCopy).
  bool copies() const { return kind_ == BufferKind::kMemfdCopy; }
  BufferIdentity identity() const { return identity_; }
  // Borrowed; -1 for kHeap.
  virtual int fd() const = 0;

  // Errors: kFailedPrecondition BUFFER_READ_ONLY  write to a read-only buffer
  //         kResourceExhausted                    the kernel refused memory
  //         kUnavailable DMA_BUF                  sync ioctl failed, or the
  //                                               buffer's fences did not
  //                                               signal within
  //                                               kMaxFenceWaitMs
  //         kInvalidArgument BUFFER_TOO_SMALL     file shrank (kMemfdCopy)
  // Steady state of kMemfd and kHeap: no syscall, no allocation.
  virtual absl::StatusOr<Mapping> Map(Access access) = 0;

 protected:
  Buffer(BufferKind kind, uint64_t size_bytes, bool writable, bool immutable,
         BufferIdentity identity)
      : kind_(kind),
        size_bytes_(size_bytes),
        writable_(writable),
        immutable_(immutable),
        identity_(identity) {}

 private:
  friend class Mapping;
  // Called once per Mapping; `write_back` is false after Abandon.
  virtual absl::Status EndAccess(Mapping& mapping, bool write_back) = 0;

  const BufferKind kind_;
  const uint64_t size_bytes_;
  const bool writable_;
  const bool immutable_;
  const BufferIdentity identity_;
};

}  // namespace preprocd

#endif  // ENGINE_MEMORY_BUFFER_H_
