// Outlines of a binary mask as closed rings along pixel edges: filling the
// rings with the even-odd rule gives the mask back exactly.
// Pixels touch by their sides (4-neighbours); where two touch only at a
// corner, their rings meet there without crossing.
// Thread-safety: safe (no state).
#ifndef ENGINE_MASKS_CONTOURS_H_
#define ENGINE_MASKS_CONTOURS_H_

#include <cstdint>
#include <vector>

#include "engine/image/geometry.h"

namespace preprocd {

struct MaskRings {
  // Corners x, y, x, y ... of all rings, output pixels; (0, 0) is the top
  // left corner of the top left pixel. The last corner joins the first.
  std::vector<float> corners;
  // Corners of each ring. Outlines come first, the one around the largest
  // area leading, then holes. Outlines run clockwise as seen on a screen,
  // holes the other way.
  std::vector<uint32_t> ring_sizes;
};

// `pixels` are those of `bounds`, tight, 0 or not 0; outside they are 0.
// Replaces `rings`.
void TraceContours(const uint8_t* pixels, const Rect& bounds, MaskRings& rings);

}  // namespace preprocd

#endif  // ENGINE_MASKS_CONTOURS_H_
