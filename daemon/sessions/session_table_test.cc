#include "daemon/sessions/session_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

constexpr PeerCredentials kPeer = {100, 1000, 1000};

std::string TokenOf(const Session& session) {
  return std::string(session.token().begin(), session.token().end());
}

std::shared_ptr<RegisteredBuffer> MakeBuffer(uint64_t id, uint32_t generation,
                                             uint64_t bytes = 4096) {
  auto buffer = std::make_shared<RegisteredBuffer>();
  buffer->buffer_id = id;
  buffer->generation = generation;
  buffer->memory.push_back(
      *AllocateBuffer(AllocatorKind::kHeap, bytes, "test"));
  buffer->cost_bytes = bytes;
  return buffer;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->reason : ErrorReason::kUnspecified;
}

class SessionTableTest : public testing::Test {
 protected:
  std::shared_ptr<Session> Open(PeerCredentials peer = kPeer) {
    auto session = table_.Open("test", peer);
    EXPECT_TRUE(session.ok()) << session.status();
    return *session;
  }
  Metrics metrics_;
  SessionTable table_{SessionLimits{}, metrics_};
};

TEST_F(SessionTableTest, TokenFindsItsSessionForTheSamePeerOnly) {
  const auto a = Open();
  const auto b = Open();
  EXPECT_NE(TokenOf(*a), TokenOf(*b));
  EXPECT_EQ(*table_.FindByToken(TokenOf(*a), kPeer), a);
  EXPECT_EQ(ReasonOf(table_.FindByToken("short", kPeer).status()),
            ErrorReason::kSessionUnknown);
  EXPECT_EQ(ReasonOf(table_.FindByToken(std::string(16, 'x'), kPeer).status()),
            ErrorReason::kSessionUnknown);
  const absl::Status other_pid =
      table_.FindByToken(TokenOf(*a), {101, 1000, 1000}).status();
  EXPECT_EQ(other_pid.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(ReasonOf(other_pid), ErrorReason::kSessionPeer);
  EXPECT_FALSE(table_.FindByToken(TokenOf(*a), {100, 1001, 1000}).ok());
  // A peer in another pid namespace is told by its uid alone.
  EXPECT_TRUE(table_.FindByToken(TokenOf(*a), {0, 1000, 1000}).ok());
  table_.Close(a);
  EXPECT_FALSE(table_.FindByToken(TokenOf(*a), kPeer).ok());
}

TEST_F(SessionTableTest, NamesAreBoundedUtf8) {
  EXPECT_FALSE(table_.Open(std::string(65, 'a'), kPeer).ok());
  EXPECT_FALSE(table_.Open("\xff\xfe", kPeer).ok());
  EXPECT_FALSE(table_.Open("\xc3", kPeer).ok());
  for (const char* not_utf8 :
       {"\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf0\x80\x80\xaf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "a\xe2\x82", "\xc3("}) {
    EXPECT_FALSE(table_.Open(not_utf8, kPeer).ok());
  }
  for (const char* utf8 :
       {"caf\xc3\xa9", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(table_.Open(utf8, kPeer).ok());
  }
  EXPECT_TRUE(table_.Open("", kPeer).ok());
}

TEST_F(SessionTableTest, SessionsAreBounded) {
  SessionLimits limits;
  limits.max_sessions = 2;
  table_.SetLimits(limits);
  const auto a = Open();
  const auto b = Open();
  const absl::Status full = table_.Open("c", kPeer).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(full), ErrorReason::kQuota);
  table_.Close(a);
  EXPECT_TRUE(table_.Open("c", kPeer).ok());
  // Anonymous callers are not counted as sessions.
  EXPECT_NE(table_.Anonymous(kPeer), nullptr);
}

TEST_F(SessionTableTest, AnotherSessionsBufferIsUnknown) {
  const auto a = Open();
  const auto b = Open();
  ASSERT_TRUE(a->Register(MakeBuffer(1, 1)).ok());
  EXPECT_TRUE(a->Find(1, 1).ok());
  const absl::Status unknown = b->Find(1, 1).status();
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReasonOf(unknown), ErrorReason::kBufferUnknown);
}

TEST_F(SessionTableTest, GenerationsReplaceForwardOnly) {
  const auto session = Open();
  ASSERT_TRUE(session->Register(MakeBuffer(1, 5)).ok());
  EXPECT_EQ(session->Register(MakeBuffer(1, 5)).code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReasonOf(session->Register(MakeBuffer(1, 4))),
            ErrorReason::kBufferGeneration);
  ASSERT_TRUE(session->Register(MakeBuffer(1, 6, 8192)).ok());
  EXPECT_EQ(ReasonOf(session->Find(1, 5).status()),
            ErrorReason::kBufferGeneration);
  EXPECT_TRUE(session->Find(1, 6).ok());
  EXPECT_EQ(session->facts().buffers, 1);
  EXPECT_EQ(session->facts().bytes, 8192);
}

TEST_F(SessionTableTest, QuotasCountBuffersAndBytes) {
  SessionLimits limits;
  limits.max_buffers_per_session = 2;
  limits.max_bytes_per_session = 10'000;
  table_.SetLimits(limits);
  const auto session = Open();
  ASSERT_TRUE(session->Register(MakeBuffer(1, 1)).ok());
  EXPECT_EQ(ReasonOf(session->Register(MakeBuffer(2, 1, 8192))),
            ErrorReason::kQuota);
  ASSERT_TRUE(session->Register(MakeBuffer(2, 1)).ok());
  EXPECT_EQ(ReasonOf(session->Register(MakeBuffer(3, 1, 16))),
            ErrorReason::kQuota);
  ASSERT_TRUE(session->Unregister(1, 1).ok());
  EXPECT_TRUE(session->Register(MakeBuffer(3, 1, 16)).ok());
  EXPECT_EQ(session->bytes_left(), 10'000 - 4096 - 16);
}

TEST_F(SessionTableTest, RequestsInFlightAreBounded) {
  SessionLimits limits;
  limits.max_in_flight_per_session = 1;
  table_.SetLimits(limits);
  const auto session = Open();
  ASSERT_TRUE(session->BeginRequest().ok());
  const absl::Status busy = session->BeginRequest();
  EXPECT_EQ(ReasonOf(busy), ErrorReason::kQuota);
  EXPECT_GT(GetErrorDetail(busy)->retry_after_ms, 0);
  session->EndRequest(true);
  EXPECT_TRUE(session->BeginRequest().ok());
  session->EndRequest(false);
  EXPECT_EQ(session->facts().requests_ok, 1u);
  EXPECT_EQ(session->facts().requests_failed, 1u);
}

TEST_F(SessionTableTest, CloseReleasesMemoryButNotUnderARunningJob) {
  const auto session = Open();
  ASSERT_TRUE(session->Register(MakeBuffer(1, 1)).ok());
  auto held = *session->Find(1, 1);
  std::weak_ptr<Buffer> memory = held->memory[0];
  table_.Close(session);
  EXPECT_FALSE(session->Find(1, 1).ok());
  EXPECT_EQ(session->BeginRequest().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(memory.expired());
  held.reset();
  EXPECT_TRUE(memory.expired());
}

TEST_F(SessionTableTest, SharesArePointToPointAndRevocable) {
  const auto owner = Open();
  const auto taker = Open({200, 1000, 1000});
  const auto third = Open({300, 1000, 1000});
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  const auto token = table_.Share(owner, 1, 1, Access::kRead);
  ASSERT_TRUE(token.ok()) << token.status();
  EXPECT_FALSE(table_.AcceptShare(owner, *token, 9, 1).ok());
  const auto taken = table_.AcceptShare(taker, *token, 9, 1);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_EQ((*taken)->access, Access::kRead);
  EXPECT_FALSE(table_.AcceptShare(third, *token, 9, 1).ok());
  EXPECT_TRUE(taker->Find(9, 1).ok());
  EXPECT_FALSE(table_.RevokeShare(taker, *token).ok());
  ASSERT_TRUE(table_.RevokeShare(owner, *token).ok());
  EXPECT_FALSE(taker->Find(9, 1).ok());
}

TEST_F(SessionTableTest, SharesEndWithTheOwner) {
  const auto owner = Open();
  const auto taker = Open({200, 1000, 1000});
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  const auto token = table_.Share(owner, 1, 1, Access::kReadWrite);
  ASSERT_TRUE(table_.AcceptShare(taker, *token, 9, 1).ok());
  table_.Close(owner);
  EXPECT_FALSE(taker->Find(9, 1).ok());
}

TEST_F(SessionTableTest, AnOfferHoldsNoMemoryOfItsOwn) {
  const auto owner = Open();
  const auto taker = Open({200, 1000, 1000});
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  const std::weak_ptr<Buffer> memory = (*owner->Find(1, 1))->memory[0];
  const auto token = table_.Share(owner, 1, 1, Access::kRead);
  ASSERT_TRUE(token.ok());
  ASSERT_TRUE(owner->Unregister(1, 1).ok());
  EXPECT_TRUE(memory.expired());
  EXPECT_EQ(table_.AcceptShare(taker, *token, 9, 1).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(table_.RevokeShare(owner, *token).code(),
            absl::StatusCode::kNotFound);
  // Offers that ended do not use up the bound either.
  for (uint32_t i = 1; i <= 2 * kMaxSharesPerSession; ++i) {
    ASSERT_TRUE(owner->Register(MakeBuffer(2, i, 64)).ok());
    ASSERT_TRUE(table_.Share(owner, 2, i, Access::kRead).ok()) << i;
  }
}

TEST_F(SessionTableTest, SharesAreBounded) {
  const auto owner = Open();
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  for (int i = 0; i < kMaxSharesPerSession; ++i) {
    ASSERT_TRUE(table_.Share(owner, 1, 1, Access::kRead).ok());
  }
  EXPECT_EQ(ReasonOf(table_.Share(owner, 1, 1, Access::kRead).status()),
            ErrorReason::kQuota);
}

TEST_F(SessionTableTest, ASharedBufferCountsAgainstItsTakersQuota) {
  const auto owner = Open();
  const auto taker = Open({200, 1000, 1000});
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  const auto token = table_.Share(owner, 1, 1, Access::kRead);
  SessionLimits limits;
  limits.max_bytes_per_session = 4095;
  taker->set_limits(limits);
  EXPECT_EQ(ReasonOf(table_.AcceptShare(taker, *token, 9, 1).status()),
            ErrorReason::kQuota);
  // The token was not used up.
  limits.max_bytes_per_session = 4096;
  taker->set_limits(limits);
  EXPECT_TRUE(table_.AcceptShare(taker, *token, 9, 1).ok());
  EXPECT_EQ(taker->bytes_left(), 0);
  EXPECT_FALSE(table_.Share(taker, 9, 1, Access::kReadWrite).ok());
}

TEST_F(SessionTableTest, RevokingTakesNothingElseOfTheTaker) {
  const auto owner = Open();
  const auto taker = Open({200, 1000, 1000});
  ASSERT_TRUE(owner->Register(MakeBuffer(1, 1)).ok());
  const auto token = table_.Share(owner, 1, 1, Access::kRead);
  ASSERT_TRUE(table_.AcceptShare(taker, *token, 9, 1).ok());
  // The same id and generation, but the taker's own memory.
  ASSERT_TRUE(taker->Unregister(9, 1).ok());
  ASSERT_TRUE(taker->Register(MakeBuffer(9, 1)).ok());
  EXPECT_TRUE(table_.RevokeShare(owner, *token).ok());
  EXPECT_TRUE(taker->Find(9, 1).ok());
}

TEST_F(SessionTableTest, ARevokedShareIsGoneWhoeverWinsTheRace) {
  constexpr int kRounds = 400;
  const auto taker = Open({200, 1000, 1000});
  std::string token;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::thread accepting([&] {
    for (int round = 1; round <= kRounds; ++round) {
      // Spins: a thread that has to be woken comes too late.
      while (begun.load() < round) {
      }
      table_.AcceptShare(taker, token, 9, 1).IgnoreError();
      ended = round;
    }
  });
  int left_over = 0;
  for (int round = 1; round <= kRounds; ++round) {
    const auto owner = Open();
    EXPECT_TRUE(owner->Register(MakeBuffer(1, 1, 64)).ok());
    token = table_.Share(owner, 1, 1, Access::kRead).value_or("");
    begun = round;
    // Moves the end of the share over the whole of the acceptance.
    for (int spin = 0; spin < (round % 80) * 8; ++spin) ended.load();
    if (round % 2 == 0) {
      EXPECT_TRUE(table_.RevokeShare(owner, token).ok());
    }
    table_.Close(owner);
    while (ended.load() < round) std::this_thread::yield();
    if (taker->Unregister(9, 1).ok()) ++left_over;
  }
  accepting.join();
  EXPECT_EQ(left_over, 0);
  EXPECT_EQ(taker->facts().bytes, 0);
}

TEST_F(SessionTableTest, AnonymousCallersOfOneUserShareALimit) {
  const auto a = table_.Anonymous({100, 1000, 1000});
  EXPECT_EQ(a, table_.Anonymous({200, 1000, 1000}));
  EXPECT_NE(a, table_.Anonymous({100, 1001, 1001}));
  EXPECT_FALSE(table_.FindByToken(TokenOf(*a), {100, 1000, 1000}).ok());
  ASSERT_TRUE(a->BeginRequest().ok());
  // Many users later, one with a call in progress is still the same.
  std::weak_ptr<Session> idle = table_.Anonymous({1, 5000, 5000});
  for (uid_t uid = 10'000; uid < 10'000 + 3 * kMaxSessions; ++uid) {
    ASSERT_NE(table_.Anonymous({1, uid, uid}), nullptr);
  }
  EXPECT_EQ(a, table_.Anonymous({100, 1000, 1000}));
  EXPECT_TRUE(idle.expired());
  EXPECT_EQ(table_.size(), 0);
}

TEST_F(SessionTableTest, SessionsOpenAndCloseUnderTheirUsers) {
  std::atomic<bool> stop = false;
  const auto session = Open();
  const std::string token = TokenOf(*session);
  std::thread user([&] {
    while (!stop) {
      const auto found = table_.FindByToken(token, kPeer);
      if (!found.ok()) continue;
      (*found)->Register(MakeBuffer(1, 1, 64)).IgnoreError();
      if ((*found)->BeginRequest().ok()) {
        (*found)->Find(1, 1).IgnoreError();
        (*found)->EndRequest(true);
      }
      (*found)->Unregister(1, 1).IgnoreError();
    }
  });
  for (int i = 0; i < 200; ++i) {
    const auto other = Open();
    ASSERT_TRUE(other->Register(MakeBuffer(1, 1, 64)).ok());
    table_.List();
    table_.Close(other);
  }
  table_.Close(session);
  stop = true;
  user.join();
  EXPECT_EQ(table_.size(), 0);
  EXPECT_EQ(session->facts().buffers, 0);
  EXPECT_EQ(session->facts().in_flight, 0);
}

TEST_F(SessionTableTest, ConcurrentUseIsSafe) {
  const auto session = Open();
  std::atomic<int> found = 0;
  std::vector<std::thread> threads;
  for (uint64_t id = 1; id <= 4; ++id) {
    threads.emplace_back([&, id] {
      for (uint32_t generation = 1; generation < 200; ++generation) {
        if (!session->Register(MakeBuffer(id, generation, 64)).ok()) return;
        if (session->Find(id, generation).ok()) ++found;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(found, 4 * 199);
  table_.Close(session);
  EXPECT_EQ(session->facts().buffers, 0);
}

}  // namespace
}  // namespace preprocd
