#include "daemon/direct/outbox.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "engine/base/memfd.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {
namespace {

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

struct Pair {
  Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         0, fds),
              0);
    daemon.reset(fds[0]);
    client.reset(fds[1]);
  }
  std::string Read() const {
    Packet packet;
    const auto outcome = ReceivePacket(client.get(), packet);
    if (!outcome.ok() || *outcome != ReceiveOutcome::kPacket) return "(none)";
    return {reinterpret_cast<const char*>(packet.bytes().data()), packet.size};
  }
  UniqueFd daemon;
  UniqueFd client;
};

// Sends numbered packets until one has to wait; returns how many were sent.
int Fill(Outbox& outbox, const std::vector<Outbox::Event>& events) {
  int count = 0;
  while (events.empty()) {
    EXPECT_TRUE(outbox.Send(Bytes(std::to_string(count++))).ok());
  }
  return count;
}

TEST(OutboxTest, SendsAtOnceWhenThereIsRoom) {
  const Pair pair;
  Outbox outbox(pair.daemon.get(),
                [](Outbox::Event) { ADD_FAILURE() << "nothing waits"; });
  ASSERT_TRUE(outbox.Send(Bytes("one")).ok());
  EXPECT_EQ(pair.Read(), "one");
  EXPECT_EQ(outbox.Flush(), Outbox::Progress::kEmpty);
}

TEST(OutboxTest, WhatWaitsGoesOutInOrder) {
  const Pair pair;
  std::vector<Outbox::Event> events;
  Outbox outbox(pair.daemon.get(),
                [&](Outbox::Event event) { events.push_back(event); });
  int count = Fill(outbox, events);
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(outbox.Send(Bytes(std::to_string(count++))).ok());
  }
  // One wake-up for all that waits.
  EXPECT_EQ(events, std::vector<Outbox::Event>{Outbox::Event::kWaiting});
  EXPECT_EQ(outbox.Flush(), Outbox::Progress::kWaiting);
  int next = 0;
  Outbox::Progress progress = Outbox::Progress::kWaiting;
  while (next < count) {
    const std::string text = pair.Read();
    if (text == "(none)") {
      ASSERT_EQ(progress, Outbox::Progress::kWaiting);
      progress = outbox.Flush();
      continue;
    }
    ASSERT_EQ(text, std::to_string(next++));
  }
  EXPECT_EQ(outbox.Flush(), Outbox::Progress::kEmpty);
}

TEST(OutboxTest, DescriptorsWaitWithTheirPacket) {
  const Pair pair;
  std::vector<Outbox::Event> events;
  Outbox outbox(pair.daemon.get(),
                [&](Outbox::Event event) { events.push_back(event); });
  Fill(outbox, events);
  std::vector<UniqueFd> fds;
  fds.push_back(*CreateMemfd("outbox-test", 4096));
  ASSERT_TRUE(outbox.Send(Bytes("with descriptor"), std::move(fds)).ok());
  Packet packet;
  while (packet.fds.empty()) {
    const auto outcome = ReceivePacket(pair.client.get(), packet);
    ASSERT_TRUE(outcome.ok());
    if (*outcome == ReceiveOutcome::kWouldBlock) outbox.Flush();
  }
  EXPECT_EQ(packet.size, strlen("with descriptor"));
  EXPECT_EQ(lseek(packet.fds[0].get(), 0, SEEK_END), 4096);
}

TEST(OutboxTest, TooMuchIsAnOverflowOnce) {
  for (const size_t size : {size_t{1}, size_t{60'000}}) {
    const Pair pair;
    std::vector<Outbox::Event> events;
    Outbox outbox(pair.daemon.get(),
                  [&](Outbox::Event event) { events.push_back(event); });
    const std::string packet(size, 'p');
    for (int i = 0; i < 5000 && events.size() < 2; ++i) {
      ASSERT_TRUE(outbox.Send(Bytes(packet)).ok());
    }
    ASSERT_TRUE(outbox.Send(Bytes(packet)).ok());
    EXPECT_EQ(events, (std::vector<Outbox::Event>{Outbox::Event::kWaiting,
                                                  Outbox::Event::kOverflow}));
    EXPECT_EQ(outbox.Flush(), Outbox::Progress::kEmpty);
  }
}

TEST(OutboxTest, APeerThatIsGoneAndACloseDropPackets) {
  Pair pair;
  Outbox outbox(pair.daemon.get(), [](Outbox::Event) { ADD_FAILURE(); });
  pair.client.reset();
  EXPECT_TRUE(outbox.Send(Bytes("nobody reads")).ok());
  outbox.Close();
  pair.daemon.reset();
  EXPECT_TRUE(outbox.Send(Bytes("closed")).ok());
}

TEST(OutboxTest, EmptyPacketsAndTooManyDescriptorsAreRefused) {
  const Pair pair;
  Outbox outbox(pair.daemon.get(), [](Outbox::Event) { ADD_FAILURE(); });
  EXPECT_TRUE(absl::IsInvalidArgument(outbox.Send({})));
  EXPECT_TRUE(absl::IsInvalidArgument(
      outbox.Send(Bytes("x"), std::vector<UniqueFd>(9))));
}

// Run in a child that is nobody, because root may have any number of
// descriptors in flight. Exit code 0: refused with an error, not waited for.
int SendBeyondDescriptorsInFlight() {
  constexpr rlim_t kLimit = 64;
  const rlimit limit = {kLimit, kLimit};
  if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) return 77;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 77;
  int fds[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fds) != 0) {
    return 2;
  }
  Outbox outbox(fds[0], [](Outbox::Event) { _exit(3); });
  for (rlim_t i = 0; i < 4 * kLimit; ++i) {
    std::vector<UniqueFd> sent;
    sent.emplace_back(dup(0));
    if (!sent[0].valid()) return 4;
    const absl::Status status = outbox.Send(Bytes("x"), std::move(sent));
    if (absl::IsResourceExhausted(status)) return 0;
    if (!status.ok()) return 5;
  }
  return 6;
}

TEST(OutboxTest, ALimitOfDescriptorsInFlightIsAnError) {
  EXPECT_EXIT(_exit(SendBeyondDescriptorsInFlight()),
              testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace preprocd
