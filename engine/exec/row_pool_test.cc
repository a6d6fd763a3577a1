#include "engine/exec/row_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <vector>

namespace {
std::atomic<int> allocations = 0;
}  // namespace

// Counts what every thread of this program allocates.
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

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
        int rows = 0;
        std::mutex mutex;
        pool.ParallelRows(17, 1, [&](int begin, int end) {
          std::lock_guard<std::mutex> lock(mutex);
          rows += end - begin;
        });
        // Read without the mutex: the call returns after all of its ranges.
        EXPECT_EQ(rows, 17);
        total += rows;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(total, 4 * 200 * 17);
}

// Every range waits until as many run as the pool has threads: this ends only
// when the caller's thread and all others work at the same time.
TEST(RowPoolTest, AllThreadsWorkAtOnce) {
  constexpr int kThreads = 3;
  RowPool pool(kThreads);
  for (int i = 0; i < 20; ++i) {
    std::barrier all_here(kThreads);
    std::mutex mutex;
    std::set<std::thread::id> ids;
    pool.ParallelRows(kThreads, 1, [&](int, int) {
      all_here.arrive_and_wait();
      std::lock_guard<std::mutex> lock(mutex);
      ids.insert(std::this_thread::get_id());
    });
    EXPECT_EQ(ids.size(), size_t{kThreads});
    EXPECT_TRUE(ids.contains(std::this_thread::get_id()));
  }
}

// A second caller is served although all threads are inside the first call.
TEST(RowPoolTest, ACallerDoesNotWaitForAnothersWork) {
  RowPool pool(2);
  std::barrier both_inside(3);
  std::atomic<bool> released = false;
  std::thread first([&] {
    pool.ParallelRows(2, 1, [&](int, int) {
      both_inside.arrive_and_wait();
      released.wait(false);
    });
  });
  both_inside.arrive_and_wait();
  std::atomic<int> rows = 0;
  pool.ParallelRows(8, 1, [&](int begin, int end) { rows += end - begin; });
  EXPECT_EQ(rows, 8);
  released = true;
  released.notify_all();
  first.join();
}

TEST(RowPoolTest, OneThreadOrFewRowsStayOnTheCallersThread) {
  RowPool one(1);
  EXPECT_EQ(one.threads(), 1);
  RowPool none(-3);
  EXPECT_EQ(none.threads(), 1);
  RowPool many(4);
  EXPECT_EQ(many.threads(), 4);
  const std::thread::id self = std::this_thread::get_id();
  int calls = 0;
  const auto work = [&](int begin, int end) {
    EXPECT_EQ(std::this_thread::get_id(), self);
    calls += end - begin == 10 ? 1 : 100;
  };
  one.ParallelRows(10, 1, work);
  none.ParallelRows(10, 1, work);
  many.ParallelRows(10, 10, work);
  EXPECT_EQ(calls, 3);
}

TEST(RowPoolTest, ACallAllocatesNothing) {
  RowPool pool(3);
  std::atomic<int> rows = 0;
  // Larger than a std::function keeps inside itself.
  const int a = 1, b = 1, c = 1, d = 1;
  const auto work = [&](int begin, int end) {
    rows += (end - begin) * (a + b + c + d) / 4;
  };
  pool.ParallelRows(64, 1, work);
  const int before = allocations;
  for (int i = 0; i < 100; ++i) pool.ParallelRows(64, 1, work);
  const int after = allocations;
  EXPECT_EQ(after - before, 0);
  EXPECT_EQ(rows, 101 * 64);
}

}  // namespace
}  // namespace preprocd
