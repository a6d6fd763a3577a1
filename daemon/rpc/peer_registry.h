// Who is at the other end of each gRPC connection. gRPC reports a connection
// that was handed over as a descriptor as peer "fd:N"; the registry gives the
// descriptor its number and remembers the credentials that belong to it.
// Owns: nothing once Admit returned (gRPC closes the descriptor).
// Thread-safety: safe.
// Limits: kMaxConnections, kMaxConnectionsPerPeer; more are refused.
// Source: unix(7) SO_PEERCRED; fcntl(2) F_DUPFD_CLOEXEC. Numbers rise and
// wrap late, because gRPC may still name a number shortly after its
// connection ended; the socket's inode tells a reused number.
#ifndef DAEMON_RPC_PEER_REGISTRY_H_
#define DAEMON_RPC_PEER_REGISTRY_H_

#include <cstdint>
#include <mutex>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/unique_fd.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

inline constexpr int kMaxConnections = 512;
inline constexpr int kMaxConnectionsPerPeer = 64;

class PeerRegistry {
 public:
  PeerRegistry();

  // Takes a connected Unix socket; the result is the same socket under a new
  // number, to be given to gRPC.
  // Errors: kResourceExhausted  connections or descriptors are used up
  //         kUnavailable        the peer is gone already
  absl::StatusOr<UniqueFd> Admit(UniqueFd connection);

  // Errors: kPermissionDenied NOT_PERMITTED  `peer` is not a live "fd:N" that
  // Admit made.
  absl::StatusOr<PeerCredentials> Find(absl::string_view peer) const;

  int connections() const;

 private:
  struct Connection {
    uint64_t inode = 0;
    PeerCredentials peer;
  };
  // REQUIRES (both): mutex_ is held.
  absl::StatusOr<UniqueFd> Renumber(const UniqueFd& fd);
  void ForgetDead();

  const int first_number_;
  const int end_number_;
  // Guards all that follows. std::mutex, which ThreadSanitizer understands;
  // Debian's Abseil is built without it.
  mutable std::mutex mutex_;
  int next_number_;
  absl::flat_hash_map<int, Connection> connections_;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_PEER_REGISTRY_H_
