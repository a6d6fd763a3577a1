#include "daemon/progress_probe.h"

#include <gtest/gtest.h>

#include "daemon/service/service_fixture.h"

namespace preprocd {
namespace {

class ProgressProbeTest : public ServiceTest {
 protected:
  ProgressProbeTest()
      : probe_(scheduler_,
               {[this] { pongs_ += reactor_well_ ? 1 : 0; },
                [this] { return pongs_; }, [this] { return wall_ns_; },
                [this] { return cpu_ns_; }}) {}

  // Ten seconds later; `cpu_ms` of them on a CPU.
  bool AliveAfter(int64_t cpu_ms) {
    wall_ns_ += 10'000'000'000;
    cpu_ns_ += cpu_ms * 1'000'000;
    return probe_.Alive();
  }

  bool reactor_well_ = true;
  uint64_t pongs_ = 0;
  int64_t wall_ns_ = 0;
  int64_t cpu_ns_ = 0;
  ProgressProbe probe_;
};

TEST_F(ProgressProbeTest, AnIdleDaemonIsAlive) {
  for (int call = 0; call < 5; ++call) {
    EXPECT_TRUE(AliveAfter(0)) << call;
    ASSERT_TRUE(scheduler_.WaitIdle(20'000));
  }
}

TEST_F(ProgressProbeTest, AnExecutorThatComputesIsAliveOneThatHangsIsNot) {
  BusyExecutor busy(scheduler_);
  EXPECT_TRUE(AliveAfter(0));
  EXPECT_TRUE(AliveAfter(9'000));
  EXPECT_FALSE(AliveAfter(10));
  EXPECT_FALSE(AliveAfter(10));
  // The probe does not fill the queue.
  EXPECT_EQ(scheduler_.queued(), 1);
  busy.Release();
  ASSERT_TRUE(scheduler_.WaitIdle(20'000));
  EXPECT_TRUE(AliveAfter(0));
}

TEST_F(ProgressProbeTest, AReactorThatDoesNotAnswerIsNotAlive) {
  EXPECT_TRUE(AliveAfter(0));
  ASSERT_TRUE(scheduler_.WaitIdle(20'000));
  reactor_well_ = false;
  EXPECT_TRUE(AliveAfter(0));  // the ping before this one was answered
  ASSERT_TRUE(scheduler_.WaitIdle(20'000));
  EXPECT_FALSE(AliveAfter(10'000));
  EXPECT_FALSE(AliveAfter(10'000));
}

TEST_F(ProgressProbeTest, AStoppedSchedulerCountsAsAliveWhileItComputes) {
  EXPECT_TRUE(AliveAfter(0));
  ASSERT_TRUE(scheduler_.WaitIdle(20'000));
  scheduler_.Stop();
  EXPECT_TRUE(AliveAfter(0));
  EXPECT_TRUE(AliveAfter(5'000));
  EXPECT_FALSE(AliveAfter(0));
}

}  // namespace
}  // namespace preprocd
