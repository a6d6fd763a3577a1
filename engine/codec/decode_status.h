// The statuses that readers answer for foreign image bytes. They name no
// field: the caller knows which request field carried the bytes.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_DECODE_STATUS_H_
#define ENGINE_CODEC_DECODE_STATUS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"

namespace preprocd {

// kInvalidArgument with `reason` (IMAGE_FORMAT, IMAGE_TRUNCATED,
// IMAGE_CORRUPT).
absl::Status BadImage(ErrorReason reason, absl::string_view message);

// kUnimplemented IMAGE_UNSUPPORTED: "`feature` is not decoded".
absl::Status UnsupportedImage(absl::string_view feature);

// kInvalidArgument TOO_LARGE with both numbers: "`what` got > limit".
absl::Status ImageTooLarge(absl::string_view what, int64_t got, int64_t limit);

// kMaxImageAxis on both axes and kMaxDecodedPixels on their product.
absl::Status CheckPictureSize(int64_t width, int64_t height);

}  // namespace preprocd

#endif  // ENGINE_CODEC_DECODE_STATUS_H_
