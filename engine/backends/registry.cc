#include "engine/backends/registry.h"

#include "engine/backends/cpu/cpu_converter.h"
#include "engine/backends/gles/gles_converter.h"
#include "engine/backends/reference/reference_converter.h"

namespace preprocd {

std::vector<std::unique_ptr<Converter>> MakeBackends(
    const BackendSettings& settings) {
  std::vector<std::unique_ptr<Converter>> backends;
  backends.push_back(MakeGlesConverter(settings.gl));
  backends.push_back(MakeCpuConverter());
  backends.push_back(MakeReferenceConverter());
  return backends;
}

}  // namespace preprocd
