#include "engine/backends/cpu/table_cache.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <memory>

#include "engine/backends/cpu/fixed_taps.h"

namespace preprocd {
namespace {

AxisRequest Request(int from, int to) {
  AxisRequest r;
  r.filter = Filter::kLanczos3;
  r.shown_extent = from;
  r.destination_extent = to;
  r.max_index = from - 1;
  r.channels = 1;
  r.rounds = true;
  return r;
}

TEST(TableCacheTest, EqualRequestsShareATable) {
  TableCache<AxisRequest, FixedTaps> cache;
  const auto a = cache.Get(Request(300, 200), MakeFixedTaps);
  EXPECT_EQ(a, cache.Get(Request(300, 200), MakeFixedTaps));
  EXPECT_NE(a, cache.Get(Request(300, 201), MakeFixedTaps));
}

TEST(TableCacheTest, NothingIsKeptOfTablesThatCannotBeMade) {
  TableCache<AxisRequest, FixedTaps> cache;
  EXPECT_EQ(cache.Get(Request(16384, 3), MakeFixedTaps), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
}

// Whatever sizes clients ask for.
TEST(TableCacheTest, BytesAreBounded) {
  TableCache<AxisRequest, FixedTaps> cache;
  const auto held = cache.Get(Request(8000, 16384), MakeFixedTaps);
  for (int from = 8001; from < 8021; ++from) {
    const auto table = cache.Get(Request(from, 16384), MakeFixedTaps);
    ASSERT_NE(table, nullptr);
    EXPECT_GT(table->bytes(), size_t{1} << 19);
    EXPECT_LE(cache.bytes(), (TableCache<AxisRequest, FixedTaps>::kMaxBytes));
  }
  // Dropped by the cache, still whole for whoever uses it.
  EXPECT_EQ(held->request, Request(8000, 16384));
  EXPECT_NE(held, cache.Get(Request(8000, 16384), MakeFixedTaps));
}

}  // namespace
}  // namespace preprocd
