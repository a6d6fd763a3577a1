// The gRPC side of the client, kept apart so that gRPC's headers are compiled
// in one file only.
// Owns: one channel with its own connection. Thread-safety: safe.
// Limits: kMaxInlineBytes plus 64 KiB per message.
#ifndef CLIENT_CPP_GRPC_CALLS_H_
#define CLIENT_CPP_GRPC_CALLS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "preproc/v1/admin.pb.h"
#include "preproc/v1/buffers.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd::internal {

class GrpcCalls {
 public:
  // `address`: a gRPC target. Connects at the first call. `session_token`
  // goes into the metadata preproc-session-bin of every call; empty = none.
  GrpcCalls(const std::string& address, std::string session_token);
  ~GrpcCalls();
  GrpcCalls(const GrpcCalls&) = delete;
  GrpcCalls& operator=(const GrpcCalls&) = delete;

  // One overload per unary method. Errors: the server's, with ErrorDetail;
  // kUnavailable nothing answers; kDeadlineExceeded no answer in time.
#define PREPROCD_UNARY(NAME)                                   \
  absl::Status Call(const preproc::v1::NAME##Request& request, \
                    preproc::v1::NAME##Reply* reply, absl::Duration timeout)
  PREPROCD_UNARY(Decode);
  PREPROCD_UNARY(Peek);
  PREPROCD_UNARY(Encode);
  PREPROCD_UNARY(Explain);
  PREPROCD_UNARY(Convert);
  PREPROCD_UNARY(Capabilities);
  PREPROCD_UNARY(PlanTiles);
  PREPROCD_UNARY(Tile);
  PREPROCD_UNARY(LiftBoxes);
  PREPROCD_UNARY(MergeDetections);
  PREPROCD_UNARY(MaterializeMasks);
  PREPROCD_UNARY(DrawMasks);
  PREPROCD_UNARY(SetPalette);
  PREPROCD_UNARY(Prepare);
  PREPROCD_UNARY(UnregisterBuffer);
  PREPROCD_UNARY(ListBuffers);
  PREPROCD_UNARY(ShareBuffer);
  PREPROCD_UNARY(AcceptShare);
  PREPROCD_UNARY(RevokeShare);
  PREPROCD_UNARY(Status);
  PREPROCD_UNARY(ListSessions);
  PREPROCD_UNARY(Stats);
  PREPROCD_UNARY(Drain);
  PREPROCD_UNARY(SetLimits);
  PREPROCD_UNARY(SetLogLevel);
  PREPROCD_UNARY(StartTrace);
  PREPROCD_UNARY(StopTrace);
#undef PREPROCD_UNARY
  absl::Status Call(const preproc::v1::TileOneRequest& request,
                    preproc::v1::ConvertReply* reply, absl::Duration timeout);
  absl::Status Call(const preproc::v1::RunRequest& request,
                    preproc::v1::ConvertReply* reply, absl::Duration timeout);

  // Calls `on_progress` on this thread for what is told before `reply`.
  absl::Status TileStream(
      const preproc::v1::TileRequest& request,
      const std::function<void(const preproc::v1::TileProgress&)>& on_progress,
      preproc::v1::TileReply* reply, absl::Duration timeout);

  // grpc.health.v1 name of the serving status of `service`.
  absl::StatusOr<std::string> Health(const std::string& service,
                                     absl::Duration timeout);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "unix:" target of a socket path, with the characters escaped that gRPC's
// URI parser would take for itself.
std::string UnixTarget(const std::string& path);

// Answers early and clearly what gRPC would wrap: whether the socket of a
// "unix:" target is there and may be used. Other targets are OK.
// Errors: kUnavailable, kPermissionDenied
absl::Status CheckUnixTarget(const std::string& address);

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_GRPC_CALLS_H_
