// Clients that break the protocol, by accident or on purpose: each gets an
// answer with a reason, and nobody else notices.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "daemon/direct/direct_fixture.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

constexpr absl::StatusCode kInvalid = absl::StatusCode::kInvalidArgument;

class DirectHostileTest : public DirectTest {
 protected:
  void SetUp() override { StartServer(); }
};

TEST_F(DirectHostileTest, WrongVersionsAreRefusedAndClosed) {
  const std::pair<uint32_t, uint32_t> ranges[] = {{0, 0}, {2, 9}, {2, 1}};
  for (const auto& [min, max] : ranges) {
    DirectClient client(path_, DirectClient::Start::kSilent);
    ExpectErrorReply(client.Call(HelloFrame(min, max)),
                     absl::StatusCode::kFailedPrecondition,
                     v1::ERROR_REASON_VERSION_MISMATCH);
    EXPECT_TRUE(client.AtEnd());
  }
  DirectClient newer(path_, DirectClient::Start::kSilent);
  EXPECT_EQ(newer.Call(HelloFrame(0, 7)).welcome().version(), 1u);
}

TEST_F(DirectHostileTest, AnythingButHelloFirstIsRefusedAndClosed) {
  DirectClient eager(path_, DirectClient::Start::kSilent);
  ExpectErrorReply(eager.Call(EchoFrame("x")),
                   absl::StatusCode::kFailedPrecondition,
                   v1::ERROR_REASON_FRAME_INVALID);
  EXPECT_TRUE(eager.AtEnd());

  DirectClient garbage(path_, DirectClient::Start::kSilent);
  garbage.SendBytes("\xFF\xFF\xFF\xFF");
  ExpectErrorReply(garbage.Receive(), kInvalid, v1::ERROR_REASON_FRAME_INVALID);
  EXPECT_TRUE(garbage.AtEnd());

  const UniqueFd memfd = MemfdOfSize(4096, Seals::kSize);
  DirectClient gift(path_, DirectClient::Start::kSilent);
  ExpectErrorReply(gift.Call(HelloFrame(1, 1), {memfd.get()}), kInvalid,
                   v1::ERROR_REASON_FD_COUNT);
  EXPECT_TRUE(gift.AtEnd());

  DirectClient nameless(path_, DirectClient::Start::kSilent);
  v1::ClientFrame hello = HelloFrame(1, 1);
  hello.mutable_hello()->set_client_name(std::string(65, 'n'));
  EXPECT_TRUE(nameless.Call(hello).has_error());
  EXPECT_TRUE(nameless.AtEnd());
}

TEST_F(DirectHostileTest, ASecondHelloIsRefusedAndTheSessionGoesOn) {
  DirectClient client(path_);
  ExpectErrorReply(client.Call(HelloFrame(1, 1)),
                   absl::StatusCode::kFailedPrecondition,
                   v1::ERROR_REASON_FRAME_INVALID);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, GarbageIsAnsweredWithoutAnId) {
  DirectClient client(path_);
  const std::string not_utf8("\x08\x05\x12\x04\x1a\x02\xC3\x28", 8);
  for (const std::string& bytes :
       {std::string("\0", 1), std::string(100, '\xFF'),
        std::string(65536, '\x0A'), not_utf8}) {
    client.SendBytes(bytes);
    const v1::ServerFrame reply = client.Receive();
    EXPECT_EQ(reply.request_id(), 0u);
    ExpectErrorReply(reply, kInvalid, v1::ERROR_REASON_FRAME_INVALID);
  }
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, FramesAboveTheBoundAreRefused) {
  DirectClient client(path_);
  for (const size_t size : {size_t{65537}, size_t{100'000}}) {
    client.SendBytes(std::string(size, 'x'));
    ExpectErrorReply(client.Receive(), kInvalid,
                     v1::ERROR_REASON_FRAME_INVALID);
  }
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, UnknownAndMissingBodiesAreRefused) {
  DirectClient client(path_);
  v1::ClientFrame empty;
  empty.set_request_id(41);
  ExpectErrorReply(client.Call(empty), absl::StatusCode::kUnimplemented,
                   v1::ERROR_REASON_FRAME_INVALID);
  // Field 1000, an empty message: a body of a later version.
  client.SendBytes(std::string("\x08\x2A\xC2\x3E\x00", 5));
  const v1::ServerFrame reply = client.Receive();
  EXPECT_EQ(reply.request_id(), 42u);
  ExpectErrorReply(reply, absl::StatusCode::kUnimplemented,
                   v1::ERROR_REASON_FRAME_INVALID);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, RequestIdZeroIsRefused) {
  DirectClient client(path_);
  client.SendBytes(EchoFrame("x").SerializeAsString());
  const v1::ServerFrame reply = client.Receive();
  EXPECT_EQ(reply.request_id(), 0u);
  ExpectErrorReply(reply, kInvalid, v1::ERROR_REASON_FIELD_INVALID);
  EXPECT_EQ(reply.error().detail().field(), "request_id");
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, AnIdInUseIsRefused) {
  DirectClient client(path_);
  RegisterPictures(client);
  BusyExecutor busy(scheduler_);
  v1::ClientFrame convert = SmallConvert();
  convert.set_request_id(77);
  client.Send(convert);
  v1::ClientFrame echo = EchoFrame("x");
  echo.set_request_id(77);
  for (const v1::ClientFrame& again : {convert, echo}) {
    ExpectErrorReply(client.Call(again), kInvalid,
                     v1::ERROR_REASON_FIELD_INVALID);
  }
  busy.Release();
  const v1::ServerFrame reply = client.Receive();
  EXPECT_EQ(reply.request_id(), 77u);
  EXPECT_TRUE(reply.has_convert()) << reply.ShortDebugString();
  // And free again.
  EXPECT_TRUE(client.Call(echo).has_echo());
}

TEST_F(DirectHostileTest, ABadEchoIsRefused) {
  DirectClient client(path_);
  ExpectErrorReply(client.Call(EchoFrame(std::string(1025, 'x'))), kInvalid,
                   v1::ERROR_REASON_TOO_LARGE);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, DescriptorsNobodyAskedForAreClosed) {
  DirectClient client(path_);
  const UniqueFd memfd = MemfdOfSize(4096, Seals::kSize);
  ASSERT_TRUE(client.Works());
  const int before = OpenDescriptors();
  ExpectErrorReply(client.Call(EchoFrame("x"), {memfd.get(), memfd.get()}),
                   kInvalid, v1::ERROR_REASON_FD_COUNT);
  // A wrong count, on a message that takes some.
  ExpectErrorReply(client.Call(RegisterFrame(1), {memfd.get(), memfd.get()}),
                   kInvalid, v1::ERROR_REASON_FD_COUNT);
  ExpectErrorReply(client.Call(RegisterFrame(1)), kInvalid,
                   v1::ERROR_REASON_FD_COUNT);
  // More than a frame may carry.
  const std::vector<int> nine(9, memfd.get());
  ExpectErrorReply(client.Call(RegisterFrame(1), nine), kInvalid,
                   v1::ERROR_REASON_FD_COUNT);
  const std::vector<int> most(253, memfd.get());
  ExpectErrorReply(client.Call(RegisterFrame(1), most), kInvalid,
                   v1::ERROR_REASON_FD_COUNT);
  EXPECT_EQ(OpenDescriptors(), before);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, LostDescriptorsFailThatMessageOnly) {
  DirectClient client(path_);
  const UniqueFd memfd = MemfdOfSize(4096, Seals::kSize);
  ASSERT_TRUE(client.Works());
  {
    const NoDescriptors none;
    const v1::ServerFrame reply = client.Call(RegisterFrame(1), {memfd.get()});
    ExpectErrorReply(reply, absl::StatusCode::kResourceExhausted,
                     v1::ERROR_REASON_FDS_LOST);
    EXPECT_TRUE(client.Works());
  }
  EXPECT_TRUE(
      client.Call(RegisterFrame(1), {memfd.get()}).has_register_buffer());
}

TEST_F(DirectHostileTest, AcceptingGoesOnWhenDescriptorsAreBack) {
  DirectClient open(path_);
  const UniqueFd waiting(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
  const std::string hello = [] {
    v1::ClientFrame frame = HelloFrame(1, 1);
    frame.set_request_id(1);
    return frame.SerializeAsString();
  }();
  {
    const NoDescriptors none;
    ASSERT_EQ(connect(waiting.get(), reinterpret_cast<sockaddr*>(&address),
                      sizeof(address)),
              0);
    ASSERT_GT(send(waiting.get(), hello.data(), hello.size(), 0), 0);
    // Whoever is open is still served.
    EXPECT_TRUE(open.Works());
  }
  Packet packet;
  const auto outcome = ReceivePacket(waiting.get(), packet);
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, ReceiveOutcome::kPacket);
}

TEST_F(DirectHostileTest, InlineRepliesAboveAFrameAreRefused) {
  DirectClient client(path_);
  v1::ConvertRequest request = ResizeRequest(InlineSource(GradientJpeg(64, 48)),
                                             InlineDestination(), 400, 300);
  const v1::ServerFrame reply = client.Call(ConvertFrame(request));
  ExpectErrorReply(reply, kInvalid, v1::ERROR_REASON_TOO_LARGE);
  EXPECT_NE(reply.error().message().find("buffer"), std::string::npos);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, LongListsAreRefusedNotCut) {
  DirectClient client(path_);
  // Descriptions with large numbers: 1024 of them do not fit into a frame.
  const UniqueFd memfd = MemfdOfSize(5 * 16384, Seals::kSize);
  const std::vector<int> three(3, memfd.get());
  v1::ClientFrame frame = RegisterFrame(1);
  v1::RegisterBufferRequest* request = frame.mutable_register_buffer();
  request->set_generation(0x7FFFFFFF);
  request->set_fd_count(3);
  *request->mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_I420, 300, 4);
  for (uint32_t i = 0; i < 3; ++i) {
    v1::Plane* plane = request->mutable_layout()->add_planes();
    plane->set_fd_index(i);
    plane->set_offset_bytes(16384);
    plane->set_stride_bytes(16384);
  }
  for (uint64_t id = 1; id <= 1024; ++id) {
    request->set_buffer_id(id << 50);
    const v1::ServerFrame made = client.Call(frame, three);
    ASSERT_TRUE(made.has_register_buffer()) << made.ShortDebugString();
  }
  request->set_buffer_id(1);
  ExpectErrorReply(client.Call(frame, three),
                   absl::StatusCode::kResourceExhausted,
                   v1::ERROR_REASON_QUOTA);
  v1::ClientFrame list;
  list.mutable_list_buffers();
  const v1::ServerFrame reply = client.Call(list);
  ExpectErrorReply(reply, kInvalid, v1::ERROR_REASON_TOO_LARGE);
  EXPECT_NE(reply.error().message().find("gRPC"), std::string::npos);
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectHostileTest, WhoReadsNoRepliesIsDisconnected) {
  const int before = sessions_.size();
  DirectClient client(path_);
  DirectClient other(path_);
  const std::string echo = [] {
    v1::ClientFrame frame = EchoFrame(std::string(1024, 'e'));
    frame.set_request_id(9);
    return frame.SerializeAsString();
  }();
  // Until the daemon closes the connection: a bound far above what socket
  // buffers and the outbox hold.
  bool closed = false;
  for (int i = 0; i < 100'000 && !closed; ++i) {
    closed = send(client.socket(), echo.data(), echo.size(), MSG_NOSIGNAL) < 0;
  }
  EXPECT_TRUE(closed);
  EXPECT_TRUE(Eventually([&] { return sessions_.size() == before + 1; }));
  EXPECT_TRUE(other.Works());
}

TEST_F(DirectHostileTest, ALateReaderGetsEverything) {
  DirectClient client(path_);
  // More than a socket buffer holds, less than the outbox takes alone.
  constexpr int kCount = 250;
  for (int i = 0; i < kCount; ++i) {
    client.Send(EchoFrame(std::string(1024, static_cast<char>('a' + i % 26))));
  }
  for (int i = 0; i < kCount; ++i) {
    ASSERT_EQ(client.Receive().echo().payload(),
              std::string(1024, static_cast<char>('a' + i % 26)))
        << i;
  }
}

class DirectLimitsTest : public DirectTest {
 protected:
  DirectLimitsTest()
      : DirectTest([] {
          SessionLimits limits;
          limits.max_sessions = 4;  // the fixture opens two itself
          return limits;
        }()) {}
};

TEST_F(DirectLimitsTest, SessionsBeyondTheLimitAreRefusedAndClosed) {
  StartServer();
  auto first = std::make_unique<DirectClient>(path_);
  DirectClient second(path_);
  DirectClient third(path_, DirectClient::Start::kSilent);
  ExpectErrorReply(third.Call(HelloFrame(1, 1)),
                   absl::StatusCode::kResourceExhausted,
                   v1::ERROR_REASON_QUOTA);
  EXPECT_TRUE(third.AtEnd());
  first.reset();
  EXPECT_TRUE(Eventually([&] { return sessions_.size() == 3; }));
  DirectClient fourth(path_);
  EXPECT_TRUE(fourth.Works());
}

TEST_F(DirectLimitsTest, SilentConnectionsGiveWayToNewOnes) {
  StartServer();
  DirectClient open(path_);
  // The oldest is closed for each that comes after the bound.
  std::vector<std::unique_ptr<DirectClient>> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(
        std::make_unique<DirectClient>(path_, DirectClient::Start::kSilent));
  }
  ExpectErrorReply(silent[0]->Receive(), absl::StatusCode::kResourceExhausted,
                   v1::ERROR_REASON_QUOTA);
  EXPECT_TRUE(silent[0]->AtEnd());
  DirectClient late(path_);
  EXPECT_TRUE(late.Works());
  EXPECT_TRUE(open.Works());
}

TEST_F(DirectLimitsTest, ConnectionsWithoutHelloEnd) {
  DirectServerOptions options;
  options.hello_bound = std::chrono::milliseconds(20);
  StartServer(options);
  DirectClient silent(path_, DirectClient::Start::kSilent);
  ExpectErrorReply(silent.Receive(), absl::StatusCode::kDeadlineExceeded,
                   v1::ERROR_REASON_DEADLINE);
  EXPECT_TRUE(silent.AtEnd());
}

}  // namespace
}  // namespace preprocd
