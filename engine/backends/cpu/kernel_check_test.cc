// Runs the check pages: every kernel on every instruction set of this machine,
// sizes 1 to 130, unaligned, with extreme fills and guard bytes. With --time
// the same program times them instead: kernel, instruction set, nanoseconds
// per sample.
#include <gtest/gtest.h>

#include <cstring>

#include "engine/backends/cpu/kernel_check_support.h"

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--time") == 0) {
    for (const int64_t target : preprocd::VectorTargets()) {
      preprocd::UseTarget(target);
      preprocd::TimeFilterKernels(target);
      preprocd::TimePixelKernels(target);
    }
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
