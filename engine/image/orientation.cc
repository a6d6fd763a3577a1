#include "engine/image/orientation.h"

namespace preprocd {

std::optional<Orientation> OrientationFromExif(int value) {
  if (value < 1 || value > 8) return std::nullopt;
  return static_cast<Orientation>(value);
}

bool SwapsAxes(Orientation orientation) {
  return static_cast<int>(orientation) >= 5;
}

Size OrientedSize(Orientation orientation, Size size) {
  if (SwapsAxes(orientation)) return {size.height, size.width};
  return size;
}

OrientationMap GetOrientationMap(Orientation orientation, Size size) {
  const int right = size.width - 1;
  const int bottom = size.height - 1;
  switch (orientation) {
    case Orientation::kNormal:
      return {1, 0, 0, 0, 1, 0};
    case Orientation::kMirror:
      return {-1, 0, right, 0, 1, 0};
    case Orientation::kRotate180:
      return {-1, 0, right, 0, -1, bottom};
    case Orientation::kMirrorRotate180:
      return {1, 0, 0, 0, -1, bottom};
    case Orientation::kMirrorRotate270:
      return {0, 1, 0, 1, 0, 0};
    case Orientation::kRotate90:
      return {0, 1, 0, -1, 0, bottom};
    case Orientation::kMirrorRotate90:
      return {0, -1, right, -1, 0, bottom};
    case Orientation::kRotate270:
      return {0, -1, right, 1, 0, 0};
  }
  return {};
}

}  // namespace preprocd
