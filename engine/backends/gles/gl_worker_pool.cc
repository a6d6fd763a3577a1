#include "engine/backends/gles/gl_worker_pool.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/base/status_macros.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

int64_t NowMs() { return MonotonicNs() / 1'000'000; }

}  // namespace

GlWorkerPool::GlWorkerPool(const GlSettings& settings)
    : settings_(settings),
      counters_(new GlCounters),
      serialiser_(std::make_shared<std::mutex>()) {}

GlWorkerPool::~GlWorkerPool() {
  const uint64_t lost = counters_->workers_lost;
  workers_.clear();
  if (lost == 0) delete counters_;
}

GlWorkerPool::Lease::~Lease() {
  if (pool_ == nullptr) return;
  worker_->Release(*slot_);
  pool_->Settle(worker_->lost());
}

// A job that ended well shows that the device works again.
void GlWorkerPool::Settle(bool lost) {
  const std::lock_guard lock(mutex_);
  if (!lost) losses_in_a_row_ = 0;
}

void GlWorkerPool::DropLost() {
  const auto dropped = std::erase_if(
      workers_,
      [](const std::shared_ptr<GlWorker>& worker) { return worker->lost(); });
  if (dropped == 0) return;
  losses_in_a_row_ += static_cast<int>(dropped);
  last_failure_ = "a worker was lost: hung or reset";
  // The lost one may hold the lock for ever.
  serialiser_ = std::make_shared<std::mutex>();
  if (losses_in_a_row_ >= kMaxLossesInARow) {
    benched_until_ms_ = NowMs() + kBenchMs;
    losses_in_a_row_ = 0;
  }
}

absl::StatusOr<std::shared_ptr<GlWorker>> GlWorkerPool::StartOne() {
  GlWorkerOptions options;
  options.settings = settings_;
  options.counters = counters_;
  {
    const std::lock_guard lock(mutex_);
    if (NowMs() < benched_until_ms_) {
      return GlFailure(
          absl::StrCat("not tried again for a while: ", last_failure_));
    }
    options.serialiser = serialiser_;
  }
  absl::StatusOr<std::unique_ptr<GlWorker>> started = GlWorker::Start(options);
  const std::lock_guard lock(mutex_);
  if (!started.ok()) {
    last_failure_ = std::string(started.status().message());
    benched_until_ms_ = NowMs() + kBenchMs;
    return started.status();
  }
  std::shared_ptr<GlWorker> worker = *std::move(started);
  if (features_ == nullptr) {
    features_ = std::make_unique<GlFeatures>(worker->features());
    workers_wanted_ = std::min(worker->traits().workers, kMaxGlWorkers);
  }
  workers_.push_back(worker);
  return worker;
}

std::shared_ptr<GlWorker> GlWorkerPool::Best(bool* wants_another) {
  const std::lock_guard lock(mutex_);
  DropLost();
  std::shared_ptr<GlWorker> best;
  int least = 0;
  for (const std::shared_ptr<GlWorker>& worker : workers_) {
    const int load = worker->load();
    if (best == nullptr || load < least) {
      best = worker;
      least = load;
    }
  }
  *wants_another =
      best == nullptr ||
      (least > 0 && static_cast<int>(workers_.size()) < workers_wanted_);
  return best;
}

absl::StatusOr<std::shared_ptr<GlWorker>> GlWorkerPool::Choose() {
  bool wants_another = false;
  std::shared_ptr<GlWorker> best = Best(&wants_another);
  if (!wants_another) return best;
  const std::lock_guard lock(starting_);
  best = Best(&wants_another);
  if (!wants_another) return best;
  absl::StatusOr<std::shared_ptr<GlWorker>> started = StartOne();
  if (!started.ok() && best != nullptr) return best;
  return started;
}

absl::StatusOr<GlWorkerPool::Lease> GlWorkerPool::Acquire() {
  absl::Status last;
  // A worker may get lost between choosing and asking it.
  for (int attempt = 0; attempt < kMaxLossesInARow; ++attempt) {
    ASSIGN_OR_RETURN(std::shared_ptr<GlWorker> worker, Choose());
    absl::StatusOr<GlWorker::Slot*> slot = worker->Acquire();
    if (slot.ok()) return Lease(this, std::move(worker), *slot);
    last = slot.status();
  }
  return last;
}

absl::Status GlWorkerPool::Start() { return Choose().status(); }

const GlFeatures* GlWorkerPool::features() const {
  const std::lock_guard lock(mutex_);
  return features_.get();
}

void GlWorkerPool::Forget(const BufferIdentity& identity) {
  const std::lock_guard lock(mutex_);
  for (const std::shared_ptr<GlWorker>& worker : workers_) {
    worker->Forget(identity);
  }
}

int GlWorkerPool::healthy() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(std::count_if(
      workers_.begin(), workers_.end(),
      [](const std::shared_ptr<GlWorker>& w) { return !w->lost(); }));
}

std::string GlWorkerPool::health() const {
  const std::lock_guard lock(mutex_);
  if (NowMs() < benched_until_ms_) {
    return absl::StrCat("benched: ", last_failure_);
  }
  return last_failure_;
}

}  // namespace preprocd
