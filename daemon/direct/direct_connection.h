// One client of the direct transport: its socket, its session, its requests
// in flight and replies that the client has not read yet.
// Owns: the socket; shared by the reactor and by requests in flight.
// Thread-safety: reactor methods are bound to the reactor thread; `Reply` and
// what it calls may run on any thread.
// Life cycle:  accepted -> Hello -> open -> closed (EOF, error, shutdown);
// requests in flight finish after that and are dropped silently.
// Limits: kMaxPacketsPerTurn, kMaxOutboxFrames, kMaxOutboxBytes.
#ifndef DAEMON_DIRECT_DIRECT_CONNECTION_H_
#define DAEMON_DIRECT_DIRECT_CONNECTION_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>  // boost/asio needs it first
#include <vector>

#include "daemon/service/service.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

// Packets read from one client before the others get their turn.
inline constexpr int kMaxPacketsPerTurn = 16;
// A client that does not read its replies is disconnected beyond these.
inline constexpr size_t kMaxOutboxFrames = 256;
inline constexpr size_t kMaxOutboxBytes = 1u << 20;

class DirectConnection : public std::enable_shared_from_this<DirectConnection> {
 public:
  // `on_closed` runs on the reactor thread, once.
  DirectConnection(boost::asio::io_context& reactor, UniqueFd socket,
                   const PeerCredentials& peer, Service& service,
                   const std::string& instance_id,
                   std::function<void(DirectConnection*)> on_closed);
  ~DirectConnection();

  // Reactor thread.
  void Start();
  void Close();
  void SendGoingAway(int64_t deadline_ms);

 private:
  // One request and its reply; reused, so that the steady state allocates
  // nothing for messages.
  struct Exchange {
    preproc::v1::ClientFrame request;
    preproc::v1::ServerFrame reply;
  };

  void WaitReadable();
  void OnReadable();
  void HandlePacket(Packet& packet, int64_t arrival_ns);
  absl::Status HandleFrame(std::unique_ptr<Exchange>& exchange,
                           std::vector<UniqueFd>& fds, int64_t arrival_ns);
  absl::Status HandleHello(Exchange& exchange);
  // Work whose reply comes later, from an executor thread. Takes `exchange`.
  bool StartWork(std::unique_ptr<Exchange>& exchange, const CallContext& call);
  absl::Status Answer(Exchange& exchange, std::vector<UniqueFd>& fds,
                      const CallContext& call, std::vector<UniqueFd>* fds_out);
  absl::Status AnswerBuffers(Exchange& exchange, std::vector<UniqueFd>& fds,
                             const CallContext& call,
                             std::vector<UniqueFd>* fds_out);
  // Any thread: the request's end.
  void Finish(std::unique_ptr<Exchange> exchange, const absl::Status& status);

  // Any thread: sends, or queues when the client is slow.
  void Send(const preproc::v1::ServerFrame& frame,
            const std::vector<UniqueFd>& fds);
  void SendError(uint64_t request_id, const absl::Status& status);
  void WaitWritable();
  void FlushOutbox();

  std::unique_ptr<Exchange> TakeExchange();
  void ReturnExchange(std::unique_ptr<Exchange> exchange);
  absl::Status OpenRequest(uint64_t request_id);

  struct OutFrame {
    std::vector<std::byte> bytes;
    std::vector<UniqueFd> fds;
  };

  Service& service_;
  const PeerCredentials peer_;
  const std::string instance_id_;
  const std::function<void(DirectConnection*)> on_closed_;
  // Reactor thread only; destroyed there, before the io_context.
  std::optional<boost::asio::posix::stream_descriptor> socket_;
  std::shared_ptr<Session> session_;
  Packet packet_;
  bool hello_done_ = false;

  std::mutex mutex_;
  // -1 once closed. Guarded by mutex_, because executor threads send on it.
  int fd_ = -1;
  boost::asio::io_context* reactor_;  // null once closed
  std::vector<uint64_t> open_requests_;
  std::vector<std::unique_ptr<Exchange>> idle_exchanges_;
  std::deque<OutFrame> outbox_;
  size_t outbox_bytes_ = 0;
  std::vector<std::byte> send_buffer_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_DIRECT_CONNECTION_H_
