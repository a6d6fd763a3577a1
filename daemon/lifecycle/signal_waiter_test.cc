#include "daemon/lifecycle/signal_waiter.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace preprocd {
namespace {

TEST(SignalWaiterTest, SignalsBecomeEventsInsteadOfEndingTheProcess) {
  auto waiter = SignalWaiter::Block();
  ASSERT_TRUE(waiter.ok()) << waiter.status();
  EXPECT_EQ(waiter->Wait(0), SignalEvent::kTimeout);
  kill(getpid(), SIGHUP);
  EXPECT_EQ(waiter->Wait(-1), SignalEvent::kReload);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(waiter->Wait(-1), SignalEvent::kStop);
  kill(getpid(), SIGINT);
  EXPECT_EQ(waiter->Wait(-1), SignalEvent::kStop);
  EXPECT_EQ(waiter->Wait(0), SignalEvent::kTimeout);
  // Would end the process if it were not ignored.
  kill(getpid(), SIGPIPE);
  EXPECT_EQ(waiter->Wait(0), SignalEvent::kTimeout);
}

TEST(SignalWaiterTest, AnotherThreadWakesTheWait) {
  auto waiter = SignalWaiter::Block();
  ASSERT_TRUE(waiter.ok()) << waiter.status();
  std::thread other([&] { waiter->Wake(); });
  EXPECT_EQ(waiter->Wait(-1), SignalEvent::kWoken);
  other.join();
  EXPECT_EQ(waiter->Wait(0), SignalEvent::kTimeout);
}

}  // namespace
}  // namespace preprocd
