#include "client/cpp/error_from_proto.h"

#include <utility>

#include "engine/base/error_detail.h"

namespace preprocd::internal {
namespace {

absl::StatusCode CodeFromWire(int code) {
  if (code < 1 || code > 16) return absl::StatusCode::kUnknown;
  return static_cast<absl::StatusCode>(code);
}

absl::Status MakeFromProto(int code, const std::string& message,
                           const preproc::v1::ErrorDetail& proto) {
  ErrorDetail detail;
  detail.reason = static_cast<ErrorReason>(proto.reason());
  detail.field = proto.field();
  detail.got = proto.got();
  detail.limit = proto.limit();
  detail.backend = proto.backend();
  detail.retry_after_ms = proto.retry_after_ms();
  return MakeError(CodeFromWire(code), std::move(detail), message);
}

}  // namespace

absl::Status StatusFromErrorReply(const preproc::v1::ErrorReply& reply) {
  if (!reply.has_detail()) {
    return absl::Status(CodeFromWire(reply.code()), reply.message());
  }
  return MakeFromProto(reply.code(), reply.message(), reply.detail());
}

absl::Status StatusFromGrpc(int code, const std::string& message,
                            const std::string& details) {
  preproc::v1::RpcStatus rpc;
  preproc::v1::ErrorDetail detail;
  if (!details.empty() && rpc.ParseFromString(details)) {
    for (const google::protobuf::Any& any : rpc.details()) {
      if (any.UnpackTo(&detail)) return MakeFromProto(code, message, detail);
    }
  }
  return absl::Status(CodeFromWire(code), message);
}

}  // namespace preprocd::internal
