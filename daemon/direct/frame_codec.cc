#include "daemon/direct/frame_codec.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"

namespace preprocd {

absl::Status ParseFrame(std::span<const std::byte> bytes,
                        preproc::v1::ClientFrame* frame) {
  if (!frame->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidField(
        ErrorReason::kFrameInvalid, "frame",
        absl::StrCat("frame of ", bytes.size(), " bytes is not a ClientFrame"));
  }
  return absl::OkStatus();
}

absl::Status CheckFrame(const preproc::v1::ClientFrame& frame) {
  if (frame.request_id() == 0) {
    return InvalidField("request_id", "request_id 0 < 1");
  }
  if (frame.body_case() == preproc::v1::ClientFrame::BODY_NOT_SET) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFrameInvalid;
    detail.field = "body";
    return MakeError(absl::StatusCode::kUnimplemented, detail,
                     "body is unset or newer than this daemon");
  }
  return absl::OkStatus();
}

absl::Status SerializeFrame(const preproc::v1::ServerFrame& frame,
                            std::vector<std::byte>& out) {
  const size_t size = frame.ByteSizeLong();
  if (size > static_cast<size_t>(kMaxFrameBytes)) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kTooLarge;
    detail.field = "destination.inline";
    detail.got = absl::StrCat(size);
    detail.limit = absl::StrCat(kMaxFrameBytes);
    return MakeError(
        absl::StatusCode::kInvalidArgument, detail,
        absl::StrCat("destination.inline: a reply of ", size, " bytes > ",
                     kMaxFrameBytes, "; use a buffer, or gRPC"));
  }
  out.resize(size);
  frame.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(out.data()));
  return absl::OkStatus();
}

void MakeErrorFrame(const absl::Status& status,
                    preproc::v1::ServerFrame* frame) {
  preproc::v1::ErrorReply* error = frame->mutable_error();
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(status.message()));
  FillErrorDetail(status, error->mutable_detail());
}

}  // namespace preprocd
