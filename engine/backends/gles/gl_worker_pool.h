// The workers of one GL backend: started when first needed, replaced when
// lost, given up for a while when they keep getting lost.
// Owns: its workers. Thread-safety: safe.
// Limits: kMaxGlWorkers; kMaxLossesInARow, after which kBenchMs pass before
// another start is tried.
#ifndef ENGINE_BACKENDS_GLES_GL_WORKER_POOL_H_
#define ENGINE_BACKENDS_GLES_GL_WORKER_POOL_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/gles/gl_worker.h"

namespace preprocd {

inline constexpr int kMaxLossesInARow = 3;
inline constexpr int64_t kBenchMs = 60'000;

class GlWorkerPool {
 public:
  explicit GlWorkerPool(const GlSettings& settings);
  ~GlWorkerPool();
  GlWorkerPool(const GlWorkerPool&) = delete;
  GlWorkerPool& operator=(const GlWorkerPool&) = delete;

  // A slot of a healthy worker, given back by the destructor.
  class Lease {
   public:
    Lease(GlWorkerPool* pool, std::shared_ptr<GlWorker> worker,
          GlWorker::Slot* slot)
        : pool_(pool), worker_(std::move(worker)), slot_(slot) {}
    Lease(Lease&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          worker_(std::move(other.worker_)),
          slot_(other.slot_) {}
    Lease& operator=(Lease&&) = delete;
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    ~Lease();
    GlWorker& worker() { return *worker_; }
    GlWorker::Slot& slot() { return *slot_; }

   private:
    GlWorkerPool* pool_;
    std::shared_ptr<GlWorker> worker_;
    GlWorker::Slot* slot_;
  };
  // Starts a worker when there is none, or when all are busy and the policy
  // allows another one; waits for a slot otherwise.
  // Errors: kUnavailable BACKEND_FAILED  as GlWorker::Start, or benched
  absl::StatusOr<Lease> Acquire();

  // Starts the first worker, if none runs. Errors: as Acquire.
  absl::Status Start();
  // Of the first worker that ever started; null before.
  const GlFeatures* features() const;

  void Forget(const BufferIdentity& identity);
  // Healthy workers; lines for people about the rest.
  int healthy() const;
  std::string health() const;
  const GlCounters& counters() const { return *counters_; }
  GlCounters& mutable_counters() { return *counters_; }

 private:
  absl::StatusOr<std::shared_ptr<GlWorker>> Choose();
  // The least busy worker, unless another one should be started.
  std::shared_ptr<GlWorker> Best(bool* wants_another);
  absl::StatusOr<std::shared_ptr<GlWorker>> StartOne();
  void DropLost();
  void Settle(bool lost);

  const GlSettings settings_;
  // Lost workers count for ever, so it is never freed while one may live.
  GlCounters* const counters_;
  std::mutex starting_;  // one bring-up at a time; taken before mutex_
  // Guards all that follows. Never held while a driver is at work, because
  // buffers that go away report here from any thread.
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<GlWorker>> workers_;
  std::shared_ptr<std::mutex> serialiser_;
  std::unique_ptr<GlFeatures> features_;
  int workers_wanted_ = 1;
  int losses_in_a_row_ = 0;
  int64_t benched_until_ms_ = 0;
  std::string last_failure_;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_WORKER_POOL_H_
