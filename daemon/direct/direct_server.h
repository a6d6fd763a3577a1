// The direct transport: SOCK_SEQPACKET connections on a Boost.Asio reactor,
// each one a session. Frames in, replies out; replies of work are sent from
// the executor thread that finished it.
// Owns: its connections and one reactor thread. Thread-safety: safe.
// Limits: kMaxFrameBytes, kMaxFdsPerFrame, SessionLimits::max_sessions.
#ifndef DAEMON_DIRECT_DIRECT_SERVER_H_
#define DAEMON_DIRECT_DIRECT_SERVER_H_

#include <memory>

#include "absl/status/statusor.h"
#include "daemon/service/service.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

class DirectServer {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket; the path is not this
  // class's concern. Starts the reactor thread.
  static absl::StatusOr<std::unique_ptr<DirectServer>> Start(UniqueFd listener,
                                                             Service& service);
  // Stops accepting, closes every connection (their sessions end), joins.
  ~DirectServer();

  // Stops accepting and tells every client GoingAway; connections stay.
  void BeginDrain(int64_t deadline_ms);

 private:
  struct State;
  explicit DirectServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_DIRECT_SERVER_H_
