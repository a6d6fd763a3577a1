// A gRPC call -> who calls: its session (by token and peer) or an anonymous
// one, its deadline, and an id by which the daemon can cancel it.
// Owns: nothing. Thread-safety: safe.
// Source: metadata "preproc-session-bin", see proto/preproc/v1/preproc.proto.
#ifndef DAEMON_RPC_CALLER_RESOLVER_H_
#define DAEMON_RPC_CALLER_RESOLVER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "daemon/rpc/peer_registry.h"
#include "daemon/service/service.h"

namespace grpc {
class CallbackServerContext;
}  // namespace grpc

namespace preprocd {

class CallerResolver {
 public:
  CallerResolver(Service& service, const PeerRegistry& peers)
      : service_(service), peers_(peers) {}

  // Calls without a token get an anonymous session, which owns no buffers.
  // TCP callers are always anonymous: nothing ties a token to them.
  // Errors: kNotFound         SESSION_UNKNOWN
  //         kPermissionDenied SESSION_PEER; NOT_PERMITTED (unknown peer; a
  //                           token over TCP)
  //         kInvalidArgument  FIELD_INVALID (more than one token)
  absl::StatusOr<CallContext> Resolve(
      const grpc::CallbackServerContext& context);

  Service& service() { return service_; }

 private:
  Service& service_;
  const PeerRegistry& peers_;
  // Ids of direct requests are the clients'; the high bit keeps these apart.
  std::atomic<uint64_t> next_id_ = uint64_t{1} << 63;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_CALLER_RESOLVER_H_
