#include "engine/masks/contours.h"

#include <algorithm>
#include <cstddef>

namespace preprocd {
namespace {

struct Point {
  int x = 0;
  int y = 0;
  bool operator==(const Point&) const = default;
};

struct Ring {
  std::vector<Point> corners;
  // Twice the enclosed area; positive when clockwise on a screen.
  int64_t area = 0;
};

// Follows the edges between set and unset pixels with the set ones to the
// right. Directions: 0 right, 1 down, 2 left, 3 up.
class Tracer {
 public:
  Tracer(const uint8_t* pixels, int width, int height)
      : pixels_(pixels), width_(width), height_(height) {
    seen_.resize(static_cast<size_t>(width) * static_cast<size_t>(height));
  }

  std::vector<Ring> TraceAll() {
    std::vector<Ring> rings;
    // Every ring has an edge above a set pixel that is walked to the right;
    // the first one that a scan meets begins at a corner.
    for (int y = 0; y < height_; ++y) {
      for (int x = 0; x < width_; ++x) {
        if (IsSet(x, y) && !IsSet(x, y - 1) && seen_[Index(x, y)] == 0) {
          rings.push_back(Trace({x, y}));
        }
      }
    }
    return rings;
  }

 private:
  size_t Index(int x, int y) const {
    return static_cast<size_t>(y) * static_cast<size_t>(width_) +
           static_cast<size_t>(x);
  }
  bool IsSet(int x, int y) const {
    return x >= 0 && y >= 0 && x < width_ && y < height_ &&
           pixels_[Index(x, y)] != 0;
  }

  Ring Trace(Point start) {
    constexpr int kDx[] = {1, 0, -1, 0};
    constexpr int kDy[] = {0, 1, 0, -1};
    // Pixel to the right and to the left of the edge that leaves a corner.
    constexpr Point kRight[] = {{0, 0}, {-1, 0}, {-1, -1}, {0, -1}};
    constexpr Point kLeft[] = {{0, -1}, {0, 0}, {-1, 0}, {-1, -1}};
    Ring ring;
    ring.corners.push_back(start);
    Point at = start;
    int direction = 0;
    do {
      if (direction == 0) seen_[Index(at.x, at.y)] = 1;
      at.x += kDx[direction];
      at.y += kDy[direction];
      const bool right =
          IsSet(at.x + kRight[direction].x, at.y + kRight[direction].y);
      const bool left =
          IsSet(at.x + kLeft[direction].x, at.y + kLeft[direction].y);
      int next = direction;
      if (!right) {
        next = (direction + 1) & 3;
      } else if (left) {
        next = (direction + 3) & 3;
      }
      if (next != direction && !(at == start && next == 0)) {
        ring.corners.push_back(at);
      }
      direction = next;
    } while (!(at == start && direction == 0));
    for (size_t i = 0; i < ring.corners.size(); ++i) {
      const Point& p = ring.corners[i];
      const Point& q = ring.corners[(i + 1) % ring.corners.size()];
      ring.area += int64_t{p.x} * q.y - int64_t{q.x} * p.y;
    }
    return ring;
  }

  const uint8_t* pixels_;
  const int width_;
  const int height_;
  std::vector<uint8_t> seen_;
};

}  // namespace

void TraceContours(const uint8_t* pixels, const Rect& bounds,
                   MaskRings& rings) {
  rings.corners.clear();
  rings.ring_sizes.clear();
  std::vector<Ring> found =
      Tracer(pixels, bounds.width, bounds.height).TraceAll();
  std::stable_sort(
      found.begin(), found.end(),
      [](const Ring& a, const Ring& b) { return a.area > b.area; });
  for (const Ring& ring : found) {
    rings.ring_sizes.push_back(static_cast<uint32_t>(ring.corners.size()));
    for (const Point& p : ring.corners) {
      rings.corners.push_back(static_cast<float>(p.x + bounds.x));
      rings.corners.push_back(static_cast<float>(p.y + bounds.y));
    }
  }
}

}  // namespace preprocd
