#include "daemon/direct/direct_server.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// After <utility>, which Boost 1.74 misses with g++ 12.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "absl/strings/str_cat.h"
#include "daemon/direct/direct_connection.h"
#include "daemon/metrics/log.h"
#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

using boost::asio::posix::stream_descriptor;

// Pause after the process ran out of descriptors; accepting would spin.
constexpr std::chrono::milliseconds kAcceptPause{100};
// Connections accepted before those that are open get their turn.
constexpr int kMaxAcceptsPerTurn = 16;
constexpr size_t kInstanceIdBytes = 16;

std::string RandomInstanceId() {
  std::string id(kInstanceIdBytes, '\0');
  // Only tells restarts apart, so a short read would still do.
  if (getrandom(id.data(), id.size(), 0) < 0) id.assign("no-random-bytes!");
  return id;
}

absl::Status TooManyConnections(size_t limit) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kQuota;
  detail.got = absl::StrCat(limit + 1);
  detail.limit = absl::StrCat(limit);
  return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                   absl::StrCat("connections ", limit + 1, " > ", limit));
}

}  // namespace

struct DirectServer::State {
  State(UniqueFd listener_fd, Service& service,
        const DirectServerOptions& options)
      : reactor(1),
        work(boost::asio::make_work_guard(reactor)),
        pause(reactor),
        shared{reactor,
               service,
               RandomInstanceId(),
               options.hello_bound,
               [this](DirectConnection* closed) { Forget(closed); },
               Packet()} {
    boost::system::error_code error;
    listener.emplace(reactor);
    listener->assign(listener_fd.get(), error);
    usable = !error;
    if (usable) static_cast<void>(listener_fd.release());
  }

  void WaitForClients() {
    listener->async_wait(stream_descriptor::wait_read,
                         [this](const boost::system::error_code& error) {
                           if (!error && listener) Accept();
                         });
  }

  void Accept() {
    for (int i = 0; i < kMaxAcceptsPerTurn; ++i) {
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
    auto connection = DirectConnection::Open(shared, std::move(socket), *peer);
    if (!connection.ok()) {
      Log(LogLevel::kWarn, "direct.accept",
          {{"error", connection.status().message()}});
      return;
    }
    connections.push_back(*connection);
    (*connection)->Start();
    // The session table bounds those that say hello.
    const auto limit = 2 * static_cast<size_t>(
                               shared.service.sessions().limits().max_sessions);
    if (connections.size() > limit) EvictSilent(limit);
  }

  // Connections are in the order they came, so the oldest that has said
  // nothing is found first; when it is the new one, all others are sessions.
  void EvictSilent(size_t limit) {
    const auto oldest = std::find_if(connections.begin(), connections.end(),
                                     [](const auto& c) { return c->silent(); });
    if (oldest == connections.end()) return;
    const std::shared_ptr<DirectConnection> evicted = *oldest;
    evicted->Refuse(TooManyConnections(limit));
  }

  void Forget(DirectConnection* closed) {
    std::erase_if(connections,
                  [closed](const auto& c) { return c.get() == closed; });
  }

  void StopAccepting() {
    listener.reset();
    pause.cancel();
  }

  void CloseAll() {
    StopAccepting();
    // Closing takes them off the list.
    const std::vector<std::shared_ptr<DirectConnection>> open = connections;
    for (const auto& connection : open) connection->Close();
  }

  boost::asio::io_context reactor;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work;
  boost::asio::steady_timer pause;
  // Reactor thread only.
  DirectConnection::Server shared;
  std::optional<stream_descriptor> listener;
  bool usable = false;
  std::vector<std::shared_ptr<DirectConnection>> connections;
  std::atomic<uint64_t> pongs = 0;
  // Keep last: it uses everything above.
  std::thread thread;
};

absl::StatusOr<std::unique_ptr<DirectServer>> DirectServer::Start(
    UniqueFd listener, Service& service, const DirectServerOptions& options) {
  const int flags = fcntl(listener.get(), F_GETFL);
  if (flags < 0 || fcntl(listener.get(), F_SETFL, flags | O_NONBLOCK) < 0) {
    return absl::UnavailableError(
        absl::StrCat("direct listener: ", strerror(errno)));
  }
  auto state = std::make_unique<State>(std::move(listener), service, options);
  if (!state->usable) {
    return absl::UnavailableError("direct listener: the reactor refuses it");
  }
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
    s->StopAccepting();
    for (const auto& connection : s->connections) {
      connection->SendGoingAway(deadline_ms);
    }
  });
}

void DirectServer::Ping() {
  boost::asio::post(state_->reactor, [s = state_.get()] {
    s->pongs.fetch_add(1, std::memory_order_relaxed);
  });
}

uint64_t DirectServer::pongs() const {
  return state_->pongs.load(std::memory_order_relaxed);
}

}  // namespace preprocd
