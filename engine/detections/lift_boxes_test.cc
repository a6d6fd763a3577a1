#include "engine/detections/lift_boxes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/image/tile_grid.h"

namespace preprocd {
namespace {

Detection Box(float x0, float y0, float x1, float y1) {
  return {x0, y0, x1, y1, 0.5f, 3, 7};
}

Detection Lift(const LiftSpec& spec, const Detection& box) {
  std::vector<Detection> boxes = {box};
  const absl::Status status = LiftBoxes(spec, boxes);
  EXPECT_TRUE(status.ok()) << status;
  return boxes[0];
}

std::string FieldOf(const LiftSpec& spec, const Detection& box) {
  std::vector<Detection> boxes = {Box(0.1f, 0.1f, 0.2f, 0.2f), box};
  const std::vector<Detection> before = boxes;
  const absl::Status status = LiftBoxes(spec, boxes);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(boxes[0], before[0]);
  const auto detail = GetErrorDetail(status);
  return detail ? detail->field : "";
}

TEST(LiftBoxesTest, NormalisedBoxesOfAFullTile) {
  LiftSpec spec;
  spec.crop = {457, 507, 640, 640};
  EXPECT_EQ(Lift(spec, Box(0.5f, 0.25f, 1, 1)), Box(777, 667, 1097, 1147));
}

TEST(LiftBoxesTest, LetterboxIsUndone) {
  // A 1280x720 frame in a 640x640 tile: 640x360 at (0, 140).
  LiftSpec spec;
  spec.crop = {0, 0, 1280, 720};
  spec.content = Rect{0, 140, 640, 360};
  spec.tile = {640, 640};
  EXPECT_EQ(Lift(spec, Box(0, 140.0f / 640, 1, 500.0f / 640)),
            Box(0, 0, 1280, 720));
  // Boxes that reach into the padding are cut.
  EXPECT_EQ(Lift(spec, Box(0, 0, 1, 1)), Box(0, 0, 1280, 720));
  spec.pixels = true;
  EXPECT_EQ(Lift(spec, Box(320, 320, 330, 330)), Box(640, 360, 660, 380));
}

TEST(LiftBoxesTest, StretchedTileHasTwoScales) {
  LiftSpec spec;
  spec.crop = {0, 0, 300, 200};
  spec.tile = {512, 512};
  EXPECT_EQ(Lift(spec, Box(0.5f, 0.5f, 1, 1)), Box(150, 100, 300, 200));
  spec.pixels = true;
  EXPECT_EQ(Lift(spec, Box(256, 256, 512, 512)), Box(150, 100, 300, 200));
}

// Bug case A-03: boxes slightly outside the tile.
TEST(LiftBoxesTest, BoxesOutsideAreCutAtTheFrame) {
  LiftSpec spec;
  spec.tile = {1100, 1100};
  spec.crop = {0, 0, 1100, 1100};
  spec.pixels = true;
  spec.frame = Size{14300, 10400};
  EXPECT_EQ(Lift(spec, Box(-3, -2, 10, 10)), Box(0, 0, 10, 10));
  spec.crop = {13200, 9300, 1100, 1100};
  EXPECT_EQ(Lift(spec, Box(1000, 1000, 1103, 1101)),
            Box(14200, 10300, 14300, 10400));
  // An inner tile's box may reach into its neighbour, but with no frame given
  // it ends with the crop.
  spec.crop = {1000, 1000, 1100, 1100};
  EXPECT_EQ(Lift(spec, Box(1000, 1000, 1103, 1101)),
            Box(2000, 2000, 2103, 2101));
  spec.frame.reset();
  EXPECT_EQ(Lift(spec, Box(1000, 1000, 1103, 1101)),
            Box(2000, 2000, 2100, 2100));
}

TEST(LiftBoxesTest, CornersComeInEitherOrder) {
  LiftSpec spec;
  spec.crop = {10, 20, 100, 100};
  EXPECT_EQ(Lift(spec, Box(1, 0.5f, 0.25f, 0)), Box(35, 20, 110, 70));
}

TEST(LiftBoxesTest, EveryTileOfAGridLiftsItsCorners) {
  for (const Fit fit : {Fit::kStretch, Fit::kLetterbox}) {
    for (const Size frame : {Size{641, 333}, Size{300, 2000}, Size{50, 40}}) {
      TileGridSpec grid;
      grid.tile = {320, 256};
      grid.fit = fit;
      const auto plan = PlanTiles(frame, grid);
      ASSERT_TRUE(plan.ok());
      for (const TilePlacement& tile : plan->tiles) {
        LiftSpec spec;
        spec.crop = tile.crop;
        spec.content = tile.content;
        spec.tile = grid.tile;
        spec.frame = frame;
        const auto at = [](int value, int size) {
          return static_cast<float>(value) / static_cast<float>(size);
        };
        const Rect& c = tile.content;
        const Detection box =
            Lift(spec, Box(at(c.x, 320), at(c.y, 256), at(c.x + c.width, 320),
                           at(c.y + c.height, 256)));
        EXPECT_NEAR(box.x0, tile.crop.x, 1e-3);
        EXPECT_NEAR(box.y0, tile.crop.y, 1e-3);
        EXPECT_NEAR(box.x1, tile.crop.x + tile.crop.width, 1e-3);
        EXPECT_NEAR(box.y1, tile.crop.y + tile.crop.height, 1e-3);
      }
    }
  }
}

TEST(LiftBoxesTest, BadInputNamesItsField) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  LiftSpec good;
  good.crop = {0, 0, 640, 640};
  good.tile = {640, 640};
  EXPECT_EQ(FieldOf(good, Box(nan, 0, 1, 1)), "boxes[1].x0");
  EXPECT_EQ(FieldOf(good, Box(0, -infinity, 1, 1)), "boxes[1].y0");
  // Pixels taken for normalised coordinates.
  EXPECT_EQ(FieldOf(good, Box(0, 0, 1, 320)), "boxes[1].y1");
  Detection unscored = Box(0, 0, 1, 1);
  unscored.score = nan;
  EXPECT_EQ(FieldOf(good, unscored), "boxes[1].score");
  const Detection box = Box(0, 0, 1, 1);
  LiftSpec bad = good;
  bad.crop.width = 0;
  EXPECT_EQ(FieldOf(bad, box), "placement.crop");
  bad.crop = {0, 0, 640, 17000};
  EXPECT_EQ(FieldOf(bad, box), "placement.crop");
  bad = good;
  bad.frame = Size{639, 640};
  EXPECT_EQ(FieldOf(bad, box), "placement.crop");
  bad.frame = Size{0, 640};
  EXPECT_EQ(FieldOf(bad, box), "frame");
  bad = good;
  bad.content = Rect{0, 0, 641, 640};
  EXPECT_EQ(FieldOf(bad, box), "placement.content");
  bad = good;
  bad.tile = {0, 640};
  EXPECT_EQ(FieldOf(bad, box), "tile");
  bad.tile = {};
  bad.pixels = true;
  EXPECT_EQ(FieldOf(bad, box), "tile");
}

TEST(LiftBoxesTest, TooManyBoxesAreRefused) {
  LiftSpec spec;
  spec.crop = {0, 0, 640, 640};
  std::vector<Detection> boxes(kMaxDetections + 1);
  EXPECT_EQ(GetErrorDetail(LiftBoxes(spec, boxes))->reason,
            ErrorReason::kTooLarge);
  boxes.pop_back();
  EXPECT_TRUE(LiftBoxes(spec, boxes).ok());
}

}  // namespace
}  // namespace preprocd
