// How far a backend may be from the reference: one row per operation class
// and backend, each with its reason. A row is only widened together with a
// comment that names the measured case.
#ifndef TESTS_SUPPORT_TOLERANCE_H_
#define TESTS_SUPPORT_TOLERANCE_H_

#include <optional>

#include "absl/strings/string_view.h"

namespace preprocd {

enum class OperationClass {
  kCopy,      // same family, no resampling: bytes move
  kNearest,   // nearest filter inside one colour family, or grey replicated
  kFiltered,  // any weighted filter, any colour conversion
  kFraction,  // precision full: nothing is rounded to 8 bits on the way
};

struct ToleranceRow {
  absl::string_view backend;
  OperationClass operation;
  double steps;  // of 1/255 of the value before the dtype stage
  absl::string_view reason;
};

inline constexpr ToleranceRow kTolerances[] = {
    {"reference", OperationClass::kCopy, 0, "it is the reference"},
    {"reference", OperationClass::kNearest, 0, "it is the reference"},
    {"reference", OperationClass::kFiltered, 0, "it is the reference"},
    {"reference", OperationClass::kFraction, 0, "it is the reference"},
    {"cpu", OperationClass::kCopy, 0, "integers up to 255 are exact in float"},
    {"cpu", OperationClass::kNearest, 0,
     "integers up to 255 are exact in float"},
    {"cpu", OperationClass::kFiltered, 1,
     "float sums may fall on the other side of a rounding tie"},
    {"cpu", OperationClass::kFraction, 0.0005,
     "float sums and coefficients; the battery stays below 0.0001, and more "
     "taps sum up more rounding"},
    {"gl", OperationClass::kCopy, 0, "texels are fetched, elements looked up"},
    {"gl", OperationClass::kNearest, 0,
     "texels are fetched, elements looked up"},
    {"gl", OperationClass::kFiltered, 1,
     "sums of floats may fall on the other side of a rounding tie"},
    {"gl", OperationClass::kFraction, 0.002,
     "sums of floats and coefficients; targets of 32 bits in between"},
};

inline std::optional<double> ToleranceOf(absl::string_view backend,
                                         OperationClass operation) {
  for (const ToleranceRow& row : kTolerances) {
    if (row.backend == backend && row.operation == operation) return row.steps;
  }
  return std::nullopt;
}

}  // namespace preprocd

#endif  // TESTS_SUPPORT_TOLERANCE_H_
