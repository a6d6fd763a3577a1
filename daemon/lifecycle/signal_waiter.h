// Signals as values: they are blocked in every thread and read by one.
// Thread-safety: Block before any thread is started; Wait on one thread.
// Source: signalfd(2).
#ifndef DAEMON_LIFECYCLE_SIGNAL_WAITER_H_
#define DAEMON_LIFECYCLE_SIGNAL_WAITER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

enum class SignalEvent : uint8_t {
  kStop,    // SIGTERM, SIGINT
  kReload,  // SIGHUP
  kWoken,   // Wake was called
  kTimeout,
};

class SignalWaiter {
 public:
  // Blocks SIGTERM, SIGINT and SIGHUP and ignores SIGPIPE, for this thread
  // and those it starts from here on.
  static absl::StatusOr<SignalWaiter> Block();

  // The next event; `timeout_ms` < 0 waits for ever.
  SignalEvent Wait(int timeout_ms);
  // Makes Wait return kWoken; any thread, async-signal-safe.
  void Wake();

 private:
  SignalWaiter(UniqueFd signals, UniqueFd wake);
  UniqueFd signals_;
  UniqueFd wake_;
};

}  // namespace preprocd

#endif  // DAEMON_LIFECYCLE_SIGNAL_WAITER_H_
