// The conformance battery: runs one backend over everything that its
// capabilities claim and compares with the reference.
#ifndef TESTS_CONFORMANCE_BATTERY_H_
#define TESTS_CONFORMANCE_BATTERY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "engine/convert/converter.h"
#include "engine/memory/allocator.h"

namespace preprocd {

struct BatteryCase {
  PixelFormat source = PixelFormat::kRgb;
  PixelFormat destination = PixelFormat::kRgb;
  DType source_dtype = DType::kU8;
  DType dtype = DType::kU8;
  ConvertSpec spec;
  Size source_size;
  Size destination_size;
  ColorEncoding source_color;
  uint32_t seed = 0;
  // No backend can do it: running it is a failure.
  bool must_decline = false;
  std::string Name() const;
};

// Everything worth running: every pair of formats, then each other axis
// against a representative set. Deterministic.
std::vector<BatteryCase> AllCases();

struct BatteryResult {
  int proven = 0;
  int declined = 0;  // by the planner, with a reason
  std::vector<std::string> failures;
};

// Runs `cases` on `backend`, on pictures in memory of kind `memory`; stops
// collecting after `max_failures`.
BatteryResult RunBattery(Converter& backend, Converter& reference,
                         const std::vector<BatteryCase>& cases,
                         size_t max_failures,
                         AllocatorKind memory = AllocatorKind::kHeap);

}  // namespace preprocd

#endif  // TESTS_CONFORMANCE_BATTERY_H_
