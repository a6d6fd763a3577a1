// One client of the direct transport: its socket, its session, its requests
// in flight. direct_connection.cc is the socket and the session's life,
// direct_requests.cc what each kind of frame does.
// Owns: the socket; shared by the reactor and by requests in flight.
// Thread-safety: methods are bound to the reactor thread, except the end of
// work, which comes from an executor thread and sends from there.
// Life cycle:  silent -> Hello -> open -> closed (EOF, error, shutdown);
// requests in flight finish after that and their replies are dropped.
// Limits: kMaxPacketsPerTurn, Server::hello_bound, those of Outbox.
#ifndef DAEMON_DIRECT_DIRECT_CONNECTION_H_
#define DAEMON_DIRECT_DIRECT_CONNECTION_H_

#include <utility>

// After <utility>, which Boost 1.74 misses with g++ 12.
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/direct/exchange.h"
#include "daemon/direct/outbox.h"
#include "daemon/service/service.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

// Packets read from one client before the others get their turn.
inline constexpr int kMaxPacketsPerTurn = 16;

class DirectConnection : public std::enable_shared_from_this<DirectConnection> {
 public:
  // What all connections of one server share. Reactor thread, except that any
  // thread may post to the reactor while its connection is open.
  struct Server {
    boost::asio::io_context& reactor;
    Service& service;
    const std::string instance_id;
    // How long a connection may stay without a session.
    const std::chrono::milliseconds hello_bound;
    // Runs once per connection, when it closes.
    std::function<void(DirectConnection*)> on_closed;
    // Scratch of the reactor thread: each packet is handled before the next.
    Packet packet;
  };

  // Errors: kUnavailable  the reactor does not take the socket
  static absl::StatusOr<std::shared_ptr<DirectConnection>> Open(
      Server& server, UniqueFd socket, const PeerCredentials& peer);
  // Use Open.
  DirectConnection(Server& server, int socket, const PeerCredentials& peer);
  ~DirectConnection();

  void Start();
  void Close();
  // Answers `status` to no request and closes.
  void Refuse(const absl::Status& status);
  void SendGoingAway(int64_t deadline_ms);
  // No Hello yet.
  bool silent() const { return session_ == nullptr; }

 private:
  void WaitReadable();
  void OnReadable();
  void WaitForHello();
  void WaitWritable();
  void OnOutboxEvent(Outbox::Event event);
  void HandlePacket();

  // Refusals are returned, answers are sent. `exchange` is null afterwards
  // when work took it.
  absl::Status HandleFrame(std::unique_ptr<Exchange>& exchange,
                           int64_t arrival_ns);
  absl::Status HandleHello(Exchange& exchange);
  absl::Status HandleAllocate(Exchange& exchange, const CallContext& call);
  void StartWork(std::unique_ptr<Exchange> exchange, const CallContext& call);
  absl::Status Answer(Exchange& exchange, const CallContext& call);
  absl::Status AnswerBuffers(Exchange& exchange, const CallContext& call);

  // Any thread.
  static void SendProgress(const Exchange& exchange,
                           const preproc::v1::TileProgress& progress);
  static void FinishWork(std::unique_ptr<Exchange> exchange,
                         const absl::Status& status);
  absl::Status SendReply(Exchange& exchange, std::vector<UniqueFd> fds = {});
  void SendError(uint64_t request_id, const absl::Status& status);
  std::unique_ptr<Exchange> TakeExchange();
  void ReturnExchange(std::unique_ptr<Exchange> exchange);
  absl::Status OpenRequest(uint64_t request_id);
  void CloseRequest(uint64_t request_id);

  Server& server_;  // not after Close
  const PeerCredentials peer_;
  // Empty once closed.
  std::optional<boost::asio::posix::stream_descriptor> socket_;
  std::optional<boost::asio::steady_timer> hello_timer_;
  std::shared_ptr<Session> session_;
  Outbox outbox_;

  std::mutex mutex_;
  // Guarded by mutex_: work ends on other threads. Bounded by the session's
  // requests in flight.
  std::vector<uint64_t> open_requests_;
  std::vector<std::unique_ptr<Exchange>> idle_exchanges_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_DIRECT_CONNECTION_H_
