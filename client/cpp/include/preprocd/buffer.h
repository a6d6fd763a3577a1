// Memory that a session shares with the daemon: registered once, named by id
// in every request, forgotten when the object goes.
// Owns: its descriptors, its mapping and its registration; it may outlive the
// session, the memory then stays usable here.
// Thread-safety: compatible; the bytes are the caller's to guard.
// Limits: kMaxBuffersPerSession, kMaxBytesPerSession (engine/base/limits.h).
#ifndef PREPROCD_BUFFER_H_
#define PREPROCD_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/unique_fd.h"
#include "preproc/v1/buffers.pb.h"

namespace preprocd {

namespace v1 = ::preproc::v1;

namespace internal {
class SessionState;
}  // namespace internal

// An inline namespace keeps the client's names apart from the daemon's in
// programs that link both.
inline namespace client_v1 {

class Buffer {
 public:
  // Names nothing; assign a buffer of a Session to it.
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  // Release(), errors ignored.
  ~Buffer();

  uint64_t id() const { return id_; }
  uint32_t generation() const { return generation_; }
  // Bytes of all descriptors together, as the kernel counts them.
  uint64_t size_bytes() const { return size_bytes_; }

  // The whole buffer, for requests.
  v1::BufferRef ref() const { return ref(0, 0); }
  // `size_bytes` from `offset_bytes` on, for encoded bytes; 0 = to the end.
  v1::BufferRef ref(uint64_t offset_bytes, uint64_t size_bytes) const;

  // The memory, when it is mapped here: buffers that Session creates, and
  // memfds that the daemon allocated. Empty for imported and dma-bufs.
  // Writing to a buffer made from bytes faults: it is sealed.
  std::span<std::byte> bytes() { return {data_, mapped_bytes_}; }
  std::span<const std::byte> bytes() const { return {data_, mapped_bytes_}; }

  // Borrowed descriptor, 0..fd_count() - 1; -1 beyond.
  int fd(size_t index = 0) const;
  size_t fd_count() const { return fds_.size(); }
  // Planes fixed at registration; empty when there are none.
  const v1::ImageLayout& layout() const { return layout_; }
  // Things that cost speed, for example a memfd without seals.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Whether this names a registration.
  bool registered() const { return id_ != 0; }

  // Unregisters (when the session still lives), unmaps and closes. Work of
  // the daemon that uses the buffer finishes first against its own mapping.
  // Errors: those of Buffers.Unregister; the object is empty in any case
  absl::Status Release();

 private:
  friend class Session;

  // Maps descriptor 0 for reading or also for writing.
  absl::Status Map(uint64_t size_bytes, bool writable);

  std::weak_ptr<internal::SessionState> session_;
  uint64_t id_ = 0;
  uint32_t generation_ = 0;
  uint64_t size_bytes_ = 0;
  std::vector<UniqueFd> fds_;
  std::byte* data_ = nullptr;
  size_t mapped_bytes_ = 0;
  v1::ImageLayout layout_;
  std::vector<std::string> warnings_;
};

}  // namespace client_v1
}  // namespace preprocd

#endif  // PREPROCD_BUFFER_H_
