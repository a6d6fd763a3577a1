// Turns the wire's errors back into absl::Status with its ErrorDetail, so
// that callers switch on the reason whatever the transport.
// Thread-safety: safe (no state).
#ifndef CLIENT_CPP_ERROR_FROM_PROTO_H_
#define CLIENT_CPP_ERROR_FROM_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "preproc/v1/error.pb.h"

namespace preprocd::internal {

// Codes outside 1..16 become kUnknown: an error never turns into OK.
absl::Status StatusFromErrorReply(const preproc::v1::ErrorReply& reply);

// `details`: a serialised RpcStatus as gRPC's error_details() gives it; may
// be empty or foreign, the status then has no ErrorDetail.
absl::Status StatusFromGrpc(int code, const std::string& message,
                            const std::string& details);

}  // namespace preprocd::internal

#endif  // CLIENT_CPP_ERROR_FROM_PROTO_H_
