// EXIF orientation: how stored pixels must be turned to be upright.
// Value n means: apply the flip, then the clockwise rotation, of this table:
//   1 none          2 mirror        3 rotate 180     4 mirror, rotate 180
//   5 mirror, 270   6 rotate 90     7 mirror, 90     8 rotate 270
// Thread-safety: safe (values only).
// Source: EXIF 2.32 (CIPA DC-008), tag 0x0112.
#ifndef ENGINE_IMAGE_ORIENTATION_H_
#define ENGINE_IMAGE_ORIENTATION_H_

#include <cstdint>
#include <optional>

#include "engine/image/geometry.h"

namespace preprocd {

enum class Orientation : uint8_t {
  kNormal = 1,
  kMirror = 2,
  kRotate180 = 3,
  kMirrorRotate180 = 4,
  kMirrorRotate270 = 5,
  kRotate90 = 6,
  kMirrorRotate90 = 7,
  kRotate270 = 8,
};

// Nothing when `value` is outside 1..8.
std::optional<Orientation> OrientationFromExif(int value);

// True for 5..8: width and height change places.
bool SwapsAxes(Orientation orientation);

// Size after turning.
Size OrientedSize(Orientation orientation, Size size);

// For a picture of `size` (stored): the stored pixel that lands on upright
// pixel (x, y) is
//   stored_x = xx * x + xy * y + x0,  stored_y = yx * x + yy * y + y0
// with entries -1, 0, 1, so rows and columns can be walked with steps.
struct OrientationMap {
  int xx = 1, xy = 0, x0 = 0;
  int yx = 0, yy = 1, y0 = 0;
};
OrientationMap GetOrientationMap(Orientation orientation, Size size);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_ORIENTATION_H_
