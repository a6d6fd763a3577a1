#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/direct/direct_connection.h"
#include "daemon/direct/frame_codec.h"
#include "daemon/metrics/log.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

using preproc::v1::ClientFrame;
using preproc::v1::ServerFrame;

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kMaxEchoBytes = 1024;

absl::Status FrameError(absl::StatusCode code, ErrorReason reason,
                        absl::string_view field, absl::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = std::string(field);
  return MakeError(code, std::move(detail), message);
}

absl::Status CheckFds(const ClientFrame& request, size_t fds) {
  if (fds == 0 || request.body_case() == ClientFrame::kRegisterBuffer) {
    return absl::OkStatus();
  }
  return InvalidField(
      ErrorReason::kFdCount, "fds",
      absl::StrCat("fds: ", fds, " came with a message that takes none"));
}

bool IsWork(const ClientFrame& request) {
  switch (request.body_case()) {
    case ClientFrame::kConvert:
    case ClientFrame::kDecode:
    case ClientFrame::kEncode:
    case ClientFrame::kTile:
    case ClientFrame::kTileOne:
    case ClientFrame::kMergeDetections:
    case ClientFrame::kMaterializeMasks:
    case ClientFrame::kDrawMasks:
      return true;
    default:
      return false;
  }
}

absl::Status Echo(const preproc::v1::EchoRequest& request,
                  preproc::v1::EchoReply* reply) {
  if (request.payload().size() > kMaxEchoBytes) {
    return InvalidField(ErrorReason::kTooLarge, "echo.payload",
                        absl::StrCat("echo.payload: ", request.payload().size(),
                                     " bytes > ", kMaxEchoBytes));
  }
  reply->set_payload(request.payload());
  return absl::OkStatus();
}

// The operation of a frame that the contract has and this build lacks.
std::optional<Operation> OperationNotBuilt(const ClientFrame& request) {
  switch (request.body_case()) {
    case ClientFrame::kPrepare:
      return Operation::kPrepare;
    case ClientFrame::kRun:
      return Operation::kRun;
    default:
      return std::nullopt;
  }
}

}  // namespace

absl::Status DirectConnection::HandleFrame(std::unique_ptr<Exchange>& exchange,
                                           int64_t arrival_ns) {
  const ClientFrame& request = *exchange->request;
  RETURN_IF_ERROR(CheckFds(request, server_.packet.fds.size()));
  const uint64_t request_id = request.request_id();
  exchange->frame.set_request_id(request_id);
  if (silent()) return HandleHello(*exchange);
  if (request.body_case() == ClientFrame::kHello) {
    return FrameError(absl::StatusCode::kFailedPrecondition,
                      ErrorReason::kFrameInvalid, "hello",
                      "hello: the session is open already");
  }
  CallContext call;
  call.session = session_;
  call.request_id = request_id;
  call.arrival_ns = arrival_ns;
  RETURN_IF_ERROR(OpenRequest(request_id));
  if (IsWork(request)) {
    StartWork(std::move(exchange), call);
    return absl::OkStatus();
  }
  const absl::Status status = Answer(*exchange, call);
  CloseRequest(request_id);
  return status;
}

absl::Status DirectConnection::HandleHello(Exchange& exchange) {
  if (exchange.request->body_case() != ClientFrame::kHello) {
    return FrameError(absl::StatusCode::kFailedPrecondition,
                      ErrorReason::kFrameInvalid, "body",
                      "body: the first frame must be hello");
  }
  const preproc::v1::Hello& hello = exchange.request->hello();
  if (hello.min_version() > kProtocolVersion ||
      hello.max_version() < kProtocolVersion) {
    return FrameError(
        absl::StatusCode::kFailedPrecondition, ErrorReason::kVersionMismatch,
        "hello.max_version",
        absl::StrCat("hello.max_version: the client speaks ",
                     hello.min_version(), "..", hello.max_version(),
                     ", the daemon ", kProtocolVersion));
  }
  if (server_.service.draining()) {
    return FrameError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                      "", "the daemon is stopping");
  }
  ASSIGN_OR_RETURN(session_,
                   server_.service.sessions().Open(hello.client_name(), peer_));
  hello_timer_.reset();
  preproc::v1::Welcome* welcome = exchange.frame.mutable_welcome();
  welcome->set_version(kProtocolVersion);
  welcome->set_session_id(session_->id());
  welcome->set_token(session_->token().data(), session_->token().size());
  welcome->set_instance_id(server_.instance_id);
  welcome->set_daemon_version(server_.service.version());
  server_.service.FillLimits(welcome->mutable_limits());
  Log(LogLevel::kInfo, "session.open",
      {{"session", session_->id()},
       {"client", hello.client_name()},
       {"pid", peer_.pid},
       {"uid", peer_.uid}});
  return SendReply(exchange);
}

void DirectConnection::StartWork(std::unique_ptr<Exchange> exchange,
                                 const CallContext& call) {
  exchange->owner = shared_from_this();
  // The completion owns the exchange: the service calls it exactly once. One
  // pointer, so that it needs no memory of its own.
  Exchange* const e = exchange.release();
  const auto done = [e](const absl::Status& status) {
    FinishWork(std::unique_ptr<Exchange>(e), status);
  };
  Service& service = server_.service;
  switch (e->request->body_case()) {
    case ClientFrame::kConvert:
      service.Convert(call, e->request->convert(), &e->convert, done);
      break;
    case ClientFrame::kDecode:
      service.Decode(call, e->request->decode(), &e->decode, done);
      break;
    case ClientFrame::kTile:
      if (!e->request->tile().progress()) {
        service.Tile(call, e->request->tile(), &e->tile, done);
        break;
      }
      service.TileWithProgress(
          call, e->request->tile(), &e->tile,
          [e](const preproc::v1::TileProgress& progress) {
            SendProgress(*e, progress);
          },
          done);
      break;
    case ClientFrame::kTileOne:
      service.TileOne(call, e->request->tile_one(), &e->convert, done);
      break;
    case ClientFrame::kMergeDetections:
      service.MergeDetections(call, e->request->merge_detections(), &e->merge,
                              done);
      break;
    case ClientFrame::kMaterializeMasks:
      service.MaterializeMasks(call, e->request->materialize_masks(),
                               &e->materialize_masks, done);
      break;
    case ClientFrame::kDrawMasks:
      service.DrawMasks(call, e->request->draw_masks(), &e->draw_masks, done);
      break;
    default:
      service.Encode(call, e->request->encode(), &e->encode, done);
      break;
  }
}

void DirectConnection::SendProgress(const Exchange& exchange,
                                    const preproc::v1::TileProgress& progress) {
  std::vector<std::byte> bytes;
  if (SerializeReply(exchange.request->request_id(),
                     ServerFrame::kTileProgressFieldNumber, progress, bytes)
          .ok()) {
    exchange.owner->outbox_.Send(bytes).IgnoreError();
  }
}

void DirectConnection::FinishWork(std::unique_ptr<Exchange> exchange,
                                  const absl::Status& status) {
  const std::shared_ptr<DirectConnection> self = std::move(exchange->owner);
  const uint64_t request_id = exchange->request->request_id();
  absl::Status result = status;
  if (result.ok()) {
    switch (exchange->request->body_case()) {
      case ClientFrame::kConvert:
        result = SerializeReply(request_id, ServerFrame::kConvertFieldNumber,
                                exchange->convert, exchange->out);
        break;
      case ClientFrame::kDecode:
        result = SerializeReply(request_id, ServerFrame::kDecodeFieldNumber,
                                exchange->decode, exchange->out);
        break;
      case ClientFrame::kTile:
        result = SerializeReply(request_id, ServerFrame::kTileFieldNumber,
                                exchange->tile, exchange->out);
        break;
      case ClientFrame::kTileOne:
        result = SerializeReply(request_id, ServerFrame::kTileOneFieldNumber,
                                exchange->convert, exchange->out);
        break;
      case ClientFrame::kMergeDetections:
        result =
            SerializeReply(request_id, ServerFrame::kMergeDetectionsFieldNumber,
                           exchange->merge, exchange->out);
        break;
      case ClientFrame::kMaterializeMasks:
        result = SerializeReply(request_id,
                                ServerFrame::kMaterializeMasksFieldNumber,
                                exchange->materialize_masks, exchange->out);
        break;
      case ClientFrame::kDrawMasks:
        result = SerializeReply(request_id, ServerFrame::kDrawMasksFieldNumber,
                                exchange->draw_masks, exchange->out);
        break;
      default:
        result = SerializeReply(request_id, ServerFrame::kEncodeFieldNumber,
                                exchange->encode, exchange->out);
        break;
    }
    // What did not fit into a frame is not kept either.
    if (!result.ok()) exchange->packet_bytes = kMaxFrameBytes;
  }
  // Before the reply, after which the client may use the id again.
  self->CloseRequest(request_id);
  if (result.ok()) {
    self->outbox_.Send(exchange->out).IgnoreError();
  } else {
    self->SendError(request_id, result);
  }
  self->ReturnExchange(std::move(exchange));
}

absl::Status DirectConnection::Answer(Exchange& exchange,
                                      const CallContext& call) {
  const ClientFrame& request = *exchange.request;
  ServerFrame& reply = exchange.frame;
  Service& service = server_.service;
  switch (request.body_case()) {
    case ClientFrame::kEcho:
      RETURN_IF_ERROR(Echo(request.echo(), reply.mutable_echo()));
      break;
    case ClientFrame::kCancel:
      // Its effect is the cancelled request's own reply.
      service.scheduler().CancelRequest(session_->id(),
                                        request.cancel().request_id());
      return absl::OkStatus();
    case ClientFrame::kPeek:
      RETURN_IF_ERROR(service.Peek(call, request.peek(), reply.mutable_peek()));
      break;
    case ClientFrame::kExplain:
      RETURN_IF_ERROR(
          service.Explain(call, request.explain(), reply.mutable_explain()));
      break;
    case ClientFrame::kPlanTiles:
      RETURN_IF_ERROR(service.PlanTiles(call, request.plan_tiles(),
                                        reply.mutable_plan_tiles()));
      break;
    case ClientFrame::kLiftBoxes:
      RETURN_IF_ERROR(service.LiftBoxes(call, request.lift_boxes(),
                                        reply.mutable_lift_boxes()));
      break;
    case ClientFrame::kSetPalette:
      RETURN_IF_ERROR(service.SetPalette(call, request.set_palette(),
                                         reply.mutable_set_palette()));
      break;
    case ClientFrame::kCapabilities:
      RETURN_IF_ERROR(service.Capabilities(call, request.capabilities(),
                                           reply.mutable_capabilities()));
      break;
    case ClientFrame::kAllocateBuffer:
      return HandleAllocate(exchange, call);
    default:
      if (const auto operation = OperationNotBuilt(request)) {
        return service.NotBuiltYet(call, *operation);
      }
      RETURN_IF_ERROR(AnswerBuffers(exchange, call));
      break;
  }
  return SendReply(exchange);
}

absl::Status DirectConnection::HandleAllocate(Exchange& exchange,
                                              const CallContext& call) {
  const auto& request = exchange.request->allocate_buffer();
  std::vector<UniqueFd> fds;
  RETURN_IF_ERROR(server_.service.AllocateBuffer(
      call, request, exchange.frame.mutable_allocate_buffer(), &fds));
  if (SendReply(exchange, std::move(fds)).ok()) return absl::OkStatus();
  // A buffer whose descriptors its owner never gets is of no use.
  preproc::v1::UnregisterBufferRequest undo;
  undo.set_buffer_id(request.buffer_id());
  undo.set_generation(request.generation());
  preproc::v1::UnregisterBufferReply ignored;
  server_.service.UnregisterBuffer(call, undo, &ignored).IgnoreError();
  return FrameError(absl::StatusCode::kResourceExhausted, ErrorReason::kFdsLost,
                    "fds",
                    "fds: the kernel takes no more descriptors in flight; "
                    "read replies and try again");
}

absl::Status DirectConnection::AnswerBuffers(Exchange& exchange,
                                             const CallContext& call) {
  const ClientFrame& request = *exchange.request;
  ServerFrame& reply = exchange.frame;
  Service& service = server_.service;
  switch (request.body_case()) {
    case ClientFrame::kRegisterBuffer:
      return service.RegisterBuffer(call, request.register_buffer(),
                                    std::move(server_.packet.fds),
                                    reply.mutable_register_buffer());
    case ClientFrame::kUnregisterBuffer:
      return service.UnregisterBuffer(call, request.unregister_buffer(),
                                      reply.mutable_unregister_buffer());
    case ClientFrame::kListBuffers:
      return service.ListBuffers(call, request.list_buffers(),
                                 reply.mutable_list_buffers());
    case ClientFrame::kShareBuffer:
      return service.ShareBuffer(call, request.share_buffer(),
                                 reply.mutable_share_buffer());
    case ClientFrame::kAcceptShare:
      return service.AcceptShare(call, request.accept_share(),
                                 reply.mutable_accept_share());
    case ClientFrame::kRevokeShare:
      return service.RevokeShare(call, request.revoke_share(),
                                 reply.mutable_revoke_share());
    default:
      return FrameError(absl::StatusCode::kUnimplemented,
                        ErrorReason::kFrameInvalid, "body",
                        "body: newer than this daemon");
  }
}

}  // namespace preprocd
