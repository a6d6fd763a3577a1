// Makes every backend that is built in. The one place that names them.
// Thread-safety: safe (no state).
#ifndef ENGINE_BACKENDS_REGISTRY_H_
#define ENGINE_BACKENDS_REGISTRY_H_

#include <memory>
#include <vector>

#include "engine/backends/gles/gl_settings.h"
#include "engine/convert/converter.h"

namespace preprocd {

// What a configuration may decide about backends.
struct BackendSettings {
  GlSettings gl;
};

// All backends, by rank, those only used when forced last. A backend that
// cannot run here is in the list too, unavailable, with its reason.
std::vector<std::unique_ptr<Converter>> MakeBackends(
    const BackendSettings& settings = {});

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_REGISTRY_H_
