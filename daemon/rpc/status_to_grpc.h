// The one place where an absl::Status becomes a grpc::Status: equal code,
// message, and preproc.v1.RpcStatus with an ErrorDetail as binary details.
// Thread-safety: safe (no state).
// Limits: kMaxStatusMessageBytes (a trailer that is too large would replace
// the answer by one of gRPC's own).
#ifndef DAEMON_RPC_STATUS_TO_GRPC_H_
#define DAEMON_RPC_STATUS_TO_GRPC_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace preprocd {

inline constexpr int kMaxStatusMessageBytes = 1024;

grpc::Status StatusToGrpc(const absl::Status& status);

}  // namespace preprocd

#endif  // DAEMON_RPC_STATUS_TO_GRPC_H_
