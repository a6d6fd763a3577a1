#include "daemon/direct/direct_connection.h"

#include <algorithm>
#include <boost/asio/post.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/direct/frame_codec.h"
#include "daemon/metrics/log.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

using boost::asio::posix::stream_descriptor;

// Beyond one per request in flight nothing is gained by keeping more.
constexpr size_t kMaxIdleExchanges = kMaxRequestsInFlightPerSession;

absl::Status CheckPacket(const Packet& packet) {
  if (packet.oversized) {
    return InvalidField(
        ErrorReason::kFrameInvalid, "frame",
        absl::StrCat("frame: larger than ", kMaxFrameBytes, " bytes"));
  }
  if (packet.too_many_fds) {
    return InvalidField(
        ErrorReason::kFdCount, "fds",
        absl::StrCat("fds: more than ", kMaxFdsPerFrame, " in one frame"));
  }
  if (packet.fds_lost) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFdsLost;
    detail.field = "fds";
    return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                     "fds: lost on the way; a descriptor limit of the daemon, "
                     "or a security policy");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<DirectConnection>> DirectConnection::Open(
    Server& server, UniqueFd socket, const PeerCredentials& peer) {
  auto connection =
      std::make_shared<DirectConnection>(server, socket.get(), peer);
  boost::system::error_code error;
  connection->socket_->assign(socket.get(), error);
  if (error) {
    connection->socket_.reset();
    return absl::UnavailableError(absl::StrCat("reactor: ", error.message()));
  }
  // Owned by socket_ from here on.
  static_cast<void>(socket.release());
  return connection;
}

DirectConnection::DirectConnection(Server& server, int socket,
                                   const PeerCredentials& peer)
    : server_(server),
      peer_(peer),
      outbox_(socket, [this](Outbox::Event event) { OnOutboxEvent(event); }) {
  socket_.emplace(server.reactor);
}

DirectConnection::~DirectConnection() = default;

void DirectConnection::Start() {
  WaitForHello();
  WaitReadable();
}

void DirectConnection::Close() {
  if (!socket_) return;
  outbox_.Close();
  hello_timer_.reset();
  socket_.reset();  // closes the socket
  if (session_ != nullptr) {
    // Queued work is cancelled; running work keeps the buffers it holds.
    server_.service.scheduler().CancelSession(session_->id());
    server_.service.sessions().Close(session_);
    const Session::Facts facts = session_->facts();
    Log(LogLevel::kInfo, "session.close",
        {{"session", session_->id()},
         {"ok", facts.requests_ok},
         {"failed", facts.requests_failed}});
  }
  server_.on_closed(this);
}

void DirectConnection::Refuse(const absl::Status& status) {
  Log(LogLevel::kWarn, "direct.refused",
      {{"pid", peer_.pid}, {"uid", peer_.uid}, {"error", status.message()}});
  SendError(0, status);
  Close();
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
        ReceivePacket(socket_->native_handle(), server_.packet);
    if (!outcome.ok() || *outcome == ReceiveOutcome::kClosed) {
      Close();
      return;
    }
    if (*outcome == ReceiveOutcome::kWouldBlock) break;
    HandlePacket();
    if (!socket_) return;
  }
  WaitReadable();
}

void DirectConnection::WaitForHello() {
  hello_timer_.emplace(server_.reactor, server_.hello_bound);
  hello_timer_->async_wait(
      [weak = weak_from_this()](const boost::system::error_code& error) {
        const auto self = weak.lock();
        if (error || self == nullptr || !self->silent()) return;
        ErrorDetail detail;
        detail.reason = ErrorReason::kDeadline;
        detail.field = "hello";
        self->Refuse(
            MakeError(absl::StatusCode::kDeadlineExceeded, std::move(detail),
                      absl::StrCat("hello: none came within ",
                                   self->server_.hello_bound.count(), " ms")));
      });
}

void DirectConnection::OnOutboxEvent(Outbox::Event event) {
  boost::asio::post(server_.reactor, [self = shared_from_this(), event] {
    if (!self->socket_) return;
    if (event == Outbox::Event::kWaiting) {
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
        if (error || !self->socket_) return;
        switch (self->outbox_.Flush()) {
          case Outbox::Progress::kEmpty:
            break;
          case Outbox::Progress::kWaiting:
            self->WaitWritable();
            break;
          case Outbox::Progress::kStuck:
            Log(LogLevel::kWarn, "direct.fds_in_flight",
                {{"pid", self->peer_.pid}, {"uid", self->peer_.uid}});
            self->Close();
            break;
        }
      });
}

void DirectConnection::HandlePacket() {
  const int64_t arrival_ns = MonotonicNs();
  Packet& packet = server_.packet;
  std::unique_ptr<Exchange> exchange = TakeExchange();
  exchange->packet_bytes = packet.size;
  // The id is read even from a frame that is refused for its descriptors, so
  // that the client knows which request failed.
  absl::Status status = CheckPacket(packet);
  uint64_t request_id = 0;
  if (!packet.oversized) {
    const absl::Status parsed = ParseFrame(packet.bytes(), exchange->request);
    if (parsed.ok()) request_id = exchange->request->request_id();
    if (status.ok()) status = parsed;
  }
  if (status.ok()) status = CheckFrame(*exchange->request);
  if (packet.fds_lost) server_.service.metrics().CountFdsLost();
  if (!status.ok()) {
    server_.service.metrics().CountBadFrame();
  } else {
    status = HandleFrame(exchange, arrival_ns);
  }
  packet.fds.clear();
  if (exchange != nullptr) ReturnExchange(std::move(exchange));
  if (status.ok()) return;
  SendError(request_id, status);
  if (silent()) {
    Log(LogLevel::kWarn, "direct.refused",
        {{"pid", peer_.pid}, {"uid", peer_.uid}, {"error", status.message()}});
    Close();
  }
}

void DirectConnection::SendGoingAway(int64_t deadline_ms) {
  Exchange exchange;
  exchange.frame.mutable_going_away()->set_deadline_ms(deadline_ms);
  SendReply(exchange).IgnoreError();
}

// Sends `exchange.frame`.
absl::Status DirectConnection::SendReply(Exchange& exchange,
                                         std::vector<UniqueFd> fds) {
  const absl::Status fits = SerializeFrame(exchange.frame, exchange.out);
  if (!fits.ok()) return fits;
  return outbox_.Send(exchange.out, std::move(fds));
}

void DirectConnection::SendError(uint64_t request_id,
                                 const absl::Status& status) {
  preproc::v1::ServerFrame frame;
  frame.set_request_id(request_id);
  MakeErrorFrame(status, &frame);
  std::vector<std::byte> bytes;
  // An error reply always fits.
  if (SerializeFrame(frame, bytes).ok()) outbox_.Send(bytes).IgnoreError();
}

std::unique_ptr<Exchange> DirectConnection::TakeExchange() {
  std::unique_ptr<Exchange> exchange;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!idle_exchanges_.empty()) {
      exchange = std::move(idle_exchanges_.back());
      idle_exchanges_.pop_back();
    }
  }
  if (exchange == nullptr) exchange = std::make_unique<Exchange>();
  exchange->Begin();
  return exchange;
}

void DirectConnection::ReturnExchange(std::unique_ptr<Exchange> exchange) {
  if (!exchange->Small()) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  if (idle_exchanges_.size() < kMaxIdleExchanges) {
    idle_exchanges_.push_back(std::move(exchange));
  }
}

absl::Status DirectConnection::OpenRequest(uint64_t request_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (std::find(open_requests_.begin(), open_requests_.end(), request_id) !=
      open_requests_.end()) {
    return InvalidField("request_id",
                        absl::StrCat("request_id ", request_id, " is in use"));
  }
  open_requests_.push_back(request_id);
  return absl::OkStatus();
}

void DirectConnection::CloseRequest(uint64_t request_id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::erase(open_requests_, request_id);
}

}  // namespace preprocd
