#include "engine/detections/merge_detections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

using testing::ElementsAre;

Detection Box(float x0, float y0, float x1, float y1, float score,
              int label = 0) {
  return {x0, y0, x1, y1, score, label, 0};
}

MergeResult Merge(const std::vector<Detection>& boxes, const MergeSpec& spec) {
  auto result = MergeDetections(boxes, spec);
  EXPECT_TRUE(result.ok()) << result.status();
  return *std::move(result);
}

// The definition, written down: every pair.
MergeResult Quadratic(std::vector<Detection> boxes, const MergeSpec& spec) {
  for (Detection& box : boxes) Canonicalize(box);
  std::vector<size_t> order(boxes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return boxes[a].score > boxes[b].score;
  });
  const auto area = [](const Detection& b) {
    return (double{b.x1} - b.x0) * (double{b.y1} - b.y0);
  };
  const auto matches = [&](const Detection& a, const Detection& b) {
    if (!spec.class_agnostic && a.label != b.label) return false;
    const double w = double{std::min(a.x1, b.x1)} - std::max(a.x0, b.x0);
    const double h = double{std::min(a.y1, b.y1)} - std::max(a.y0, b.y0);
    const double shared = w > 0 && h > 0 ? w * h : 0;
    const double whole = spec.metric == MatchMetric::kIoU
                             ? area(a) + area(b) - shared
                             : std::min(area(a), area(b));
    return static_cast<float>(shared / std::max(whole, 1e-9)) >= spec.threshold;
  };
  MergeResult result;
  result.merged_into.assign(boxes.size(), -1);
  std::vector<bool> taken(boxes.size(), false);
  for (size_t i = 0; i < order.size(); ++i) {
    if (taken[order[i]]) continue;
    const Detection base = boxes[order[i]];
    Detection grown = base;
    const bool kept = result.boxes.size() < spec.max_detections &&
                      base.score >= spec.score_threshold;
    const int32_t position =
        kept ? static_cast<int32_t>(result.boxes.size()) : -1;
    for (size_t j = i; j < order.size(); ++j) {
      const Detection& other = boxes[order[j]];
      if (taken[order[j]] || (j != i && !matches(base, other))) continue;
      taken[order[j]] = true;
      result.merged_into[order[j]] = position;
      if (spec.rule == MergeRule::kSuppress) continue;
      grown.x0 = std::min(grown.x0, other.x0);
      grown.y0 = std::min(grown.y0, other.y0);
      grown.x1 = std::max(grown.x1, other.x1);
      grown.y1 = std::max(grown.y1, other.y1);
    }
    if (kept) result.boxes.push_back(grown);
  }
  return result;
}

std::vector<Detection> RandomBoxes(size_t count, double span, double side,
                                   int labels, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> place(0, static_cast<float>(span));
  std::exponential_distribution<float> size(static_cast<float>(1 / side));
  // Few scores, so that many are equal.
  std::uniform_int_distribution<int> score(0, 20);
  std::uniform_int_distribution<int> label(0, labels - 1);
  std::vector<Detection> boxes;
  for (size_t i = 0; i < count; ++i) {
    const float x = place(random);
    const float y = place(random);
    Detection box = Box(x, y, x + size(random), y + size(random),
                        static_cast<float>(score(random)) / 20, label(random));
    if (i % 17 == 0) std::swap(box.x0, box.x1);
    if (i % 23 == 0) box.x1 = box.x0;
    box.track_id = i;
    boxes.push_back(box);
  }
  return boxes;
}

TEST(MergeDetectionsTest, BaseEnclosesWhatItTakes) {
  const MergeResult result = Merge(
      {Box(0, 0, 10, 10, 0.5f), Box(4, 0, 14, 10, 0.9f), Box(50, 0, 60, 10, 1)},
      MergeSpec());
  EXPECT_THAT(result.boxes,
              ElementsAre(Box(50, 0, 60, 10, 1), Box(0, 0, 14, 10, 0.9f)));
  EXPECT_THAT(result.merged_into, ElementsAre(1, 1, 0));
  EXPECT_THAT(result.bases, ElementsAre(2, 1));
}

TEST(MergeDetectionsTest, MatchesAreAgainstTheBaseAsGiven) {
  // The third meets the second but not the first, which took the second.
  MergeSpec spec;
  const std::vector<Detection> chain = {Box(0, 0, 10, 10, 0.9f),
                                        Box(5, 0, 15, 10, 0.8f),
                                        Box(10, 0, 20, 10, 0.7f)};
  EXPECT_THAT(Merge(chain, spec).boxes,
              ElementsAre(Box(0, 0, 15, 10, 0.9f), Box(10, 0, 20, 10, 0.7f)));
  spec.rule = MergeRule::kSuppress;
  EXPECT_THAT(Merge(chain, spec).boxes, ElementsAre(chain[0], chain[2]));
}

TEST(MergeDetectionsTest, ThresholdIsInclusive) {
  MergeSpec spec;
  // 3 of 10, which double precision would put below 0.3f.
  spec.threshold = 0.3f;
  EXPECT_EQ(
      Merge({Box(0, 0, 10, 1, 1), Box(7, 0, 17, 1, 1)}, spec).boxes.size(), 1u);
  spec.metric = MatchMetric::kIoU;
  spec.threshold = 0.5f;
  EXPECT_EQ(Merge({Box(0, 0, 3, 1, 1), Box(1, 0, 4, 1, 1)}, spec).boxes.size(),
            1u);
  spec.threshold = 0.50001f;
  EXPECT_EQ(Merge({Box(0, 0, 3, 1, 1), Box(1, 0, 4, 1, 1)}, spec).boxes.size(),
            2u);
}

TEST(MergeDetectionsTest, ClassesMatterUnlessTold) {
  const std::vector<Detection> boxes = {Box(0, 0, 10, 10, 0.9f, 1),
                                        Box(0, 0, 10, 10, 0.8f, 2)};
  MergeSpec spec;
  EXPECT_EQ(Merge(boxes, spec).boxes.size(), 2u);
  spec.class_agnostic = true;
  const MergeResult result = Merge(boxes, spec);
  ASSERT_EQ(result.boxes.size(), 1u);
  EXPECT_EQ(result.boxes[0].label, 1);
}

TEST(MergeDetectionsTest, EqualScoresGoByTheOrderGiven) {
  MergeSpec spec;
  spec.rule = MergeRule::kSuppress;
  EXPECT_THAT(
      Merge({Box(1, 0, 11, 10, 0.5f), Box(0, 0, 10, 10, 0.5f)}, spec).boxes,
      ElementsAre(Box(1, 0, 11, 10, 0.5f)));
}

TEST(MergeDetectionsTest, LowScoresAndSurplusGoAfterTheMerge) {
  MergeSpec spec;
  spec.score_threshold = 0.5f;
  // The low one still grows the high one.
  const MergeResult result =
      Merge({Box(0, 0, 10, 10, 0.6f), Box(5, 0, 15, 10, 0.1f),
             Box(100, 0, 110, 10, 0.4f), Box(100, 0, 110, 10, 0.3f)},
            spec);
  EXPECT_THAT(result.boxes, ElementsAre(Box(0, 0, 15, 10, 0.6f)));
  EXPECT_THAT(result.merged_into, ElementsAre(0, 0, -1, -1));
  spec = MergeSpec();
  spec.max_detections = 1;
  EXPECT_EQ(
      Merge({Box(0, 0, 1, 1, 0.1f), Box(9, 9, 10, 10, 0.2f)}, spec).boxes[0],
      Box(9, 9, 10, 10, 0.2f));
}

TEST(MergeDetectionsTest, EqualsTheDefinitionOnRandomBoxes) {
  const struct {
    size_t count;
    double span, side;
    int labels;
  } scenes[] = {{0, 10, 5, 1},      {1, 10, 5, 1},     {300, 100, 30, 2},
                {800, 4000, 60, 5}, {500, 50, 200, 3}, {600, 4e5, 5e4, 2},
                {400, 1, 0.01, 1},  {400, 1e-3, 1, 2}};
  uint32_t seed = 0;
  for (const auto& scene : scenes) {
    for (const MatchMetric metric : {MatchMetric::kIoS, MatchMetric::kIoU}) {
      for (const float threshold : {0.05f, 0.5f, 0.9f, 1.0f}) {
        for (const bool agnostic : {false, true}) {
          const std::vector<Detection> boxes = RandomBoxes(
              scene.count, scene.span, scene.side, scene.labels, ++seed);
          MergeSpec spec;
          spec.metric = metric;
          spec.threshold = threshold;
          spec.class_agnostic = agnostic;
          spec.rule = seed % 3 == 0 ? MergeRule::kSuppress : MergeRule::kUnion;
          spec.score_threshold = seed % 5 == 0 ? 0.3f : 0.0f;
          const MergeResult expected = Quadratic(boxes, spec);
          const MergeResult got = Merge(boxes, spec);
          ASSERT_EQ(got.boxes, expected.boxes) << "seed " << seed;
          ASSERT_EQ(got.merged_into, expected.merged_into) << "seed " << seed;
          for (size_t i = 0; i < got.boxes.size(); ++i) {
            const auto base = static_cast<size_t>(got.bases[i]);
            ASSERT_EQ(got.boxes[i].track_id, boxes[base].track_id);
          }
        }
      }
    }
  }
}

TEST(MergeDetectionsTest, WorkGrowsWithTheBoxesNotWithTheirSquare) {
  // The same density at both sizes, as with a larger frame.
  const auto work = [](size_t count, double span) {
    return Merge(RandomBoxes(count, span, 20, 3, 5), MergeSpec()).comparisons;
  };
  const uint64_t small = work(12500, 4000);
  const uint64_t large = work(50000, 8000);
  EXPECT_LT(large, 6 * small);
  EXPECT_LT(large, 50000u * 100u);
}

TEST(MergeDetectionsTest, DuplicatesAndGiantsAreCheap) {
  // Everything is one object.
  EXPECT_LT(
      Merge(std::vector<Detection>(50000, Box(5, 5, 9, 9, 1)), MergeSpec())
          .comparisons,
      50000u);
  // Few boxes that cover all cells of the many.
  std::vector<Detection> boxes = RandomBoxes(20000, 4000, 5, 1, 9);
  for (int i = 0; i < 50; ++i) {
    boxes.push_back(Box(0, 0, 4000, 4000, 2.0f + static_cast<float>(i)));
  }
  MergeSpec spec;
  spec.metric = MatchMetric::kIoU;
  EXPECT_LT(Merge(boxes, spec).comparisons, 20000u * 60u);
  // Every box of its own class.
  std::vector<Detection> classes = RandomBoxes(50000, 100, 20, 1, 11);
  for (size_t i = 0; i < classes.size(); ++i) {
    classes[i].label = static_cast<int>(i);
  }
  EXPECT_EQ(Merge(classes, MergeSpec()).comparisons, 0u);
}

// Boxes that all overlap and never match are a quadratic amount of work,
// which a client could ask for at will.
TEST(MergeDetectionsTest, CrowdsWithoutMatchesAreRefused) {
  std::vector<Detection> crowd;
  for (size_t i = 0; i < kMaxDetections; ++i) {
    const auto shift = static_cast<float>(i) * 0.01f;
    crowd.push_back(Box(shift, 0, 1000 + shift, 10, 1));
  }
  MergeSpec spec;
  spec.threshold = 1;
  spec.metric = MatchMetric::kIoU;
  const auto result = MergeDetections(crowd, spec);
  ASSERT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(result.status())->reason, ErrorReason::kTooLarge);
  EXPECT_EQ(GetErrorDetail(result.status())->field, "boxes");
}

TEST(MergeDetectionsTest, BadInputNamesItsField) {
  const auto field = [](const Detection& box, const MergeSpec& spec) {
    const auto result = MergeDetections(std::vector<Detection>{box}, spec);
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    return GetErrorDetail(result.status())->field;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const Detection good = Box(0, 0, 1, 1, 1);
  EXPECT_EQ(field(Box(0, nan, 1, 1, 1), MergeSpec()), "boxes[0].y0");
  EXPECT_EQ(field(Box(0, 0, infinity, 1, 1), MergeSpec()), "boxes[0].x1");
  EXPECT_EQ(field(Box(0, 0, 2e6f, 1, 1), MergeSpec()), "boxes[0].x1");
  EXPECT_EQ(field(Box(0, 0, 1, 1, nan), MergeSpec()), "boxes[0].score");
  MergeSpec spec;
  for (const float threshold : {nan, 0.0f, -0.1f, 1.1f}) {
    spec.threshold = threshold;
    EXPECT_EQ(field(good, spec), "threshold");
  }
  spec = MergeSpec();
  spec.score_threshold = nan;
  EXPECT_EQ(field(good, spec), "score_threshold");
  const auto many =
      MergeDetections(std::vector<Detection>(kMaxDetections + 1), MergeSpec());
  EXPECT_EQ(GetErrorDetail(many.status())->reason, ErrorReason::kTooLarge);
}

}  // namespace
}  // namespace preprocd
