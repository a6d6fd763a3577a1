#include "proto/packet/packet_socket.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace preprocd {
namespace {

int CountOpenFds() {
  int count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

std::span<const std::byte> Bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

class PacketSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::array<int, 2> pair = {};
    ASSERT_EQ(
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()), 0);
    a_.reset(pair[0]);
    b_.reset(pair[1]);
    // The buffer is allocated once, outside every fd count.
    packet_.buffer.resize(kMaxFrameBytes + 1);
    packet_.fds.reserve(300);
  }

  ReceiveOutcome Receive() {
    const auto outcome = ReceivePacket(b_.get(), packet_);
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    return outcome.value_or(ReceiveOutcome::kClosed);
  }

  // Sends `count` descriptors past SendPacket's own check.
  void SendRaw(size_t count, std::string text = "x") {
    std::vector<int> fds(count, a_.get());
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    iovec part = {text.data(), text.size()};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    memcpy(CMSG_DATA(header), fds.data(), count * sizeof(int));
    ASSERT_EQ(sendmsg(a_.get(), &message, 0),
              static_cast<ssize_t>(text.size()));
  }

  UniqueFd a_;
  UniqueFd b_;
  Packet packet_;
};

TEST_F(PacketSocketTest, BytesAndUpToEightDescriptorsArriveTogether) {
  for (size_t count = 0; count <= kMaxFdsPerFrame; ++count) {
    const std::vector<int> fds(count, a_.get());
    ASSERT_TRUE(SendPacket(a_.get(), Bytes("hello"), fds).ok());
    ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
    EXPECT_EQ(packet_.size, 5u);
    EXPECT_EQ(memcmp(packet_.buffer.data(), "hello", 5), 0);
    EXPECT_EQ(packet_.fds.size(), count);
    for (const UniqueFd& fd : packet_.fds) {
      EXPECT_EQ(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    }
    EXPECT_FALSE(packet_.fds_lost);
  }
}

TEST_F(PacketSocketTest, TooManyDescriptorsAreClosedAndReported) {
  const int before = CountOpenFds();
  for (const size_t count : {size_t{9}, size_t{100}, size_t{253}}) {
    SendRaw(count);
    ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
    EXPECT_TRUE(packet_.too_many_fds);
    EXPECT_TRUE(packet_.fds.empty());
  }
  EXPECT_EQ(CountOpenFds(), before);
  EXPECT_FALSE(SendPacket(a_.get(), Bytes("x"), std::vector<int>(9, 0)).ok());
}

TEST_F(PacketSocketTest, DescriptorsLostToTheProcessLimitAreReported) {
  const int before = CountOpenFds();
  SendRaw(8);
  rlimit old = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &old), 0);
  // Room for two more: the kernel delivers two and cuts the rest.
  const UniqueFd next(dup(0));
  rlimit low = old;
  low.rlim_cur = static_cast<rlim_t>(next.get()) + 3;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const ReceiveOutcome outcome = Receive();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &old), 0);
  EXPECT_EQ(outcome, ReceiveOutcome::kPacket);
  EXPECT_TRUE(packet_.fds_lost);
  EXPECT_TRUE(packet_.fds.empty());
  EXPECT_EQ(CountOpenFds(), before + 1);
}

TEST_F(PacketSocketTest, OversizedPacketsAreToldNotCutSilently) {
  const std::string large(kMaxFrameBytes + 100, 'x');
  ASSERT_EQ(send(a_.get(), large.data(), large.size(), 0),
            static_cast<ssize_t>(large.size()));
  ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
  EXPECT_TRUE(packet_.oversized);
  EXPECT_FALSE(SendPacket(a_.get(), Bytes(large)).ok());
  const std::string full(kMaxFrameBytes, 'y');
  ASSERT_TRUE(SendPacket(a_.get(), Bytes(full)).ok());
  ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
  EXPECT_FALSE(packet_.oversized);
  EXPECT_EQ(packet_.size, full.size());
}

TEST_F(PacketSocketTest, DescriptorsOfUnusablePacketsAreClosed) {
  const int before = CountOpenFds();
  // Empty: cannot be told from end of file.
  SendRaw(3, "");
  EXPECT_EQ(Receive(), ReceiveOutcome::kClosed);
  EXPECT_TRUE(packet_.fds.empty());
  EXPECT_EQ(CountOpenFds(), before);
  // Oversized: they belong to the packet until the next one is received.
  SendRaw(3, std::string(kMaxFrameBytes + 1, 'x'));
  ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
  EXPECT_TRUE(packet_.oversized);
  ASSERT_TRUE(SendPacket(a_.get(), Bytes("x")).ok());
  ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
  EXPECT_FALSE(packet_.oversized);
  EXPECT_TRUE(packet_.fds.empty());
  EXPECT_EQ(CountOpenFds(), before);
}

TEST_F(PacketSocketTest, TheLastPacketIsReadAfterItsSenderIsGone) {
  const int before = CountOpenFds();
  SendRaw(2, "bye");
  a_.reset();
  ASSERT_EQ(Receive(), ReceiveOutcome::kPacket);
  EXPECT_EQ(packet_.size, 3u);
  EXPECT_EQ(packet_.fds.size(), 2u);
  packet_.fds.clear();
  EXPECT_EQ(Receive(), ReceiveOutcome::kClosed);
  EXPECT_EQ(CountOpenFds(), before - 1);
}

TEST_F(PacketSocketTest, EmptyQueueAndClosedPeerAreTold) {
  ASSERT_EQ(fcntl(b_.get(), F_SETFL, O_NONBLOCK), 0);
  EXPECT_EQ(Receive(), ReceiveOutcome::kWouldBlock);
  a_.reset();
  EXPECT_EQ(Receive(), ReceiveOutcome::kClosed);
  const absl::Status gone = SendPacket(b_.get(), Bytes("x"));
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
}

TEST_F(PacketSocketTest, AFullSocketIsResourceExhausted) {
  ASSERT_EQ(fcntl(a_.get(), F_SETFL, O_NONBLOCK), 0);
  const std::string frame(kMaxFrameBytes, 'z');
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status = SendPacket(a_.get(), Bytes(frame));
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(PacketSocketTest, CredentialsAreTheKernels) {
  const auto peer = GetPeerCredentials(a_.get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, getuid());
}

TEST(ConnectPacketSocketTest, SaysWhyNot) {
  EXPECT_EQ(ConnectPacketSocket("/nonexistent/direct.sock").status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(ConnectPacketSocket(std::string(200, 'x')).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace preprocd
