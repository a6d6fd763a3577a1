// All open sessions, found by id or by token, and the shares between them.
// Owns: the sessions (shared with calls in progress). Thread-safety: safe.
// Limits: SessionLimits::max_sessions; kMaxSharesPerSession.
#ifndef DAEMON_SESSIONS_SESSION_TABLE_H_
#define DAEMON_SESSIONS_SESSION_TABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/metrics/metrics.h"
#include "daemon/sessions/session.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

inline constexpr int kMaxSharesPerSession = 256;

class SessionTable {
 public:
  SessionTable(const SessionLimits& limits, Metrics& metrics);
  ~SessionTable();

  // A new session with a random token (getrandom).
  // Errors: kResourceExhausted QUOTA  max_sessions are open
  //         kInvalidArgument          name above 64 bytes or not UTF-8
  absl::StatusOr<std::shared_ptr<Session>> Open(absl::string_view client_name,
                                                const PeerCredentials& peer);

  // A session for one gRPC call without a token: it owns no buffers, has
  // normal in-flight limits per peer uid, and is not counted as a session.
  // Those of idle uids are forgotten when there are more than max_sessions.
  std::shared_ptr<Session> Anonymous(const PeerCredentials& peer);

  // Compares in constant time. A pid of 0 on either side is a process in
  // another pid namespace, of which only the uid can be compared. Errors:
  //   kNotFound SESSION_UNKNOWN        no such token (or not 16 bytes)
  //   kPermissionDenied SESSION_PEER   another pid or uid than opened it
  absl::StatusOr<std::shared_ptr<Session>> FindByToken(
      absl::string_view token, const PeerCredentials& peer) const;

  // Removes and closes; its shares are withdrawn. Idempotent.
  void Close(const std::shared_ptr<Session>& session);

  std::vector<std::shared_ptr<Session>> List() const;
  int size() const;

  SessionLimits limits() const;
  void SetLimits(const SessionLimits& limits);

  // Shares: point to point, by a 16-byte random token. An offer ends when its
  // owner unregisters or replaces the buffer; what was taken by then stays
  // with the taker, whose quota pays for it, until it is revoked.
  // Errors: those of Session::Find; kFailedPrecondition BUFFER_READ_ONLY
  // (more access than the owner's); kResourceExhausted QUOTA.
  absl::StatusOr<std::string> Share(const std::shared_ptr<Session>& owner,
                                    uint64_t buffer_id, uint32_t generation,
                                    Access access);
  // A token works once, in one session other than the owner's.
  // Errors: kNotFound; those of Session::Register.
  absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> AcceptShare(
      const std::shared_ptr<Session>& taker, absl::string_view share_token,
      uint64_t buffer_id, uint32_t generation);
  // Takes the buffer from the taker's session too, but nothing that the taker
  // registered in its place. Errors: kNotFound.
  absl::Status RevokeShare(const std::shared_ptr<Session>& owner,
                           absl::string_view share_token);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_SESSIONS_SESSION_TABLE_H_
