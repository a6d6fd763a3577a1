// A tile's boxes into the frame that the tile was cut from.
// Thread-safety: safe (no state). Limits: kMaxDetections.
// Source: per axis, with tile size T, content [l, l + c) of the tile in
// pixels and crop [o, o + s) of the frame: a normalised coordinate v is tile
// pixel t = v * T; frame coordinate = o + (t - l) / c * s. Double precision,
// rounded once to single.
// Cutting: the result is clamped to [0, frame] when the frame is given, else
// to the crop. A box wholly outside becomes empty at the edge.
#ifndef ENGINE_DETECTIONS_LIFT_BOXES_H_
#define ENGINE_DETECTIONS_LIFT_BOXES_H_

#include <optional>
#include <span>

#include "absl/status/status.h"
#include "engine/detections/detection.h"
#include "engine/image/geometry.h"

namespace preprocd {

// Normalised coordinates of a model may leave the tile by as much as its size.
inline constexpr float kMinNormalized = -1;
inline constexpr float kMaxNormalized = 2;

struct LiftSpec {
  Rect crop;                    // frame pixels
  std::optional<Rect> content;  // tile pixels; nothing = the whole tile
  // Pixels; 0x0 = not known, which is enough for normalised boxes of a tile
  // without letterbox.
  Size tile;
  bool pixels = false;  // boxes are in tile pixels, not normalised
  std::optional<Size> frame;
};

// Lifts `boxes` in place, nothing of them when it fails. Corners may come in
// either order; the results are canonical.
// Errors, kInvalidArgument: those of CheckDetectionCount and CheckDetection;
//   GEOMETRY_INVALID "placement.crop"     empty, negative origin, outside the
//                                         frame
//   GEOMETRY_INVALID "placement.content"  empty or outside the tile
//   GEOMETRY_INVALID "tile"               missing, or a side below 1
//   GEOMETRY_INVALID "frame"              a side below 1
//   TOO_LARGE        "tile", "frame", "placement.crop"  above kMaxImageAxis
absl::Status LiftBoxes(const LiftSpec& spec, std::span<Detection> boxes);

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_LIFT_BOXES_H_
