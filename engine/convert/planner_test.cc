#include "engine/convert/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
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
  c.fits = {Fit::kStretch, Fit::kLetterbox};
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

// Without resampling every stored pixel's centre lands on the centre of the
// destination pixel that the orientation names, and comes back.
TEST(PlannerTest, MapCarriesPixelCentres) {
  const Rect crop = {3, 5, 7, 4};
  for (int value = 1; value <= 8; ++value) {
    ConvertSpec spec;
    spec.orientation = static_cast<Orientation>(value);
    spec.source_rect = crop;
    const Size upright = OrientedSize(spec.orientation, crop.size());
    spec.fit = Fit::kPlace;
    spec.place = Rect{2, 1, upright.width, upright.height};
    const auto plan = PlanConvert(Desc(PixelFormat::kRgb, 20, 16),
                                  Desc(PixelFormat::kRgb, 16, 16), spec, false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(plan->same_size);
    EXPECT_EQ(plan->shown_stored, crop);
    const OrientationMap o = GetOrientationMap(spec.orientation, crop.size());
    const AffineMap& m = plan->map;
    const AffineMap back = Invert(m);
    for (int y = 0; y < upright.height; ++y) {
      for (int x = 0; x < upright.width; ++x) {
        const double sx = crop.x + o.xx * x + o.xy * y + o.x0 + .5;
        const double sy = crop.y + o.yx * x + o.yy * y + o.y0 + .5;
        const double u = m.xx * sx + m.xy * sy + m.x0;
        const double v = m.yx * sx + m.yy * sy + m.y0;
        EXPECT_NEAR(u, x + 2.5, 1e-9) << value;
        EXPECT_NEAR(v, y + 1.5, 1e-9) << value;
        EXPECT_NEAR(back.xx * u + back.xy * v + back.x0, sx, 1e-9) << value;
        EXPECT_NEAR(back.yx * u + back.yy * v + back.y0, sy, 1e-9) << value;
      }
    }
  }
}

// Cover cuts the oriented rectangle; the cut must be found in stored pixels.
TEST(PlannerTest, CoverCutsTheStoredSideThatIsUprightWide) {
  ConvertSpec spec;
  spec.fit = Fit::kCover;
  const auto shown = [&](int orientation) {
    spec.orientation = static_cast<Orientation>(orientation);
    return PlanConvert(Desc(PixelFormat::kRgb, 10, 5),
                       Desc(PixelFormat::kRgb, 4, 4), spec, false)
        ->shown_stored;
  };
  // Rest 5: two columns left of it upright, three right.
  EXPECT_EQ(shown(1), (Rect{2, 0, 5, 5}));
  EXPECT_EQ(shown(2), (Rect{3, 0, 5, 5}));  // mirrored
  EXPECT_EQ(shown(3), (Rect{3, 0, 5, 5}));
  EXPECT_EQ(shown(4), (Rect{2, 0, 5, 5}));
  EXPECT_EQ(shown(5), (Rect{2, 0, 5, 5}));  // transposed: x is upright y
  EXPECT_EQ(shown(6), (Rect{2, 0, 5, 5}));  // 90: top row was the left column
  EXPECT_EQ(shown(7), (Rect{3, 0, 5, 5}));
  EXPECT_EQ(shown(8), (Rect{3, 0, 5, 5}));
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

TEST(PlannerTest, UnknownEnumerationsAreRefusedWithTheirField) {
  const ImageDesc rgb = Desc(PixelFormat::kRgb, 8, 8);
  const auto field = [&](const ConvertSpec& spec, ImageDesc source = {}) {
    if (source.width == 0) source = rgb;
    return DetailOf(PlanConvert(source, rgb, spec, false).status()).field;
  };
  ConvertSpec spec;
  spec.fit = static_cast<Fit>(200);
  EXPECT_EQ(field(spec), "spec.fit");
  spec = {};
  spec.letterbox_rule = static_cast<LetterboxRule>(200);
  EXPECT_EQ(field(spec), "spec.letterbox_rule");
  spec = {};
  spec.filter = static_cast<Filter>(200);
  EXPECT_EQ(field(spec), "spec.filter");
  spec = {};
  spec.chroma = static_cast<ChromaUpsampling>(200);
  EXPECT_EQ(field(spec), "spec.chroma");
  spec = {};
  spec.precision = static_cast<Precision>(200);
  EXPECT_EQ(field(spec), "spec.precision");
  spec = {};
  spec.numerics = static_cast<Numerics>(200);
  EXPECT_EQ(field(spec), "spec.numerics");
  ImageDesc source = rgb;
  source.color.matrix = static_cast<MatrixCoefficients>(200);
  EXPECT_EQ(field({}, source), "source.color.matrix");
  source.color = {MatrixCoefficients::kBt601, static_cast<ColorRange>(200)};
  EXPECT_EQ(field({}, source), "source.color.range");
  OutputSpec output;
  output.layout = static_cast<TensorLayout>(200);
  EXPECT_EQ(DetailOf(ResolveDestination(rgb, output, {}).status()).field,
            "destination.tensor_layout");
}

TEST(PlannerTest, SourcesAreBytesOnly) {
  const ImageDesc rgb = Desc(PixelFormat::kRgb, 8, 8);
  for (const DType dtype : {DType::kU16, DType::kF16, DType::kF32}) {
    const absl::Status status =
        PlanConvert(Desc(PixelFormat::kRgb, 8, 8, dtype), rgb, {}, false)
            .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_EQ(DetailOf(status).field, "source.dtype");
  }
  EXPECT_TRUE(
      PlanConvert(Desc(PixelFormat::kRgb, 8, 8, DType::kI8), rgb, {}, false)
          .ok());
}

// A layout that the format cannot have must not be answered with another.
TEST(PlannerTest, LayoutsExistForGreyAndRgbOnly) {
  const ImageDesc source = Desc(PixelFormat::kRgb, 8, 8);
  const struct {
    PixelFormat asked;
    TensorLayout layout;
    PixelFormat got;  // kUnspecified: refused
  } cases[] = {
      {PixelFormat::kRgb, TensorLayout::kChw, PixelFormat::kPlanarRgb},
      {PixelFormat::kBgr, TensorLayout::kChw, PixelFormat::kPlanarBgr},
      {PixelFormat::kRgba, TensorLayout::kChw, PixelFormat::kPlanarRgba},
      {PixelFormat::kBgra, TensorLayout::kChw, PixelFormat::kUnspecified},
      {PixelFormat::kBgra, TensorLayout::kHwc, PixelFormat::kBgra},
      {PixelFormat::kPlanarBgr, TensorLayout::kHwc, PixelFormat::kBgr},
      {PixelFormat::kGrey, TensorLayout::kChw, PixelFormat::kGrey},
      {PixelFormat::kGrey, TensorLayout::kHwc, PixelFormat::kGrey},
      {PixelFormat::kNv12, TensorLayout::kUnspecified, PixelFormat::kNv12},
      {PixelFormat::kNv12, TensorLayout::kChw, PixelFormat::kUnspecified},
      {PixelFormat::kYuyv, TensorLayout::kHwc, PixelFormat::kUnspecified},
  };
  for (const auto& c : cases) {
    OutputSpec output;
    output.format = c.asked;
    output.layout = c.layout;
    const auto desc = ResolveDestination(source, output, {});
    if (c.got == PixelFormat::kUnspecified) {
      EXPECT_EQ(DetailOf(desc.status()).reason, ErrorReason::kFormatPair);
      continue;
    }
    ASSERT_TRUE(desc.ok()) << desc.status();
    EXPECT_EQ(desc->format, c.got);
  }
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

TEST(WhyNotTest, NamesTheFirstThingThatIsMissing) {
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  const ConvertPlan plan =
      *PlanConvert(Desc(PixelFormat::kRgb, 100, 50),
                   Desc(PixelFormat::kNv12, 40, 40), spec, false);
  Capabilities c = AllOf("c", 1);
  EXPECT_EQ(WhyNot(c, plan), std::nullopt);
  const auto without = [&](auto member, auto value) {
    Capabilities less = c;
    less.*member = value;
    return WhyNot(less, plan).value_or("");
  };
  EXPECT_EQ(without(&Capabilities::sources, EnumSet<PixelFormat>()),
            "source rgb is not supported");
  EXPECT_EQ(without(&Capabilities::source_dtypes, EnumSet<DType>()),
            "source type u8 is not supported");
  EXPECT_EQ(without(&Capabilities::destinations,
                    EnumSet<PixelFormat>{PixelFormat::kRgb}),
            "destination nv12 is not supported");
  EXPECT_EQ(
      without(&Capabilities::destination_dtypes, EnumSet<DType>{DType::kF32}),
      "destination type u8 is not supported");
  EXPECT_EQ(without(&Capabilities::filters, EnumSet<Filter>{Filter::kNearest}),
            "filter bilinear is not supported");
  EXPECT_EQ(without(&Capabilities::orientations, EnumSet<Orientation>()),
            "orientation 1 is not supported");
  EXPECT_EQ(without(&Capabilities::fits, EnumSet<Fit>{Fit::kStretch}),
            "fit letterbox is not supported");
  EXPECT_EQ(without(&Capabilities::precisions, EnumSet<Precision>()),
            "precision eight-bit is not supported");
  EXPECT_EQ(without(&Capabilities::numerics, EnumSet<Numerics>()),
            "numerics default is not supported");
  EXPECT_EQ(without(&Capabilities::max_axis, 99), "axis 100 > 99");
  c.decline = [](const ConvertPlan&) -> std::optional<std::string> {
    return "width 40 < 64";
  };
  EXPECT_EQ(WhyNot(c, plan), "width 40 < 64");
}

TEST(WhyNotTest, TheFilterDoesNotMatterWithoutResampling) {
  const ConvertPlan plan = *PlanConvert(
      Desc(PixelFormat::kRgb, 8, 8), Desc(PixelFormat::kRgb, 8, 8), {}, false);
  Capabilities c = AllOf("c", 1);
  c.filters = {Filter::kNearest};
  EXPECT_EQ(WhyNot(c, plan), std::nullopt);
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
