#include "engine/exec/row_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace preprocd {
namespace {

TEST(RowPoolTest, EveryRowExactlyOnce) {
  for (int threads : {1, 2, 5}) {
    RowPool pool(threads);
    for (int rows : {0, 1, 2, 3, 7, 64, 1001}) {
      for (int min_rows : {1, 4, 5000}) {
        std::vector<std::atomic<int>> seen(static_cast<size_t>(rows));
        pool.ParallelRows(rows, min_rows, [&](int begin, int end) {
          EXPECT_LT(begin, end);
          for (int y = begin; y < end; ++y) ++seen[static_cast<size_t>(y)];
        });
        for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
      }
    }
  }
}

TEST(RowPoolTest, RangesRespectTheMinimum) {
  RowPool pool(4);
  std::atomic<int> ranges = 0;
  pool.ParallelRows(100, 40, [&](int begin, int end) {
    ++ranges;
    EXPECT_TRUE(end == 100 || end - begin >= 40);
  });
  EXPECT_LE(ranges, 3);
}

TEST(RowPoolTest, NestedCallsRunOnTheCallersThread) {
  RowPool pool(3);
  std::atomic<int> sum = 0;
  pool.ParallelRows(9, 1, [&](int begin, int end) {
    const std::thread::id outer = std::this_thread::get_id();
    pool.ParallelRows(end - begin, 1, [&](int b, int e) {
      EXPECT_EQ(std::this_thread::get_id(), outer);
      sum += e - b;
    });
  });
  EXPECT_EQ(sum, 9);
}

TEST(RowPoolTest, SeveralCallersShareOnePool) {
  RowPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int> total = 0;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        int mine = 0;
        std::atomic<int> rows = 0;
        pool.ParallelRows(17, 1,
                          [&](int begin, int end) { rows += end - begin; });
        mine += rows;
        total += mine;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 17);
}

}  // namespace
}  // namespace preprocd
