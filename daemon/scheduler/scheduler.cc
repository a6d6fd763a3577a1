#include "daemon/scheduler/scheduler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/scheduler/fair_queue.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

constexpr size_t kPriorities = 3;
// A priority that waits while this many jobs of others were picked is next:
// background work is slow, never starved. Every priority that waits gets at
// least one of kPicksBeforeFloor + kPriorities - 1 picks.
constexpr int kPicksBeforeFloor = 16;

absl::Status Cancelled() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kCancelled;
  return MakeError(absl::StatusCode::kCancelled, detail,
                   "cancelled before it was started");
}

absl::Status Expired() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kDeadline;
  detail.field = "options.deadline_us";
  return MakeError(absl::StatusCode::kDeadlineExceeded, detail,
                   "the deadline passed before the work was started");
}

absl::Status Draining() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kDraining;
  return MakeError(absl::StatusCode::kUnavailable, detail,
                   "the daemon is stopping");
}

class RunningContext : public JobContext {
 public:
  explicit RunningContext(int64_t queue_ns) : queue_ns_(queue_ns) {}
  int64_t queue_ns() const override { return queue_ns_; }

 private:
  const int64_t queue_ns_;
};

// One bounded queue and the threads that serve it. The CPU pool is the only
// one now; a device gets its own, with one thread. Thread-safety: safe.
class Executor {
 public:
  Executor(int threads, int max_queued, Metrics& metrics)
      : max_queued_(max_queued), metrics_(metrics) {
    // The threads read `threads_` only under the mutex held here.
    std::lock_guard<std::mutex> lock(mutex_);
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { RunThread(); });
    }
  }

  ~Executor() {
    JobList removed;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopped_ = true;
      joining_ = true;
      for (FairQueue& queue : queues_) queue.TakeAll(removed);
      BeginCancel(removed);
    }
    FinishCancel(removed);
    work_ready_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  absl::Status Submit(Job& job) {
    bool wake = false;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (stopped_) return Draining();
      if (queued_ >= max_queued_) return QueueFull();
      const auto priority = std::clamp<size_t>(
          static_cast<size_t>(job.priority), 0, kPriorities - 1);
      if (spare_.empty()) spare_.emplace_back();
      JobList one;
      one.splice(one.end(), spare_, spare_.begin());
      const bool run_here = job.may_run_here && HasIdleThread();
      one.front().job = std::move(job);
      one.front().queued_ns = MonotonicNs();
      if (run_here) {
        RunCounted(one, lock);
        return absl::OkStatus();
      }
      queues_[priority].Push(one);
      ++queued_;
      PublishGauges();
      wake = sleeping_ > 0;
    }
    // Outside the lock, so that the woken thread does not block on it at once.
    if (wake) work_ready_.notify_one();
    return absl::OkStatus();
  }

  void Cancel(uint64_t session_id,
              absl::FunctionRef<bool(const Job&)> matches) {
    JobList removed;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (FairQueue& queue : queues_) {
        queue.Remove(session_id, matches, removed);
      }
      BeginCancel(removed);
    }
    FinishCancel(removed);
  }

  void Stop() {
    std::lock_guard<std::mutex> lock(mutex_);
    stopped_ = true;
  }

  bool WaitIdle(int64_t timeout_ms) {
    std::unique_lock<std::mutex> lock(mutex_);
    return idle_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                          [this] { return Idle(); });
  }

  int queued() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return queued_;
  }

  int running() const {
    std::lock_guard<std::mutex> lock(mutex_);
    return running_;
  }

 private:
  // Everything below, the thread's loop aside: REQUIRES mutex_ held.
  bool Idle() const {
    return queued_ == 0 && running_ == 0 && cancelling_ == 0;
  }

  // As many jobs at once as there are threads, whoever runs them.
  bool HasIdleThread() const {
    return queued_ == 0 && running_ < static_cast<int>(threads_.size());
  }

  void PublishGauges() {
    metrics_.SetQueued(queued_);
    metrics_.SetRunning(running_);
  }

  absl::Status QueueFull() const {
    metrics_.CountRejected();
    const double ns =
        average_ns_ * queued_ / static_cast<double>(threads_.size());
    ErrorDetail detail;
    detail.reason = ErrorReason::kQueueFull;
    detail.got = absl::StrCat(queued_ + 1);
    detail.limit = absl::StrCat(max_queued_);
    detail.retry_after_ms =
        std::max<int64_t>(1, static_cast<int64_t>(ns / 1e6));
    return MakeError(
        absl::StatusCode::kResourceExhausted, detail,
        absl::StrCat("jobs queued ", queued_ + 1, " > ", max_queued_));
  }

  void Pick(JobList& to) {
    size_t chosen = kPriorities;
    for (size_t p = kPriorities; p-- > 0;) {
      if (queues_[p].empty()) {
        passed_over_[p] = 0;
      } else if (chosen == kPriorities ||
                 (passed_over_[p] >= kPicksBeforeFloor &&
                  passed_over_[p] > passed_over_[chosen])) {
        chosen = p;
      }
    }
    for (size_t p = 0; p < kPriorities; ++p) {
      if (!queues_[p].empty()) ++passed_over_[p];
    }
    passed_over_[chosen] = 0;
    queues_[chosen].Pop(to);
  }

  void BeginCancel(const JobList& removed) {
    queued_ -= static_cast<int>(removed.size());
    cancelling_ += static_cast<int>(removed.size());
    PublishGauges();
  }

  // Without the mutex: `done` may submit or cancel again, and the closures
  // may hold the last reference to mapped memory.
  void FinishCancel(JobList& removed) {
    for (QueuedJob& queued : removed) {
      metrics_.CountCancelled();
      queued.job.done(Cancelled());
      queued.job = Job();
    }
    if (removed.empty()) return;
    std::lock_guard<std::mutex> lock(mutex_);
    cancelling_ -= static_cast<int>(removed.size());
    spare_.splice(spare_.end(), removed);
    if (Idle()) idle_.notify_all();
  }

  void RunThread() {
    JobList one;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      if (queued_ == 0) {
        if (joining_) return;
        ++sleeping_;
        work_ready_.wait(lock);
        --sleeping_;
        continue;
      }
      Pick(one);
      --queued_;
      RunCounted(one, lock);
    }
  }

  // Runs the one job of `one` with the mutex released and takes its node back.
  void RunCounted(JobList& one, std::unique_lock<std::mutex>& lock) {
    ++running_;
    PublishGauges();
    lock.unlock();
    const int64_t ran_ns = Run(one.front());
    lock.lock();
    spare_.splice(spare_.begin(), one);
    --running_;
    PublishGauges();
    if (ran_ns >= 0) {
      average_ns_ += 0.1 * (static_cast<double>(ran_ns) - average_ns_);
    }
    if (Idle()) idle_.notify_all();
  }

  // Without the mutex. Returns how long the work took; -1 when it never ran.
  int64_t Run(QueuedJob& queued) {
    Job& job = queued.job;
    const int64_t start_ns = MonotonicNs();
    int64_t ran_ns = -1;
    if (job.deadline_ns != 0 && start_ns >= job.deadline_ns) {
      metrics_.CountExpired();
      job.done(Expired());
    } else {
      RunningContext context(start_ns - queued.queued_ns);
      absl::Status status = job.work(context);
      ran_ns = MonotonicNs() - start_ns;
      job.done(std::move(status));
    }
    // Here, not under the mutex: unmapping what the closures hold is slow.
    job = Job();
    return ran_ns;
  }

  const int max_queued_;
  Metrics& metrics_;
  mutable std::mutex mutex_;
  std::condition_variable work_ready_;
  std::condition_variable idle_;
  std::array<FairQueue, kPriorities> queues_;
  // Picks since the priority had its last one, while it waits.
  std::array<int, kPriorities> passed_over_ = {};
  JobList spare_;  // nodes for the next jobs; as many as ever waited at once
  int queued_ = 0;
  int running_ = 0;
  int cancelling_ = 0;  // removed, `done` not yet called
  int sleeping_ = 0;
  bool stopped_ = false;
  bool joining_ = false;
  double average_ns_ = 1e6;  // of a job's run, for the retry hint
  std::vector<std::thread> threads_;
};

int ThreadCount(int wanted) {
  if (wanted > 0) return wanted;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

struct Scheduler::State {
  State(const SchedulerOptions& options, Metrics& metrics)
      : cpu(ThreadCount(options.cpu_threads), options.max_queued, metrics) {}

  Executor cpu;
};

Scheduler::Scheduler(const SchedulerOptions& options, Metrics& metrics)
    : state_(std::make_unique<State>(options, metrics)) {}

Scheduler::~Scheduler() = default;

absl::Status Scheduler::Submit(Job& job) { return state_->cpu.Submit(job); }

void Scheduler::CancelRequest(uint64_t session_id, uint64_t request_id) {
  if (request_id == 0) return;
  state_->cpu.Cancel(session_id, [request_id](const Job& job) {
    return job.request_id == request_id;
  });
}

void Scheduler::CancelSession(uint64_t session_id) {
  state_->cpu.Cancel(session_id, [](const Job&) { return true; });
}

void Scheduler::Stop() { state_->cpu.Stop(); }

bool Scheduler::WaitIdle(int64_t timeout_ms) {
  return state_->cpu.WaitIdle(timeout_ms);
}

int Scheduler::queued() const { return state_->cpu.queued(); }

int Scheduler::running() const { return state_->cpu.running(); }

}  // namespace preprocd
