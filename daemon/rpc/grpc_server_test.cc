#include "daemon/rpc/grpc_server.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "daemon/metrics/process_facts.h"
#include "daemon/rpc/health_rpc.h"
#include "daemon/rpc/peer_registry.h"
#include "daemon/rpc/status_to_grpc.h"
#include "daemon/service/service_fixture.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "preproc/v1/admin.grpc.pb.h"
#include "preproc/v1/buffers.grpc.pb.h"
#include "preproc/v1/preproc.grpc.pb.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;
namespace health = grpc::health::v1;

using testing::HasSubstr;
using testing::Not;

constexpr char kTokenKey[] = "preproc-session-bin";

class TempDir {
 public:
  TempDir() {
    const char* base = getenv("TMPDIR");
    path_ = absl::StrCat(base != nullptr ? base : "/tmp", "/rpcXXXXXX");
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  std::string File(const char* name) const {
    return absl::StrCat(path_, "/", name);
  }

 private:
  std::string path_;
};

UniqueFd Listen(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  EXPECT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  EXPECT_EQ(listen(fd.get(), 16), 0);
  return fd;
}

std::shared_ptr<grpc::Channel> Connect(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(),
                                   arguments);
}

// Generous: only a hang should meet it.
void SetBound(grpc::ClientContext& context, int seconds = 30) {
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(seconds));
}

v1::ErrorDetail DetailOf(const grpc::Status& status) {
  v1::RpcStatus rpc;
  v1::ErrorDetail detail;
  EXPECT_TRUE(rpc.ParseFromString(status.error_details()));
  EXPECT_EQ(rpc.code(), status.error_code());
  EXPECT_EQ(rpc.message(), status.error_message());
  EXPECT_EQ(rpc.details_size(), 1);
  if (rpc.details_size() == 1) {
    EXPECT_TRUE(rpc.details(0).UnpackTo(&detail));
  }
  return detail;
}

// What the other side does at its own pace, within half a minute.
bool Eventually(absl::FunctionRef<bool()> condition) {
  for (int i = 0; i < 30'000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

class GrpcServerTest : public ServiceTest {
 protected:
  void SetUp() override { Start(""); }

  void Start(const std::string& tcp_address) {
    server_.reset();
    std::filesystem::remove(dir_.File("grpc.sock"));
    std::filesystem::remove(dir_.File("admin.sock"));
    GrpcServerOptions options;
    options.tenant_listener = Listen(dir_.File("grpc.sock"));
    options.admin_listener = Listen(dir_.File("admin.sock"));
    options.tcp_address = tcp_address;
    options.on_drain = [this](int64_t timeout_ms) {
      ++drains_;
      drain_timeout_ms_ = timeout_ms;
    };
    auto server = GrpcServer::Start(std::move(options), service_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::shared_ptr<grpc::Channel> Tenant() {
    return Connect("unix:" + dir_.File("grpc.sock"));
  }
  std::shared_ptr<grpc::Channel> Admin() {
    return Connect("unix:" + dir_.File("admin.sock"));
  }
  std::string Token() const {
    return std::string(session_->token().begin(), session_->token().end());
  }

  grpc::Status ConvertOver(const std::shared_ptr<grpc::Channel>& channel,
                           const v1::ConvertRequest& request,
                           v1::ConvertReply* reply,
                           const std::vector<std::string>& tokens = {}) {
    grpc::ClientContext context;
    SetBound(context);
    for (const std::string& token : tokens) {
      context.AddMetadata(kTokenKey, token);
    }
    return v1::Preproc::NewStub(channel)->Convert(&context, request, reply);
  }

  TempDir dir_;
  std::atomic<int> drains_ = 0;
  std::atomic<int64_t> drain_timeout_ms_ = -1;
  std::unique_ptr<GrpcServer> server_;
};

v1::ConvertRequest InlineRequest() {
  return ResizeRequest(InlineSource(GradientJpeg(64, 48)), InlineDestination(),
                       32, 24);
}

TEST_F(GrpcServerTest, InlineConvertNeedsNoSession) {
  v1::ConvertReply direct;
  ASSERT_TRUE(Convert(InlineRequest(), &direct).ok());
  for (const auto& channel : {Tenant(), Admin()}) {
    v1::ConvertReply reply;
    const grpc::Status status = ConvertOver(channel, InlineRequest(), &reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(reply.inline_bytes(), direct.inline_bytes());
  }
}

TEST_F(GrpcServerTest, TokensOpenTheSessionsBuffers) {
  ASSERT_TRUE(Register(1, MemfdWith(GradientJpeg(64, 48), Seals::kAll),
                       v1::BUFFER_ACCESS_READ)
                  .ok());
  const auto channel = Tenant();
  v1::ConvertRequest request = InlineRequest();
  *request.mutable_source() = BufferSource(1);
  v1::ConvertReply reply;
  grpc::Status status = ConvertOver(channel, request, &reply, {Token()});
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(session_->facts().requests_ok, 1u);

  status = ConvertOver(channel, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_SESSION_UNKNOWN);
  EXPECT_EQ(DetailOf(status).field(), "source.buffer");

  grpc::ClientContext context;
  SetBound(context);
  context.AddMetadata(kTokenKey, Token());
  v1::ListBuffersReply list;
  ASSERT_TRUE(v1::Buffers::NewStub(channel)
                  ->List(&context, v1::ListBuffersRequest(), &list)
                  .ok());
  EXPECT_EQ(list.buffers_size(), 1);
}

TEST_F(GrpcServerTest, WrongTokensAndPeersAreRefused) {
  const auto channel = Tenant();
  v1::ConvertReply reply;
  std::string wrong = Token();
  wrong[15] = static_cast<char>(wrong[15] ^ 1);
  for (const std::string& token : {wrong, std::string("short")}) {
    const grpc::Status status =
        ConvertOver(channel, InlineRequest(), &reply, {token});
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_SESSION_UNKNOWN);
  }
  grpc::Status status =
      ConvertOver(channel, InlineRequest(), &reply, {Token(), Token()});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  // Another process's session: its token alone opens nothing.
  const auto foreign =
      *sessions_.Open("foreign", {getpid() + 1, getuid(), getgid()});
  status = ConvertOver(
      channel, InlineRequest(), &reply,
      {std::string(foreign->token().begin(), foreign->token().end())});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_SESSION_PEER);
  sessions_.Close(session_);
  status = ConvertOver(channel, InlineRequest(), &reply, {Token()});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(GrpcServerTest, ErrorsCarryTheirDetail) {
  v1::ConvertRequest request = InlineRequest();
  request.mutable_spec()->set_orientation(9);
  v1::ConvertReply reply;
  const grpc::Status status = ConvertOver(Tenant(), request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const v1::ErrorDetail detail = DetailOf(status);
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_FIELD_INVALID);
  EXPECT_EQ(detail.field(), "spec.orientation");
  EXPECT_EQ(detail.got(), "9");
}

TEST_F(GrpcServerTest, MissingOperationsAreUnimplemented) {
  const auto stub = v1::Preproc::NewStub(Tenant());
  {
    grpc::ClientContext context;
    SetBound(context);
    v1::PrepareReply reply;
    const grpc::Status status =
        stub->Prepare(&context, v1::PrepareRequest(), &reply);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
    EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_NOT_BUILT);
  }
  grpc::ClientContext context;
  SetBound(context);
  const auto stream = stub->Stream(&context);
  v1::StreamReply reply;
  EXPECT_FALSE(stream->Read(&reply));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_NOT_BUILT);
}

TEST_F(GrpcServerTest, AdminLivesOnTheAdminSocketOnly) {
  v1::StatusReply reply;
  grpc::ClientContext tenant_context;
  SetBound(tenant_context);
  EXPECT_EQ(v1::Admin::NewStub(Tenant())
                ->Status(&tenant_context, v1::StatusRequest(), &reply)
                .error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
  grpc::ClientContext admin_context;
  SetBound(admin_context);
  ASSERT_TRUE(v1::Admin::NewStub(Admin())
                  ->Status(&admin_context, v1::StatusRequest(), &reply)
                  .ok());
  EXPECT_EQ(reply.pid(), getpid());
}

TEST_F(GrpcServerTest, DrainIsPassedOnOnce) {
  const auto stub = v1::Admin::NewStub(Admin());
  const auto drain = [&](int64_t timeout_ms) {
    grpc::ClientContext context;
    SetBound(context);
    v1::DrainRequest request;
    request.set_timeout_ms(timeout_ms);
    v1::DrainReply reply;
    return stub->Drain(&context, request, &reply);
  };
  EXPECT_EQ(drain(-1).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(drains_, 0);
  EXPECT_TRUE(drain(250).ok());
  EXPECT_TRUE(drain(9).ok());
  EXPECT_TRUE(Eventually([&] { return drains_ == 1; }));
  EXPECT_EQ(drain_timeout_ms_, 250);
}

TEST_F(GrpcServerTest, HealthKnowsItsServices) {
  const auto check = [](const std::shared_ptr<grpc::Channel>& channel,
                        const std::string& service,
                        health::HealthCheckResponse* response) {
    grpc::ClientContext context;
    SetBound(context);
    health::HealthCheckRequest request;
    request.set_service(service);
    return health::Health::NewStub(channel)->Check(&context, request, response);
  };
  health::HealthCheckResponse response;
  for (const char* service : {"", "preproc.v1.Preproc", "preproc.v1.Buffers",
                              "preprocd.backend.cpu"}) {
    ASSERT_TRUE(check(Tenant(), service, &response).ok()) << service;
    EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  }
  EXPECT_EQ(check(Tenant(), "preproc.v1.Admin", &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(check(Tenant(), "preprocd.backend.tpu", &response).error_code(),
            grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(check(Admin(), "preproc.v1.Admin", &response).ok());
  server_->BeginDrain();
  // The admin socket answers through the whole drain.
  ASSERT_TRUE(check(Admin(), "", &response).ok());
  EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
}

TEST_F(GrpcServerTest, HealthWatchersSeeTheDrain) {
  const auto channel = Tenant();
  const auto stub = health::Health::NewStub(channel);
  grpc::ClientContext context;
  SetBound(context);
  const auto watch = stub->Watch(&context, health::HealthCheckRequest());
  health::HealthCheckRequest unknown_request;
  unknown_request.set_service("who");
  grpc::ClientContext unknown_context;
  SetBound(unknown_context);
  const auto unknown = stub->Watch(&unknown_context, unknown_request);
  health::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVICE_UNKNOWN);
  server_->BeginDrain();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
  // Open watches do not keep the server from ending.
  server_.reset();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_FALSE(watch->Finish().ok());
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_FALSE(unknown->Finish().ok());
}

// A backend that loses its device and finds it again.
TEST(HealthRpcTest, WatchersOfABackendHearOfItsChanges) {
  std::atomic<bool> well = true;
  HealthRpc rpc({"preproc.v1.Preproc"}, [&well] {
    return std::vector<std::pair<std::string, bool>>{{"cpu", true},
                                                     {"gl", well}};
  });
  grpc::ServerBuilder builder;
  builder.RegisterService(&rpc);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto stub = health::Health::NewStub(
      server->InProcessChannel(grpc::ChannelArguments()));
  grpc::ClientContext context;
  SetBound(context);
  health::HealthCheckRequest request;
  request.set_service("preprocd.backend.gl");
  const auto watch = stub->Watch(&context, request);
  health::HealthCheckResponse response;
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  // Nothing new is not told: the next word is the loss.
  rpc.Refresh();
  well = false;
  rpc.Refresh();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
  well = true;
  rpc.Refresh();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::SERVING);
  rpc.StopServing();
  ASSERT_TRUE(watch->Read(&response));
  EXPECT_EQ(response.status(), health::HealthCheckResponse::NOT_SERVING);
  rpc.EndWatches();
  EXPECT_FALSE(watch->Read(&response));
  EXPECT_EQ(watch->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  server->Shutdown();
}

// One reflection request in wire form: its single string field.
std::string Reflect(const std::shared_ptr<grpc::Channel>& channel, int field,
                    const std::string& value) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  SetBound(context);
  grpc::CompletionQueue queue;
  const auto next = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(
      &context,
      "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", &queue);
  call->StartCall(nullptr);
  EXPECT_TRUE(next());
  std::string request(1, static_cast<char>(field << 3 | 2));
  request += static_cast<char>(value.size());
  request += value;
  const grpc::Slice slice(request);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  EXPECT_TRUE(next());
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  EXPECT_TRUE(next());
  call->WritesDone(nullptr);
  EXPECT_TRUE(next());
  grpc::Status status;
  call->Finish(&status, nullptr);
  EXPECT_TRUE(next());
  EXPECT_TRUE(status.ok()) << status.error_message();
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(answer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& part : slices) {
    bytes.append(reinterpret_cast<const char*>(part.begin()), part.size());
  }
  return bytes;
}

TEST_F(GrpcServerTest, ReflectionListsAndDescribesWhatIsServed) {
  constexpr int kFileContainingSymbol = 4;
  constexpr int kListServices = 7;
  const std::string tenant = Reflect(Tenant(), kListServices, "*");
  EXPECT_THAT(tenant, HasSubstr("preproc.v1.Preproc"));
  EXPECT_THAT(tenant, HasSubstr("preproc.v1.Buffers"));
  EXPECT_THAT(tenant, HasSubstr("grpc.health.v1.Health"));
  EXPECT_THAT(tenant, Not(HasSubstr("preproc.v1.Admin")));
  EXPECT_THAT(Reflect(Admin(), kListServices, "*"),
              HasSubstr("preproc.v1.Admin"));
  EXPECT_THAT(Reflect(Tenant(), kFileContainingSymbol, "grpc.health.v1.Health"),
              HasSubstr("HealthCheckResponse"));
  EXPECT_THAT(Reflect(Tenant(), kFileContainingSymbol, "preproc.v1.Preproc"),
              HasSubstr("ConvertRequest"));
}

TEST_F(GrpcServerTest, MessagesAboveTheBoundAreRefused) {
  v1::ConvertRequest request = InlineRequest();
  request.mutable_source()->set_inline_bytes(
      std::string(kMaxInlineBytes + (65 << 10), 'x'));
  v1::ConvertReply reply;
  const auto channel = Tenant();
  EXPECT_EQ(ConvertOver(channel, request, &reply).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(ConvertOver(channel, InlineRequest(), &reply).ok());
}

TEST_F(GrpcServerTest, CancelledAndExpiredCallsLeaveTheQueue) {
  const auto stub = v1::Preproc::NewStub(Tenant());
  BusyExecutor busy(scheduler_);
  v1::ConvertReply reply;
  {
    grpc::ClientContext context;
    SetBound(context);
    context.AddMetadata(kTokenKey, Token());
    std::thread canceller([&] {
      EXPECT_TRUE(Eventually([&] { return session_->facts().in_flight == 1; }));
      context.TryCancel();
    });
    EXPECT_EQ(stub->Convert(&context, InlineRequest(), &reply).error_code(),
              grpc::StatusCode::CANCELLED);
    canceller.join();
  }
  EXPECT_TRUE(Eventually([&] { return session_->facts().in_flight == 0; }));
  {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::milliseconds(50));
    context.AddMetadata(kTokenKey, Token());
    EXPECT_EQ(stub->Convert(&context, InlineRequest(), &reply).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_TRUE(Eventually([&] { return session_->facts().in_flight == 0; }));
  EXPECT_TRUE(Eventually([&] { return scheduler_.queued() == 0; }));
}

TEST_F(GrpcServerTest, ConnectionsComeAndGo) {
  v1::ConvertReply reply;
  ASSERT_TRUE(ConvertOver(Tenant(), InlineRequest(), &reply).ok());
  const int before = ReadProcessFacts().open_fds;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(ConvertOver(Tenant(), InlineRequest(), &reply).ok());
  }
  // gRPC closes its ends a little later than the client drops the channel.
  EXPECT_TRUE(
      Eventually([&] { return ReadProcessFacts().open_fds <= before; }));
}

TEST_F(GrpcServerTest, TcpIsLoopbackInlineAndWithoutTokens) {
  for (const char* address :
       {"0.0.0.0:0", "192.168.1.2:80", "example.org:80", "127.0.0.1",
        "127.0.0.1:70000", "127.0.0:80", "127.0.0.1.5:80", ":80", "[::]:80"}) {
    GrpcServerOptions options;
    options.tcp_address = address;
    const auto server = GrpcServer::Start(std::move(options), service_);
    EXPECT_EQ(server.status().code(), absl::StatusCode::kInvalidArgument)
        << address;
  }
  Start("127.0.0.1:0");
  ASSERT_GT(server_->tcp_port(), 0);
  const std::string address = absl::StrCat("127.0.0.1:", server_->tcp_port());
  const auto channel = Connect(address);
  v1::ConvertReply reply;
  grpc::Status status = ConvertOver(channel, InlineRequest(), &reply);
  EXPECT_TRUE(status.ok()) << status.error_message();
  status = ConvertOver(channel, InlineRequest(), &reply, {Token()});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(DetailOf(status).reason(), v1::ERROR_REASON_NOT_PERMITTED);
  GrpcServerOptions second;
  second.tcp_address = address;
  EXPECT_EQ(GrpcServer::Start(std::move(second), service_).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(StatusToGrpcTest, KeepsCodesAndCutsLongMessages) {
  EXPECT_TRUE(StatusToGrpc(absl::OkStatus()).ok());
  const grpc::Status status =
      StatusToGrpc(absl::UnavailableError(std::string(5000, 'm')));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message().size(),
            static_cast<size_t>(kMaxStatusMessageBytes));
  // Two bytes a character; the cut falls between characters.
  std::string text = "x";
  for (int i = 0; i < 1000; ++i) text += "\xC3\xA9";
  EXPECT_EQ(StatusToGrpc(absl::InternalError(text)).error_message().size(),
            static_cast<size_t>(kMaxStatusMessageBytes) - 1);
}

class PeerRegistryTest : public testing::Test {
 protected:
  std::pair<UniqueFd, UniqueFd> Pair() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  PeerRegistry registry_;
};

TEST_F(PeerRegistryTest, NumbersRiseAndNameThePeer) {
  auto [a, a_end] = Pair();
  auto [b, b_end] = Pair();
  const auto first = registry_.Admit(std::move(a));
  const auto second = registry_.Admit(std::move(b));
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_GT(second->get(), first->get());
  const auto peer = registry_.Find(absl::StrCat("fd:", first->get()));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, getpid());
  EXPECT_EQ(peer->uid, getuid());
}

TEST_F(PeerRegistryTest, ClosedAndReusedNumbersAreNobody) {
  auto [a, a_end] = Pair();
  auto first = registry_.Admit(std::move(a));
  ASSERT_TRUE(first.ok()) << first.status();
  const int number = first->get();
  const std::string name = absl::StrCat("fd:", number);
  first->reset();
  EXPECT_EQ(registry_.Find(name).status().code(),
            absl::StatusCode::kPermissionDenied);
  // Another socket under the same number is not the one that was admitted.
  auto [c, c_end] = Pair();
  ASSERT_EQ(dup2(c.get(), number), number);
  const UniqueFd reused(number);
  EXPECT_EQ(registry_.Find(name).status().code(),
            absl::StatusCode::kPermissionDenied);
  for (const char* peer : {"", "fd:", "fd:x", "fd:-1", "unix:", "fd:2"}) {
    EXPECT_FALSE(registry_.Find(peer).ok()) << peer;
  }
}

TEST_F(PeerRegistryTest, OneProcessCannotTakeAllConnections) {
  std::vector<UniqueFd> held;
  for (int i = 0; i < kMaxConnectionsPerPeer; ++i) {
    auto [a, a_end] = Pair();
    auto admitted = registry_.Admit(std::move(a));
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    held.push_back(*std::move(admitted));
  }
  auto [b, b_end] = Pair();
  EXPECT_EQ(registry_.Admit(std::move(b)).status().code(),
            absl::StatusCode::kResourceExhausted);
  held.pop_back();
  auto [c, c_end] = Pair();
  EXPECT_TRUE(registry_.Admit(std::move(c)).ok());
  EXPECT_EQ(registry_.connections(), kMaxConnectionsPerPeer);
}

}  // namespace
}  // namespace preprocd
