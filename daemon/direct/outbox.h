// Sends packets on one non-blocking socket from any thread; what the peer does
// not read in time waits here, in order and bounded.
// Owns: waiting packets and their descriptors; borrows the socket until Close.
// Thread-safety: safe. Limits: kMaxOutboxFrames, kMaxOutboxBytes.
// Life cycle:  sending <-> waiting -> overflowed -> closed
#ifndef DAEMON_DIRECT_OUTBOX_H_
#define DAEMON_DIRECT_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

// A client that does not read its replies is disconnected beyond these.
inline constexpr size_t kMaxOutboxFrames = 256;
inline constexpr size_t kMaxOutboxBytes = 1u << 20;

class Outbox {
 public:
  enum class Event : uint8_t {
    kWaiting,   // call Flush when the socket is writable
    kOverflow,  // the peer does not read: disconnect it
  };
  enum class Progress : uint8_t {
    kEmpty,    // nothing waits
    kWaiting,  // call Flush again when the socket is writable
    kStuck,    // the kernel takes no more descriptors: disconnect
  };

  // `notify` runs in Send, on its thread and under this object's lock: it must
  // only hand the event over. Never called after Close.
  Outbox(int socket, std::function<void(Event)> notify);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  // Sends at once, or keeps the packet. Packets for a peer that is gone, or
  // after an overflow or Close, are dropped: the reader notices the end.
  // Errors: kResourceExhausted  the kernel takes no more descriptors in flight
  //         kInvalidArgument    too many bytes or fds, or empty
  absl::Status Send(std::span<const std::byte> bytes,
                    std::vector<UniqueFd> fds = {});
  Progress Flush();
  void Close();

 private:
  struct Waiting {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };
  enum class Attempt : uint8_t { kDone, kFull, kStuck, kBad };
  Attempt Try(std::span<const std::byte> bytes,
              std::span<const UniqueFd> fds) const;

  std::mutex mutex_;
  const int socket_;
  const std::function<void(Event)> notify_;
  bool closed_ = false;
  bool overflowed_ = false;
  std::deque<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_OUTBOX_H_
