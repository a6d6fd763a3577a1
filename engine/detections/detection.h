// A box with a score and a class, as models give it.
// Thread-safety: safe (values only).
// Limits: kMaxDetections, kMaxBoxCoordinate.
#ifndef ENGINE_DETECTIONS_DETECTION_H_
#define ENGINE_DETECTIONS_DETECTION_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace preprocd {

// Boxes of one call; more is TOO_LARGE.
inline constexpr size_t kMaxDetections = 65536;
// Coordinates in pixels, either sign; 64 times the largest image axis.
inline constexpr float kMaxBoxCoordinate = 1 << 20;

struct Detection {
  // Left, top, right, bottom; continuous coordinates (a pixel spans 1).
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;
  float score = 0;
  int32_t label = 0;
  uint64_t track_id = 0;
  bool operator==(const Detection&) const = default;
};

// Exchanges corners until x0 <= x1 and y0 <= y1.
void Canonicalize(Detection& detection);

// Errors: kInvalidArgument FIELD_INVALID "boxes[index].x0" (and so on) when a
// coordinate is not a number in [low, high], "boxes[index].score" when the
// score is not finite.
absl::Status CheckDetection(const Detection& detection, size_t index, float low,
                            float high);
// Errors: kInvalidArgument TOO_LARGE "boxes"
absl::Status CheckDetectionCount(size_t count);

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_DETECTION_H_
