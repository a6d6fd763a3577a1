#include "engine/detections/detection.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

absl::Status BadNumber(size_t index, absl::string_view name, float value,
                       absl::string_view bound) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kFieldInvalid;
  detail.field = absl::StrCat("boxes[", index, "].", name);
  detail.got = absl::StrCat(value);
  const std::string message =
      absl::StrCat(detail.field, " ", value, " is not ", bound);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   message);
}

}  // namespace

void Canonicalize(Detection& detection) {
  if (detection.x1 < detection.x0) std::swap(detection.x0, detection.x1);
  if (detection.y1 < detection.y0) std::swap(detection.y0, detection.y1);
}

absl::Status CheckDetection(const Detection& detection, size_t index, float low,
                            float high) {
  const struct {
    const char* name;
    float value;
  } coordinates[] = {{"x0", detection.x0},
                     {"y0", detection.y0},
                     {"x1", detection.x1},
                     {"y1", detection.y1}};
  for (const auto& c : coordinates) {
    // Written so that NaN fails too.
    if (!(c.value >= low && c.value <= high)) {
      return BadNumber(index, c.name, c.value,
                       absl::StrCat("in [", low, ", ", high, "]"));
    }
  }
  if (!std::isfinite(detection.score)) {
    return BadNumber(index, "score", detection.score, "finite");
  }
  return absl::OkStatus();
}

absl::Status CheckDetectionCount(size_t count) {
  if (count <= kMaxDetections) return absl::OkStatus();
  return InvalidField(
      ErrorReason::kTooLarge, "boxes",
      absl::StrCat("boxes: ", count, " entries > ", kMaxDetections));
}

}  // namespace preprocd
