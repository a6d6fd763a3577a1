// The SAHI tile grid of a large frame (EvenDist): origins spread evenly so
// that the last tile ends at the frame's edge and neighbours overlap at least
// as much as asked. Pure; rendering and lifting use the same placements.
// Thread-safety: safe (values only).
// Limits: kMaxTiles.
// Source: per axis, frame F, tile T, overlap r (single precision):
//   F <= T: one tile, crop F; else last = F - T,
//   step = max(1, floor((1 - double(r)) * T)), n = ceil(last / step),
//   origin_i = round_half_away(i * last / n) in single precision, i = 0..n.
// r = 0.2f widens to 0.2000000030, hence step 511 for T = 640.
#ifndef ENGINE_IMAGE_TILE_GRID_H_
#define ENGINE_IMAGE_TILE_GRID_H_

#include <vector>

#include "absl/status/statusor.h"
#include "engine/image/geometry.h"
#include "engine/image/orientation.h"

namespace preprocd {

// A grid with more tiles is refused, TOO_LARGE.
inline constexpr int kMaxTiles = 4096;
// Tiles that one call renders; more is TOO_LARGE. Their placements fit a
// direct frame (at most 60 bytes each).
inline constexpr int kMaxTilesPerCall = 1024;

struct TileGridSpec {
  Size tile;             // pixels, 1..kMaxImageAxis
  float overlap = 0.2f;  // 0 <= overlap < 1
  // How a crop smaller than the tile fills it: kStretch (default for
  // kUnspecified) or kLetterbox.
  Fit fit = Fit::kUnspecified;
  LetterboxRule letterbox_rule = LetterboxRule::kUnspecified;
};

struct TilePlacement {
  int index = 0;  // row-major
  int row = 0;
  int column = 0;
  Rect crop;     // frame pixels
  Rect content;  // tile pixels that show the crop; the rest is padding
  bool operator==(const TilePlacement&) const = default;
};

struct TileGrid {
  std::vector<TilePlacement> tiles;  // row-major
  int rows = 0;
  int columns = 0;
};

// Errors, kInvalidArgument: GEOMETRY_INVALID "frame" or "grid.tile" (empty,
// above kMaxImageAxis: TOO_LARGE), FIELD_INVALID "grid.overlap" (outside
// [0, 1) or NaN) or "grid.fit", TOO_LARGE "grid" (above kMaxTiles).
absl::StatusOr<TileGrid> PlanTiles(Size frame, const TileGridSpec& spec);

// The stored pixels of a crop: `crop` lies in the upright frame, `stored` is
// the size of the picture before `orientation` turned it upright.
// REQUIRES: crop inside OrientedSize(orientation, stored).
Rect StoredCrop(const Rect& crop, Orientation orientation, Size stored);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_TILE_GRID_H_
