// Duplicates of one object in overlapping tiles into one box.
// Thread-safety: safe (no state). Limits: kMaxDetections,
// kMaxBoxLooks.
// Source: greedy merging. Boxes in order of falling score, equal scores in the
// order given. Each box that is not taken yet becomes a base and takes every
// later one that is not taken, has its label (unless class_agnostic) and
// matches: metric(base as given, other) >= threshold.
//   IoS = intersection / max(smaller area, 1e-9)
//   IoU = intersection / max(union, 1e-9)
// Products and quotient in double precision, the quotient rounded to single
// and compared with the single-precision threshold, so that a ratio of 3 to 10
// meets a threshold of 0.3. Boxes without a common area never match.
#ifndef ENGINE_DETECTIONS_MERGE_DETECTIONS_H_
#define ENGINE_DETECTIONS_MERGE_DETECTIONS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/detections/detection.h"

namespace preprocd {

// Numbers equal preproc.v1.MatchMetric.
enum class MatchMetric : uint8_t { kUnspecified = 0, kIoS = 1, kIoU = 2 };

// Numbers equal preproc.v1.MergeRule.
enum class MergeRule : uint8_t {
  kUnspecified = 0,  // union
  kUnion = 1,        // the base grows to enclose what it takes
  kSuppress = 2,     // the base stays as it is
};

struct MergeSpec {
  MatchMetric metric = MatchMetric::kIoS;
  float threshold = 0.5f;  // 0 < threshold <= 1
  bool class_agnostic = false;
  MergeRule rule = MergeRule::kUnion;
  size_t max_detections = 300;
  // Bases below are dropped, with what they took.
  float score_threshold = 0;
};

struct MergeResult {
  // By falling score; score, label and track of the base.
  std::vector<Detection> boxes;
  // For each box given: position in `boxes` of the base that took it (its own
  // for a base), -1 = dropped.
  std::vector<int32_t> merged_into;
  // For each of `boxes`: index of its base among the boxes given.
  std::vector<int32_t> bases;
  // Pairs of boxes that were compared: the work that was done.
  uint64_t comparisons = 0;
};

// Looks of boxes at boxes near them in one call (about a second of one core);
// beyond, the answer is TOO_LARGE.
inline constexpr uint64_t kMaxBoxLooks = uint64_t{1} << 27;

// Time grows with the boxes and the pairs of them that lie near each other,
// not with the square of their number.
// Errors, kInvalidArgument: those of CheckDetectionCount and CheckDetection;
//   FIELD_INVALID "threshold", "score_threshold"; TOO_LARGE "boxes"
absl::StatusOr<MergeResult> MergeDetections(std::span<const Detection> boxes,
                                            const MergeSpec& spec);

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_MERGE_DETECTIONS_H_
