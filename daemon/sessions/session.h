// One client's session: its registered buffers, quota and counters. It lives
// as long as the client's direct connection (sessions made for callers
// without one live for their gRPC call).
// Owns: registered buffers (shared with running jobs, which must outlive an
// unregister). Thread-safety: safe.
// Life cycle:  Open -> (Register, Find, Unregister)* -> Close; after Close
// every call answers kUnavailable and no buffer is held any more.
// Limits: SessionLimits.
#ifndef DAEMON_SESSIONS_SESSION_H_
#define DAEMON_SESSIONS_SESSION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/base/mutex.h"
#include "engine/image/image_desc.h"
#include "engine/memory/buffer.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

using SessionToken = std::array<uint8_t, 16>;

// Configurable; Admin.SetLimits changes them for sessions from then on and,
// where it can, for open ones.
struct SessionLimits {
  int max_sessions = kMaxSessions;
  int max_buffers_per_session = kMaxBuffersPerSession;
  int64_t max_bytes_per_session = kMaxBytesPerSession;
  int max_in_flight_per_session = kMaxRequestsInFlightPerSession;
};

// A buffer as registered: 1..4 pieces of memory and, for pictures, where the
// planes lie in them. Immutable after registration.
struct RegisteredBuffer {
  uint64_t buffer_id = 0;
  uint32_t generation = 0;
  Access access = Access::kReadWrite;
  std::vector<std::shared_ptr<Buffer>> memory;
  std::optional<ImageDesc> desc;  // validated against `memory`
  uint64_t cost_bytes = 0;        // counted against the quota
};

class Session {
 public:
  Session(uint64_t id, std::string client_name, PeerCredentials peer,
          const SessionToken& token, const SessionLimits& limits);
  ~Session();

  uint64_t id() const { return id_; }
  const std::string& client_name() const { return client_name_; }
  const PeerCredentials& peer() const { return peer_; }
  const SessionToken& token() const { return token_; }
  int64_t opened_ns() const { return opened_ns_; }

  // Bytes that may still be registered; checked again by Register.
  int64_t bytes_left() const;

  // Errors: kAlreadyExists FIELD_INVALID   id in use with this generation
  //         kResourceExhausted QUOTA       buffers or bytes
  // An id in use with a lower generation is replaced (running jobs keep the
  // old memory); with a higher one it is BUFFER_GENERATION.
  absl::Status Register(std::shared_ptr<const RegisteredBuffer> buffer);

  // Errors: kNotFound BUFFER_UNKNOWN; kFailedPrecondition BUFFER_GENERATION
  absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> Find(
      uint64_t buffer_id, uint32_t generation) const;

  // Errors: as Find.
  absl::Status Unregister(uint64_t buffer_id, uint32_t generation);

  // Whether exactly this registration is held, not another of the same id.
  bool Holds(const RegisteredBuffer& buffer) const;
  // Removes exactly this registration; nothing when it is not held any more,
  // even if its id and generation are in use again.
  void Withdraw(const RegisteredBuffer& buffer);

  std::vector<std::shared_ptr<const RegisteredBuffer>> List() const;

  // R G B A of the session's drawings; null = none was set. Shared, so that a
  // drawing in progress keeps what it began with.
  using Palette = std::shared_ptr<const std::vector<std::array<uint8_t, 4>>>;
  void set_palette(Palette palette);
  Palette palette() const;

  // One request more in flight, unless the session is at its bound
  // (kResourceExhausted QUOTA with a retry hint) or closed (kUnavailable).
  absl::Status BeginRequest();
  void EndRequest(bool ok);

  // Releases every buffer; later calls fail with kUnavailable. Idempotent.
  void Close();
  bool closed() const;

  struct Facts {
    int buffers = 0;
    int64_t bytes = 0;
    int in_flight = 0;
    uint64_t requests_ok = 0;
    uint64_t requests_failed = 0;
  };
  Facts facts() const;
  void set_limits(const SessionLimits& limits);

 private:
  const uint64_t id_;
  const std::string client_name_;
  const PeerCredentials peer_;
  const SessionToken token_;
  const int64_t opened_ns_;
  mutable Mutex mutex_;
  SessionLimits limits_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  Palette palette_ ABSL_GUARDED_BY(mutex_);
  int64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, std::shared_ptr<const RegisteredBuffer>>
      buffers_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int> in_flight_ = 0;
  std::atomic<uint64_t> requests_ok_ = 0;
  std::atomic<uint64_t> requests_failed_ = 0;
};

}  // namespace preprocd

#endif  // DAEMON_SESSIONS_SESSION_H_
