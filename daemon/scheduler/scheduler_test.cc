#include "daemon/scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "daemon/metrics/metrics.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace {
std::atomic<int> g_allocations = 0;
}  // namespace

// Counts what the whole program allocates while a test looks.
void* operator new(size_t size) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

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

TEST(SchedulerTest, NoPriorityStarvesUnderTheTwoAboveIt) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job low = recorder.Make("low", 1, Priority::kBackground);
  ASSERT_TRUE(scheduler.Submit(low).ok());
  for (int i = 0; i < 60; ++i) {
    Job high = recorder.Make("high", 2, Priority::kHigh);
    ASSERT_TRUE(scheduler.Submit(high).ok());
    Job normal = recorder.Make("normal", 3);
    ASSERT_TRUE(scheduler.Submit(normal).ok());
  }
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  const std::vector<std::string> ran = recorder.ran();
  ASSERT_EQ(ran.size(), 121u);
  const auto first = [&ran](const std::string& name) {
    return std::find(ran.begin(), ran.end(), name) - ran.begin();
  };
  EXPECT_EQ(first("high"), 0);
  EXPECT_LE(first("normal"), 18);
  EXPECT_LE(first("low"), 18);
  // The floor is an exception: of any 18 picks at most two are not high.
  EXPECT_GE(std::count(ran.begin(), ran.begin() + 54, "high"), 48);
}

TEST(SchedulerTest, ADeadlineIsLookedAtWhenTheTurnComes) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  Recorder recorder;
  Plug plug(scheduler);
  Job job = recorder.Make("late", 1);
  job.deadline_ns = MonotonicNs() + 1'000'000;
  const int64_t deadline_ns = job.deadline_ns;
  ASSERT_TRUE(scheduler.Submit(job).ok());
  Job in_time = recorder.Make("in time", 1);
  in_time.deadline_ns = MonotonicNs() + kLongMs * 1'000'000;
  ASSERT_TRUE(scheduler.Submit(in_time).ok());
  while (MonotonicNs() <= deadline_ns) std::this_thread::yield();
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(recorder.ran(), std::vector<std::string>{"in time"});
  EXPECT_EQ(recorder.done().size(), 2u);
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

TEST(SchedulerTest, DoneIsCalledOnceWhoeverWinsTheRaceToCancel) {
  constexpr int kJobs = 2000;
  Metrics metrics;
  Scheduler scheduler(Threads(2, kJobs), metrics);
  std::vector<std::atomic<int>> done(kJobs);
  std::atomic<int> submitted = 0;
  std::thread canceller([&] {
    for (int i = 0; i < kJobs; ++i) {
      while (submitted.load() <= i) std::this_thread::yield();
      scheduler.CancelRequest(1, static_cast<uint64_t>(i) + 1);
      if (i % 100 == 0) scheduler.CancelSession(1);
    }
  });
  for (int i = 0; i < kJobs; ++i) {
    Job job;
    job.session_id = 1;
    job.request_id = static_cast<uint64_t>(i) + 1;
    job.work = [](JobContext&) { return absl::OkStatus(); };
    job.done = [&done, i](absl::Status status) {
      EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
      ++done[static_cast<size_t>(i)];
    };
    ASSERT_TRUE(scheduler.Submit(job).ok());
    submitted = i + 1;
  }
  canceller.join();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
  EXPECT_EQ(scheduler.queued(), 0);
  EXPECT_EQ(scheduler.running(), 0);
}

// What a closure holds (the last reference to mapped memory, a session) is
// let go outside the scheduler's lock and before it calls itself idle.
TEST(SchedulerTest, ClosuresMayUseTheSchedulerWhenTheyAreDestroyed) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  std::atomic<int> destroyed = 0;
  const auto make = [&] {
    auto held = std::shared_ptr<int>(new int(0), [&](int* value) {
      delete value;
      scheduler.CancelSession(12);
      ++destroyed;
    });
    Job job;
    job.session_id = 11;
    job.work = [held](JobContext&) { return absl::OkStatus(); };
    job.done = [held](absl::Status) {};
    return job;
  };
  Job ran = make();
  ASSERT_TRUE(scheduler.Submit(ran).ok());
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(destroyed, 1);
  Plug plug(scheduler);
  Job cancelled = make();
  ASSERT_TRUE(scheduler.Submit(cancelled).ok());
  scheduler.CancelSession(11);
  EXPECT_EQ(destroyed, 2);
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
}

TEST(SchedulerTest, SteadyStateAllocatesNothing) {
  Metrics metrics;
  Scheduler scheduler(Threads(2), metrics);
  const auto round = [&](uint64_t session) {
    Job job;
    job.session_id = session;
    job.work = [](JobContext&) { return absl::OkStatus(); };
    job.done = [](absl::Status) {};
    const bool accepted = scheduler.Submit(job).ok();
    return scheduler.WaitIdle(kLongMs) && accepted;
  };
  ASSERT_TRUE(round(1));
  const int before = g_allocations;
  int answered = 0;
  // Sessions come and go; their ids are never the same again.
  for (uint64_t i = 0; i < 1000; ++i) answered += round(i) ? 1 : 0;
  const int after = g_allocations;
  EXPECT_EQ(answered, 1000);
  EXPECT_EQ(after - before, 0);
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

TEST(SchedulerTest, ShortWorkRunsOnTheSubmittingThreadWhenNothingWaits) {
  Metrics metrics;
  Scheduler scheduler(Threads(1), metrics);
  std::thread::id ran_on;
  int done = 0;
  const auto submit = [&] {
    Job job;
    job.session_id = 1;
    job.may_run_here = true;
    job.work = [&](JobContext&) {
      ran_on = std::this_thread::get_id();
      return absl::OkStatus();
    };
    job.done = [&](absl::Status) { ++done; };
    return scheduler.Submit(job);
  };
  ASSERT_TRUE(submit().ok());
  EXPECT_EQ(done, 1);
  EXPECT_EQ(ran_on, std::this_thread::get_id());

  // With the only thread busy it waits its turn like everything else.
  Plug plug(scheduler);
  ASSERT_TRUE(submit().ok());
  EXPECT_EQ(done, 1);
  EXPECT_EQ(scheduler.queued(), 1);
  plug.Release();
  ASSERT_TRUE(scheduler.WaitIdle(kLongMs));
  EXPECT_EQ(done, 2);
  EXPECT_NE(ran_on, std::this_thread::get_id());
  scheduler.Stop();
  EXPECT_EQ(submit().code(), absl::StatusCode::kUnavailable);
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
