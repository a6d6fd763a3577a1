// Runs jobs on executors: one bounded queue per executor, three priorities,
// deficit round robin between sessions inside a priority, deadlines and
// cancellation. Jobs are plain closures; the scheduler knows no pixels.
// Between priorities the highest goes first, but one that waited for 16 picks
// of others is next, so that none starves.
// Owns: the executors' threads; joined by the destructor after Stop.
// Thread-safety: safe. Submit wakes at most one thread and, once as many jobs
// have waited as ever will, allocates nothing.
// Limits: SchedulerOptions::max_queued per executor.
// Life cycle of a job:
//   Submit -> queued -> running -> done(OK or the job's status)
//                    \-> done(kCancelled | kDeadlineExceeded), never started
// `done` is called exactly once per accepted job, on an executor thread, the
// submitting thread (Job::may_run_here) or the thread that cancels; never for
// a job that Submit refused.
#ifndef DAEMON_SCHEDULER_SCHEDULER_H_
#define DAEMON_SCHEDULER_SCHEDULER_H_

#include <cstdint>
#include <memory>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "daemon/metrics/metrics.h"
#include "engine/base/limits.h"

namespace preprocd {

enum class Priority : int { kBackground = 0, kNormal = 1, kHigh = 2 };

struct SchedulerOptions {
  int cpu_threads = 0;  // 0 = one per core
  int max_queued = kMaxQueuedJobs;
};

// What a running job may ask.
class JobContext {
 public:
  virtual ~JobContext() = default;
  // Time spent queued, nanoseconds.
  virtual int64_t queue_ns() const = 0;
};

struct Job {
  uint64_t session_id = 0;
  // Unique among the session's open jobs; for CancelRequest. 0 = cannot be
  // cancelled alone.
  uint64_t request_id = 0;
  Priority priority = Priority::kNormal;
  // Monotonic nanoseconds; 0 = none. A job whose deadline passed is not
  // started.
  int64_t deadline_ns = 0;
  // Estimated cost for the round robin, in pixels written plus read; >= 1.
  int64_t cost = 1;
  // The work is short and never blocks, so that the submitting thread may run
  // it at once when an executor thread is free and nothing waits: a hand-off
  // would cost more than the work.
  bool may_run_here = false;
  // Runs on an executor thread.
  absl::AnyInvocable<absl::Status(JobContext&)> work;
  // Called once with the result of `work` or why it never ran.
  absl::AnyInvocable<void(absl::Status)> done;
};

class Scheduler {
 public:
  Scheduler(const SchedulerOptions& options, Metrics& metrics);
  // Cancels what is queued, waits for what runs.
  ~Scheduler();

  // Queues the job, or runs it before returning (Job::may_run_here).
  // Errors (job untouched, `done` not called):
  //   kResourceExhausted QUEUE_FULL  with retry_after_ms from the queue's pace
  //   kUnavailable DRAINING          after Stop
  absl::Status Submit(Job& job);

  // Removes queued jobs; running ones finish. `done` gets kCancelled and has
  // returned when these do.
  void CancelRequest(uint64_t session_id, uint64_t request_id);
  void CancelSession(uint64_t session_id);

  // Refuses new jobs. Queued and running ones finish.
  void Stop();
  // True when, before `timeout_ms` passed, nothing was queued or running and
  // every `done` had returned. Not from `work` or `done`.
  bool WaitIdle(int64_t timeout_ms);

  int queued() const;
  int running() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_SCHEDULER_SCHEDULER_H_
