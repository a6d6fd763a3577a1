#include "engine/codec/decode_status.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status WithReason(absl::StatusCode code, ErrorReason reason,
                        absl::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(code, std::move(detail), message);
}

}  // namespace

absl::Status BadImage(ErrorReason reason, absl::string_view message) {
  return WithReason(absl::StatusCode::kInvalidArgument, reason, message);
}

absl::Status UnsupportedImage(absl::string_view feature) {
  return WithReason(absl::StatusCode::kUnimplemented,
                    ErrorReason::kImageUnsupported,
                    absl::StrCat(feature, " is not decoded"));
}

absl::Status ImageTooLarge(absl::string_view what, int64_t got, int64_t limit) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kTooLarge;
  detail.got = absl::StrCat(got);
  detail.limit = absl::StrCat(limit);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat(what, " ", got, " > ", limit));
}

absl::Status CheckPictureSize(int64_t width, int64_t height) {
  if (width > kMaxImageAxis) {
    return ImageTooLarge("picture width", width, kMaxImageAxis);
  }
  if (height > kMaxImageAxis) {
    return ImageTooLarge("picture height", height, kMaxImageAxis);
  }
  if (width * height > kMaxDecodedPixels) {
    return ImageTooLarge("picture pixels", width * height, kMaxDecodedPixels);
  }
  return absl::OkStatus();
}

}  // namespace preprocd
