#include "daemon/rpc/grpc_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/metrics/log.h"
#include "daemon/rpc/caller_resolver.h"
#include "daemon/rpc/health_rpc.h"
#include "daemon/rpc/peer_registry.h"
#include "daemon/rpc/rpc_services.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr int kMessageOverheadBytes = 64 << 10;
// Threads of the reflection service, the only one that blocks.
constexpr int kMaxBlockingThreads = 16;
constexpr int kMaxStreamsPerConnection = 128;
constexpr int64_t kMaxTransportBytes = int64_t{256} << 20;
// Connections taken per turn, so that one listener cannot starve the other.
constexpr int kMaxAcceptsPerTurn = 16;
// Pause when the process is out of descriptors; the listener stays readable.
constexpr int kNoDescriptorPauseMs = 50;
// Calls that did not end by themselves are cancelled after this.
constexpr std::chrono::milliseconds kShutdownGrace(500);

absl::Status BadAddress(const std::string& address, absl::string_view why) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kFieldInvalid;
  detail.field = "listen_tcp";
  detail.got = address;
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat("listen_tcp ", address, " ", why));
}

bool IsLoopback(const std::string& host) {
  if (host == "[::1]") return true;
  in_addr address = {};
  return inet_pton(AF_INET, host.c_str(), &address) == 1 &&
         ntohl(address.s_addr) >> 24 == 127;
}

// The address as gRPC takes it; names are not resolved but "localhost".
absl::StatusOr<std::string> CheckTcpAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos) return BadAddress(address, "has no port");
  std::string host = address.substr(0, colon);
  int port = -1;
  if (!absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 0 ||
      port > 65535) {
    return BadAddress(address, "has no port in 0..65535");
  }
  if (host == "localhost") host = "127.0.0.1";
  if (!IsLoopback(host)) {
    return BadAddress(address, "is not a loopback address");
  }
  return absl::StrCat(host, ":", port);
}

absl::Status SetNonBlocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return absl::UnavailableError(
        absl::StrCat("listening socket: ", strerror(errno)));
  }
  return absl::OkStatus();
}

// One grpc::Server with its services and, unless it is TCP only, a listener
// whose connections are handed to it.
struct Endpoint {
  const char* name = "";
  UniqueFd listener;
  std::unique_ptr<HealthRpc> health;
  std::vector<std::unique_ptr<grpc::Service>> services;
  // Keep last: it uses the services until it is shut down.
  std::unique_ptr<grpc::Server> server;
};

absl::Status BuildServer(Endpoint& endpoint, const std::string& tcp_address,
                         int64_t max_inline_bytes, int* tcp_port) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(static_cast<int>(max_inline_bytes) +
                                   kMessageOverheadBytes);
  builder.SetSyncServerOption(grpc::ServerBuilder::NUM_CQS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MIN_POLLERS, 1);
  builder.SetSyncServerOption(grpc::ServerBuilder::MAX_POLLERS, 1);
  grpc::ResourceQuota quota(endpoint.name);
  quota.SetMaxThreads(kMaxBlockingThreads);
  quota.Resize(static_cast<size_t>(kMaxTransportBytes));
  builder.SetResourceQuota(quota);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             kMaxStreamsPerConnection);
  // Two daemons on one port would share its calls by chance.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.RegisterService(endpoint.health.get());
  for (const std::unique_ptr<grpc::Service>& service : endpoint.services) {
    builder.RegisterService(service.get());
  }
  if (!tcp_address.empty()) {
    builder.AddListeningPort(tcp_address, grpc::InsecureServerCredentials(),
                             tcp_port);
  }
  endpoint.server = builder.BuildAndStart();
  if (endpoint.server == nullptr) {
    return absl::UnavailableError(
        tcp_address.empty() ? "gRPC server did not start"
                            : absl::StrCat("cannot listen on ", tcp_address));
  }
  return absl::OkStatus();
}

}  // namespace

struct GrpcServer::State {
  explicit State(Service& service) : callers(service, peers) {}

  void AcceptLoop();
  // False when the process is out of descriptors.
  bool AcceptSome(Endpoint& endpoint);
  void HandOver(Endpoint& endpoint, UniqueFd connection);
  void Wake() {
    const uint64_t one = 1;
    // The counter cannot be full; a short write cannot happen.
    (void)!write(wake.get(), &one, sizeof(one));
  }

  PeerRegistry peers;
  CallerResolver callers;
  Endpoint tenant;
  Endpoint admin;
  int tcp_port = 0;
  UniqueFd wake;
  std::atomic<bool> stopping = false;
  std::atomic<bool> draining = false;
  std::atomic<bool> drain_asked = false;
  absl::AnyInvocable<void(int64_t)> on_drain;
  std::thread accept_thread;
};

void GrpcServer::State::HandOver(Endpoint& endpoint, UniqueFd connection) {
  absl::StatusOr<UniqueFd> numbered = peers.Admit(std::move(connection));
  if (!numbered.ok()) {
    Log(LogLevel::kWarn, "grpc.refused",
        {{"listener", endpoint.name},
         {"message", numbered.status().message()}});
    return;
  }
  grpc::AddInsecureChannelFromFd(endpoint.server.get(), numbered->release());
}

bool GrpcServer::State::AcceptSome(Endpoint& endpoint) {
  for (int i = 0; i < kMaxAcceptsPerTurn; ++i) {
    UniqueFd connection(accept4(endpoint.listener.get(), nullptr, nullptr,
                                SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection.valid()) {
      HandOver(endpoint, std::move(connection));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
    Log(LogLevel::kWarn, "grpc.accept",
        {{"listener", endpoint.name}, {"error", strerror(errno)}});
    return false;
  }
  return true;
}

void GrpcServer::State::AcceptLoop() {
  bool pause = false;
  while (!stopping) {
    pollfd sockets[3] = {
        {wake.get(), POLLIN, 0},
        {draining || pause ? -1 : tenant.listener.get(), POLLIN, 0},
        {pause ? -1 : admin.listener.get(), POLLIN, 0}};
    const int ready = poll(sockets, 3, pause ? kNoDescriptorPauseMs : -1);
    pause = false;
    if (ready <= 0) continue;
    uint64_t count = 0;
    if (sockets[0].revents != 0) (void)!read(wake.get(), &count, sizeof(count));
    if (stopping) return;
    if (sockets[1].revents != 0) pause |= !AcceptSome(tenant);
    if (sockets[2].revents != 0) pause |= !AcceptSome(admin);
  }
}

GrpcServer::GrpcServer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(
    GrpcServerOptions options, Service& service) {
  static std::once_flag once;
  std::call_once(once, [] {
    // A reference that is never given back: with the last one gRPC joins its
    // threads, and one of them may sit in a poll of ten seconds after a large
    // write (tcp_posix.cc, backup poller). Stopping must not take that long.
    grpc_init();
    // Health is served from its .proto instead; see health_rpc.h.
    grpc::EnableDefaultHealthCheckService(false);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  });
  std::string tcp_address;
  if (!options.tcp_address.empty()) {
    ASSIGN_OR_RETURN(tcp_address, CheckTcpAddress(options.tcp_address));
  }
  for (const UniqueFd* listener :
       {&options.tenant_listener, &options.admin_listener}) {
    if (listener->valid()) RETURN_IF_ERROR(SetNonBlocking(listener->get()));
  }
  auto state = std::make_unique<State>(service);
  State& s = *state;
  s.on_drain = std::move(options.on_drain);
  s.wake = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!s.wake.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("eventfd: ", strerror(errno)));
  }
  const BackendStates backends = [&service] { return service.BackendStates(); };
  const std::string preproc_name = "preproc.v1.Preproc";
  const std::string buffers_name = "preproc.v1.Buffers";
  if (options.tenant_listener.valid() || !tcp_address.empty()) {
    s.tenant.name = "grpc.sock";
    s.tenant.listener = std::move(options.tenant_listener);
    s.tenant.health = std::make_unique<HealthRpc>(
        std::vector<std::string>{preproc_name, buffers_name}, backends);
    s.tenant.services.push_back(MakePreprocRpc(s.callers));
    s.tenant.services.push_back(MakeBuffersRpc(s.callers));
    RETURN_IF_ERROR(BuildServer(s.tenant, tcp_address,
                                service.max_inline_bytes(), &s.tcp_port));
  }
  if (options.admin_listener.valid()) {
    s.admin.name = "admin.sock";
    s.admin.listener = std::move(options.admin_listener);
    s.admin.health = std::make_unique<HealthRpc>(
        std::vector<std::string>{preproc_name, buffers_name,
                                 "preproc.v1.Admin"},
        backends);
    s.admin.services.push_back(MakePreprocRpc(s.callers));
    s.admin.services.push_back(MakeBuffersRpc(s.callers));
    s.admin.services.push_back(
        MakeAdminRpc(s.callers, [&s](int64_t timeout_ms) {
          if (s.drain_asked.exchange(true) || !s.on_drain) return;
          s.on_drain(timeout_ms);
        }));
    RETURN_IF_ERROR(
        BuildServer(s.admin, "", service.max_inline_bytes(), nullptr));
  }
  s.accept_thread = std::thread([&s] { s.AcceptLoop(); });
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(state)));
}

GrpcServer::~GrpcServer() {
  state_->stopping = true;
  state_->Wake();
  state_->accept_thread.join();
  const auto deadline = std::chrono::system_clock::now() + kShutdownGrace;
  for (Endpoint* endpoint : {&state_->tenant, &state_->admin}) {
    if (endpoint->server == nullptr) continue;
    endpoint->health->StopServing();
    endpoint->health->EndWatches();
    endpoint->server->Shutdown(deadline);
  }
}

int GrpcServer::tcp_port() const { return state_->tcp_port; }

void GrpcServer::RefreshHealth() {
  for (Endpoint* endpoint : {&state_->tenant, &state_->admin}) {
    if (endpoint->health != nullptr) endpoint->health->Refresh();
  }
}

void GrpcServer::BeginDrain() {
  state_->draining = true;
  for (Endpoint* endpoint : {&state_->tenant, &state_->admin}) {
    if (endpoint->health != nullptr) endpoint->health->StopServing();
  }
  state_->Wake();
}

}  // namespace preprocd
