#include "client/cli/exit_code.h"

#include <optional>

#include "absl/strings/cord.h"
#include "engine/base/error_detail.h"

namespace preprocd::cli {
namespace {

constexpr absl::string_view kTypeUrl = "preprocd/cli_reason";

}  // namespace

absl::Status UsageError(absl::string_view message) {
  return WithReason(absl::InvalidArgumentError(message), kReasonUsage);
}

absl::Status WithReason(absl::Status status, absl::string_view reason) {
  status.SetPayload(kTypeUrl, absl::Cord(reason));
  return status;
}

std::string ReasonOf(const absl::Status& status) {
  if (const auto local = status.GetPayload(kTypeUrl)) {
    return std::string(*local);
  }
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return std::string(
      ErrorReasonName(detail ? detail->reason : ErrorReason::kUnspecified));
}

int ExitCodeOf(const absl::Status& status) {
  const std::string reason = ReasonOf(status);
  if (reason == kReasonUsage) return kExitUsage;
  if (reason == kReasonNoDaemon) return kExitNoDaemon;
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return kExitOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return kExitRefused;
    case absl::StatusCode::kUnimplemented:
      // The request cannot be done on this picture or machine; what is not
      // built at all is nobody's bad input.
      return reason == ErrorReasonName(ErrorReason::kNotBuilt) ||
                     reason == ErrorReasonName(ErrorReason::kUnspecified)
                 ? kExitOther
                 : kExitRefused;
    case absl::StatusCode::kResourceExhausted:
      return kExitExhausted;
    case absl::StatusCode::kUnavailable:
      return kExitUnavailable;
    default:
      return kExitOther;
  }
}

nlohmann::ordered_json ErrorToJson(const absl::Status& status) {
  nlohmann::ordered_json error;
  error["code"] = absl::StatusCodeToString(status.code());
  error["reason"] = ReasonOf(status);
  error["message"] = std::string(status.message());
  if (const auto detail = GetErrorDetail(status)) {
    if (!detail->field.empty()) error["field"] = detail->field;
    if (!detail->got.empty()) error["got"] = detail->got;
    if (!detail->limit.empty()) error["limit"] = detail->limit;
    if (!detail->backend.empty()) error["backend"] = detail->backend;
    if (detail->retry_after_ms > 0) {
      error["retry_after_ms"] = detail->retry_after_ms;
    }
  }
  nlohmann::ordered_json object;
  object["error"] = std::move(error);
  return object;
}

}  // namespace preprocd::cli
