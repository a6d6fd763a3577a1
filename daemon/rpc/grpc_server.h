// gRPC on Unix sockets that the daemon accepts itself (so that it knows the
// peer's credentials and owns the path) and, when asked for, on TCP.
// Owns: the gRPC servers and one accept thread. Thread-safety: safe.
// Limits: ServiceOptions::max_inline_bytes plus 64 KiB per message;
// kMaxConnections, kMaxConnectionsPerPeer (peer_registry.h); 128 streams per
// connection; kMaxHealthWatchers.
// Errors of calls: without a token (metadata preproc-session-bin) a call that
// names a buffer is kUnauthenticated SESSION_UNKNOWN; an unknown token is
// kNotFound SESSION_UNKNOWN; another peer's kPermissionDenied SESSION_PEER.
// Source: grpc::AddInsecureChannelFromFd; a call on such a connection reports
// peer "fd:N", which PeerRegistry maps back to credentials.
#ifndef DAEMON_RPC_GRPC_SERVER_H_
#define DAEMON_RPC_GRPC_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "daemon/service/service.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

struct GrpcServerOptions {
  // Listening SOCK_STREAM sockets; either may be absent.
  UniqueFd tenant_listener;  // Preproc, Buffers, health, reflection
  UniqueFd admin_listener;   // those and Admin
  // "HOST:PORT" for Preproc, health and reflection; empty = no TCP. Port 0
  // picks one. Loopback addresses only.
  std::string tcp_address;
  // Called once, on a gRPC thread, when Admin.Drain asks to stop; the argument
  // is the bound in milliseconds, 0 = the configured one. It must only signal:
  // destroying the server from there would wait for itself.
  absl::AnyInvocable<void(int64_t)> on_drain;
};

class GrpcServer {
 public:
  // Errors: kInvalidArgument  the TCP address does not parse or is not
  //                           loopback
  //         kUnavailable      the address is in use
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(
      GrpcServerOptions options, Service& service);
  // Ends every call and joins: calls get half a second to end by themselves,
  // then they are cancelled; jobs that run are waited for. Stop or outlive the
  // scheduler first, so that queued jobs end too.
  ~GrpcServer();

  // The bound TCP port; 0 without TCP.
  int tcp_port() const;
  // Tells health watchers what changed with backends; called now and then.
  void RefreshHealth();
  // Health says NOT_SERVING and no tenant connection is accepted any more;
  // calls in progress go on, and the admin socket stays reachable, so that an
  // operator can watch the drain.
  void BeginDrain();

 private:
  struct State;
  explicit GrpcServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_GRPC_SERVER_H_
