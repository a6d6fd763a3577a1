// A thread with a GL context of its own, and the slots through which callers
// give it jobs. Callers copy pixels in and out on their own threads, into
// memory that belongs to the worker, while it renders another slot's job. A
// job that shows no progress in time marks the worker lost: its callers get
// an error at once, and whatever it still does ends in memory of its own.
// Owns: thread, context, renderer, slots. Thread-safety: safe.
// Limits: kSlotsPerWorker jobs at a time; callers beyond wait for a slot.
// Life cycle: Start -> (Acquire -> Reserve -> Run -> Release)* -> destroyed or
// lost. A lost worker's thread and memory are kept for good.
#ifndef ENGINE_BACKENDS_GLES_GL_WORKER_H_
#define ENGINE_BACKENDS_GLES_GL_WORKER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/gles/gl_counters.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_policy.h"
#include "engine/backends/gles/gl_settings.h"
#include "engine/backends/gles/render_job.h"
#include "engine/memory/buffer.h"

namespace preprocd {

inline constexpr int kSlotsPerWorker = 2;
// Staging memory that a slot keeps between jobs, each way.
inline constexpr uint64_t kMaxKeptStagingBytes = 64ull << 20;

struct GlWorkerOptions {
  GlSettings settings;
  GlCounters* counters = nullptr;  // outlives every worker, lost ones too
  // Held during every job when the policy serialises; shared by workers.
  std::shared_ptr<std::mutex> serialiser;
};

class GlWorker {
 public:
  // Where a caller puts source bytes and finds results; filled and read by
  // the caller that holds the slot.
  struct Slot {
    RenderJob job;
    std::span<std::byte> upload;
    std::span<const std::byte> result;
  };

  // Starts the thread and waits until its context is current and queried.
  // Errors: kUnavailable BACKEND_FAILED  no display, no context, or no answer
  //         within settings.stall_ms
  static absl::StatusOr<std::unique_ptr<GlWorker>> Start(
      const GlWorkerOptions& options);
  // Ends the thread, unless it is lost. REQUIRES: no slot is held.
  ~GlWorker();
  GlWorker(const GlWorker&) = delete;
  GlWorker& operator=(const GlWorker&) = delete;

  const GlFeatures& features() const;
  const RendererTraits& traits() const;
  bool lost() const;
  // Slots in use: what to choose the least busy worker by.
  int load() const;

  // Errors: kUnavailable BACKEND_FAILED  the worker is lost, or became so
  absl::StatusOr<Slot*> Acquire();
  // Makes `slot` hold at least so many bytes each way; contents are lost when
  // it grows. Errors: as Run; kResourceExhausted.
  absl::Status Reserve(Slot& slot, uint64_t upload_bytes,
                       uint64_t result_bytes);
  // Runs slot.job; results are in slot.result afterwards.
  // Errors: those of GlRenderer::Render; kUnavailable BACKEND_FAILED  lost
  absl::Status Run(Slot& slot);
  void Release(Slot& slot);

  // Images of this buffer are dropped before the next job.
  void Forget(const BufferIdentity& identity);

  // All that the thread touches; shared with it.
  struct State;

 private:
  explicit GlWorker(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_WORKER_H_
