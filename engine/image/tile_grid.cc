#include "engine/image/tile_grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status CheckSize(Size size, absl::string_view field) {
  if (size.width <= 0 || size.height <= 0) {
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

struct Axis {
  int count = 1;
  int crop = 0;
  int last = 0;

  int Origin(int i) const {
    if (count == 1) return 0;
    // Single precision on purpose: the documented formula rounds there.
    const float origin = static_cast<float>(i) * static_cast<float>(last) /
                         static_cast<float>(count - 1);
    return static_cast<int>(std::round(origin));
  }
};

Axis PlanAxis(int frame, int tile, float overlap) {
  Axis axis;
  axis.crop = std::min(frame, tile);
  if (frame <= tile) return axis;
  axis.last = frame - tile;
  const double kept = 1.0 - static_cast<double>(overlap);
  const int step = std::max(1, static_cast<int>(std::floor(kept * tile)));
  axis.count = (axis.last + step - 1) / step + 1;
  return axis;
}

}  // namespace

absl::StatusOr<TileGrid> PlanTiles(Size frame, const TileGridSpec& spec) {
  RETURN_IF_ERROR(CheckSize(frame, "frame"));
  RETURN_IF_ERROR(CheckSize(spec.tile, "grid.tile"));
  // Written so that NaN fails too.
  if (!(spec.overlap >= 0.0f && spec.overlap < 1.0f)) {
    return InvalidField(
        "grid.overlap",
        absl::StrCat("grid.overlap ", spec.overlap, " is not in [0, 1)"));
  }
  const Fit fit = spec.fit == Fit::kUnspecified ? Fit::kStretch : spec.fit;
  if (fit != Fit::kStretch && fit != Fit::kLetterbox) {
    return InvalidField("grid.fit", "grid.fit must be stretch or letterbox");
  }
  const Axis x = PlanAxis(frame.width, spec.tile.width, spec.overlap);
  const Axis y = PlanAxis(frame.height, spec.tile.height, spec.overlap);
  if (static_cast<int64_t>(x.count) * y.count > kMaxTiles) {
    return InvalidField(
        ErrorReason::kTooLarge, "grid",
        absl::StrCat("grid ", x.count, "x", y.count, " tiles > ", kMaxTiles));
  }
  ASSIGN_OR_RETURN(const Placement placement,
                   ComputePlacement({x.crop, y.crop}, spec.tile, fit,
                                    spec.letterbox_rule, std::nullopt));
  TileGrid grid;
  grid.rows = y.count;
  grid.columns = x.count;
  grid.tiles.reserve(static_cast<size_t>(x.count) *
                     static_cast<size_t>(y.count));
  for (int row = 0; row < y.count; ++row) {
    for (int column = 0; column < x.count; ++column) {
      TilePlacement tile;
      tile.index = row * x.count + column;
      tile.row = row;
      tile.column = column;
      tile.crop = {x.Origin(column), y.Origin(row), x.crop, y.crop};
      tile.content = placement.destination;
      grid.tiles.push_back(tile);
    }
  }
  return grid;
}

Rect StoredCrop(const Rect& crop, Orientation orientation, Size stored) {
  const OrientationMap map = GetOrientationMap(orientation, stored);
  const int right = crop.x + crop.width - 1;
  const int bottom = crop.y + crop.height - 1;
  const int x0 = map.xx * crop.x + map.xy * crop.y + map.x0;
  const int y0 = map.yx * crop.x + map.yy * crop.y + map.y0;
  const int x1 = map.xx * right + map.xy * bottom + map.x0;
  const int y1 = map.yx * right + map.yy * bottom + map.y0;
  return {std::min(x0, x1), std::min(y0, y1), std::abs(x1 - x0) + 1,
          std::abs(y1 - y0) + 1};
}

}  // namespace preprocd
