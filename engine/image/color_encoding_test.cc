#include "engine/image/color_encoding.h"

#include <gtest/gtest.h>

namespace preprocd {
namespace {

struct MatrixCase {
  MatrixCoefficients matrix;
  ColorRange range;
  double y_scale, vr, ug, vg, ub;
};

// Published values to three digits.
const MatrixCase kCases[] = {
    {MatrixCoefficients::kBt601, ColorRange::kLimited, 1.164, 1.596, .392, .813,
     2.017},
    {MatrixCoefficients::kBt709, ColorRange::kLimited, 1.164, 1.793, .213, .533,
     2.112},
    {MatrixCoefficients::kBt2020, ColorRange::kLimited, 1.164, 1.679, .187,
     .650, 2.142},
    {MatrixCoefficients::kBt601, ColorRange::kFull, 1, 1.402, .344, .714,
     1.772},
    {MatrixCoefficients::kBt709, ColorRange::kFull, 1, 1.575, .187, .468,
     1.856},
    {MatrixCoefficients::kBt2020, ColorRange::kFull, 1, 1.475, .165, .571,
     1.881},
};

TEST(ColorEncodingTest, CoefficientsAreTheStandards) {
  for (const MatrixCase& c : kCases) {
    const YuvToRgbCoefficients k = GetYuvToRgbCoefficients({c.matrix, c.range});
    EXPECT_NEAR(k.y_scale, c.y_scale, .0006);
    EXPECT_NEAR(k.vr, c.vr, .0006);
    EXPECT_NEAR(k.ug, c.ug, .0006);
    EXPECT_NEAR(k.vg, c.vg, .0006);
    EXPECT_NEAR(k.ub, c.ub, .0006);
    EXPECT_EQ(k.y_offset, c.range == ColorRange::kFull ? 0 : 16);
  }
}

TEST(ColorEncodingTest, BothDirectionsAreInverse) {
  for (const MatrixCase& c : kCases) {
    const ColorEncoding encoding = {c.matrix, c.range};
    const YuvToRgbCoefficients to_rgb = GetYuvToRgbCoefficients(encoding);
    const RgbToYuvCoefficients to_yuv = GetRgbToYuvCoefficients(encoding);
    for (const double r : {0.0, 17.0, 255.0}) {
      for (const double g : {0.0, 200.0, 255.0}) {
        for (const double b : {0.0, 99.0, 255.0}) {
          double yuv[3];
          for (size_t i = 0; i < 3; ++i) {
            yuv[i] = to_yuv.matrix[i][0] * r + to_yuv.matrix[i][1] * g +
                     to_yuv.matrix[i][2] * b + to_yuv.offset[i];
          }
          const double l = (yuv[0] - to_rgb.y_offset) * to_rgb.y_scale;
          const double u = yuv[1] - 128;
          const double v = yuv[2] - 128;
          EXPECT_NEAR(l + to_rgb.vr * v, r, 1e-9);
          EXPECT_NEAR(l - to_rgb.ug * u - to_rgb.vg * v, g, 1e-9);
          EXPECT_NEAR(l + to_rgb.ub * u, b, 1e-9);
        }
      }
    }
  }
}

TEST(ColorEncodingTest, MissingAxesAreResolvedOneByOne) {
  EXPECT_EQ(ResolveColorEncoding({}, 719),
            (ColorEncoding{MatrixCoefficients::kBt601, ColorRange::kLimited}));
  EXPECT_EQ(ResolveColorEncoding({}, 720),
            (ColorEncoding{MatrixCoefficients::kBt709, ColorRange::kLimited}));
  EXPECT_EQ(ResolveColorEncoding({}, 0).matrix, MatrixCoefficients::kBt709);
  const ColorEncoding full = {MatrixCoefficients::kUnspecified,
                              ColorRange::kFull};
  EXPECT_EQ(ResolveColorEncoding(full, 100).range, ColorRange::kFull);
  const ColorEncoding bt2020 = {MatrixCoefficients::kBt2020,
                                ColorRange::kUnspecified};
  EXPECT_EQ(ResolveColorEncoding(bt2020, 100).matrix,
            MatrixCoefficients::kBt2020);
}

TEST(ColorEncodingTest, NamesRoundTrip) {
  for (const char* name : {"601", "709", "2020"}) {
    EXPECT_EQ(MatrixName(*ParseMatrix(name)), name);
  }
  for (const char* name : {"limited", "full"}) {
    EXPECT_EQ(RangeName(*ParseRange(name)), name);
  }
  EXPECT_EQ(ParseMatrix("bt709"), std::nullopt);
  EXPECT_EQ(ParseRange(""), std::nullopt);
}

}  // namespace
}  // namespace preprocd
