// What the GL backend counts, over all its workers. In steady state only
// `converts` and `import_hits` (zero-copy) or `uploads` (otherwise) move.
// Thread-safety: safe (atomics).
#ifndef ENGINE_BACKENDS_GLES_GL_COUNTERS_H_
#define ENGINE_BACKENDS_GLES_GL_COUNTERS_H_

#include <atomic>
#include <cstdint>

namespace preprocd {

struct GlCounters {
  std::atomic<uint64_t> converts = 0;         // pictures rendered
  std::atomic<uint64_t> failures = 0;         // jobs answered with an error
  std::atomic<uint64_t> uploads = 0;          // source pictures copied in
  std::atomic<uint64_t> downloads = 0;        // destination pictures copied out
  std::atomic<uint64_t> imports = 0;          // images made
  std::atomic<uint64_t> import_hits = 0;      // images found
  std::atomic<uint64_t> import_refusals = 0;  // jobs that were uploaded instead
  std::atomic<uint64_t> import_evictions = 0;
  std::atomic<uint64_t> programs = 0;  // linked
  std::atomic<uint64_t> tables = 0;    // tap and element textures made
  std::atomic<uint64_t> textures = 0;  // targets and sources allocated
  std::atomic<uint64_t> staging_growths = 0;
  std::atomic<uint64_t> workers_started = 0;
  std::atomic<uint64_t> workers_lost = 0;  // hung or reset
  std::atomic<uint64_t> resets = 0;        // reported by the driver
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_COUNTERS_H_
