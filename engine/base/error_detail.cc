#include "engine/base/error_detail.h"

#include <array>
#include <utility>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace preprocd {
namespace {

constexpr absl::string_view kTypeUrl = "preprocd/error_detail";

constexpr std::array<absl::string_view, 35> kNames = {"UNSPECIFIED",
                                                      "FIELD_INVALID",
                                                      "GEOMETRY_INVALID",
                                                      "FORMAT_PAIR",
                                                      "IMAGE_FORMAT",
                                                      "IMAGE_TRUNCATED",
                                                      "IMAGE_CORRUPT",
                                                      "IMAGE_UNSUPPORTED",
                                                      "TOO_LARGE",
                                                      "QUOTA",
                                                      "QUEUE_FULL",
                                                      "BUFFER_UNKNOWN",
                                                      "BUFFER_GENERATION",
                                                      "BUFFER_TOO_SMALL",
                                                      "BUFFER_KIND",
                                                      "BUFFER_SEALED",
                                                      "BUFFER_SPARSE",
                                                      "BUFFER_OVERLAP",
                                                      "BUFFER_READ_ONLY",
                                                      "FDS_LOST",
                                                      "FD_COUNT",
                                                      "FRAME_INVALID",
                                                      "SESSION_UNKNOWN",
                                                      "SESSION_PEER",
                                                      "VERSION_MISMATCH",
                                                      "NOT_BUILT",
                                                      "NO_BACKEND",
                                                      "BACKEND_UNKNOWN",
                                                      "BACKEND_FAILED",
                                                      "DEADLINE",
                                                      "CANCELLED",
                                                      "DRAINING",
                                                      "NOT_PERMITTED",
                                                      "INTERNAL",
                                                      "DMA_BUF"};

// NUL separates the payload's parts; a NUL inside a part would shift them.
std::string WithoutNul(std::string text) {
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

void Attach(absl::Status& status, const ErrorDetail& detail) {
  const std::vector<std::string> parts = {
      absl::StrCat(static_cast<int>(detail.reason)),
      WithoutNul(detail.field),
      WithoutNul(detail.got),
      WithoutNul(detail.limit),
      WithoutNul(detail.backend),
      absl::StrCat(detail.retry_after_ms)};
  status.SetPayload(kTypeUrl,
                    absl::Cord(absl::StrJoin(parts, std::string(1, '\0'))));
}

}  // namespace

absl::string_view ErrorReasonName(ErrorReason reason) {
  const auto index = static_cast<size_t>(reason);
  return index < kNames.size() ? kNames[index] : "UNSPECIFIED";
}

absl::Status MakeError(absl::StatusCode code, ErrorDetail detail,
                       absl::string_view message) {
  absl::Status status(code, message);
  if (!status.ok()) Attach(status, detail);
  return status;
}

absl::Status InvalidField(absl::string_view field, absl::string_view message) {
  return InvalidField(ErrorReason::kFieldInvalid, field, message);
}

absl::Status InvalidField(ErrorReason reason, absl::string_view field,
                          absl::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = std::string(field);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   message);
}

absl::Status NotBuilt(absl::string_view what) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kNotBuilt;
  return MakeError(absl::StatusCode::kUnimplemented, std::move(detail),
                   absl::StrCat(what, " is not part of this build"));
}

std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status) {
  const auto payload = status.GetPayload(kTypeUrl);
  if (!payload) return std::nullopt;
  const std::string text(*payload);
  const std::vector<std::string> parts =
      absl::StrSplit(text, absl::ByChar('\0'));
  int reason = 0;
  ErrorDetail detail;
  if (parts.size() != 6 || !absl::SimpleAtoi(parts[0], &reason) ||
      !absl::SimpleAtoi(parts[5], &detail.retry_after_ms)) {
    return std::nullopt;
  }
  detail.reason = static_cast<ErrorReason>(reason);
  detail.field = parts[1];
  detail.got = parts[2];
  detail.limit = parts[3];
  detail.backend = parts[4];
  return detail;
}

absl::Status PrefixField(absl::Status status, absl::string_view prefix) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || detail->field.empty()) return status;
  const std::string old_field = detail->field;
  detail->field = absl::StrCat(prefix, old_field);
  // Messages begin with the field path by convention; keep them in step.
  std::string message(status.message());
  if (message.rfind(old_field, 0) == 0) message = absl::StrCat(prefix, message);
  return MakeError(status.code(), *std::move(detail), message);
}

}  // namespace preprocd
