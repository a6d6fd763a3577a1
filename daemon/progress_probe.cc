#include "daemon/progress_probe.h"

#include <time.h>

#include <utility>

namespace preprocd {
namespace {

// Of one core, from one call to the next.
constexpr int64_t kBusyPercent = 10;

}  // namespace

ProgressProbe::ProgressProbe(Scheduler& scheduler, Sources sources)
    : scheduler_(scheduler), sources_(std::move(sources)) {}

int64_t ProgressProbe::ProcessCpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool ProgressProbe::Alive() {
  const int64_t wall_ns = sources_.wall_ns();
  const int64_t cpu_ns = sources_.cpu_ns();
  const bool busy =
      (cpu_ns - last_cpu_ns_) * 100 >= (wall_ns - last_wall_ns_) * kBusyPercent;
  const bool reactor_answered = sources_.pongs() >= awaited_pongs_;
  // Null: the queue had no room for it, so that only computing counts.
  const bool job_ran = job_done_ != nullptr && job_done_->load();
  const bool alive = first_ || (reactor_answered && (job_ran || busy));
  first_ = false;
  last_wall_ns_ = wall_ns;
  last_cpu_ns_ = cpu_ns;
  // Only one question of each kind is open at a time.
  if (reactor_answered) {
    ++awaited_pongs_;
    sources_.ping();
  }
  if (job_done_ == nullptr || job_ran) {
    auto done = std::make_shared<std::atomic<bool>>(false);
    Job job;
    job.priority = Priority::kHigh;
    job.work = [](JobContext&) { return absl::OkStatus(); };
    job.done = [done](const absl::Status&) { done->store(true); };
    job_done_ = scheduler_.Submit(job).ok() ? done : nullptr;
  }
  return alive;
}

}  // namespace preprocd
