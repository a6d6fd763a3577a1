#include "daemon/direct/direct_server.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <vector>

#include "daemon/direct/direct_fixture.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

class DirectServerTest : public DirectTest {
 protected:
  void SetUp() override { StartServer(); }
};

TEST_F(DirectServerTest, HelloOpensASession) {
  const int before = sessions_.size();
  DirectClient client(path_);
  EXPECT_EQ(client.welcome.version(), 1u);
  EXPECT_NE(client.welcome.session_id(), 0u);
  EXPECT_EQ(client.welcome.token().size(), 16u);
  EXPECT_EQ(client.welcome.instance_id().size(), 16u);
  EXPECT_EQ(client.welcome.daemon_version(), "1.2.3-test");
  EXPECT_EQ(client.welcome.limits().max_frame_bytes(), 65536);
  EXPECT_EQ(sessions_.size(), before + 1);
  const auto found = sessions_.FindByToken(client.welcome.token(),
                                           {getpid(), getuid(), getgid()});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ((*found)->id(), client.welcome.session_id());
  EXPECT_EQ((*found)->client_name(), "direct-test");
}

TEST_F(DirectServerTest, SessionsAreToldApart) {
  const DirectClient first(path_);
  const DirectClient second(path_);
  EXPECT_NE(first.welcome.token(), second.welcome.token());
  EXPECT_NE(first.welcome.session_id(), second.welcome.session_id());
  EXPECT_EQ(first.welcome.instance_id(), second.welcome.instance_id());
}

TEST_F(DirectServerTest, EchoReturnsItsPayload) {
  DirectClient client(path_);
  const std::string payload(1024, '\x07');
  EXPECT_EQ(client.Call(EchoFrame(payload)).echo().payload(), payload);
  EXPECT_TRUE(client.Call(EchoFrame("")).has_echo());
}

TEST_F(DirectServerTest, ConvertWritesTheClientsMemoryAndCopiesNothing) {
  DirectClient client(path_);
  const UniqueFd target = RegisterPictures(client);
  const v1::ServerFrame reply = client.Call(SmallConvert());
  ASSERT_TRUE(reply.has_convert()) << reply.ShortDebugString();
  EXPECT_EQ(reply.convert().report().bytes_copied(), 0u);
  EXPECT_EQ(reply.convert().layout().width(), 32);
  // The service without a transport gives the same bytes.
  v1::ConvertRequest inline_request = ResizeRequest(
      InlineSource(GradientRgb(64, 48)), InlineDestination(), 32, 24);
  *inline_request.mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 64, 48);
  v1::ConvertReply expected;
  ASSERT_TRUE(Convert(inline_request, &expected).ok());
  EXPECT_EQ(ReadMemfd(target.get(), 32 * 24 * 3), expected.inline_bytes());
}

TEST_F(DirectServerTest, DecodeAndEncodeAnswer) {
  DirectClient client(path_);
  v1::ClientFrame decode;
  *decode.mutable_decode()->mutable_source() =
      InlineSource(GradientJpeg(40, 30));
  *decode.mutable_decode()->mutable_destination() = InlineDestination();
  const v1::ServerFrame decoded = client.Call(decode);
  ASSERT_TRUE(decoded.has_decode()) << decoded.ShortDebugString();
  EXPECT_EQ(decoded.decode().info().width(), 40);
  EXPECT_FALSE(decoded.decode().inline_bytes().empty());

  v1::ClientFrame encode;
  *encode.mutable_encode()->mutable_source() =
      InlineSource(GradientRgb(40, 30));
  *encode.mutable_encode()->mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 40, 30);
  *encode.mutable_encode()->mutable_destination() = InlineDestination();
  const v1::ServerFrame encoded = client.Call(encode);
  ASSERT_TRUE(encoded.has_encode()) << encoded.ShortDebugString();
  EXPECT_EQ(encoded.encode().inline_bytes().substr(0, 2), "\xFF\xD8");
}

TEST_F(DirectServerTest, CheapOperationsAnswer) {
  DirectClient client(path_);
  v1::ClientFrame peek;
  *peek.mutable_peek()->mutable_source() = InlineSource(GradientJpeg(40, 30));
  EXPECT_EQ(client.Call(peek).peek().info().height(), 30);

  v1::ClientFrame explain;
  *explain.mutable_explain()->mutable_convert() = ResizeRequest(
      InlineSource(GradientJpeg(40, 30)), InlineDestination(), 20, 20);
  EXPECT_TRUE(client.Call(explain).has_explain());

  v1::ClientFrame capabilities;
  capabilities.mutable_capabilities();
  EXPECT_GT(client.Call(capabilities).capabilities().operations_size(), 0);
}

TEST_F(DirectServerTest, TileGridsArePlanned) {
  DirectClient client(path_);
  v1::ClientFrame frame;
  v1::PlanTilesRequest* request = frame.mutable_plan_tiles();
  request->mutable_frame()->set_width(1920);
  request->mutable_frame()->set_height(1080);
  request->mutable_grid()->mutable_tile()->set_width(640);
  request->mutable_grid()->mutable_tile()->set_height(640);
  request->mutable_grid()->set_overlap(0.2f);
  const v1::ServerFrame reply = client.Call(frame);
  ASSERT_EQ(reply.plan_tiles().tiles_size(), 8);
  EXPECT_EQ(reply.plan_tiles().columns(), 4);
  EXPECT_EQ(reply.plan_tiles().tiles(7).crop().x(), 1280);
  EXPECT_EQ(reply.plan_tiles().tiles(7).crop().y(), 440);
  request->mutable_grid()->set_overlap(1);
  ExpectErrorReply(client.Call(frame), absl::StatusCode::kInvalidArgument,
                   v1::ERROR_REASON_FIELD_INVALID);
}

TEST_F(DirectServerTest, OperationsNotBuiltSaySo) {
  DirectClient client(path_);
  std::vector<v1::ClientFrame> frames(2);
  frames[0].mutable_prepare();
  frames[1].mutable_run();
  for (const v1::ClientFrame& frame : frames) {
    ExpectErrorReply(client.Call(frame), absl::StatusCode::kUnimplemented,
                     v1::ERROR_REASON_NOT_BUILT);
  }
}

TEST_F(DirectServerTest, AllocateSendsTheDescriptor) {
  DirectClient client(path_);
  v1::ClientFrame frame;
  frame.mutable_allocate_buffer()->set_buffer_id(5);
  frame.mutable_allocate_buffer()->set_generation(1);
  frame.mutable_allocate_buffer()->set_size_bytes(4096);
  const v1::ServerFrame reply = client.Call(frame);
  ASSERT_TRUE(reply.has_allocate_buffer()) << reply.ShortDebugString();
  EXPECT_EQ(reply.allocate_buffer().size_bytes(), 4096u);
  ASSERT_EQ(client.fds.size(), 1u);
  EXPECT_EQ(lseek(client.fds[0].get(), 0, SEEK_END), 4096);
  v1::ClientFrame forget;
  forget.mutable_unregister_buffer()->set_buffer_id(5);
  forget.mutable_unregister_buffer()->set_generation(1);
  EXPECT_TRUE(client.Call(forget).has_unregister_buffer());
}

TEST_F(DirectServerTest, BuffersAreSharedPointToPoint) {
  DirectClient owner(path_);
  DirectClient taker(path_);
  RegisterPictures(owner);
  v1::ClientFrame list;
  list.mutable_list_buffers();
  EXPECT_EQ(owner.Call(list).list_buffers().buffers_size(), 2);
  EXPECT_EQ(taker.Call(list).list_buffers().buffers_size(), 0);

  v1::ClientFrame share;
  share.mutable_share_buffer()->set_buffer_id(1);
  share.mutable_share_buffer()->set_generation(1);
  share.mutable_share_buffer()->set_access(v1::BUFFER_ACCESS_READ);
  const std::string token = owner.Call(share).share_buffer().share_token();
  EXPECT_EQ(token.size(), 16u);

  v1::ClientFrame accept;
  accept.mutable_accept_share()->set_share_token(token);
  accept.mutable_accept_share()->set_buffer_id(7);
  accept.mutable_accept_share()->set_generation(1);
  EXPECT_EQ(taker.Call(accept).accept_share().buffer().buffer_id(), 7u);
  EXPECT_EQ(taker.Call(list).list_buffers().buffers_size(), 1);

  v1::ClientFrame revoke;
  revoke.mutable_revoke_share()->set_share_token(token);
  EXPECT_TRUE(owner.Call(revoke).has_revoke_share());
  EXPECT_EQ(taker.Call(list).list_buffers().buffers_size(), 0);
}

TEST_F(DirectServerTest, PipelinedRequestsAreAllAnswered) {
  DirectClient client(path_);
  RegisterPictures(client);
  for (int round = 0; round < 20; ++round) {
    std::set<uint64_t> open;
    for (int i = 0; i < kMaxRequestsInFlightPerSession; ++i) {
      open.insert(client.Send(SmallConvert()));
    }
    while (!open.empty()) {
      const v1::ServerFrame reply = client.Receive();
      ASSERT_TRUE(reply.has_convert()) << reply.ShortDebugString();
      ASSERT_EQ(open.erase(reply.request_id()), 1u);
    }
  }
}

TEST_F(DirectServerTest, CancelAnswersTheCancelledRequest) {
  DirectClient client(path_);
  RegisterPictures(client);
  BusyExecutor busy(scheduler_);
  const uint64_t convert = client.Send(SmallConvert());
  v1::ClientFrame cancel;
  cancel.mutable_cancel()->set_request_id(convert);
  client.Send(cancel);
  const v1::ServerFrame reply = client.Receive();
  EXPECT_EQ(reply.request_id(), convert);
  ExpectErrorReply(reply, absl::StatusCode::kCancelled,
                   v1::ERROR_REASON_CANCELLED);
  busy.Release();
  EXPECT_TRUE(client.Works());
}

TEST_F(DirectServerTest, DisconnectCancelsQueuedWorkAndReleasesBuffers) {
  const int before = OpenDescriptors();
  const int sessions_before = sessions_.size();
  {
    BusyExecutor busy(scheduler_);
    DirectClient client(path_);
    RegisterPictures(client);
    for (int i = 0; i < 8; ++i) client.Send(SmallConvert());
    ASSERT_TRUE(client.Works());
    EXPECT_EQ(scheduler_.queued(), 8);
    client.Close();
    // The executor is still busy: nobody ran them.
    EXPECT_TRUE(Eventually([&] { return scheduler_.queued() == 0; }));
    EXPECT_TRUE(
        Eventually([&] { return sessions_.size() == sessions_before; }));
  }
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == before; }))
      << OpenDescriptors() << " descriptors, not " << before;
}

TEST_F(DirectServerTest, DisconnectDuringWorkLeaksNothing) {
  const int before = OpenDescriptors();
  for (int round = 0; round < 30; ++round) {
    DirectClient client(path_);
    RegisterPictures(client);
    for (int i = 0; i < 4; ++i) client.Send(SmallConvert());
  }
  EXPECT_TRUE(Eventually([&] { return OpenDescriptors() == before; }));
  EXPECT_TRUE(scheduler_.WaitIdle(20'000));
}

TEST_F(DirectServerTest, TheServerGoesWhileWorkIsInFlight) {
  for (int round = 0; round < 10; ++round) {
    DirectClient client(path_);
    RegisterPictures(client);
    for (int i = 0; i < 16; ++i) client.Send(SmallConvert());
    client.Receive();
    server_.reset();
    unlink(path_.c_str());
    StartServer();
  }
  EXPECT_TRUE(scheduler_.WaitIdle(20'000));
}

TEST_F(DirectServerTest, DrainTellsClientsAndLetsThemFinish) {
  // Accepted in this order, so the welcome of one proves the other accepted.
  DirectClient silent(path_, DirectClient::Start::kSilent);
  DirectClient client(path_);
  RegisterPictures(client);
  BusyExecutor busy(scheduler_);
  const uint64_t queued = client.Send(SmallConvert());
  ASSERT_TRUE(client.Works());
  service_.BeginDrain();
  server_->BeginDrain(1234);
  const v1::ServerFrame event = client.Receive();
  EXPECT_EQ(event.request_id(), 0u);
  EXPECT_EQ(event.going_away().deadline_ms(), 1234);
  ExpectErrorReply(client.Call(SmallConvert()), absl::StatusCode::kUnavailable,
                   v1::ERROR_REASON_DRAINING);
  busy.Release();
  const v1::ServerFrame reply = client.Receive();
  EXPECT_EQ(reply.request_id(), queued);
  EXPECT_TRUE(reply.has_convert()) << reply.ShortDebugString();
  // No new sessions, not even on a connection that was accepted before.
  EXPECT_EQ(silent.Receive().going_away().deadline_ms(), 1234);
  ExpectErrorReply(silent.Call(HelloFrame(1, 1)),
                   absl::StatusCode::kUnavailable, v1::ERROR_REASON_DRAINING);
  EXPECT_TRUE(silent.AtEnd());
  EXPECT_TRUE(Eventually([&] { return !ConnectPacketSocket(path_).ok(); }));
}

TEST_F(DirectServerTest, PingIsAnswered) {
  const uint64_t before = server_->pongs();
  server_->Ping();
  EXPECT_TRUE(Eventually([&] { return server_->pongs() == before + 1; }));
}

}  // namespace
}  // namespace preprocd
