// Rectangles, fits and placements: where a source picture lands in a
// destination, as integers, and the affine map to carry boxes back.
// Thread-safety: safe (values only).
// Limits: kMaxImageAxis.
#ifndef ENGINE_IMAGE_GEOMETRY_H_
#define ENGINE_IMAGE_GEOMETRY_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace preprocd {

// Pixels.
struct Size {
  int width = 0;
  int height = 0;
  bool operator==(const Size&) const = default;
};

// Half-open pixel rectangle [x, x + width) x [y, y + height).
struct Rect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const Rect&) const = default;
  Size size() const { return {width, height}; }
};

// Errors: kInvalidArgument GEOMETRY_INVALID with `field` when `rect` is empty
// or not wholly inside `bounds`. Rectangles are never clamped.
absl::Status ValidateRectInside(const Rect& rect, Size bounds,
                                absl::string_view field);

// Numbers equal preproc.v1.Fit.
enum class Fit : uint8_t {
  kUnspecified = 0,  // stretch
  kStretch = 1,      // fill the destination, aspect not kept
  kLetterbox = 2,    // whole source, aspect kept, rest padded
  kCover = 3,        // whole destination, aspect kept, source cut centrally
  kPlace = 4,        // into a given destination rectangle, rest padded
};

// Numbers equal preproc.v1.LetterboxRule.
enum class LetterboxRule : uint8_t {
  kUnspecified = 0,  // center
  // With a = sw/sh, b = dw/dh in double: a > b: width dw, height
  // max(1, round_half_away(dw / a)); else height dh, width
  // max(1, round_half_away(dh * a)); left and top floor of half the rest.
  kCenter = 1,
  // r = min(dw/sw, dh/sh); sides round_half_even(side * r) (at least 1), left
  // and top round_half_even(rest / 2 - 0.1), as the Ultralytics recipe.
  kUltralytics = 2,
  // Sides as kCenter, left = top = 0.
  kTopLeft = 3,
};

// Where the oriented source rectangle went.
struct Placement {
  // Destination pixels that show the source; everything else is padding.
  Rect destination;
  // Part of the oriented source rectangle that is shown, in pixels of the
  // oriented source rectangle; all of it except for kCover.
  Rect shown;
  bool operator==(const Placement&) const = default;
};

// dst = scale * src + offset per axis in continuous pixel coordinates (pixel
// centres at +0.5), src in *stored* source pixels of the whole picture,
// through crop and orientation: 2x3 matrix
//   dst_x = xx * src_x + xy * src_y + x0, dst_y = yx * src_x + yy * src_y + y0
struct AffineMap {
  double xx = 1, xy = 0, x0 = 0;
  double yx = 0, yy = 1, y0 = 0;
};
// The inverse. REQUIRES: a non-singular map (all maps made here are).
AffineMap Invert(const AffineMap& map);

// `oriented_source`: size of the source rectangle after orientation;
// `place`: destination rectangle, required for kPlace only.
// Errors: kInvalidArgument GEOMETRY_INVALID for empty sizes, a missing or
// outside `place` rectangle (field "place").
absl::StatusOr<Placement> ComputePlacement(Size oriented_source,
                                           Size destination, Fit fit,
                                           LetterboxRule rule,
                                           const std::optional<Rect>& place);

std::optional<Fit> ParseFit(absl::string_view name);
absl::string_view FitName(Fit fit);
std::optional<LetterboxRule> ParseLetterboxRule(absl::string_view name);
absl::string_view LetterboxRuleName(LetterboxRule rule);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_GEOMETRY_H_
