#include "client/cpp/grpc_calls.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "client/cpp/error_from_proto.h"
#include "engine/base/limits.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "preproc/v1/admin.grpc.pb.h"
#include "preproc/v1/buffers.grpc.pb.h"
#include "preproc/v1/preproc.grpc.pb.h"

namespace preprocd::internal {
namespace {

using preproc::v1::Admin;
using preproc::v1::Buffers;
using preproc::v1::Preproc;

constexpr char kTokenKey[] = "preproc-session-bin";
constexpr int kMaxMessageBytes = static_cast<int>(kMaxInlineBytes) + (64 << 10);

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  // Sessions do not share connections: the daemon ties one to its peer.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                   arguments);
}

absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  // What gRPC itself answers for a service that a listener does not have.
  if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
      status.error_message().empty()) {
    return absl::UnimplementedError("this address does not serve the call");
  }
  return StatusFromGrpc(status.error_code(), status.error_message(),
                        status.error_details());
}

}  // namespace

struct GrpcCalls::State {
  State(const std::string& address, std::string session_token)
      : channel(MakeChannel(address)), token(std::move(session_token)) {}

  void Prepare(grpc::ClientContext& context, absl::Duration timeout) const {
    if (!token.empty()) context.AddMetadata(kTokenKey, token);
    if (timeout < absl::InfiniteDuration()) {
      context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    }
  }

  template <typename Stub, typename Request, typename Reply>
  absl::Status Unary(Stub& stub,
                     grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                  const Request&, Reply*),
                     const Request& request, Reply* reply,
                     absl::Duration timeout) const {
    grpc::ClientContext context;
    Prepare(context, timeout);
    return FromGrpc((stub.*method)(&context, request, reply));
  }

  const std::shared_ptr<grpc::Channel> channel;
  const std::string token;
  const std::unique_ptr<Preproc::Stub> preproc = Preproc::NewStub(channel);
  const std::unique_ptr<Buffers::Stub> buffers = Buffers::NewStub(channel);
  const std::unique_ptr<Admin::Stub> admin = Admin::NewStub(channel);
  const std::unique_ptr<grpc::health::v1::Health::Stub> health =
      grpc::health::v1::Health::NewStub(channel);
};

GrpcCalls::GrpcCalls(const std::string& address, std::string session_token)
    : state_(std::make_unique<State>(address, std::move(session_token))) {}

GrpcCalls::~GrpcCalls() = default;

#define PREPROCD_UNARY(STUB, SERVICE, METHOD, REQUEST, REPLY)            \
  absl::Status GrpcCalls::Call(const preproc::v1::REQUEST& request,      \
                               preproc::v1::REPLY* reply,                \
                               absl::Duration timeout) {                 \
    return state_->Unary(*state_->STUB, &SERVICE::Stub::METHOD, request, \
                         reply, timeout);                                \
  }
#define PREPROCD_PREPROC(NAME) \
  PREPROCD_UNARY(preproc, Preproc, NAME, NAME##Request, NAME##Reply)
#define PREPROCD_ADMIN(NAME) \
  PREPROCD_UNARY(admin, Admin, NAME, NAME##Request, NAME##Reply)

PREPROCD_PREPROC(Convert)
PREPROCD_PREPROC(Decode)
PREPROCD_PREPROC(Peek)
PREPROCD_PREPROC(Encode)
PREPROCD_PREPROC(Explain)
PREPROCD_PREPROC(Capabilities)
PREPROCD_PREPROC(PlanTiles)
PREPROCD_PREPROC(Tile)
PREPROCD_PREPROC(LiftBoxes)
PREPROCD_PREPROC(MergeDetections)
PREPROCD_PREPROC(MaterializeMasks)
PREPROCD_PREPROC(DrawMasks)
PREPROCD_PREPROC(SetPalette)
PREPROCD_PREPROC(Prepare)
PREPROCD_UNARY(preproc, Preproc, TileOne, TileOneRequest, ConvertReply)
PREPROCD_UNARY(preproc, Preproc, Run, RunRequest, ConvertReply)
PREPROCD_UNARY(buffers, Buffers, Unregister, UnregisterBufferRequest,
               UnregisterBufferReply)
PREPROCD_UNARY(buffers, Buffers, List, ListBuffersRequest, ListBuffersReply)
PREPROCD_UNARY(buffers, Buffers, Share, ShareBufferRequest, ShareBufferReply)
PREPROCD_UNARY(buffers, Buffers, AcceptShare, AcceptShareRequest,
               AcceptShareReply)
PREPROCD_UNARY(buffers, Buffers, RevokeShare, RevokeShareRequest,
               RevokeShareReply)
PREPROCD_ADMIN(Status)
PREPROCD_ADMIN(ListSessions)
PREPROCD_ADMIN(Stats)
PREPROCD_ADMIN(Drain)
PREPROCD_ADMIN(SetLimits)
PREPROCD_ADMIN(SetLogLevel)
PREPROCD_ADMIN(StartTrace)
PREPROCD_ADMIN(StopTrace)

#undef PREPROCD_ADMIN
#undef PREPROCD_PREPROC
#undef PREPROCD_UNARY

absl::Status GrpcCalls::TileStream(
    const preproc::v1::TileRequest& request,
    const std::function<void(const preproc::v1::TileProgress&)>& on_progress,
    preproc::v1::TileReply* reply, absl::Duration timeout) {
  grpc::ClientContext context;
  state_->Prepare(context, timeout);
  const auto reader = state_->preproc->TileStream(&context, request);
  preproc::v1::TileStreamReply message;
  bool done = false;
  while (reader->Read(&message)) {
    if (message.has_progress()) on_progress(message.progress());
    if (message.has_done()) {
      reply->Swap(message.mutable_done());
      done = true;
    }
  }
  const absl::Status status = FromGrpc(reader->Finish());
  if (status.ok() && !done) {
    return absl::UnavailableError("the stream ended without a reply");
  }
  return status;
}

absl::StatusOr<std::string> GrpcCalls::Health(const std::string& service,
                                              absl::Duration timeout) {
  grpc::ClientContext context;
  state_->Prepare(context, timeout);
  grpc::health::v1::HealthCheckRequest request;
  grpc::health::v1::HealthCheckResponse response;
  request.set_service(service);
  const absl::Status status =
      FromGrpc(state_->health->Check(&context, request, &response));
  if (!status.ok()) return status;
  return grpc::health::v1::HealthCheckResponse::ServingStatus_Name(
      response.status());
}

std::string UnixTarget(const std::string& path) {
  std::string target = "unix:";
  for (const char c : path) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
        absl::StrContains("/-._~", absl::string_view(&c, 1))) {
      target += c;
    } else {
      absl::StrAppendFormat(&target, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return target;
}

absl::Status CheckUnixTarget(const std::string& address) {
  absl::string_view path = address;
  if (!absl::ConsumePrefix(&path, "unix:")) return absl::OkStatus();
  absl::ConsumePrefix(&path, "//");
  // Escaped paths are left to gRPC.
  if (absl::StrContains(path, "%")) return absl::OkStatus();
  if (access(std::string(path).c_str(), R_OK | W_OK) == 0) {
    return absl::OkStatus();
  }
  const std::string message = absl::StrCat(path, ": ", strerror(errno));
  return errno == EACCES ? absl::PermissionDeniedError(message)
                         : absl::UnavailableError(message);
}

}  // namespace preprocd::internal
