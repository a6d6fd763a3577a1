// Tells the service manager how the daemon is; silent without one.
// Owns: the watchdog thread, joined by the destructor. Thread-safety: safe.
// Source: sd_notify(3), sd_watchdog_enabled(3).
#ifndef DAEMON_LIFECYCLE_SERVICE_NOTIFY_H_
#define DAEMON_LIFECYCLE_SERVICE_NOTIFY_H_

#include <functional>
#include <memory>
#include <string>

namespace preprocd {

void NotifyReady(const std::string& status);
void NotifyReloading();
void NotifyStopping();

// Sends WATCHDOG=1 at a third of the interval that the manager asked for, but
// only while `alive` says that the work loops make progress.
class WatchdogFeeder {
 public:
  explicit WatchdogFeeder(std::function<bool()> alive);
  ~WatchdogFeeder();
  WatchdogFeeder(const WatchdogFeeder&) = delete;
  WatchdogFeeder& operator=(const WatchdogFeeder&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;  // null when no watchdog is asked for
};

}  // namespace preprocd

#endif  // DAEMON_LIFECYCLE_SERVICE_NOTIFY_H_
