#include "client/cli/option_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "client/cli/exit_code.h"

namespace preprocd::cli {
namespace {

using ::testing::HasSubstr;

TEST(OptionValues, SizeNeedsTwoIntegers) {
  EXPECT_EQ(ParseSize("640x480")->width(), 640);
  EXPECT_EQ(ParseSize("640x480")->height(), 480);
  for (const std::string text : {"", "640", "640x", "x480", "640x480x3",
                                 "640,480", "6.4x4", "99999999999x1"}) {
    EXPECT_EQ(ExitCodeOf(ParseSize(text).status()), kExitUsage) << text;
  }
}

TEST(OptionValues, RectNeedsFourIntegers) {
  const auto rect = ParseRect("1,2,30,-4");
  ASSERT_TRUE(rect.ok());
  EXPECT_EQ(rect->x(), 1);
  EXPECT_EQ(rect->height(), -4);  // ranges are the daemon's
  EXPECT_FALSE(ParseRect("1,2,3").ok());
  EXPECT_FALSE(ParseRect("1,2,3,4,5").ok());
  EXPECT_FALSE(ParseRect("1,2,3,a").ok());
}

TEST(OptionValues, ColorTakesOneThreeOrFourBytes) {
  EXPECT_EQ(ParseColor("7")->b(), 7U);
  EXPECT_EQ(ParseColor("1,2,3")->a(), 255U);
  EXPECT_EQ(ParseColor("1,2,3,4")->a(), 4U);
  for (const std::string text : {"", "1,2", "1,2,256", "-1,2,3", "a,b,c"}) {
    EXPECT_FALSE(ParseColor(text).ok()) << text;
  }
}

TEST(OptionValues, NumbersMustBeFinite) {
  EXPECT_EQ(ParseNumbers("0.485,0.456,0.406")->at(1), 0.456);
  for (const std::string text : {"", "nan", "1,inf", "1,,2", "1,2,3,4,5"}) {
    EXPECT_FALSE(ParseNumbers(text).ok()) << text;
  }
}

TEST(OptionValues, QuantizationIsMultiplierAndZeroPoint) {
  EXPECT_EQ(ParseQuantization("127.5,-3")->multiplier(), 127.5);
  EXPECT_EQ(ParseQuantization("127.5,-3")->zero_point(), -3);
  EXPECT_FALSE(ParseQuantization("127.5").ok());
  EXPECT_FALSE(ParseQuantization("1,2.5").ok());
}

TEST(OptionValues, RawWithoutStrideLeavesThePlanesToTheDaemon) {
  const auto layout = ParseRaw("nv12:64x48");
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_EQ(layout->format(), v1::PIXEL_FORMAT_NV12);
  EXPECT_EQ(layout->planes_size(), 0);
}

TEST(OptionValues, RawStrideAndOffsetPlaceEveryPlane) {
  const auto layout = ParseRaw("nv12:62x47:stride=64:offset=100");
  ASSERT_TRUE(layout.ok()) << layout.status();
  ASSERT_EQ(layout->planes_size(), 2);
  EXPECT_EQ(layout->planes(0).offset_bytes(), 100U);
  EXPECT_EQ(layout->planes(0).stride_bytes(), 64U);
  EXPECT_EQ(layout->planes(1).offset_bytes(), 100U + 64 * 47);
  EXPECT_EQ(layout->planes(1).stride_bytes(), 64U);
  const auto i420 = ParseRaw("i420:62x47:stride=64");
  ASSERT_TRUE(i420.ok());
  EXPECT_EQ(i420->planes(2).offset_bytes(), 64U * 47 + 32 * 24);
  EXPECT_EQ(i420->planes(2).stride_bytes(), 32U);
}

TEST(OptionValues, RawRefusesWhatItDoesNotKnow) {
  for (const std::string text :
       {"nv12", "nv99:64x48", "nv12:64", "nv12:64x48:stride",
        "nv12:64x48:stride=-1", "nv12:64x48:pitch=64"}) {
    EXPECT_EQ(ExitCodeOf(ParseRaw(text).status()), kExitUsage) << text;
  }
}

TEST(OptionValues, LayoutTakesATileOnlyWhenItIsTiled) {
  EXPECT_EQ(ParseLayout("chw")->layout, v1::TENSOR_LAYOUT_CHW);
  const auto tiled = ParseLayout("tiled-pad16:32x8");
  ASSERT_TRUE(tiled.ok());
  EXPECT_EQ(tiled->layout, v1::TENSOR_LAYOUT_TILED_PAD16);
  EXPECT_EQ(tiled->tile->height(), 8);
  EXPECT_FALSE(ParseLayout("tiled-compact").ok());
  EXPECT_FALSE(ParseLayout("chw:32x8").ok());
}

TEST(OptionValues, NamesOfTheDocumentationAreUnderstood) {
  EXPECT_EQ(*ParseEnum<v1::Filter>("bilinear-aa"), v1::FILTER_BILINEAR_AA);
  EXPECT_EQ(*ParseEnum<v1::Filter>("lanczos3"), v1::FILTER_LANCZOS3);
  EXPECT_EQ(*ParseEnum<v1::LetterboxRule>("topleft"),
            v1::LETTERBOX_RULE_TOP_LEFT);
  EXPECT_EQ(*ParseEnum<v1::MatrixCoefficients>("601"),
            v1::MATRIX_COEFFICIENTS_BT601);
  EXPECT_EQ(*ParseEnum<v1::MatrixCoefficients>("bt2020"),
            v1::MATRIX_COEFFICIENTS_BT2020);
  EXPECT_EQ(*ParseEnum<v1::PixelFormat>("planar_rgb"),
            v1::PIXEL_FORMAT_PLANAR_RGB);
  EXPECT_EQ(*ParseEnum<v1::Numerics>("ev74"), v1::NUMERICS_EV74);
}

TEST(OptionValues, EveryEnumNameReadsBackAsItself) {
  for (const auto* type :
       {v1::PixelFormat_descriptor(), v1::DataType_descriptor(),
        v1::TensorLayout_descriptor(), v1::Fit_descriptor(),
        v1::LetterboxRule_descriptor(), v1::Filter_descriptor(),
        v1::ChromaUpsampling_descriptor(), v1::Precision_descriptor(),
        v1::Numerics_descriptor(), v1::MatrixCoefficients_descriptor(),
        v1::ColorRange_descriptor()}) {
    for (int i = 0; i < type->value_count(); ++i) {
      if (type->value(i)->number() == 0) continue;
      const std::string text = EnumText(*type->value(i));
      const auto number = ParseEnumNumber(*type, text);
      ASSERT_TRUE(number.ok()) << number.status();
      EXPECT_EQ(*number, type->value(i)->number()) << text;
    }
  }
}

TEST(OptionValues, UnknownNameListsTheChoices) {
  const auto status = ParseEnum<v1::Fit>("zoom").status();
  EXPECT_EQ(ExitCodeOf(status), kExitUsage);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("stretch, letterbox, cover, place"));
  EXPECT_FALSE(ParseEnum<v1::Fit>("").ok());
  EXPECT_FALSE(ParseEnum<v1::Fit>("unspecified").ok());
}

}  // namespace
}  // namespace preprocd::cli
