// What a Session and its Buffers share: the connections.
// Owns: both channels. Thread-safety: safe.
// Shared ownership: the Session holds it; a Buffer holds it for the moment of
// its release only, so that a buffer may outlive its session.
#ifndef CLIENT_CPP_SESSION_STATE_H_
#define CLIENT_CPP_SESSION_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/direct_channel.h"
#include "client/cpp/grpc_calls.h"
#include "preproc/v1/direct.pb.h"

namespace preprocd::internal {

class SessionState {
 public:
  std::unique_ptr<DirectChannel> direct;  // absent for inline sessions
  std::unique_ptr<GrpcCalls> grpc;        // absent for direct ones
  std::string grpc_target;                // of a direct session
  preproc::v1::Welcome welcome;
  absl::Duration call_timeout = absl::Seconds(60);
  std::atomic<uint64_t> next_buffer_id{1};

  absl::Duration TimeoutOr(absl::Duration timeout) const {
    return timeout > absl::ZeroDuration() ? timeout : call_timeout;
  }

  // gRPC for calls of a direct session that do not fit into a frame; connected
  // by the first of them. Null when the session has no other way.
  GrpcCalls* LargeCalls();

  // A call that only the direct socket carries.
  // Errors: kFailedPrecondition  this session has none
  absl::StatusOr<DirectChannel::Reply> CallDirect(
      int field_number, const google::protobuf::MessageLite& body,
      std::span<const int> fds, absl::Duration timeout,
      const DirectChannel::OnProgress& on_progress = nullptr);

 private:
  std::once_flag large_once_;
  std::unique_ptr<GrpcCalls> large_;
};

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_SESSION_STATE_H_
