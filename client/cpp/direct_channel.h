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
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/unique_fd.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd::internal {

class DirectChannel {
 public:
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
  // answer. `fds` are borrowed.
  // Errors: kInvalidArgument   the frame is larger than kMaxFrameBytes
  //         kDeadlineExceeded  no answer within `timeout`; a cancel was sent
  //         kUnavailable       the connection is gone
  //         others             as the daemon answers
  absl::StatusOr<Reply> Call(int field_number,
                             const google::protobuf::MessageLite& body,
                             std::span<const int> fds, absl::Duration timeout)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Whether the daemon announced its end.
  bool going_away() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  struct Waiter {
    absl::CondVar wake;
    bool done = false;
    Reply reply;
  };

  explicit DirectChannel(UniqueFd socket) : socket_(std::move(socket)) {}

  absl::Status Send(uint64_t request_id, int field_number,
                    const google::protobuf::MessageLite& body,
                    std::span<const int> fds) const;
  void SendCancel(uint64_t cancel_id, uint64_t request_id) const;
  // Waits until `waiter` is done, the connection is lost, or the deadline.
  void Await(Waiter& waiter, Clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reads one packet for everybody; gives the lock up while it waits.
  void ReadOne(Clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Waits for a packet until `deadline` and receives it into packet_.
  absl::StatusOr<ReceiveOutcome> Receive(Clock::time_point deadline);
  // Hands packet_ to whom it belongs.
  void Dispatch(absl::StatusOr<ReceiveOutcome> outcome)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Lose(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Makes one waiter read when nobody does.
  void PromoteReader() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd socket_;
  // Belongs to the thread that set reading_; the mutex orders the hand-over.
  Packet packet_;

  mutable absl::Mutex mutex_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool going_away_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_request_id_ ABSL_GUARDED_BY(mutex_) = 1;
  // Why the connection is gone; OK while it is not.
  absl::Status lost_ ABSL_GUARDED_BY(mutex_);
  // An error that named no request: what the daemon said before it closed.
  absl::Status last_words_ ABSL_GUARDED_BY(mutex_);
  // Borrowed from the stacks of the threads in Call. Bounded by them.
  absl::flat_hash_map<uint64_t, Waiter*> waiters_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_DIRECT_CHANNEL_H_
