// One direct connection, shared by the threads that call on it.
//
// There is no reader thread: whoever waits for a reply reads the socket
// itself, and when several wait, one of them reads for all (leader and
// followers). A single caller therefore pays one send and one receive.
// Owns: the socket. Thread-safety: safe.
// Limits: kMaxFrameBytes, kMaxFdsPerFrame.
#ifndef CLIENT_CPP_DIRECT_CHANNEL_H_
#define CLIENT_CPP_DIRECT_CHANNEL_H_

#include <google/protobuf/message_lite.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/unique_fd.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd::internal {

class DirectChannel {
 public:
  // Frames before the last one of an answer.
  using OnProgress = std::function<void(const preproc::v1::TileProgress&)>;

  struct Reply {
    preproc::v1::ServerFrame frame;  // never an ErrorReply
    std::vector<UniqueFd> fds;
    bool fds_lost = false;  // this process is out of descriptors
  };

  // Takes a connected SOCK_SEQPACKET socket.
  // Errors: kUnavailable  the socket takes no timeouts
  static absl::StatusOr<std::unique_ptr<DirectChannel>> Open(UniqueFd socket);
  DirectChannel(const DirectChannel&) = delete;
  DirectChannel& operator=(const DirectChannel&) = delete;
  ~DirectChannel() = default;

  // Sends `body` as the ClientFrame field `field_number` and waits for its
  // answer. `fds` are borrowed. `on_progress`, when there is one, runs on this
  // thread while other callers' answers are read by them.
  // Errors: kInvalidArgument   the frame is larger than kMaxFrameBytes
  //         kDeadlineExceeded  no answer within `timeout`; a cancel was sent
  //         kUnavailable       the connection is gone
  //         others             as the daemon answers
  absl::StatusOr<Reply> Call(int field_number,
                             const google::protobuf::MessageLite& body,
                             std::span<const int> fds, absl::Duration timeout,
                             const OnProgress& on_progress = nullptr);

  // Whether the daemon announced its end.
  bool going_away() const;

 private:
  using Clock = std::chrono::steady_clock;

  struct Waiter {
    std::condition_variable wake;
    bool done = false;
    Reply reply;
    const OnProgress* on_progress = nullptr;
    // Told by the daemon and not yet to on_progress; at most 64 per call.
    std::vector<preproc::v1::TileProgress> progress;
  };

  explicit DirectChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  absl::Status Send(uint64_t request_id, int field_number,
                    const google::protobuf::MessageLite& body,
                    std::span<const int> fds) const;
  void SendCancel(uint64_t cancel_id, uint64_t request_id) const;
  // Those that take the lock need it held and return with it held.
  // Waits until `waiter` is done, the connection is lost, or the deadline.
  void Await(std::unique_lock<std::mutex>& lock, Waiter& waiter,
             Clock::time_point deadline);
  // Reads one packet for everybody; gives the lock up while it waits.
  void ReadOne(std::unique_lock<std::mutex>& lock, Clock::time_point deadline);
  // Waits for a packet until `deadline` and receives it into packet_.
  absl::StatusOr<ReceiveOutcome> Receive(Clock::time_point deadline);
  // Hands packet_ to whom it belongs. REQUIRES: mutex_ is held.
  void Dispatch(absl::StatusOr<ReceiveOutcome> outcome);
  // REQUIRES: mutex_ is held.
  void Lose(absl::Status status);
  // Tells what has come for `waiter`; gives the lock up meanwhile.
  void TellProgress(std::unique_lock<std::mutex>& lock, Waiter& waiter);
  // Makes one waiter but `self` read when nobody does. REQUIRES: mutex_ is
  // held.
  void PromoteReader(const Waiter* self = nullptr);

  const UniqueFd socket_;
  // Belongs to the thread that set reading_; the mutex orders the hand-over.
  Packet packet_;

  // Guards everything below. Not Abseil's: Debian's library is not built for
  // ThreadSanitizer, which then sees no lock at all.
  mutable std::mutex mutex_;
  bool reading_ = false;
  bool going_away_ = false;
  uint64_t next_request_id_ = 1;
  // Why the connection is gone; OK while it is not.
  absl::Status lost_;
  // An error that named no request: what the daemon said before it closed.
  absl::Status last_words_;
  // Borrowed from the stacks of the threads in Call. Bounded by them.
  absl::flat_hash_map<uint64_t, Waiter*> waiters_;
};

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_DIRECT_CHANNEL_H_
