#include "daemon/scheduler/fair_queue.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

namespace preprocd {
namespace {

void Push(FairQueue& queue, uint64_t session, int64_t cost = 1,
          uint64_t request = 0) {
  JobList one;
  one.emplace_back();
  one.front().job.session_id = session;
  one.front().job.request_id = request;
  one.front().job.cost = cost;
  queue.Push(one);
  EXPECT_TRUE(one.empty());
}

// The sessions of the next `count` jobs, in order.
std::vector<uint64_t> Pop(FairQueue& queue, int count) {
  std::vector<uint64_t> sessions;
  for (int i = 0; i < count; ++i) {
    JobList out;
    queue.Pop(out);
    sessions.push_back(out.front().job.session_id);
  }
  return sessions;
}

using Sessions = std::vector<uint64_t>;

TEST(FairQueueTest, JobsOfOneSessionKeepTheirOrder) {
  FairQueue queue;
  for (uint64_t request = 1; request <= 3; ++request) {
    Push(queue, 7, 1, request);
  }
  for (uint64_t request = 1; request <= 3; ++request) {
    JobList out;
    queue.Pop(out);
    EXPECT_EQ(out.front().job.request_id, request);
  }
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, EqualCostsAlternate) {
  FairQueue queue;
  for (int i = 0; i < 4; ++i) Push(queue, 1, kQuantum);
  for (int i = 0; i < 4; ++i) Push(queue, 2, kQuantum);
  EXPECT_EQ(Pop(queue, 8), (Sessions{1, 2, 1, 2, 1, 2, 1, 2}));
}

TEST(FairQueueTest, SharesAreByCostNotByCount) {
  FairQueue queue;
  for (int i = 0; i < 10; ++i) Push(queue, 1, 4 * kQuantum);
  for (int i = 0; i < 40; ++i) Push(queue, 2, kQuantum);
  std::map<uint64_t, int> counts;
  for (const uint64_t session : Pop(queue, 25)) ++counts[session];
  EXPECT_EQ(counts[1], 5);
  EXPECT_EQ(counts[2], 20);
}

// A session that had the machine to itself owes nothing to one that comes.
TEST(FairQueueTest, TimeThatNobodyElseWantedIsNotOwed) {
  FairQueue queue;
  for (int i = 0; i < 200; ++i) Push(queue, 1, 4 * kQuantum);
  Pop(queue, 100);
  for (int i = 0; i < 100; ++i) Push(queue, 2, 4 * kQuantum);
  std::map<uint64_t, int> counts;
  for (const uint64_t session : Pop(queue, 20)) ++counts[session];
  EXPECT_GE(counts[1], 9);
  EXPECT_GE(counts[2], 9);
}

TEST(FairQueueTest, AnyCostIsServedAndNoneOverflows) {
  FairQueue queue;
  constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 3; ++i) {
    Push(queue, 1, kHuge);
    Push(queue, 2, -kHuge);
    Push(queue, 3, 0);
  }
  std::map<uint64_t, int> counts;
  for (const uint64_t session : Pop(queue, 9)) ++counts[session];
  EXPECT_EQ(counts, (std::map<uint64_t, int>{{1, 3}, {2, 3}, {3, 3}}));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, RemoveTakesWhatMatchesAndKeepsTheOrderOfTheRest) {
  FairQueue queue;
  for (uint64_t request = 1; request <= 4; ++request) {
    Push(queue, 1, 1, request);
  }
  Push(queue, 2, 1, 1);
  JobList out;
  const auto odd = [](const Job& job) { return job.request_id % 2 == 1; };
  EXPECT_EQ(queue.Remove(1, odd, out), 2);
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.front().job.request_id, 1u);
  EXPECT_EQ(out.back().job.request_id, 3u);
  EXPECT_EQ(queue.Remove(9, odd, out), 0);
  const auto all = [](const Job&) { return true; };
  EXPECT_EQ(queue.Remove(1, all, out), 2);
  EXPECT_EQ(queue.Remove(1, all, out), 0);
  EXPECT_EQ(Pop(queue, 1), (Sessions{2}));
  EXPECT_TRUE(queue.empty());
}

TEST(FairQueueTest, TakeAllEmptiesIt) {
  FairQueue queue;
  for (uint64_t session = 1; session <= 5; ++session) {
    Push(queue, session);
    Push(queue, session);
  }
  JobList out;
  EXPECT_EQ(queue.TakeAll(out), 10);
  EXPECT_EQ(out.size(), 10u);
  EXPECT_TRUE(queue.empty());
  Push(queue, 3);
  EXPECT_EQ(Pop(queue, 1), (Sessions{3}));
}

}  // namespace
}  // namespace preprocd
