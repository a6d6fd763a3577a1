// Whether the daemon's loops make progress, for the service manager's
// watchdog: the reactor answers, and the executors start a job or compute.
// Owns: nothing; borrows the parts it asks. Thread-safety: one thread.
#ifndef DAEMON_PROGRESS_PROBE_H_
#define DAEMON_PROGRESS_PROBE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/scheduler/scheduler.h"

namespace preprocd {

class ProgressProbe {
 public:
  struct Sources {
    // Asks the reactor for a sign of life; how many it gave so far.
    std::function<void()> ping;
    std::function<uint64_t()> pongs;
    std::function<int64_t()> wall_ns;  // monotonic
    std::function<int64_t()> cpu_ns;   // CPU time of this process
  };
  ProgressProbe(Scheduler& scheduler, Sources sources);
  static int64_t ProcessCpuNs();

  // Judges by what the last call asked for, then asks again; call it every few
  // seconds. True when the reactor answered and the executors either ran the
  // probe's job or were busy: one that computes for a minute for a client is
  // slow, one that neither runs jobs nor uses the CPU hangs.
  bool Alive();

 private:
  Scheduler& scheduler_;
  const Sources sources_;
  bool first_ = true;
  uint64_t awaited_pongs_ = 0;
  int64_t last_wall_ns_ = 0;
  int64_t last_cpu_ns_ = 0;
  // Shared with the job, which may outlive this object in the queue.
  std::shared_ptr<std::atomic<bool>> job_done_;
};

}  // namespace preprocd

#endif  // DAEMON_PROGRESS_PROBE_H_
