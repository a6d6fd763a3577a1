#include "client/cli/latency_histogram.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace preprocd::cli {
namespace {

TEST(LatencyHistogram, EmptyHasNoPercentiles) {
  EXPECT_EQ(LatencyHistogram().Percentile(0.5), 0U);
  EXPECT_EQ(LatencyHistogram().count(), 0U);
}

TEST(LatencyHistogram, PercentileIsNeverBelowAndAtMostOneBucketAbove) {
  LatencyHistogram histogram;
  for (uint64_t i = 1; i <= 100'000; ++i) histogram.Add(i * 7);
  for (const double fraction : {0.01, 0.5, 0.9, 0.99, 1.0}) {
    const double truth = fraction * 700'000;
    const auto found = static_cast<double>(histogram.Percentile(fraction));
    EXPECT_GE(found, truth - 1) << fraction;
    EXPECT_LE(found, truth * 1.032) << fraction;
  }
  EXPECT_EQ(histogram.max(), 700'000U);
}

TEST(LatencyHistogram, ExtremesStayInside) {
  LatencyHistogram histogram;
  histogram.Add(0);
  histogram.Add(~0ULL);
  EXPECT_EQ(histogram.Percentile(0.5), 0U);
  EXPECT_EQ(histogram.Percentile(1.0), ~0ULL);
}

TEST(LatencyHistogram, MergeEqualsAddingBoth) {
  LatencyHistogram one;
  LatencyHistogram two;
  LatencyHistogram both;
  for (uint64_t i = 0; i < 1000; ++i) {
    (i % 2 == 0 ? one : two).Add(i * i);
    both.Add(i * i);
  }
  one.Merge(two);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.max(), both.max());
  EXPECT_EQ(one.Percentile(0.9), both.Percentile(0.9));
}

}  // namespace
}  // namespace preprocd::cli
