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

TEST(SamplingTest, NearestIsExactRationalArithmetic) {
  for (int s = 1; s < 60; ++s) {
    for (int d = 1; d < 60; ++d) {
      for (int i = 0; i < d; ++i) {
        const int64_t expected = (int64_t{2} * i + 1) * s / (int64_t{2} * d);
        EXPECT_EQ(NearestIndex(i, s, d), expected);
      }
    }
  }
  EXPECT_EQ(NearestIndex(16383, 16384, 16384), 16383);
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
    // Nearest breaks ties downwards; enlarging by area is one-sided too.
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

TEST(SamplingTest, AntiAliasedFiltersWidenWhenShrinking) {
  EXPECT_EQ(ComputeTaps(Filter::kBilinear, 100, 10).count, 2);
  EXPECT_GE(ComputeTaps(Filter::kBilinearAa, 100, 10).count, 20);
  EXPECT_EQ(ComputeTaps(Filter::kBicubic, 100, 10).count, 4);
  EXPECT_GE(ComputeTaps(Filter::kBicubicAa, 100, 10).count, 40);
  EXPECT_GE(ComputeTaps(Filter::kLanczos3, 100, 10).count, 60);
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
