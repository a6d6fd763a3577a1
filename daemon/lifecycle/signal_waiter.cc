#include "daemon/lifecycle/signal_waiter.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preprocd {

absl::StatusOr<SignalWaiter> SignalWaiter::Block() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGHUP);
  if (const int error = pthread_sigmask(SIG_BLOCK, &set, nullptr); error != 0) {
    return absl::InternalError(
        absl::StrCat("pthread_sigmask: ", strerror(error)));
  }
  signal(SIGPIPE, SIG_IGN);
  UniqueFd signals(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!signals.valid() || !wake.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("signalfd: ", strerror(errno)));
  }
  return SignalWaiter(std::move(signals), std::move(wake));
}

SignalWaiter::SignalWaiter(UniqueFd signals, UniqueFd wake)
    : signals_(std::move(signals)), wake_(std::move(wake)) {}

SignalEvent SignalWaiter::Wait(int timeout_ms) {
  while (true) {
    std::array<pollfd, 2> fds = {
        {{signals_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    const int ready = poll(fds.data(), fds.size(), timeout_ms);
    if (ready == 0) return SignalEvent::kTimeout;
    signalfd_siginfo info = {};
    if (read(signals_.get(), &info, sizeof(info)) ==
        static_cast<ssize_t>(sizeof(info))) {
      return info.ssi_signo == SIGHUP ? SignalEvent::kReload
                                      : SignalEvent::kStop;
    }
    uint64_t count = 0;
    if (read(wake_.get(), &count, sizeof(count)) ==
        static_cast<ssize_t>(sizeof(count))) {
      return SignalEvent::kWoken;
    }
  }
}

void SignalWaiter::Wake() {
  const uint64_t one = 1;
  // The counter saturates long before a write could block.
  if (write(wake_.get(), &one, sizeof(one)) < 0) return;
}

}  // namespace preprocd
