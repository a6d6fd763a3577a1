// Which plans can run on a smaller picture, and what becomes of their
// rectangles.
#include "engine/convert/shrunk_plan.h"

#include <gtest/gtest.h>

#include "engine/convert/planner.h"

namespace preprocd {
namespace {

ImageDesc Desc(PixelFormat format, int width, int height) {
  ImageDesc desc = MakeImageDesc(format, DType::kU8, width, height).value();
  desc.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  return desc;
}

ConvertPlan Plan(const ConvertSpec& spec, Size from, Size to) {
  const auto plan =
      PlanConvert(Desc(PixelFormat::kNv12, from.width, from.height),
                  Desc(PixelFormat::kRgb, to.width, to.height), spec, true);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return plan.value();
}

TEST(ShrunkPlanTest, TheLargestShrinkLeavesEnoughPixels) {
  const ConvertSpec spec;
  EXPECT_EQ(LargestShrink(Plan(spec, {640, 480}, {80, 60})), 8);
  EXPECT_EQ(LargestShrink(Plan(spec, {640, 480}, {81, 60})), 4);
  EXPECT_EQ(LargestShrink(Plan(spec, {640, 480}, {320, 240})), 2);
  EXPECT_EQ(LargestShrink(Plan(spec, {640, 480}, {320, 241})), 1);
  EXPECT_EQ(LargestShrink(Plan(spec, {640, 480}, {1280, 60})), 1);
  ConvertSpec letterbox;
  letterbox.fit = Fit::kLetterbox;
  EXPECT_EQ(LargestShrink(Plan(letterbox, {1920, 1080}, {640, 640})), 2);
}

TEST(ShrunkPlanTest, RectanglesHaveToDivideOrReachTheEdge) {
  ConvertSpec spec;
  spec.source_rect = Rect{16, 8, 320, 240};
  EXPECT_EQ(LargestShrink(Plan(spec, {641, 481}, {20, 20})), 8);
  spec.source_rect = Rect{16, 4, 320, 240};
  EXPECT_EQ(LargestShrink(Plan(spec, {641, 481}, {20, 20})), 4);
  spec.source_rect = Rect{16, 8, 321, 240};
  EXPECT_EQ(LargestShrink(Plan(spec, {641, 481}, {20, 20})), 1);
  spec.source_rect = Rect{320, 8, 321, 240};
  EXPECT_EQ(LargestShrink(Plan(spec, {641, 481}, {20, 20})), 8);
  // A cover cuts the ragged edge off, and a mirror would bring it to the front.
  spec.fit = Fit::kCover;
  EXPECT_EQ(LargestShrink(Plan(spec, {641, 481}, {20, 20})), 1);
}

TEST(ShrunkPlanTest, RectanglesShrinkAndTheRestStays) {
  ConvertSpec spec;
  spec.source_rect = Rect{16, 8, 625, 473};
  spec.orientation = Orientation::kRotate90;
  spec.fit = Fit::kLetterbox;
  spec.filter = Filter::kArea;
  const ConvertPlan plan = Plan(spec, {641, 481}, {100, 120});
  ASSERT_EQ(LargestShrink(plan), 4);
  const auto small = ShrunkPlan(plan, 4, PixelFormat::kNv24);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->source.format, PixelFormat::kNv24);
  EXPECT_EQ(small->source.width, 161);
  EXPECT_EQ(small->source.height, 121);
  EXPECT_EQ(small->source.color, plan.source.color);
  EXPECT_EQ(small->source_rect, (Rect{4, 2, 157, 119}));
  EXPECT_EQ(small->oriented, (Size{119, 157}));
  EXPECT_EQ(small->placement.shown, (Rect{0, 0, 119, 157}));
  EXPECT_EQ(small->placement.destination, plan.placement.destination);
  EXPECT_EQ(small->filter, Filter::kArea);
  EXPECT_EQ(small->orientation, Orientation::kRotate90);
  EXPECT_TRUE(small->has_padding);
  EXPECT_FALSE(small->same_size);
}

}  // namespace
}  // namespace preprocd
