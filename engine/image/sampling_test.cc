#include "engine/image/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <numeric>
#include <vector>

namespace preprocd {
namespace {

const Filter kAll[] = {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa,
                       Filter::kArea,    Filter::kBicubic,  Filter::kBicubicAa,
                       Filter::kLanczos3};

double WeightAt(const AxisTaps& taps, int d, int s) {
  const int k = s - taps.first[static_cast<size_t>(d)];
  if (k < 0 || k >= taps.count) return 0;
  return taps.weights[static_cast<size_t>(d * taps.count + k)];
}

// Index n holds the centre when n <= (d + 1/2) S/D < n + 1, in integers:
// 2 D n <= (2 d + 1) S < 2 D (n + 1).
TEST(SamplingTest, NearestPixelHoldsTheCentreExactly) {
  for (int s = 1; s < 60; ++s) {
    for (int d = 1; d < 60; ++d) {
      for (int i = 0; i < d; ++i) {
        const int n = NearestIndex(i, s, d);
        EXPECT_LE(2 * d * n, (2 * i + 1) * s);
        EXPECT_LT((2 * i + 1) * s, 2 * d * (n + 1));
      }
    }
  }
  EXPECT_EQ(NearestIndex(16383, 16384, 16384), 16383);
  EXPECT_EQ(NearestIndex(16383, 1, 16384), 0);
  EXPECT_EQ(NearestIndex(0, 16384, 1), 8192);
  EXPECT_EQ(NearestIndex(16382, 16384, 16383), 16383);
}

TEST(SamplingTest, NearestTiesTakeTheHigherPixel) {
  // (1 + 1/2) * 2/3 = 1 exactly: the pixel that begins there.
  EXPECT_EQ(NearestIndex(1, 2, 3), 1);
  EXPECT_EQ(NearestIndex(0, 2, 1), 1);
  EXPECT_EQ(NearestIndex(48, 96, 97), 48);
}

TEST(SamplingTest, WeightsSumToOneAndStayInside) {
  for (const Filter filter : kAll) {
    for (const auto& [s, d] : {std::pair{1, 1},
                               {1, 7},
                               {7, 1},
                               {2, 3},
                               {3, 2},
                               {37, 11},
                               {11, 37},
                               {1920, 640},
                               {1079, 360},
                               {640, 641}}) {
      const AxisTaps taps = ComputeTaps(filter, s, d);
      EXPECT_EQ(taps.count, TapCount(filter, s, d));
      ASSERT_LE(taps.count, s);
      for (int i = 0; i < d; ++i) {
        const int first = taps.first[static_cast<size_t>(i)];
        ASSERT_GE(first, 0);
        ASSERT_LE(first + taps.count, s);
        double sum = 0;
        for (int k = 0; k < taps.count; ++k) {
          sum += taps.weights[static_cast<size_t>(i * taps.count + k)];
        }
        ASSERT_NEAR(sum, 1, 1e-12) << FilterName(filter) << s << d;
      }
    }
  }
}

TEST(SamplingTest, SameSizeIsTheIdentity) {
  for (const Filter filter : kAll) {
    const AxisTaps taps = ComputeTaps(filter, 9, 9);
    for (int d = 0; d < 9; ++d) {
      for (int s = 0; s < 9; ++s) {
        EXPECT_NEAR(WeightAt(taps, d, s), d == s ? 1 : 0, 1e-12)
            << FilterName(filter);
      }
    }
  }
}

TEST(SamplingTest, TapsAreSymmetric) {
  for (const Filter filter : kAll) {
    // Nearest breaks ties to one side.
    if (filter == Filter::kNearest) continue;
    for (const auto& [s, d] : {std::pair{10, 4}, {31, 7}}) {
      const AxisTaps taps = ComputeTaps(filter, s, d);
      for (int i = 0; i < d; ++i) {
        for (int j = 0; j < s; ++j) {
          EXPECT_NEAR(WeightAt(taps, i, j),
                      WeightAt(taps, d - 1 - i, s - 1 - j), 1e-9)
              << FilterName(filter) << " " << s << "->" << d;
        }
      }
    }
  }
}

TEST(SamplingTest, BilinearHasHalfPixelCentresAndEdgeClamp) {
  const AxisTaps up = ComputeTaps(Filter::kBilinear, 2, 4);
  // s = -0.25 -> clamped; 0.25; 0.75; 1.25 -> clamped.
  EXPECT_NEAR(WeightAt(up, 0, 0), 1, 1e-12);
  EXPECT_NEAR(WeightAt(up, 1, 0), .75, 1e-12);
  EXPECT_NEAR(WeightAt(up, 2, 0), .25, 1e-12);
  EXPECT_NEAR(WeightAt(up, 3, 1), 1, 1e-12);
}

TEST(SamplingTest, AreaIsTheBoxAverage) {
  const AxisTaps taps = ComputeTaps(Filter::kArea, 6, 4);  // 1.5 wide
  EXPECT_NEAR(WeightAt(taps, 0, 0), 2 / 3.0, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 0, 1), 1 / 3.0, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 1, 1), 1 / 3.0, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 1, 2), 2 / 3.0, 1e-12);
}

// Worked out by hand from the kernels; OpenCV 4.6 and Pillow 9.4 give the
// same rows for unit impulses.
TEST(SamplingTest, WeightsOfEachFilter) {
  const AxisTaps cubic = ComputeTaps(Filter::kBicubic, 6, 4);
  // s(1) = 1.75: taps 0..3 at distances 1.75 .75 .25 1.25, a = -0.75.
  EXPECT_NEAR(WeightAt(cubic, 1, 0), -.03515625, 1e-12);
  EXPECT_NEAR(WeightAt(cubic, 1, 1), .26171875, 1e-12);
  EXPECT_NEAR(WeightAt(cubic, 1, 2), .87890625, 1e-12);
  EXPECT_NEAR(WeightAt(cubic, 1, 3), -.10546875, 1e-12);
  // s(0) = 0.25: distances 1.25 .25 .75 1.75, the first clamped to sample 0.
  EXPECT_NEAR(WeightAt(cubic, 0, 0), -.10546875 + .87890625, 1e-12);
  EXPECT_NEAR(WeightAt(cubic, 0, 1), .26171875, 1e-12);
  EXPECT_NEAR(WeightAt(cubic, 0, 2), -.03515625, 1e-12);

  // 4 -> 2, triangle of half width 2: distances .5 .5 1.5 of 2, then cut at
  // the edge and scaled to sum 1 (Pillow), not folded onto it.
  const AxisTaps triangle = ComputeTaps(Filter::kBilinearAa, 4, 2);
  EXPECT_NEAR(WeightAt(triangle, 0, 0), .75 / 1.75, 1e-12);
  EXPECT_NEAR(WeightAt(triangle, 0, 1), .75 / 1.75, 1e-12);
  EXPECT_NEAR(WeightAt(triangle, 0, 2), .25 / 1.75, 1e-12);
  EXPECT_NEAR(WeightAt(triangle, 0, 3), 0, 1e-12);

  // Enlarging 2 -> 4, a = -0.5, s(1) = 0.25: distances .25 .75 remain of
  // 1.25 .25 .75 1.75.
  const AxisTaps catmull = ComputeTaps(Filter::kBicubicAa, 2, 4);
  const double near = .8671875, far = .2265625;
  EXPECT_NEAR(WeightAt(catmull, 1, 0), near / (near + far), 1e-12);
  EXPECT_NEAR(WeightAt(catmull, 1, 1), far / (near + far), 1e-12);

  // Enlarging 2 -> 4: sinc(x) sinc(x / 3) at .25 and .75.
  const auto lanczos = [](double x) {
    const double t = x * 3.14159265358979323846;
    return std::sin(t) / t * std::sin(t / 3) / (t / 3);
  };
  const AxisTaps sinc = ComputeTaps(Filter::kLanczos3, 2, 4);
  const double sum = lanczos(.25) + lanczos(.75);
  EXPECT_NEAR(WeightAt(sinc, 1, 0), lanczos(.25) / sum, 1e-12);
  EXPECT_NEAR(WeightAt(sinc, 1, 1), lanczos(.75) / sum, 1e-12);
}

// A destination pixel that lies inside one source pixel takes it whole; one
// that straddles two blends them by how much of it lies in each.
TEST(SamplingTest, AreaEnlargingBlendsStraddlingPixelsOnly) {
  const AxisTaps taps = ComputeTaps(Filter::kArea, 2, 3);
  EXPECT_NEAR(WeightAt(taps, 0, 0), 1, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 1, 0), .5, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 1, 1), .5, 1e-12);
  EXPECT_NEAR(WeightAt(taps, 2, 1), 1, 1e-12);
}

TEST(SamplingTest, AntiAliasedFiltersWidenWhenShrinking) {
  EXPECT_EQ(ComputeTaps(Filter::kBilinear, 100, 10).count, 2);
  EXPECT_EQ(ComputeTaps(Filter::kBicubic, 100, 10).count, 4);
  const struct {
    Filter filter;
    int support;  // source pixels read by an inner sample at 10:1
  } cases[] = {{Filter::kBilinearAa, 20},
               {Filter::kBicubicAa, 40},
               {Filter::kLanczos3, 60}};
  for (const auto& c : cases) {
    const AxisTaps taps = ComputeTaps(c.filter, 100, 10);
    int used = 0;
    for (int s = 0; s < 100; ++s) used += WeightAt(taps, 5, s) != 0 ? 1 : 0;
    EXPECT_EQ(used, c.support) << FilterName(c.filter);
  }
}

TEST(SamplingTest, ChromaTaps) {
  EXPECT_EQ(ReplicateChroma(5, 1).index0, 2);
  const ChromaTaps even = FancyChroma(4, 1, 10);
  EXPECT_EQ(even.index0, 2);
  EXPECT_EQ(even.index1, 1);
  EXPECT_EQ(even.weight0, .75);
  const ChromaTaps odd = FancyChroma(5, 1, 10);
  EXPECT_EQ(odd.index1, 3);
  EXPECT_EQ(FancyChroma(0, 1, 10).index1, 0);
  EXPECT_EQ(FancyChroma(19, 1, 10).index1, 9);
  EXPECT_EQ(FancyChroma(7, 0, 10).index0, 7);
}

TEST(SamplingTest, FilterNamesRoundTrip) {
  for (const Filter filter : kAll) {
    EXPECT_EQ(ParseFilter(FilterName(filter)), filter);
  }
  EXPECT_EQ(ParseFilter("linear"), std::nullopt);
}

}  // namespace
}  // namespace preprocd
