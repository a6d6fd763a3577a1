#include "engine/detections/merge_detections.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/detections/box_index.h"

namespace preprocd {
namespace {

constexpr double kLeastArea = 1e-9;

double AreaOf(const BoxPlace& box) {
  return (static_cast<double>(box.x1) - static_cast<double>(box.x0)) *
         (static_cast<double>(box.y1) - static_cast<double>(box.y0));
}

float MetricOf(const BoxPlace& a, const BoxPlace& b, MatchMetric metric) {
  const double width = static_cast<double>(std::min(a.x1, b.x1)) -
                       static_cast<double>(std::max(a.x0, b.x0));
  const double height = static_cast<double>(std::min(a.y1, b.y1)) -
                        static_cast<double>(std::max(a.y0, b.y0));
  if (width <= 0 || height <= 0) return 0;
  const double shared = width * height;
  const double whole = metric == MatchMetric::kIoU
                           ? AreaOf(a) + AreaOf(b) - shared
                           : std::min(AreaOf(a), AreaOf(b));
  return static_cast<float>(shared / std::max(whole, kLeastArea));
}

absl::Status CheckSpec(const MergeSpec& spec) {
  // Written so that NaN fails too.
  if (!(spec.threshold > 0 && spec.threshold <= 1)) {
    return InvalidField("threshold", absl::StrCat("threshold ", spec.threshold,
                                                  " is not in (0, 1]"));
  }
  if (!std::isfinite(spec.score_threshold)) {
    return InvalidField("score_threshold",
                        absl::StrCat("score_threshold ", spec.score_threshold,
                                     " is not finite"));
  }
  return absl::OkStatus();
}

void Enclose(const Detection& other, Detection& box) {
  box.x0 = std::min(box.x0, other.x0);
  box.y0 = std::min(box.y0, other.y0);
  box.x1 = std::max(box.x1, other.x1);
  box.y1 = std::max(box.y1, other.y1);
}

// Boxes by rank: 0 is taken first.
class Merger {
 public:
  Merger(std::span<const Detection> boxes, const MergeSpec& spec)
      : spec_(spec) {
    // Score and index side by side: sorting indexes would chase boxes.
    std::vector<std::pair<float, int32_t>> keys;
    keys.reserve(boxes.size());
    for (const Detection& box : boxes) {
      keys.emplace_back(-box.score, static_cast<int32_t>(keys.size()));
    }
    std::sort(keys.begin(), keys.end());
    order_.reserve(boxes.size());
    for (const auto& [score, index] : keys) order_.push_back(index);
    ranked_.reserve(boxes.size());
    places_.reserve(boxes.size());
    for (const int32_t index : order_) {
      Detection box = boxes[static_cast<size_t>(index)];
      Canonicalize(box);
      ranked_.push_back(box);
      places_.push_back({box.x0, box.y0, box.x1, box.y1});
    }
    base_of_.assign(boxes.size(), -1);
  }

  // Errors: TOO_LARGE "boxes"
  absl::StatusOr<MergeResult> Run() {
    // Ranks rise within a label.
    std::vector<std::pair<int32_t, int32_t>> keys;
    keys.reserve(ranked_.size());
    for (const Detection& box : ranked_) {
      keys.emplace_back(spec_.class_agnostic ? 0 : box.label,
                        static_cast<int32_t>(keys.size()));
    }
    if (!spec_.class_agnostic) std::sort(keys.begin(), keys.end());
    std::vector<int32_t> group;
    for (size_t i = 0; i < keys.size(); ++i) {
      group.push_back(keys[i].second);
      if (i + 1 < keys.size() && keys[i + 1].first == keys[i].first) continue;
      RETURN_IF_ERROR(MergeGroup(group));
      group.clear();
    }
    return Result();
  }

 private:
  absl::Status MergeGroup(std::span<const int32_t> ranks) {
    if (ranks.size() == 1) {
      base_of_[static_cast<size_t>(ranks[0])] = ranks[0];
      return absl::OkStatus();
    }
    index_.Build(places_, ranks);
    // IoU is at most the ratio of the longer sides; a little less, so that
    // rounding cannot lose a match.
    const double ratio = spec_.metric == MatchMetric::kIoU
                             ? 0.999 * static_cast<double>(spec_.threshold)
                             : 0.0;
    for (const int32_t base : ranks) {
      const auto b = static_cast<size_t>(base);
      if (base_of_[b] >= 0) continue;
      index_.Visit(places_[b], ratio, [&](int32_t other) {
        const auto o = static_cast<size_t>(other);
        if (other != base) {
          ++comparisons_;
          if (!(MetricOf(places_[b], places_[o], spec_.metric) >=
                spec_.threshold)) {
            return false;
          }
          if (spec_.rule != MergeRule::kSuppress) {
            Enclose(
                {places_[o].x0, places_[o].y0, places_[o].x1, places_[o].y1},
                ranked_[b]);
          }
        }
        base_of_[o] = base;
        return true;
      });
      // An empty box shares no area with itself.
      base_of_[b] = base;
      if (index_.looked() > kMaxBoxLooks) return TooCrowded();
    }
    return absl::OkStatus();
  }

  absl::Status TooCrowded() const {
    return InvalidField(
        ErrorReason::kTooLarge, "boxes",
        absl::StrCat("boxes: so many of the ", ranked_.size(),
                     " lie over each other without matching that comparing "
                     "them takes too long; drop those of low score first"));
  }

  MergeResult Result() const {
    MergeResult result;
    result.comparisons = comparisons_;
    std::vector<int32_t> position(ranked_.size(), -1);
    for (size_t rank = 0; rank < ranked_.size(); ++rank) {
      if (base_of_[rank] != static_cast<int32_t>(rank)) continue;
      if (result.boxes.size() >= spec_.max_detections ||
          ranked_[rank].score < spec_.score_threshold) {
        break;
      }
      position[rank] = static_cast<int32_t>(result.boxes.size());
      result.boxes.push_back(ranked_[rank]);
      result.bases.push_back(order_[rank]);
    }
    result.merged_into.resize(ranked_.size());
    for (size_t rank = 0; rank < ranked_.size(); ++rank) {
      result.merged_into[static_cast<size_t>(order_[rank])] =
          position[static_cast<size_t>(base_of_[rank])];
    }
    return result;
  }

  const MergeSpec& spec_;
  std::vector<int32_t> order_;     // rank -> index of the box given
  std::vector<Detection> ranked_;  // grown by what they took
  std::vector<BoxPlace> places_;   // as given
  std::vector<int32_t> base_of_;   // rank -> rank of its base; -1 = free
  BoxIndex index_;
  uint64_t comparisons_ = 0;
};

}  // namespace

absl::StatusOr<MergeResult> MergeDetections(std::span<const Detection> boxes,
                                            const MergeSpec& spec) {
  RETURN_IF_ERROR(CheckSpec(spec));
  RETURN_IF_ERROR(CheckDetectionCount(boxes.size()));
  for (size_t i = 0; i < boxes.size(); ++i) {
    RETURN_IF_ERROR(
        CheckDetection(boxes[i], i, -kMaxBoxCoordinate, kMaxBoxCoordinate));
  }
  return Merger(boxes, spec).Run();
}

}  // namespace preprocd
