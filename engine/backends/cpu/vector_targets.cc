#include "engine/backends/cpu/vector_targets.h"

#include <cstdlib>

#include "engine/base/check.h"
#include "hwy/highway.h"

namespace preprocd {

bool VectorKernelsRun() {
  return (hwy::SupportedTargets() & ~int64_t{HWY_SCALAR | HWY_EMU128}) != 0;
}

void NoVectorKernels() {
  PREPROCD_CHECK(VectorKernelsRun());
  abort();
}

const char* VectorTargetName() {
  const int64_t targets = hwy::SupportedTargets();
  // The lowest bit is the best target.
  return hwy::TargetName(targets & -targets);
}

}  // namespace preprocd
