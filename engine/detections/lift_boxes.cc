#include "engine/detections/lift_boxes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status CheckSize(Size size, absl::string_view field) {
  if (size.width < 1 || size.height < 1) {
    return InvalidField(
        ErrorReason::kGeometryInvalid, field,
        absl::StrCat(field, " ", size.width, "x", size.height, " is empty"));
  }
  if (size.width > kMaxImageAxis || size.height > kMaxImageAxis) {
    return InvalidField(ErrorReason::kTooLarge, field,
                        absl::StrCat(field, " ", size.width, "x", size.height,
                                     " > ", kMaxImageAxis));
  }
  return absl::OkStatus();
}

absl::Status CheckSpec(const LiftSpec& spec) {
  if (spec.frame) RETURN_IF_ERROR(CheckSize(*spec.frame, "frame"));
  RETURN_IF_ERROR(CheckSize(spec.crop.size(), "placement.crop"));
  // Without a frame any that the limits allow.
  RETURN_IF_ERROR(ValidateRectInside(
      spec.crop, spec.frame.value_or(Size{kMaxImageAxis, kMaxImageAxis}),
      "placement.crop"));
  if (spec.tile != Size() || spec.content || spec.pixels) {
    RETURN_IF_ERROR(CheckSize(spec.tile, "tile"));
  }
  if (!spec.content) return absl::OkStatus();
  return ValidateRectInside(*spec.content, spec.tile, "placement.content");
}

// frame = v * scale + shift, clamped.
struct AxisMap {
  double scale = 1;
  double shift = 0;
  double low = 0;
  double high = 0;

  float Lift(float value) const {
    return static_cast<float>(
        std::clamp(static_cast<double>(value) * scale + shift, low, high));
  }
};

AxisMap MakeMap(int tile, int content_begin, int content_size, int crop_begin,
                int crop_size, bool pixels, int frame_size) {
  AxisMap map;
  const double unit = pixels ? 1.0 : static_cast<double>(tile);
  const double per_pixel = static_cast<double>(crop_size) / content_size;
  map.scale = unit * per_pixel;
  map.shift = crop_begin - content_begin * per_pixel;
  map.low = frame_size > 0 ? 0 : crop_begin;
  map.high = frame_size > 0 ? frame_size : crop_begin + crop_size;
  return map;
}

}  // namespace

absl::Status LiftBoxes(const LiftSpec& spec, std::span<Detection> boxes) {
  RETURN_IF_ERROR(CheckSpec(spec));
  RETURN_IF_ERROR(CheckDetectionCount(boxes.size()));
  const float low = spec.pixels ? -kMaxBoxCoordinate : kMinNormalized;
  const float high = spec.pixels ? kMaxBoxCoordinate : kMaxNormalized;
  for (size_t i = 0; i < boxes.size(); ++i) {
    RETURN_IF_ERROR(CheckDetection(boxes[i], i, low, high));
  }
  const Size tile = spec.tile == Size() ? Size{1, 1} : spec.tile;
  const Rect content =
      spec.content.value_or(Rect{0, 0, tile.width, tile.height});
  const Size frame = spec.frame.value_or(Size());
  const AxisMap x = MakeMap(tile.width, content.x, content.width, spec.crop.x,
                            spec.crop.width, spec.pixels, frame.width);
  const AxisMap y = MakeMap(tile.height, content.y, content.height, spec.crop.y,
                            spec.crop.height, spec.pixels, frame.height);
  for (Detection& box : boxes) {
    Canonicalize(box);
    box.x0 = x.Lift(box.x0);
    box.y0 = y.Lift(box.y0);
    box.x1 = x.Lift(box.x1);
    box.y1 = y.Lift(box.y1);
  }
  return absl::OkStatus();
}

}  // namespace preprocd
