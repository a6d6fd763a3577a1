#include "daemon/scheduler/scheduler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

constexpr size_t kPriorities = 3;
// Of this many picks in a row from higher priorities, the next one goes to a
// lower one that waits: background work is slow, never starved.
constexpr int kPicksBeforeFloor = 16;
// Cost that a session may spend per turn of the round robin: one 1080p
// picture read and one 640x640 tensor written.
constexpr int64_t kQuantum = 1920 * 1080 + 640 * 640;

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

struct QueuedJob {
  Job job;
  int64_t queued_ns = 0;
};

// The jobs of one session at one priority.
struct SessionQueue {
  uint64_t session_id = 0;
  std::deque<QueuedJob> jobs;
  int64_t deficit = 0;
};

// Deficit round robin: the session at the front spends its deficit; when the
// next job costs more, it goes to the back with a quantum more.
class FairQueue {
 public:
  bool empty() const { return queues_.empty(); }

  void Push(QueuedJob job) {
    for (SessionQueue& queue : queues_) {
      if (queue.session_id == job.job.session_id) {
        queue.jobs.push_back(std::move(job));
        return;
      }
    }
    SessionQueue& queue = queues_.emplace_back();
    queue.session_id = job.job.session_id;
    queue.deficit = kQuantum;
    queue.jobs.push_back(std::move(job));
  }

  // REQUIRES: not empty.
  QueuedJob Pop() {
    while (true) {
      SessionQueue& queue = queues_.front();
      const int64_t cost = std::max<int64_t>(1, queue.jobs.front().job.cost);
      // A lone session needs no turns.
      if (queue.deficit < cost && queues_.size() > 1) {
        queue.deficit += kQuantum;
        queues_.push_back(std::move(queue));
        queues_.pop_front();
        continue;
      }
      queue.deficit -= cost;
      QueuedJob job = std::move(queue.jobs.front());
      queue.jobs.pop_front();
      if (queue.jobs.empty()) queues_.pop_front();
      return job;
    }
  }

  template <typename Matches>
  void Remove(uint64_t session_id, Matches matches,
              std::vector<QueuedJob>& removed) {
    for (auto queue = queues_.begin(); queue != queues_.end(); ++queue) {
      if (queue->session_id != session_id) continue;
      std::deque<QueuedJob> kept;
      for (QueuedJob& job : queue->jobs) {
        (matches(job.job) ? removed.emplace_back() : kept.emplace_back()) =
            std::move(job);
      }
      if (kept.empty()) {
        queues_.erase(queue);
      } else {
        queue->jobs = std::move(kept);
      }
      return;
    }
  }

  void TakeAll(std::vector<QueuedJob>& removed) {
    for (SessionQueue& queue : queues_) {
      for (QueuedJob& job : queue.jobs) removed.push_back(std::move(job));
    }
    queues_.clear();
  }

 private:
  // One entry per session with work at this priority, so it is short.
  std::deque<SessionQueue> queues_;
};

class RunningContext : public JobContext {
 public:
  explicit RunningContext(int64_t queue_ns) : queue_ns_(queue_ns) {}
  int64_t queue_ns() const override { return queue_ns_; }

 private:
  const int64_t queue_ns_;
};

}  // namespace

// One queue and the threads that serve it. The CPU pool is the only executor
// now; a device gets its own, with one thread.
struct Scheduler::State {
  State(const SchedulerOptions& o, Metrics& m) : options(o), metrics(m) {}

  const SchedulerOptions options;
  Metrics& metrics;
  mutable std::mutex mutex;
  std::condition_variable work_ready;
  std::condition_variable idle;
  std::array<FairQueue, kPriorities> queues;
  int queued = 0;
  int running = 0;
  int sleeping = 0;
  int picks_since_floor = 0;
  bool stopped = false;
  bool joining = false;
  double average_ns = 1e6;  // of a job's run, for the retry hint
  std::vector<std::thread> threads;

  void PublishGauges() {
    metrics.SetQueued(queued);
    metrics.SetRunning(running);
  }

  QueuedJob Pick() {
    size_t highest = kPriorities;
    size_t lower = kPriorities;
    for (size_t p = kPriorities; p-- > 0;) {
      if (queues[p].empty()) continue;
      if (highest == kPriorities) {
        highest = p;
      } else if (lower == kPriorities) {
        lower = p;
      }
    }
    size_t chosen = highest;
    if (lower != kPriorities && ++picks_since_floor > kPicksBeforeFloor) {
      chosen = lower;
      picks_since_floor = 0;
    } else if (lower == kPriorities) {
      picks_since_floor = 0;
    }
    return queues[chosen].Pop();
  }

  int64_t RetryAfterMs() const {
    const double threads_count = static_cast<double>(threads.size());
    const double ns = average_ns * queued / threads_count;
    return std::max<int64_t>(1, static_cast<int64_t>(ns / 1e6));
  }

  void RunThread() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      if (queued == 0) {
        if (joining) return;
        ++sleeping;
        work_ready.wait(lock);
        --sleeping;
        continue;
      }
      QueuedJob job = Pick();
      --queued;
      ++running;
      lock.unlock();
      const int64_t ran_ns = RunJob(job);
      lock.lock();
      --running;
      average_ns += 0.1 * (static_cast<double>(ran_ns) - average_ns);
      if (queued == 0 && running == 0) {
        PublishGauges();
        idle.notify_all();
      }
    }
  }

  // Returns how long `work` took.
  int64_t RunJob(QueuedJob& queued_job) {
    Job& job = queued_job.job;
    const int64_t start_ns = MonotonicNs();
    if (job.deadline_ns != 0 && start_ns >= job.deadline_ns) {
      metrics.CountExpired();
      job.done(Expired());
      return 0;
    }
    RunningContext context(start_ns - queued_job.queued_ns);
    absl::Status status = job.work(context);
    const int64_t ran_ns = MonotonicNs() - start_ns;
    job.done(std::move(status));
    return ran_ns;
  }

  // Called without the mutex: `done` may submit or cancel again.
  void FinishCancelled(std::vector<QueuedJob>& removed) {
    for (QueuedJob& job : removed) {
      metrics.CountCancelled();
      job.job.done(Cancelled());
    }
    if (removed.empty()) return;
    std::lock_guard<std::mutex> lock(mutex);
    if (queued == 0 && running == 0) idle.notify_all();
  }
};

Scheduler::Scheduler(const SchedulerOptions& options, Metrics& metrics)
    : state_(std::make_unique<State>(options, metrics)) {
  int count = options.cpu_threads;
  if (count <= 0) {
    count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  // The threads read `threads` only under the mutex held here.
  std::lock_guard<std::mutex> lock(state_->mutex);
  for (int i = 0; i < count; ++i) {
    state_->threads.emplace_back(
        [state = state_.get()] { state->RunThread(); });
  }
}

Scheduler::~Scheduler() {
  Stop();
  std::vector<QueuedJob> removed;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (FairQueue& queue : state_->queues) queue.TakeAll(removed);
    state_->queued = 0;
    state_->joining = true;
  }
  state_->FinishCancelled(removed);
  state_->work_ready.notify_all();
  for (std::thread& thread : state_->threads) thread.join();
}

absl::Status Scheduler::Submit(Job& job) {
  bool wake = false;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    if (state_->stopped) return Draining();
    if (state_->queued >= state_->options.max_queued) {
      state_->metrics.CountRejected();
      ErrorDetail detail;
      detail.reason = ErrorReason::kQueueFull;
      detail.got = absl::StrCat(state_->queued + 1);
      detail.limit = absl::StrCat(state_->options.max_queued);
      detail.retry_after_ms = state_->RetryAfterMs();
      return MakeError(absl::StatusCode::kResourceExhausted, detail,
                       absl::StrCat("jobs queued ", state_->queued + 1, " > ",
                                    state_->options.max_queued));
    }
    const auto priority = std::clamp<size_t>(static_cast<size_t>(job.priority),
                                             0, kPriorities - 1);
    state_->queues[priority].Push({std::move(job), MonotonicNs()});
    ++state_->queued;
    state_->PublishGauges();
    wake = state_->sleeping > 0;
  }
  // Outside the lock, so that the woken thread does not block on it at once.
  if (wake) state_->work_ready.notify_one();
  return absl::OkStatus();
}

void Scheduler::CancelRequest(uint64_t session_id, uint64_t request_id) {
  if (request_id == 0) return;
  std::vector<QueuedJob> removed;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (FairQueue& queue : state_->queues) {
      queue.Remove(
          session_id,
          [request_id](const Job& job) { return job.request_id == request_id; },
          removed);
    }
    state_->queued -= static_cast<int>(removed.size());
  }
  state_->FinishCancelled(removed);
}

void Scheduler::CancelSession(uint64_t session_id) {
  std::vector<QueuedJob> removed;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    for (FairQueue& queue : state_->queues) {
      queue.Remove(
          session_id, [](const Job&) { return true; }, removed);
    }
    state_->queued -= static_cast<int>(removed.size());
  }
  state_->FinishCancelled(removed);
}

void Scheduler::Stop() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->stopped = true;
}

bool Scheduler::WaitIdle(int64_t timeout_ms) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  return state_->idle.wait_for(
      lock, std::chrono::milliseconds(timeout_ms),
      [this] { return state_->queued == 0 && state_->running == 0; });
}

int Scheduler::queued() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->queued;
}

int Scheduler::running() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->running;
}

}  // namespace preprocd
