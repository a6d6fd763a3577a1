// What is refused before anything is written, and where boxes land.
#include "engine/masks/mask_plan.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

constexpr MaskBox kBox = {0.1f, 0.2f, 0.5f, 0.6f};

struct Request {
  PrototypeTensor prototypes{nullptr, DType::kF32, false, 160, 160, 32, {}};
  CoefficientTensor coefficients{nullptr, DType::kF32, 1, 32, {}};
  std::vector<MaskBox> boxes = std::vector<MaskBox>(1, kBox);
  MaskSpec spec;

  absl::Status Plan() {
    return PlanMasks(prototypes, coefficients, boxes, spec, plan);
  }
  void ExpectRefused(const std::string& field, ErrorReason reason) {
    const absl::Status status = Plan();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field;
    const auto detail = GetErrorDetail(status);
    ASSERT_TRUE(detail.has_value()) << field;
    EXPECT_EQ(detail->field, field) << status;
    EXPECT_EQ(detail->reason, reason) << status;
  }

  MaskPlan plan;
};

TEST(MaskPlanTest, RefusesTensorsThatDoNotBelongTogether) {
  Request r;
  r.coefficients.channels = 31;
  r.ExpectRefused("coefficients.shape", ErrorReason::kGeometryInvalid);
  r = Request();
  r.boxes.push_back({0, 0, 1, 1});
  r.ExpectRefused("boxes", ErrorReason::kFieldInvalid);
  r = Request();
  r.coefficients.rows = 2;
  r.ExpectRefused("boxes", ErrorReason::kFieldInvalid);
  r = Request();
  r.prototypes.height = 0;
  r.ExpectRefused("prototypes.shape", ErrorReason::kGeometryInvalid);
  r = Request();
  r.prototypes.channels = kMaxPrototypes + 1;
  r.ExpectRefused("prototypes.shape", ErrorReason::kTooLarge);
  r = Request();
  r.prototypes.dtype = DType::kU16;
  r.ExpectRefused("prototypes.dtype", ErrorReason::kFieldInvalid);
  r = Request();
  r.coefficients.dtype = DType::kBf16;
  r.ExpectRefused("coefficients.dtype", ErrorReason::kFieldInvalid);
}

TEST(MaskPlanTest, RefusesQuantisationThatMakesNoSense) {
  const std::vector<float> one = {0.5f};
  const std::vector<float> two = {0.5f, 0.5f};
  const std::vector<int32_t> far = {200};
  Request r;
  r.prototypes.dtype = DType::kI8;
  r.ExpectRefused("prototypes.scales", ErrorReason::kFieldInvalid);
  r.prototypes.quantization.scales = two;
  r.ExpectRefused("prototypes.scales", ErrorReason::kFieldInvalid);
  r.prototypes.quantization = {one, far};
  r.ExpectRefused("prototypes.zero_points[0]", ErrorReason::kFieldInvalid);
  r = Request();
  r.coefficients.quantization.scales = one;
  r.ExpectRefused("coefficients.scales", ErrorReason::kFieldInvalid);
  r = Request();
  r.coefficients.dtype = DType::kI16;
  for (const float bad :
       {0.0f, -1.0f, std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const std::vector<float> scales = {bad};
    r.coefficients.quantization.scales = scales;
    r.ExpectRefused("coefficients.scales[0]", ErrorReason::kFieldInvalid);
  }
}

TEST(MaskPlanTest, RefusesBoxesThatAreNotInTheUnitSquare) {
  for (const float bad :
       {-0.001f, 1.001f, std::nanf(""), -INFINITY, INFINITY}) {
    Request r;
    r.boxes[0].x0 = bad;
    r.ExpectRefused("boxes[0].x0", ErrorReason::kFieldInvalid);
    r = Request();
    r.boxes[0].y1 = bad;
    r.ExpectRefused("boxes[0].y1", ErrorReason::kFieldInvalid);
  }
}

TEST(MaskPlanTest, RefusesSpecsThatContradictThemselves) {
  Request r;
  r.spec.content = Rect{0, 0, 10, 10};
  r.spec.input = {640, 640};
  r.ExpectRefused("content", ErrorReason::kFieldInvalid);
  r.spec.size = {64, 64};
  r.spec.content = Rect{600, 0, 41, 10};
  r.ExpectRefused("content", ErrorReason::kGeometryInvalid);
  r.spec.content = Rect{0, 0, 640, 360};
  r.spec.input = {};
  r.ExpectRefused("input", ErrorReason::kGeometryInvalid);
  r = Request();
  r.spec.size = {64, 0};
  r.ExpectRefused("size", ErrorReason::kGeometryInvalid);
  r.spec.size = {64, 20000};
  r.ExpectRefused("size", ErrorReason::kTooLarge);
  r = Request();
  r.spec.dtype = DType::kF32;
  r.ExpectRefused("dtype", ErrorReason::kFieldInvalid);
  r = Request();
  r.spec.semantic = true;
  r.ExpectRefused("boxes", ErrorReason::kFieldInvalid);
}

TEST(MaskPlanTest, RefusesMoreWorkThanOneCallMayDo) {
  Request r;
  r.spec.size = {16384, 16384};
  r.boxes.assign(64, MaskBox{0, 0, 1, 1});
  r.coefficients.rows = 64;
  r.ExpectRefused("boxes", ErrorReason::kTooLarge);
}

TEST(MaskPlanTest, RefusesMoreClassesTimesPixelsThanOneCallMayDo) {
  Request r;
  r.boxes.clear();
  r.coefficients = {};
  r.spec.semantic = true;
  r.prototypes.channels = 16;
  r.spec.size = {8192, 8192};
  EXPECT_TRUE(r.Plan().ok());
  r.prototypes.channels = 17;
  r.ExpectRefused("size", ErrorReason::kTooLarge);
}

TEST(MaskPlanTest, BoxesRoundOutwardsOnThePrototypeGrid) {
  Request r;
  r.boxes = {
      {0.25f, 0.5f, 0.501f, 0.75f}, {1, 1, 1, 1}, {0.5f, 0.5f, 0.25f, 0.25f}};
  r.coefficients.rows = 3;
  ASSERT_TRUE(r.Plan().ok());
  EXPECT_EQ(r.plan.masks[0].box, (Rect{40, 80, 41, 40}));
  EXPECT_EQ(r.plan.masks[1].box, (Rect{159, 159, 1, 1}));
  EXPECT_EQ(r.plan.masks[2].box, (Rect{40, 40, 40, 40}));
  EXPECT_EQ(r.plan.masks[1].offset_bytes, 41u * 40);
  EXPECT_EQ(r.plan.size_bytes, 41u * 40 + 1 + 40 * 40);
}

TEST(MaskPlanTest, ScaledBoxesGoThroughTheInverseLetterbox) {
  Request r;
  r.spec.size = {1920, 1080};
  r.spec.content = Rect{0, 140, 640, 360};
  r.spec.input = {640, 640};
  r.boxes = {{0.25f, 140 / 640.0f, 0.5f, 0.5f}, {0, 0, 0.5f, 0.1f}};
  r.coefficients.rows = 2;
  ASSERT_TRUE(r.Plan().ok());
  EXPECT_EQ(r.plan.masks[0].box, (Rect{480, 0, 480, 540}));
  // Wholly in the padding: one row at the border is kept.
  EXPECT_EQ(r.plan.masks[1].box, (Rect{0, 0, 960, 1}));
}

TEST(MaskPlanTest, NoBoxesIsNoMask) {
  Request r;
  r.boxes.clear();
  r.coefficients = {};
  ASSERT_TRUE(r.Plan().ok());
  EXPECT_EQ(r.plan.masks.size(), 0u);
  EXPECT_EQ(r.plan.size_bytes, 0u);
}

TEST(MaskPlanTest, TapsNeverReadThePadding) {
  Request r;
  r.spec.size = {1279, 721};
  r.spec.content = Rect{0, 139, 640, 361};
  r.spec.input = {640, 640};
  ASSERT_TRUE(r.Plan().ok());
  // Content rows 139..500 touch prototype rows 34..124.
  EXPECT_EQ(r.plan.y.tap.front(), 34);
  EXPECT_EQ(r.plan.y.tap.back(), 124);
  EXPECT_EQ(r.plan.y.fraction.back(), 0);
}

TEST(MaskPlanTest, HalvesAreExact) {
  EXPECT_EQ(HalfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(HalfToFloat(0xc000), -2.0f);
  EXPECT_EQ(HalfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(HalfToFloat(0x7bff), 65504.0f);
  EXPECT_TRUE(std::isinf(HalfToFloat(0x7c00)));
  EXPECT_TRUE(std::isnan(HalfToFloat(0x7e00)));
  EXPECT_TRUE(std::signbit(HalfToFloat(0x8000)));
}

}  // namespace
}  // namespace preprocd
