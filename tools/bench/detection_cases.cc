#include "tools/bench/detection_cases.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "engine/detections/merge_detections.h"

namespace preprocd {
namespace {

class Noise {
 public:
  uint32_t Bits() { return state_ = state_ * 1664525u + 1013904223u; }
  float Unit() { return static_cast<float>(Bits() >> 8) / float{1 << 24}; }

 private:
  uint32_t state_ = 6;
};

std::vector<Detection> Boxes(size_t count) {
  Noise noise;
  std::vector<Detection> boxes;
  for (size_t i = 0; i < count; ++i) {
    Detection box;
    box.x0 = noise.Unit() * 3840;
    box.y0 = noise.Unit() * 2160;
    box.x1 = box.x0 - 30 * std::log(1 - noise.Unit());
    box.y1 = box.y0 - 30 * std::log(1 - noise.Unit());
    box.score = noise.Unit();
    box.label = static_cast<int>(noise.Bits() >> 28);
    boxes.push_back(box);
  }
  return boxes;
}

}  // namespace

void AddDetectionCases(
    const std::function<void(const std::string& name,
                             std::function<void()> run)>& add) {
  add("W6m/preprocd_merge_50000", [boxes = Boxes(50000)] {
    if (!MergeDetections(boxes, MergeSpec()).ok()) abort();
  });
}

}  // namespace preprocd
