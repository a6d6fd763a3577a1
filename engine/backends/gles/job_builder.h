// From a plan and borrowed pictures to a render job: which planes are
// imported, which are staged and where. Pure but for reading the buffers'
// kinds, sizes and identities.
// Thread-safety: safe (no state).
#ifndef ENGINE_BACKENDS_GLES_JOB_BUILDER_H_
#define ENGINE_BACKENDS_GLES_JOB_BUILDER_H_

#include <cstdint>
#include <span>

#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_policy.h"
#include "engine/backends/gles/gl_settings.h"
#include "engine/backends/gles/render_job.h"
#include "engine/convert/convert_plan.h"
#include "engine/convert/converter.h"

namespace preprocd {

// What the decisions are made from.
struct JobSettings {
  const GlFeatures& features;
  const RendererTraits& traits;
  const GlSettings& settings;
  bool may_import = true;
};

// Fills everything of `job` but source_is_there, with targets for `part` and
// a source that serves `all`, of which it is a part. Allocates only when `job`
// never had so many targets. REQUIRES: at least one plan, all of one source,
// whose descriptions fit the buffers.
void BuildJob(std::span<const ConvertPlan> all,
              std::span<const ConvertPlan> part, const PictureBuffers& source,
              const PictureBuffers& destination, const JobSettings& settings,
              RenderJob& job);

// How many of the first plans' results stay within `most_bytes` together; at
// least one.
size_t PlansWithin(std::span<const ConvertPlan> plans, uint64_t most_bytes);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_JOB_BUILDER_H_
