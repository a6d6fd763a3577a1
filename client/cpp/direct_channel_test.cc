#include "client/cpp/direct_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/memfd.h"
#include "proto/packet/packet_socket.h"

namespace preprocd::internal {
namespace {

using preproc::v1::ClientFrame;
using preproc::v1::EchoRequest;
using preproc::v1::ServerFrame;
using ::testing::HasSubstr;

EchoRequest Echo(const std::string& payload) {
  EchoRequest request;
  request.set_payload(payload);
  return request;
}

// The daemon's end of a connection, driven by a script.
class Peer {
 public:
  explicit Peer(UniqueFd socket) : socket_(std::move(socket)) {}

  ClientFrame Read() {
    const auto outcome = ReceivePacket(socket_.get(), packet_);
    EXPECT_TRUE(outcome.ok() && *outcome == ReceiveOutcome::kPacket);
    ClientFrame frame;
    EXPECT_TRUE(frame.ParseFromArray(packet_.buffer.data(),
                                     static_cast<int>(packet_.size)));
    return frame;
  }
  bool Closed() {
    const auto outcome = ReceivePacket(socket_.get(), packet_);
    return !outcome.ok() || *outcome == ReceiveOutcome::kClosed;
  }
  void Write(const ServerFrame& frame, std::vector<int> fds = {}) {
    const std::string bytes = frame.SerializeAsString();
    EXPECT_EQ(
        SendPacket(socket_.get(),
                   std::as_bytes(std::span(bytes.data(), bytes.size())), fds),
        absl::OkStatus());
  }
  void WriteBytes(const std::string& bytes) {
    EXPECT_EQ(SendPacket(socket_.get(),
                         std::as_bytes(std::span(bytes.data(), bytes.size()))),
              absl::OkStatus());
  }
  void AnswerEcho(const ClientFrame& frame) {
    ServerFrame reply;
    reply.set_request_id(frame.request_id());
    reply.mutable_echo()->set_payload(frame.echo().payload());
    Write(reply);
  }
  void Close() { socket_.reset(); }

 private:
  UniqueFd socket_;
  Packet packet_;
};

class DirectChannelTest : public ::testing::Test {
 protected:
  void SetUp() override {
    int sockets[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
              0);
    auto channel = DirectChannel::Open(UniqueFd(sockets[0]));
    ASSERT_TRUE(channel.ok());
    channel_ = *std::move(channel);
    peer_.emplace(UniqueFd(sockets[1]));
  }
  absl::StatusOr<std::string> CallEcho(
      const std::string& payload, absl::Duration timeout = absl::Seconds(60)) {
    auto reply = channel_->Call(ClientFrame::kEchoFieldNumber, Echo(payload),
                                {}, timeout);
    if (!reply.ok()) return reply.status();
    return reply->frame.echo().payload();
  }

  std::unique_ptr<DirectChannel> channel_;
  std::optional<Peer> peer_;
};

TEST_F(DirectChannelTest, SingleCallerGetsItsReply) {
  std::thread daemon([this] { peer_->AnswerEcho(peer_->Read()); });
  EXPECT_EQ(CallEcho("hello").value(), "hello");
  daemon.join();
}

TEST_F(DirectChannelTest, HandWrittenFrameEqualsSerialisedClientFrame) {
  preproc::v1::ConvertRequest request;
  request.mutable_source()->set_inline_bytes(std::string(1000, 'x'));
  request.mutable_spec()->set_orientation(6);
  ClientFrame seen;
  std::thread daemon([&] {
    seen = peer_->Read();
    peer_->Close();
  });
  EXPECT_EQ(channel_
                ->Call(ClientFrame::kConvertFieldNumber, request, {},
                       absl::Seconds(60))
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
  daemon.join();
  ClientFrame expected;
  expected.set_request_id(1);
  *expected.mutable_convert() = request;
  EXPECT_EQ(seen.SerializeAsString(), expected.SerializeAsString());
}

TEST_F(DirectChannelTest, RepliesOutOfOrderReachTheirCallers) {
  constexpr int kThreads = 8;
  std::vector<std::thread> callers;
  std::vector<std::string> answers(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    callers.emplace_back([this, i, &answers] {
      answers[static_cast<size_t>(i)] =
          CallEcho(absl::StrCat("caller ", i)).value();
    });
  }
  std::vector<ClientFrame> frames;
  for (int i = 0; i < kThreads; ++i) frames.push_back(peer_->Read());
  std::reverse(frames.begin(), frames.end());
  for (const ClientFrame& frame : frames) peer_->AnswerEcho(frame);
  for (std::thread& caller : callers) caller.join();
  for (int i = 0; i < kThreads; ++i) {
    EXPECT_EQ(answers[static_cast<size_t>(i)], absl::StrCat("caller ", i));
  }
}

TEST_F(DirectChannelTest, ManyThreadsManyCallsLoseNone) {
  constexpr int kThreads = 6;
  constexpr int kCalls = 300;
  std::thread daemon([this] {
    for (int i = 0; i < kThreads * kCalls; ++i) {
      peer_->AnswerEcho(peer_->Read());
    }
  });
  std::vector<std::thread> callers;
  std::vector<int> wrong(kThreads, 0);
  for (size_t t = 0; t < kThreads; ++t) {
    callers.emplace_back([this, t, &wrong] {
      for (int i = 0; i < kCalls; ++i) {
        const std::string payload = absl::StrCat(t, ":", i);
        const auto answer = CallEcho(payload);
        if (!answer.ok() || *answer != payload) ++wrong[t];
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  daemon.join();
  EXPECT_EQ(wrong, std::vector<int>(kThreads, 0));
}

TEST_F(DirectChannelTest, ErrorReplyCarriesReasonAndField) {
  std::thread daemon([this] {
    const ClientFrame frame = peer_->Read();
    ServerFrame reply;
    reply.set_request_id(frame.request_id());
    reply.mutable_error()->set_code(5);
    reply.mutable_error()->set_message("source.buffer.buffer_id 9 is unknown");
    reply.mutable_error()->mutable_detail()->set_reason(
        preproc::v1::ERROR_REASON_BUFFER_UNKNOWN);
    reply.mutable_error()->mutable_detail()->set_field(
        "source.buffer.buffer_id");
    peer_->Write(reply);
  });
  const absl::Status status = CallEcho("x").status();
  daemon.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kBufferUnknown);
  EXPECT_EQ(GetErrorDetail(status)->field, "source.buffer.buffer_id");
}

TEST_F(DirectChannelTest, TimeoutSendsCancelAndLateReplyHurtsNobody) {
  const absl::Status status = CallEcho("slow", absl::Milliseconds(20)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  const ClientFrame slow = peer_->Read();
  const ClientFrame cancel = peer_->Read();
  EXPECT_EQ(cancel.cancel().request_id(), slow.request_id());
  EXPECT_NE(cancel.request_id(), slow.request_id());
  peer_->AnswerEcho(slow);
  std::thread daemon([this] { peer_->AnswerEcho(peer_->Read()); });
  EXPECT_EQ(CallEcho("next").value(), "next");
  daemon.join();
}

TEST_F(DirectChannelTest, TimeoutOfTheReaderHandsReadingToTheOthers) {
  absl::Status impatient;
  std::thread reader([this, &impatient] {
    impatient = CallEcho("impatient", absl::Milliseconds(150)).status();
  });
  const ClientFrame first = peer_->Read();  // now `reader` reads the socket
  std::string patient;
  std::thread follower(
      [this, &patient] { patient = CallEcho("patient").value(); });
  const ClientFrame second = peer_->Read();
  reader.join();
  EXPECT_EQ(impatient.code(), absl::StatusCode::kDeadlineExceeded);
  peer_->AnswerEcho(second);
  follower.join();
  EXPECT_EQ(patient, "patient");
  EXPECT_EQ(first.echo().payload(), "impatient");
}

TEST_F(DirectChannelTest, ClosedPeerFailsEveryCallerNowAndLater) {
  constexpr int kThreads = 4;
  std::vector<std::thread> callers;
  std::vector<absl::Status> statuses(kThreads);
  for (size_t i = 0; i < kThreads; ++i) {
    callers.emplace_back(
        [this, i, &statuses] { statuses[i] = CallEcho("x").status(); });
  }
  for (int i = 0; i < kThreads; ++i) peer_->Read();
  peer_->Close();
  for (std::thread& caller : callers) caller.join();
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  }
  EXPECT_EQ(CallEcho("later").status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(DirectChannelTest, LastWordsOfTheDaemonExplainTheEnd) {
  ServerFrame frame;
  frame.mutable_error()->set_code(8);
  frame.mutable_error()->set_message("64 sessions are open");
  peer_->Write(frame);
  peer_->Close();
  const absl::Status status = CallEcho("x").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

TEST_F(DirectChannelTest, GarbageFrameEndsTheConnectionWithAStatus) {
  std::thread daemon([this] {
    peer_->Read();
    peer_->WriteBytes("\xff\xff\xff\xff garbage");
  });
  const absl::Status status = CallEcho("x").status();
  daemon.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("does not parse"));
}

TEST_F(DirectChannelTest, RequestAboveTheFrameLimitIsRefusedHere) {
  const absl::Status status =
      CallEcho(std::string(kMaxFrameBytes, 'x')).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kFrameInvalid);
  std::thread daemon([this] { peer_->AnswerEcho(peer_->Read()); });
  EXPECT_EQ(CallEcho("still usable").value(), "still usable");
  daemon.join();
}

TEST_F(DirectChannelTest, DescriptorsTravelBothWays) {
  UniqueFd memory = CreateMemfd("test", 4096).value();
  std::thread daemon([this, &memory] {
    const ClientFrame frame = peer_->Read();
    ServerFrame reply;
    reply.set_request_id(frame.request_id());
    reply.mutable_allocate_buffer()->set_size_bytes(4096);
    peer_->Write(reply, {memory.get()});
  });
  const int sent[] = {memory.get()};
  auto reply = channel_->Call(ClientFrame::kAllocateBufferFieldNumber,
                              preproc::v1::AllocateBufferRequest(), sent,
                              absl::Seconds(60));
  daemon.join();
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_EQ(reply->fds.size(), 1U);
  EXPECT_EQ(lseek(reply->fds[0].get(), 0, SEEK_END), 4096);
}

TEST_F(DirectChannelTest, GoingAwayIsNoticedAndAnswersNobody) {
  EXPECT_FALSE(channel_->going_away());
  std::thread daemon([this] {
    const ClientFrame frame = peer_->Read();
    ServerFrame event;
    event.mutable_going_away()->set_deadline_ms(1000);
    peer_->Write(event);
    peer_->AnswerEcho(frame);
  });
  EXPECT_EQ(CallEcho("x").value(), "x");
  daemon.join();
  EXPECT_TRUE(channel_->going_away());
}

TEST_F(DirectChannelTest, ChannelClosesItsSocketAtTheEnd) {
  channel_.reset();
  EXPECT_TRUE(peer_->Closed());
}

}  // namespace
}  // namespace preprocd::internal
