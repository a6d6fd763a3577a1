// The direct transport: SOCK_SEQPACKET connections on a Boost.Asio reactor,
// each one a session. Frames in, replies out; replies of work are sent from
// the executor thread that finished it.
// Owns: its connections and one reactor thread. Thread-safety: safe.
// Limits: kMaxFrameBytes, kMaxFdsPerFrame, SessionLimits::max_sessions and as
// many connections without a session again; the oldest of those gives way.
#ifndef DAEMON_DIRECT_DIRECT_SERVER_H_
#define DAEMON_DIRECT_DIRECT_SERVER_H_

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/service/service.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

struct DirectServerOptions {
  // How long a connection may stay without a session.
  std::chrono::milliseconds hello_bound{10'000};
};

class DirectServer {
 public:
  // `listener`: a listening SOCK_SEQPACKET socket; the path is not this
  // class's concern. Starts the reactor thread.
  // Errors: kUnavailable  the socket does not work
  static absl::StatusOr<std::unique_ptr<DirectServer>> Start(
      UniqueFd listener, Service& service,
      const DirectServerOptions& options = {});
  // Stops accepting, closes every connection (their sessions end: queued work
  // is cancelled), joins the reactor. Work that runs is not waited for; its
  // reply is dropped.
  ~DirectServer();

  // Stops accepting and tells every client GoingAway; connections stay.
  void BeginDrain(int64_t deadline_ms);

  // Asks the reactor for a sign of life; a counter of those given so far. A
  // reactor that is well answers within milliseconds.
  void Ping();
  uint64_t pongs() const;

 private:
  struct State;
  explicit DirectServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_DIRECT_SERVER_H_
