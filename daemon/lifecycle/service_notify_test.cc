#include "daemon/lifecycle/service_notify.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>

#include "engine/base/unique_fd.h"

namespace preprocd {
namespace {

constexpr int kBoundMs = 20'000;

// Plays the service manager's end of $NOTIFY_SOCKET.
class ServiceNotifyTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "notifyXXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    const std::string path = folder_ + "/notify";
    manager_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(bind(manager_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    std::filesystem::remove_all(folder_);
  }

  bool Readable(int timeout_ms) const {
    pollfd entry = {manager_.get(), POLLIN, 0};
    return poll(&entry, 1, timeout_ms) == 1;
  }
  std::string Receive() const {
    if (!Readable(kBoundMs)) return "(nothing came)";
    std::array<char, 4096> text = {};
    const ssize_t size = recv(manager_.get(), text.data(), text.size(), 0);
    return {text.data(), static_cast<size_t>(size < 0 ? 0 : size)};
  }
  static void AskForWatchdog(const char* usec) {
    setenv("WATCHDOG_USEC", usec, 1);
    setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  }

  std::string folder_;
  UniqueFd manager_;
};

TEST_F(ServiceNotifyTest, StatesAreSent) {
  NotifyReady("serving");
  EXPECT_EQ(Receive(), "READY=1\nSTATUS=serving");
  NotifyReloading();
  EXPECT_EQ(Receive().substr(0, 27), "RELOADING=1\nMONOTONIC_USEC=");
  NotifyStopping();
  EXPECT_EQ(Receive().substr(0, 10), "STOPPING=1");
}

TEST_F(ServiceNotifyTest, NothingIsSentWithoutAManager) {
  unsetenv("NOTIFY_SOCKET");
  NotifyReady("serving");
  EXPECT_FALSE(Readable(0));
}

TEST_F(ServiceNotifyTest, TheWatchdogIsFedWhileAlive) {
  AskForWatchdog("3000");
  const WatchdogFeeder feeder([] { return true; });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Receive(), "WATCHDOG=1");
}

TEST_F(ServiceNotifyTest, TheWatchdogIsNotFedWithoutProgress) {
  AskForWatchdog("3000");
  std::atomic<int> asked = 0;
  {
    const WatchdogFeeder feeder([&] {
      ++asked;
      return false;
    });
    while (asked < 3) std::this_thread::yield();
  }
  EXPECT_FALSE(Readable(0));
}

TEST_F(ServiceNotifyTest, NobodyIsAskedWithoutAWatchdog) {
  {
    const WatchdogFeeder feeder([]() -> bool { abort(); });
  }
  AskForWatchdog("3000");
  setenv("WATCHDOG_PID", "1", 1);  // another process's watchdog
  {
    const WatchdogFeeder feeder([]() -> bool { abort(); });
  }
  EXPECT_FALSE(Readable(0));
}

}  // namespace
}  // namespace preprocd
