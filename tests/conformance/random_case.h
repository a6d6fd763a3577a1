// A conversion from arbitrary bytes: any formats, types, sizes, rectangles,
// filters and dtype stages that a backend may be asked for. Shared by the
// differential fuzzer and by the random part of the battery.
#ifndef TESTS_CONFORMANCE_RANDOM_CASE_H_
#define TESTS_CONFORMANCE_RANDOM_CASE_H_

#include <cstdint>
#include <span>

#include "tests/conformance/battery.h"

namespace preprocd {

// Bytes enough for every field; fewer are continued with zeros. New fields
// are appended, so that old inputs keep their meaning.
inline constexpr size_t kRandomCaseBytes = 96;

// Sizes are at most `max_side`.
BatteryCase CaseFromBytes(std::span<const uint8_t> bytes, int max_side);

}  // namespace preprocd

#endif  // TESTS_CONFORMANCE_RANDOM_CASE_H_
