// The daemon as one object: wires engine, sessions, scheduler, service and
// both transports, drains and stops them in order.
// Owns: all of them. Thread-safety: bound to the main thread.
// Life cycle:  Start -> Run (serving -> draining) -> destroyed
#ifndef DAEMON_DAEMON_H_
#define DAEMON_DAEMON_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/options.h"

namespace preprocd {

class Daemon {
 public:
  // Blocks signals, opens the sockets and serves.
  // Errors: kInvalidArgument  bad configuration (exit code 2)
  //         others            the machine refuses (exit code 1)
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(
      const DaemonOptions& options);
  ~Daemon();

  // Serves until SIGTERM, SIGINT or Admin.Drain, then drains. Returns 0 when
  // all work was finished. Does not return when work is cut short: by the
  // drain timeout the process exits with 0, by a second signal with 1.
  int Run();

 private:
  struct State;
  explicit Daemon(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_DAEMON_H_
