#include "daemon/direct/direct_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/direct/frame_codec.h"
#include "daemon/metrics/log.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

using boost::asio::posix::stream_descriptor;
using preproc::v1::ClientFrame;

constexpr uint32_t kProtocolVersion = 1;
constexpr size_t kMaxEchoBytes = 1024;

absl::Status FrameError(absl::StatusCode code, ErrorReason reason,
                        absl::string_view field, absl::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = std::string(field);
  return MakeError(code, std::move(detail), message);
}

absl::Status CheckPacket(const Packet& packet) {
  if (packet.oversized) {
    return InvalidField(
        ErrorReason::kFrameInvalid, "frame",
        absl::StrCat("frame is larger than ", kMaxFrameBytes, " bytes"));
  }
  if (packet.too_many_fds) {
    return InvalidField(
        ErrorReason::kFdCount, "fds",
        absl::StrCat("fds: more than ", kMaxFdsPerFrame, " in one frame"));
  }
  if (packet.fds_lost) {
    return FrameError(absl::StatusCode::kResourceExhausted,
                      ErrorReason::kFdsLost, "fds",
                      "fds were lost on the way: a descriptor limit of the "
                      "daemon, or a security policy");
  }
  return absl::OkStatus();
}

}  // namespace

DirectConnection::DirectConnection(
    boost::asio::io_context& reactor, UniqueFd socket,
    const PeerCredentials& peer, Service& service,
    const std::string& instance_id,
    std::function<void(DirectConnection*)> on_closed)
    : service_(service),
      peer_(peer),
      instance_id_(instance_id),
      on_closed_(std::move(on_closed)),
      fd_(socket.get()),
      reactor_(&reactor) {
  socket_.emplace(reactor, socket.release());
}

DirectConnection::~DirectConnection() = default;

void DirectConnection::Start() { WaitReadable(); }

void DirectConnection::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (fd_ < 0) return;
    fd_ = -1;
    reactor_ = nullptr;
    outbox_.clear();
    outbox_bytes_ = 0;
  }
  socket_.reset();  // closes the socket
  if (session_ != nullptr) {
    // Queued work is cancelled; running work keeps the buffers it holds.
    service_.scheduler().CancelSession(session_->id());
    service_.sessions().Close(session_);
    const Session::Facts facts = session_->facts();
    Log(LogLevel::kInfo, "session.close",
        {{"session", session_->id()},
         {"ok", facts.requests_ok},
         {"failed", facts.requests_failed}});
  }
  on_closed_(this);
}

void DirectConnection::WaitReadable() {
  socket_->async_wait(
      stream_descriptor::wait_read,
      [self = shared_from_this()](const boost::system::error_code& error) {
        if (!error && self->socket_) self->OnReadable();
      });
}

void DirectConnection::OnReadable() {
  for (int i = 0; i < kMaxPacketsPerTurn; ++i) {
    const absl::StatusOr<ReceiveOutcome> outcome =
        ReceivePacket(socket_->native_handle(), packet_);
    if (!outcome.ok() || *outcome == ReceiveOutcome::kClosed) {
      Close();
      return;
    }
    if (*outcome == ReceiveOutcome::kWouldBlock) break;
    HandlePacket(packet_, MonotonicNs());
    if (!socket_) return;
  }
  WaitReadable();
}

void DirectConnection::HandlePacket(Packet& packet, int64_t arrival_ns) {
  std::unique_ptr<Exchange> exchange = TakeExchange();
  // The id is read even from a frame that is refused for its descriptors, so
  // that the client knows which request failed.
  absl::Status status = CheckPacket(packet);
  if (!packet.oversized) {
    const absl::Status parsed = ParseFrame(packet.bytes(), &exchange->request);
    if (status.ok()) status = parsed;
    if (!parsed.ok()) exchange->request.Clear();
  }
  if (status.ok()) status = CheckFrame(exchange->request);
  const uint64_t request_id = exchange->request.request_id();
  if (packet.fds_lost) service_.metrics().CountFdsLost();
  if (!status.ok()) {
    service_.metrics().CountBadFrame();
  } else {
    status = HandleFrame(exchange, packet.fds, arrival_ns);
  }
  packet.fds.clear();
  if (exchange != nullptr) ReturnExchange(std::move(exchange));
  if (status.ok()) return;
  SendError(request_id, status);
  if (!hello_done_) {
    Log(LogLevel::kWarn, "direct.refused",
        {{"pid", peer_.pid}, {"uid", peer_.uid}, {"error", status.message()}});
    Close();
  }
}

absl::Status DirectConnection::HandleFrame(std::unique_ptr<Exchange>& exchange,
                                           std::vector<UniqueFd>& fds,
                                           int64_t arrival_ns) {
  const ClientFrame& request = exchange->request;
  exchange->reply.set_request_id(request.request_id());
  if (!hello_done_) return HandleHello(*exchange);
  if (request.body_case() == ClientFrame::kHello) {
    return FrameError(absl::StatusCode::kFailedPrecondition,
                      ErrorReason::kFrameInvalid, "hello",
                      "hello: the session is open already");
  }
  if (!fds.empty() && request.body_case() != ClientFrame::kRegisterBuffer) {
    return InvalidField(ErrorReason::kFdCount, "fds",
                        absl::StrCat("fds: ", fds.size(),
                                     " came with a message that takes "
                                     "none"));
  }
  CallContext call;
  call.session = session_;
  call.request_id = request.request_id();
  call.arrival_ns = arrival_ns;
  RETURN_IF_ERROR(OpenRequest(request.request_id()));
  if (StartWork(exchange, call)) return absl::OkStatus();
  std::vector<UniqueFd> fds_out;
  const absl::Status status = Answer(*exchange, fds, call, &fds_out);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(open_requests_, call.request_id);
  }
  RETURN_IF_ERROR(status);
  if (exchange->reply.body_case() != preproc::v1::ServerFrame::BODY_NOT_SET) {
    Send(exchange->reply, fds_out);
  }
  return absl::OkStatus();
}

absl::Status DirectConnection::HandleHello(Exchange& exchange) {
  if (exchange.request.body_case() != ClientFrame::kHello) {
    return FrameError(absl::StatusCode::kFailedPrecondition,
                      ErrorReason::kFrameInvalid, "body",
                      "body: the first frame must be hello");
  }
  const preproc::v1::Hello& hello = exchange.request.hello();
  if (hello.min_version() > kProtocolVersion ||
      hello.max_version() < kProtocolVersion) {
    return FrameError(
        absl::StatusCode::kFailedPrecondition, ErrorReason::kVersionMismatch,
        "hello.max_version",
        absl::StrCat("hello.max_version: the client speaks ",
                     hello.min_version(), "..", hello.max_version(),
                     ", the daemon ", kProtocolVersion));
  }
  if (service_.draining()) {
    return FrameError(absl::StatusCode::kUnavailable, ErrorReason::kDraining,
                      "", "the daemon is stopping");
  }
  ASSIGN_OR_RETURN(session_,
                   service_.sessions().Open(hello.client_name(), peer_));
  hello_done_ = true;
  preproc::v1::Welcome* welcome = exchange.reply.mutable_welcome();
  welcome->set_version(kProtocolVersion);
  welcome->set_session_id(session_->id());
  welcome->set_token(session_->token().data(), session_->token().size());
  welcome->set_instance_id(instance_id_);
  welcome->set_daemon_version(service_.version());
  service_.FillLimits(welcome->mutable_limits());
  Log(LogLevel::kInfo, "session.open",
      {{"session", session_->id()},
       {"client", hello.client_name()},
       {"pid", peer_.pid},
       {"uid", peer_.uid}});
  Send(exchange.reply, {});
  return absl::OkStatus();
}

bool DirectConnection::StartWork(std::unique_ptr<Exchange>& exchange,
                                 const CallContext& call) {
  Exchange* e = exchange.get();
  const ClientFrame& request = e->request;
  // The completion owns the exchange, and with it request and reply.
  const auto done = [self = shared_from_this(), &exchange]() -> Done {
    return [self, owned = std::move(exchange)](absl::Status status) mutable {
      self->Finish(std::move(owned), status);
    };
  };
  switch (request.body_case()) {
    case ClientFrame::kConvert:
      service_.Convert(call, request.convert(), e->reply.mutable_convert(),
                       done());
      return true;
    case ClientFrame::kDecode:
      service_.Decode(call, request.decode(), e->reply.mutable_decode(),
                      done());
      return true;
    case ClientFrame::kEncode:
      service_.Encode(call, request.encode(), e->reply.mutable_encode(),
                      done());
      return true;
    default:
      return false;
  }
}

absl::Status DirectConnection::Answer(Exchange& exchange,
                                      std::vector<UniqueFd>& fds,
                                      const CallContext& call,
                                      std::vector<UniqueFd>* fds_out) {
  const ClientFrame& request = exchange.request;
  preproc::v1::ServerFrame& reply = exchange.reply;
  switch (request.body_case()) {
    case ClientFrame::kEcho:
      if (request.echo().payload().size() > kMaxEchoBytes) {
        return InvalidField(
            ErrorReason::kTooLarge, "echo.payload",
            absl::StrCat("echo.payload ", request.echo().payload().size(),
                         " > ", kMaxEchoBytes));
      }
      reply.mutable_echo()->set_payload(request.echo().payload());
      return absl::OkStatus();
    case ClientFrame::kCancel:
      // Its effect is the cancelled request's own reply.
      service_.scheduler().CancelRequest(session_->id(),
                                         request.cancel().request_id());
      return absl::OkStatus();
    case ClientFrame::kPeek:
      return service_.Peek(call, request.peek(), reply.mutable_peek());
    case ClientFrame::kExplain:
      return service_.Explain(call, request.explain(), reply.mutable_explain());
    case ClientFrame::kCapabilities:
      return service_.Capabilities(call, request.capabilities(),
                                   reply.mutable_capabilities());
    case ClientFrame::kPlanTiles:
      return service_.NotBuiltYet(call, Operation::kPlanTiles);
    case ClientFrame::kTile:
      return service_.NotBuiltYet(call, Operation::kTile);
    case ClientFrame::kTileOne:
      return service_.NotBuiltYet(call, Operation::kTileOne);
    case ClientFrame::kLiftBoxes:
      return service_.NotBuiltYet(call, Operation::kLiftBoxes);
    case ClientFrame::kMergeDetections:
      return service_.NotBuiltYet(call, Operation::kMergeDetections);
    case ClientFrame::kMaterializeMasks:
      return service_.NotBuiltYet(call, Operation::kMaterializeMasks);
    case ClientFrame::kDrawMasks:
      return service_.NotBuiltYet(call, Operation::kDrawMasks);
    case ClientFrame::kPrepare:
      return service_.NotBuiltYet(call, Operation::kPrepare);
    case ClientFrame::kRun:
      return service_.NotBuiltYet(call, Operation::kRun);
    default:
      return AnswerBuffers(exchange, fds, call, fds_out);
  }
}

absl::Status DirectConnection::AnswerBuffers(Exchange& exchange,
                                             std::vector<UniqueFd>& fds,
                                             const CallContext& call,
                                             std::vector<UniqueFd>* fds_out) {
  const ClientFrame& request = exchange.request;
  preproc::v1::ServerFrame& reply = exchange.reply;
  switch (request.body_case()) {
    case ClientFrame::kRegisterBuffer:
      return service_.RegisterBuffer(call, request.register_buffer(),
                                     std::move(fds),
                                     reply.mutable_register_buffer());
    case ClientFrame::kAllocateBuffer:
      return service_.AllocateBuffer(call, request.allocate_buffer(),
                                     reply.mutable_allocate_buffer(), fds_out);
    case ClientFrame::kUnregisterBuffer:
      return service_.UnregisterBuffer(call, request.unregister_buffer(),
                                       reply.mutable_unregister_buffer());
    case ClientFrame::kListBuffers:
      return service_.ListBuffers(call, request.list_buffers(),
                                  reply.mutable_list_buffers());
    case ClientFrame::kShareBuffer:
      return service_.ShareBuffer(call, request.share_buffer(),
                                  reply.mutable_share_buffer());
    case ClientFrame::kAcceptShare:
      return service_.AcceptShare(call, request.accept_share(),
                                  reply.mutable_accept_share());
    case ClientFrame::kRevokeShare:
      return service_.RevokeShare(call, request.revoke_share(),
                                  reply.mutable_revoke_share());
    default:
      return FrameError(absl::StatusCode::kUnimplemented,
                        ErrorReason::kFrameInvalid, "body",
                        "body is newer than this daemon");
  }
}

void DirectConnection::Finish(std::unique_ptr<Exchange> exchange,
                              const absl::Status& status) {
  const uint64_t request_id = exchange->request.request_id();
  {
    std::lock_guard<std::mutex> lock(mutex_);
    std::erase(open_requests_, request_id);
    if (fd_ < 0) return;
  }
  if (status.ok()) {
    Send(exchange->reply, {});
  } else {
    SendError(request_id, status);
  }
  ReturnExchange(std::move(exchange));
}

absl::Status DirectConnection::OpenRequest(uint64_t request_id) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(open_requests_.begin(), open_requests_.end(), request_id) !=
      open_requests_.end()) {
    return InvalidField("request_id",
                        absl::StrCat("request_id ", request_id, " is in use"));
  }
  open_requests_.push_back(request_id);
  return absl::OkStatus();
}

void DirectConnection::SendError(uint64_t request_id,
                                 const absl::Status& status) {
  preproc::v1::ServerFrame frame;
  frame.set_request_id(request_id);
  MakeErrorFrame(status, &frame);
  Send(frame, {});
}

void DirectConnection::SendGoingAway(int64_t deadline_ms) {
  preproc::v1::ServerFrame frame;
  frame.mutable_going_away()->set_deadline_ms(deadline_ms);
  Send(frame, {});
}

void DirectConnection::Send(const preproc::v1::ServerFrame& frame,
                            const std::vector<UniqueFd>& fds) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (fd_ < 0) return;
  const absl::Status fits = SerializeFrame(frame, send_buffer_);
  if (!fits.ok()) {
    lock.unlock();
    SendError(frame.request_id(), fits);
    return;
  }
  std::vector<int> raw;
  for (const UniqueFd& fd : fds) raw.push_back(fd.get());
  if (outbox_.empty()) {
    const absl::Status sent = SendPacket(fd_, send_buffer_, raw);
    // A dead peer is noticed by the reactor, which reads its end of file.
    if (sent.ok() || absl::IsUnavailable(sent)) return;
  }
  OutFrame out;
  out.bytes = send_buffer_;
  for (const UniqueFd& fd : fds) {
    absl::StatusOr<UniqueFd> copy = fd.Duplicate();
    if (copy.ok()) out.fds.push_back(*std::move(copy));
  }
  outbox_bytes_ += out.bytes.size();
  outbox_.push_back(std::move(out));
  const bool overflow =
      outbox_.size() > kMaxOutboxFrames || outbox_bytes_ > kMaxOutboxBytes;
  if (outbox_.size() > 1 && !overflow) return;  // a wait is under way
  boost::asio::post(*reactor_, [self = shared_from_this(), overflow] {
    if (!self->socket_) return;
    if (!overflow) {
      self->WaitWritable();
      return;
    }
    Log(LogLevel::kWarn, "direct.slow_client",
        {{"pid", self->peer_.pid}, {"uid", self->peer_.uid}});
    self->Close();
  });
}

void DirectConnection::WaitWritable() {
  socket_->async_wait(
      stream_descriptor::wait_write,
      [self = shared_from_this()](const boost::system::error_code& error) {
        if (!error && self->socket_) self->FlushOutbox();
      });
}

void DirectConnection::FlushOutbox() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    while (!outbox_.empty()) {
      OutFrame& frame = outbox_.front();
      std::vector<int> raw;
      for (const UniqueFd& fd : frame.fds) raw.push_back(fd.get());
      const absl::Status sent = SendPacket(fd_, frame.bytes, raw);
      if (absl::IsResourceExhausted(sent)) break;
      outbox_bytes_ -= frame.bytes.size();
      outbox_.pop_front();
    }
    if (outbox_.empty()) return;
  }
  WaitWritable();
}

std::unique_ptr<DirectConnection::Exchange> DirectConnection::TakeExchange() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_exchanges_.empty()) {
      std::unique_ptr<Exchange> taken = std::move(idle_exchanges_.back());
      idle_exchanges_.pop_back();
      return taken;
    }
  }
  return std::make_unique<Exchange>();
}

void DirectConnection::ReturnExchange(std::unique_ptr<Exchange> exchange) {
  // Clear keeps the messages' memory for the next request.
  exchange->request.Clear();
  exchange->reply.Clear();
  std::lock_guard<std::mutex> lock(mutex_);
  if (idle_exchanges_.size() <
      static_cast<size_t>(kMaxRequestsInFlightPerSession)) {
    idle_exchanges_.push_back(std::move(exchange));
  }
}

}  // namespace preprocd
