// Differential fuzzer: any conversion on the cpu backend against the
// reference, within the tolerance table, nothing written outside the pixels.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>

#include "engine/backends/cpu/cpu_converter.h"
#include "engine/backends/reference/reference_converter.h"
#include "tests/conformance/battery.h"
#include "tests/conformance/random_case.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // Small enough for many runs, large enough for whole vectors.
  constexpr int kMaxSide = 160;
  static const auto cpu = preprocd::MakeCpuConverter();
  static const auto reference = preprocd::MakeReferenceConverter();
  const preprocd::BatteryResult result = preprocd::RunBattery(
      *cpu, *reference, {preprocd::CaseFromBytes({data, size}, kMaxSide)}, 1);
  if (!result.failures.empty()) {
    fprintf(stderr, "%s\n", result.failures[0].c_str());
    abort();
  }
  return 0;
}
