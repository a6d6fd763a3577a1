#include "daemon/lifecycle/service_notify.h"

#include <systemd/sd-daemon.h>
#include <time.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preprocd {

void NotifyReady(const std::string& status) {
  sd_notify(0, absl::StrCat("READY=1\nSTATUS=", status).c_str());
}

void NotifyReloading() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t us = int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
  sd_notify(0, absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", us).c_str());
}

void NotifyStopping() { sd_notify(0, "STOPPING=1\nSTATUS=draining"); }

struct WatchdogFeeder::State {
  std::function<bool()> alive;
  std::chrono::microseconds interval{0};
  std::mutex mutex;
  std::condition_variable stop;
  bool stopping = false;
  std::thread thread;

  void Run() {
    std::unique_lock<std::mutex> lock(mutex);
    while (!stopping) {
      lock.unlock();
      if (alive()) sd_notify(0, "WATCHDOG=1");
      lock.lock();
      stop.wait_for(lock, interval, [this] { return stopping; });
    }
  }
};

WatchdogFeeder::WatchdogFeeder(std::function<bool()> alive) {
  uint64_t timeout_us = 0;
  if (sd_watchdog_enabled(0, &timeout_us) <= 0 || timeout_us == 0) return;
  state_ = std::make_unique<State>();
  state_->alive = std::move(alive);
  // A third, so that one missing sign of life is not the end.
  state_->interval =
      std::chrono::microseconds(static_cast<int64_t>(timeout_us / 3));
  state_->thread = std::thread([s = state_.get()] { s->Run(); });
}

WatchdogFeeder::~WatchdogFeeder() {
  if (state_ == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    state_->stopping = true;
  }
  state_->stop.notify_all();
  state_->thread.join();
}

}  // namespace preprocd
