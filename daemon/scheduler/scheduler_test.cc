#include "daemon/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "daemon/metrics/metrics.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

SchedulerOptions Threads(int threads, int max_queued = kMaxQueuedJobs) {
  SchedulerOptions options;
  options.cpu_threads = threads;
  options.max_queued = max_queued;
  return options;
}

// Occupies the only thread of a scheduler until released, so that a test
// decides what is queued before anything runs.
class Plug {
 public:
  explicit Plug(Scheduler& scheduler) {
    Job job;
    job.session_id = 999;
    job.work = [this](JobContext&) {
      started_.Notify();
      release_.WaitForNotification();
      return absl::OkStatus();
    };
    job.done = [](absl::Status) {};
    EXPECT_TRUE(scheduler.Submit(job).ok());
    started_.WaitForNotification();
  }
  void Release() { release_.Notify(); }

 private:
  absl::Notification started_;
  absl::Notification release_;
};

class Recorder {
 public:
  Job Make(const std::string& name, uint64_t session,
           Priority priority = Priority::kNormal, uint64_t request = 0) {
    Job job;
    job.session_id = session;
    job.request_id = request;
    job.priority = priority;
    job.cost = 3'000'000;  // more than a quantum: sessions alternate
    job.work = [this, name](JobContext&) {
      std::lock_guard<std::mutex> lock(mutex_);
      ran_.push_back(name);
      return absl::OkStatus();
    };
    job.done = [this, name](absl::Status status) {
      std::lock_guard<std::mutex> lock(mutex_);
      done_.emplace_back(name, std::move(status));
    };
    return job;
  }
  std::vector<std::string> ran() {
    std::lock_guard<std::mutex> lock(mutex_);
    return ran_;
  }
  std::vector<std::pair<std::string, absl::Status>> done() {
    std::lock_guard<std::mutex> lock(mutex_);
    return done_;
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> ran_;
  std::vector<std::pair<std::string, absl::Status>> done_;
};

constexpr int64_t kLongMs = 60'000;

TEST(SchedulerTest, RunsWorkThenDoneOnce) {
  Metrics metrics;
  Scheduler scheduler(Threads(2), metrics);
  std::atomic<int> done = 0;
  for (int i = 0; i < 100; ++i) {
    Job job;
    job.session_id = static_cast<uint64_t>(i % 3);
    job.work = [i](JobContext& context) {
      EXPECT_GE(context.queue_ns(), 0);
      return i % 10 == 0 ? absl::InvalidArgumentError("x") : absl::OkStatus();
    };
    job.done = [&done, i](absl::Status status) {
      EXPECT_EQ(status.ok(), i % 10 != 0);
      ++done;
    };
    ASSERT_TRUE(scheduler.Submit(job).ok());
  }
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(done, 100);
}

TEST(SchedulerTest, AFloodingSessionDoesNotDelayAnother) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  for (int i = 0; i < 20; ++i) {
    Job job = recorder.Make("flood", 1);
    ASSERT_TRUE(scheduler.Submit(job).ok());
  }
  Job polite = recorder.Make("polite", 2);
  ASSERT_TRUE(scheduler.Submit(polite).ok());
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  const std::vector<std::string> ran = recorder.ran();
  ASSERT_EQ(ran.size(), 21u);
  EXPECT_TRUE(ran[0] == "polite" || ran[1] == "polite" || ran[2] == "polite");
}

TEST(SchedulerTest, HigherPriorityFirstButTheLowestIsNotStarved) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job low = recorder.Make("low", 1, Priority::kBackground);
  ASSERT_TRUE(scheduler.Submit(low).ok());
  for (int i = 0; i < 40; ++i) {
    Job job = recorder.Make("high", 2, Priority::kHigh);
    ASSERT_TRUE(scheduler.Submit(job).ok());
  }
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  const std::vector<std::string> ran = recorder.ran();
  ASSERT_EQ(ran.size(), 41u);
  EXPECT_EQ(ran.front(), "high");
  EXPECT_NE(ran.back(), "low");
}

TEST(SchedulerTest, ExpiredWorkIsNotStarted) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Job job = recorder.Make("late", 1);
  job.deadline_ns = MonotonicNs() - 1;
  ASSERT_TRUE(scheduler.Submit(job).ok());
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_TRUE(recorder.ran().empty());
  ASSERT_EQ(recorder.done().size(), 1u);
  const absl::Status status = recorder.done()[0].second;
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kDeadline);
}

TEST(SchedulerTest, CancelRemovesOnlyWhatItNames) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job a = recorder.Make("a", 1, Priority::kNormal, 7);
  Job b = recorder.Make("b", 1, Priority::kNormal, 8);
  Job c = recorder.Make("c", 2, Priority::kNormal, 7);
  ASSERT_TRUE(scheduler.Submit(a).ok());
  ASSERT_TRUE(scheduler.Submit(b).ok());
  ASSERT_TRUE(scheduler.Submit(c).ok());
  scheduler.CancelRequest(1, 7);
  ASSERT_EQ(recorder.done().size(), 1u);
  EXPECT_EQ(recorder.done()[0].first, "a");
  EXPECT_EQ(recorder.done()[0].second.code(), absl::StatusCode::kCancelled);
  scheduler.CancelSession(2);
  EXPECT_EQ(recorder.done().size(), 2u);
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(recorder.ran(), std::vector<std::string>{"b"});
  EXPECT_EQ(recorder.done().size(), 3u);
}

TEST(SchedulerTest, AFullQueueRefusesWithAHintAndLeavesTheJob) {
  Metrics metrics;
  Scheduler scheduler(Threads(1, 2), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job a = recorder.Make("a", 1);
  Job b = recorder.Make("b", 1);
  Job c = recorder.Make("c", 1);
  ASSERT_TRUE(scheduler.Submit(a).ok());
  ASSERT_TRUE(scheduler.Submit(b).ok());
  const absl::Status full = scheduler.Submit(c);
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(full)->reason, ErrorReason::kQueueFull);
  EXPECT_GT(GetErrorDetail(full)->retry_after_ms, 0);
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(recorder.done().size(), 2u);
  EXPECT_TRUE(scheduler.Submit(c).ok());
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(recorder.done().size(), 3u);
}

TEST(SchedulerTest, StopRefusesNewWorkAndFinishesOld) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job a = recorder.Make("a", 1);
  ASSERT_TRUE(scheduler.Submit(a).ok());
  scheduler.Stop();
  Job b = recorder.Make("b", 1);
  EXPECT_EQ(scheduler.Submit(b).code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(scheduler.WaitIdle(0));
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(recorder.ran(), std::vector<std::string>{"a"});
}

TEST(SchedulerTest, DestructionCancelsWhatIsQueued) {
  Metrics metrics;
  Recorder recorder;
  {
    auto scheduler = std::make_unique<Scheduler>(Threads(1), metrics);
    auto plug = std::make_unique<Plug>(*scheduler);
    Job a = recorder.Make("a", 1);
    a.done = [&recorder, plug = plug.get(),
              done = std::move(a.done)](absl::Status status) mutable {
      done(std::move(status));
      plug->Release();
    };
    ASSERT_TRUE(scheduler->Submit(a).ok());
    scheduler.reset();
  }
  EXPECT_TRUE(recorder.ran().empty());
  ASSERT_EQ(recorder.done().size(), 1u);
  EXPECT_EQ(recorder.done()[0].second.code(), absl::StatusCode::kCancelled);
}

TEST(SchedulerTest, DoneMaySubmitAgain) {
  Metrics metrics;
  Scheduler scheduler(Threads(2), metrics);
  absl::Notification finished;
  std::atomic<int> rounds = 0;
  std::function<void()> submit = [&] {
    Job job;
    job.session_id = 1;
    job.work = [](JobContext&) { return absl::OkStatus(); };
    job.done = [&](absl::Status) {
      if (++rounds == 50) {
        finished.Notify();
      } else {
        submit();
      }
    };
    ASSERT_TRUE(scheduler.Submit(job).ok());
  };
  submit();
  finished.WaitForNotification();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(rounds, 50);
}

}  // namespace
}  // namespace preprocd
