#include "engine/image/tile_grid.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

struct AxisCase {
  int frame;
  int tile;
  float overlap;
  std::vector<int> origins;
};

// Hand-computed in single precision; the 1664 row tells step 511 from 512.
const AxisCase kAxisCases[] = {
    {1920, 640, .1f, {0, 427, 853, 1280}},
    {1920, 640, .2f, {0, 427, 853, 1280}},
    {3840, 640, .2f, {0, 457, 914, 1371, 1829, 2286, 2743, 3200}},
    {2160, 640, .2f, {0, 507, 1013, 1520}},
    {1080, 640, .2f, {0, 440}},
    {1280, 640, .2f, {0, 320, 640}},
    {720, 640, .2f, {0, 80}},
    {1664, 640, .2f, {0, 341, 683, 1024}},
    {641, 640, .2f, {0, 1}},
    {640, 640, .2f, {0}},
    {400, 640, .2f, {0}},
    {1920, 640, .0f, {0, 640, 1280}},
    {1920, 640, .5f, {0, 320, 640, 960, 1280}},
    {4000, 1024, .25f, {0, 744, 1488, 2232, 2976}},
    {3840, 1280, .2f, {0, 853, 1707, 2560}},
    {2160, 1280, .2f, {0, 880}},
    {1000, 300, 1.0f / 3, {0, 175, 350, 525, 700}},
};

TEST(TileGridTest, AxisOriginsFollowTheFormula) {
  for (const AxisCase& c : kAxisCases) {
    TileGridSpec spec;
    spec.tile = {c.tile, c.tile};
    spec.overlap = c.overlap;
    const auto wide = PlanTiles({c.frame, c.tile}, spec);
    ASSERT_TRUE(wide.ok()) << wide.status();
    const auto tall = PlanTiles({c.tile, c.frame}, spec);
    ASSERT_TRUE(tall.ok()) << tall.status();
    std::vector<int> x, y;
    for (const TilePlacement& t : wide->tiles) x.push_back(t.crop.x);
    for (const TilePlacement& t : tall->tiles) y.push_back(t.crop.y);
    EXPECT_EQ(x, c.origins) << c.frame << " " << c.tile << " " << c.overlap;
    EXPECT_EQ(y, c.origins) << c.frame << " " << c.tile << " " << c.overlap;
  }
}

TEST(TileGridTest, FourKIsEightByFourRowMajor) {
  TileGridSpec spec;
  spec.tile = {640, 640};
  const auto grid = PlanTiles({3840, 2160}, spec);
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(grid->columns, 8);
  EXPECT_EQ(grid->rows, 4);
  ASSERT_EQ(grid->tiles.size(), 32u);
  EXPECT_EQ(grid->tiles[9].row, 1);
  EXPECT_EQ(grid->tiles[9].column, 1);
  EXPECT_EQ(grid->tiles[9].crop, (Rect{457, 507, 640, 640}));
  EXPECT_EQ(grid->tiles[31].crop, (Rect{3200, 1520, 640, 640}));
}

// Every pixel of the frame is in a tile and no tile leaves it.
TEST(TileGridTest, TilesCoverTheFrameAndStayInside) {
  for (int frame = 1; frame < 700; frame += 13) {
    for (int tile : {1, 7, 64, 100}) {
      for (float overlap : {0.0f, 0.2f, 0.5f, 0.9f}) {
        TileGridSpec spec;
        spec.tile = {tile, 8};
        spec.overlap = overlap;
        const auto grid = PlanTiles({frame, 8}, spec);
        ASSERT_TRUE(grid.ok()) << grid.status();
        int covered = 0;
        for (const TilePlacement& t : grid->tiles) {
          ASSERT_LE(t.crop.x, covered);
          covered = t.crop.x + t.crop.width;
          ASSERT_LE(covered, frame);
        }
        ASSERT_EQ(covered, frame);
      }
    }
  }
}

TEST(TileGridTest, SmallFrameIsStretchedOrLetterboxed) {
  TileGridSpec spec;
  spec.tile = {640, 640};
  auto grid = PlanTiles({400, 200}, spec);
  ASSERT_TRUE(grid.ok());
  ASSERT_EQ(grid->tiles.size(), 1u);
  EXPECT_EQ(grid->tiles[0].crop, (Rect{0, 0, 400, 200}));
  EXPECT_EQ(grid->tiles[0].content, (Rect{0, 0, 640, 640}));
  spec.fit = Fit::kLetterbox;
  grid = PlanTiles({400, 200}, spec);
  ASSERT_TRUE(grid.ok());
  EXPECT_EQ(grid->tiles[0].content, (Rect{0, 160, 640, 320}));
}

TEST(TileGridTest, RefusesBadInputWithItsField) {
  TileGridSpec spec;
  spec.tile = {640, 640};
  EXPECT_EQ(GetErrorDetail(PlanTiles({0, 9}, spec).status())->field, "frame");
  for (float bad : {-0.1f, 1.0f, 2.0f, std::numeric_limits<float>::quiet_NaN(),
                    std::numeric_limits<float>::infinity()}) {
    spec.overlap = bad;
    EXPECT_EQ(GetErrorDetail(PlanTiles({99, 99}, spec).status())->field,
              "grid.overlap");
  }
  spec.overlap = 0.2f;
  spec.tile = {0, 640};
  EXPECT_EQ(GetErrorDetail(PlanTiles({99, 99}, spec).status())->field,
            "grid.tile");
  spec.tile = {1, 1};
  EXPECT_EQ(GetErrorDetail(PlanTiles({9999, 9999}, spec).status())->reason,
            ErrorReason::kTooLarge);
  spec.tile = {64, 64};
  spec.fit = Fit::kCover;
  EXPECT_EQ(GetErrorDetail(PlanTiles({99, 99}, spec).status())->field,
            "grid.fit");
}

}  // namespace
}  // namespace preprocd
