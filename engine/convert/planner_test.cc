#include "engine/convert/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

ImageDesc Desc(PixelFormat format, int width, int height,
               DType dtype = DType::kU8) {
  return *MakeImageDesc(format, dtype, width, height);
}

ErrorDetail DetailOf(const absl::Status& status) {
  EXPECT_FALSE(status.ok());
  return GetErrorDetail(status).value_or(ErrorDetail{});
}

Capabilities AllOf(absl::string_view name, int rank) {
  Capabilities c;
  c.name = name;
  c.rank = rank;
  c.sources = {PixelFormat::kGrey, PixelFormat::kRgb, PixelFormat::kNv12,
               PixelFormat::kPlanarRgb};
  c.destinations = c.sources;
  c.source_dtypes = {DType::kU8};
  c.destination_dtypes = {DType::kU8, DType::kF32};
  c.filters = {Filter::kNearest, Filter::kBilinear};
  c.orientations = {Orientation::kNormal, Orientation::kRotate90};
  c.precisions = {Precision::kEightBit};
  c.numerics = {Numerics::kDefault};
  return c;
}

TEST(PlannerTest, DefaultsAreResolved) {
  const auto plan = PlanConvert(Desc(PixelFormat::kNv12, 1280, 720),
                                Desc(PixelFormat::kRgb, 640, 640), {}, false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->filter, Filter::kBilinear);
  EXPECT_EQ(plan->chroma, ChromaUpsampling::kReplicate);
  EXPECT_EQ(plan->precision, Precision::kEightBit);
  EXPECT_EQ(plan->source.color.matrix, MatrixCoefficients::kBt709);
  EXPECT_EQ(plan->source.color.range, ColorRange::kLimited);
  EXPECT_FALSE(plan->has_padding);
  EXPECT_FALSE(plan->normalize);
  EXPECT_EQ(PlanConvert(Desc(PixelFormat::kNv12, 64, 64),
                        Desc(PixelFormat::kRgb, 64, 64), {}, true)
                ->chroma,
            ChromaUpsampling::kFancy);
}

TEST(PlannerTest, LetterboxUsesTheOrientedAspect) {
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  spec.orientation = Orientation::kRotate90;
  const auto plan = PlanConvert(Desc(PixelFormat::kRgb, 1280, 720),
                                Desc(PixelFormat::kRgb, 640, 640), spec, false);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->oriented, (Size{720, 1280}));
  EXPECT_EQ(plan->placement.destination, (Rect{140, 0, 360, 640}));
  EXPECT_TRUE(plan->has_padding);
}

// The map carries stored pixels into the destination for every orientation,
// crop and fit: corners of what is shown meet corners of the placement.
TEST(PlannerTest, MapAgreesWithThePlacement) {
  for (int value = 1; value <= 8; ++value) {
    for (const Fit fit : {Fit::kStretch, Fit::kLetterbox, Fit::kCover}) {
      ConvertSpec spec;
      spec.orientation = static_cast<Orientation>(value);
      spec.fit = fit;
      spec.source_rect = Rect{10, 20, 200, 100};
      const auto plan =
          PlanConvert(Desc(PixelFormat::kRgb, 320, 240),
                      Desc(PixelFormat::kRgb, 97, 61), spec, false);
      ASSERT_TRUE(plan.ok());
      const Rect& s = plan->shown_stored;
      EXPECT_TRUE(ValidateRectInside(s, {320, 240}, "shown").ok());
      const AffineMap& m = plan->map;
      double min_x = 1e9, max_x = -1e9, min_y = 1e9, max_y = -1e9;
      for (const int x : {s.x, s.x + s.width}) {
        for (const int y : {s.y, s.y + s.height}) {
          const double u = m.xx * x + m.xy * y + m.x0;
          const double v = m.yx * x + m.yy * y + m.y0;
          min_x = std::min(min_x, u);
          max_x = std::max(max_x, u);
          min_y = std::min(min_y, v);
          max_y = std::max(max_y, v);
        }
      }
      const Rect& p = plan->placement.destination;
      EXPECT_NEAR(min_x, p.x, 1e-9) << value;
      EXPECT_NEAR(max_x, p.x + p.width, 1e-9) << value;
      EXPECT_NEAR(min_y, p.y, 1e-9) << value;
      EXPECT_NEAR(max_y, p.y + p.height, 1e-9) << value;
    }
  }
}

TEST(PlannerTest, FloatsAreScaledToOneUnlessTold) {
  const ImageDesc source = Desc(PixelFormat::kRgb, 8, 8);
  const ImageDesc f32 = Desc(PixelFormat::kRgb, 8, 8, DType::kF32);
  auto plan = PlanConvert(source, f32, {}, false);
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->normalize);
  EXPECT_DOUBLE_EQ(plan->normalization.multiplier[2], 1 / 255.0);
  ConvertSpec spec;
  spec.normalization = Normalization{};
  spec.normalization->offset = {1, 2, 3, 0};
  plan = PlanConvert(source, f32, spec, false);
  EXPECT_EQ(plan->normalization.offset[1], 2);
  // A normalised integer is rounded like a quantised one.
  plan = PlanConvert(source, Desc(PixelFormat::kRgb, 8, 8), spec, false);
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->quantization, Quantization{});
}

TEST(PlannerTest, BadNumbersAreRefusedWithTheirField) {
  const ImageDesc source = Desc(PixelFormat::kRgb, 8, 8);
  const ImageDesc i8 = Desc(PixelFormat::kRgb, 8, 8, DType::kI8);
  for (const double bad : {std::numeric_limits<double>::quiet_NaN(),
                           std::numeric_limits<double>::infinity(), 0.0}) {
    ConvertSpec spec;
    spec.normalization = Normalization{};
    spec.normalization->multiplier[1] = bad;
    EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
              "spec.normalization.multiplier[1]");
    spec.normalization.reset();
    spec.quantization = Quantization{bad, 0};
    EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
              "spec.quantization.multiplier");
  }
  ConvertSpec spec;
  spec.quantization = Quantization{1, 128};
  EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
            "spec.quantization.zero_point");
  EXPECT_EQ(
      DetailOf(PlanConvert(source, Desc(PixelFormat::kRgb, 8, 8, DType::kF32),
                           spec, false)
                   .status())
          .field,
      "spec.quantization");
  spec = {};
  spec.source_rect = Rect{4, 4, 5, 4};
  EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
            "spec.source_rect");
  spec = {};
  spec.fit = Fit::kPlace;
  EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
            "spec.place");
  spec = {};
  spec.orientation = static_cast<Orientation>(9);
  EXPECT_EQ(DetailOf(PlanConvert(source, i8, spec, false).status()).field,
            "spec.orientation");
  ImageDesc wrong = source;
  wrong.width = 0;
  EXPECT_EQ(DetailOf(PlanConvert(wrong, i8, {}, false).status()).field,
            "source.width");
  EXPECT_EQ(DetailOf(PlanConvert(source, wrong, {}, false).status()).field,
            "destination.width");
}

TEST(PlannerTest, WhatIsNotBuiltSaysSo) {
  ConvertSpec spec;
  spec.numerics = Numerics::kEv74;
  const ImageDesc rgb = Desc(PixelFormat::kRgb, 8, 8);
  EXPECT_EQ(DetailOf(PlanConvert(rgb, rgb, spec, false).status()).reason,
            ErrorReason::kNotBuilt);
  OutputSpec output;
  output.layout = TensorLayout::kTiledCompact;
  EXPECT_EQ(DetailOf(ResolveDestination(rgb, output, {}).status()).reason,
            ErrorReason::kNotBuilt);
}

TEST(PlannerTest, DestinationIsResolvedFromTheSource) {
  const ImageDesc source = Desc(PixelFormat::kRgb, 64, 32);
  ConvertSpec spec;
  spec.orientation = Orientation::kRotate90;
  OutputSpec output;
  output.layout = TensorLayout::kChw;
  output.dtype = DType::kF16;
  const auto desc = ResolveDestination(source, output, spec);
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_EQ(desc->format, PixelFormat::kPlanarRgb);
  EXPECT_EQ(desc->dtype, DType::kF16);
  EXPECT_EQ(desc->width, 32);
  EXPECT_EQ(desc->height, 64);
  spec.fit = Fit::kPlace;
  EXPECT_FALSE(ResolveDestination(source, output, spec).ok());
}

TEST(SelectBackendTest, RankOrderAndDeclinesWithReasons) {
  Capabilities best = AllOf("best", 1);
  best.sources = {PixelFormat::kGrey};
  Capabilities off = AllOf("off", 0);
  off.available = false;
  off.detail = "no device";
  const Capabilities second = AllOf("second", 2);
  const Capabilities hidden = AllOf("hidden", -1);
  const std::vector<const Capabilities*> all = {&hidden, &second, &best, &off};
  auto plan = PlanConvert(Desc(PixelFormat::kRgb, 8, 8),
                          Desc(PixelFormat::kRgb, 4, 4), {}, false);
  ASSERT_TRUE(SelectBackend(all, {}, *plan).ok());
  EXPECT_EQ(plan->backend, "second");
  ASSERT_EQ(plan->declines.size(), 2u);
  EXPECT_EQ(plan->declines[0].reason, "no device");
  EXPECT_EQ(plan->declines[1].reason, "source rgb is not supported");
  EXPECT_EQ(plan->ranking.size(), 3u);

  ConvertSpec named;
  named.backends = {"hidden"};
  ASSERT_TRUE(SelectBackend(all, named, *plan).ok());
  EXPECT_EQ(plan->backend, "hidden");
  named.backends = {"nobody"};
  EXPECT_EQ(DetailOf(SelectBackend(all, named, *plan)).reason,
            ErrorReason::kBackendUnknown);
  named.backends = {"best"};
  const absl::Status none = SelectBackend(all, named, *plan);
  EXPECT_EQ(none.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(DetailOf(none).reason, ErrorReason::kNoBackend);
  EXPECT_NE(none.message().find("source rgb"), absl::string_view::npos);
}

TEST(PadValuesTest, GoThroughTheDestinationsFamily) {
  ConvertSpec spec;
  spec.pad = PadColor{255, 0, 0, 7};
  const auto pad = [&](PixelFormat format) {
    return PadValues(*PlanConvert(Desc(PixelFormat::kRgb, 8, 8),
                                  Desc(format, 8, 8), spec, false));
  };
  EXPECT_EQ(pad(PixelFormat::kRgba)[3], 7);
  EXPECT_EQ(pad(PixelFormat::kGrey)[0], 76);  // .299 * 255
  // BT.601 limited red: 81, 90, 240.
  EXPECT_EQ(pad(PixelFormat::kNv12)[0], 81);
  EXPECT_EQ(pad(PixelFormat::kNv12)[1], 90);
  EXPECT_EQ(pad(PixelFormat::kNv12)[2], 240);
}

}  // namespace
}  // namespace preprocd
