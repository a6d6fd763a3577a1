#include "daemon/direct/direct_server.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>  // boost/asio needs it first
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/direct/direct_connection.h"
#include "daemon/metrics/log.h"

namespace preprocd {
namespace {

using boost::asio::posix::stream_descriptor;

// Pause after the process ran out of descriptors; accepting would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr size_t kInstanceIdBytes = 16;

std::string RandomInstanceId() {
  std::string id(kInstanceIdBytes, '\0');
  // Only tells restarts apart, so a short read would still do.
  if (getrandom(id.data(), id.size(), 0) < 0) id.assign("no-random-bytes!");
  return id;
}

}  // namespace

struct DirectServer::State {
  State(UniqueFd listener_fd, Service& s)
      : service(s),
        reactor(1),
        work(boost::asio::make_work_guard(reactor)),
        pause(reactor),
        instance_id(RandomInstanceId()) {
    listener.emplace(reactor, listener_fd.release());
  }

  void WaitForClients() {
    listener->async_wait(stream_descriptor::wait_read,
                         [this](const boost::system::error_code& error) {
                           if (!error && listener) Accept();
                         });
  }

  void Accept() {
    while (true) {
      UniqueFd socket(accept4(listener->native_handle(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket.valid()) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EAGAIN) break;
        Log(LogLevel::kWarn, "direct.accept", {{"error", strerror(errno)}});
        PauseAccepting();
        return;
      }
      AddClient(std::move(socket));
    }
    WaitForClients();
  }

  void PauseAccepting() {
    pause.expires_after(kAcceptPause);
    pause.async_wait([this](const boost::system::error_code& error) {
      if (!error && listener) WaitForClients();
    });
  }

  void AddClient(UniqueFd socket) {
    const absl::StatusOr<PeerCredentials> peer =
        GetPeerCredentials(socket.get());
    if (!peer.ok()) return;
    // Connections that never say hello must not pile up either; the session
    // table bounds those that do.
    const auto limit =
        2 * static_cast<size_t>(service.sessions().limits().max_sessions);
    if (connections.size() >= limit) {
      Log(LogLevel::kWarn, "direct.too_many", {{"pid", peer->pid}});
      return;
    }
    auto connection = std::make_shared<DirectConnection>(
        reactor, std::move(socket), *peer, service, instance_id,
        [this](DirectConnection* closed) {
          std::erase_if(connections,
                        [closed](const auto& c) { return c.get() == closed; });
        });
    connections.insert(connection);
    connection->Start();
  }

  void CloseAll() {
    if (listener) listener.reset();
    pause.cancel();
    // Closing removes from the set.
    const std::vector<std::shared_ptr<DirectConnection>> open(
        connections.begin(), connections.end());
    for (const auto& connection : open) connection->Close();
  }

  Service& service;
  boost::asio::io_context reactor;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  boost::asio::steady_timer pause;
  const std::string instance_id;
  // Reactor thread only.
  std::optional<stream_descriptor> listener;
  std::set<std::shared_ptr<DirectConnection>> connections;
  // Keep last: it uses everything above.
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<DirectServer>> DirectServer::Start(
    UniqueFd listener, Service& service) {
  const int flags = fcntl(listener.get(), F_GETFL);
  if (flags < 0 || fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return absl::UnavailableError(
        absl::StrCat("direct listener: ", strerror(errno)));
  }
  auto state = std::make_unique<State>(std::move(listener), service);
  State* s = state.get();
  s->WaitForClients();
  s->thread = std::thread([s] { s->reactor.run(); });
  return std::unique_ptr<DirectServer>(new DirectServer(std::move(state)));
}

DirectServer::DirectServer(std::unique_ptr<State> state)
    : state_(std::move(state)) {}

DirectServer::~DirectServer() {
  boost::asio::post(state_->reactor, [s = state_.get()] {
    s->CloseAll();
    s->work.reset();
  });
  state_->thread.join();
}

void DirectServer::BeginDrain(int64_t deadline_ms) {
  boost::asio::post(state_->reactor, [s = state_.get(), deadline_ms] {
    s->listener.reset();
    s->pause.cancel();
    for (const auto& connection : s->connections) {
      connection->SendGoingAway(deadline_ms);
    }
  });
}

}  // namespace preprocd
