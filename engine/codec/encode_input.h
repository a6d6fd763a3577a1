// What both encoders check of a picture before they touch its pixels.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_ENCODE_INPUT_H_
#define ENGINE_CODEC_ENCODE_INPUT_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Errors: kInvalidArgument FIELD_INVALID     unknown format or dtype
//                          GEOMETRY_INVALID  a size below 1
//                          TOO_LARGE         an axis above kMaxImageAxis
absl::Status CheckEncodeSize(const ImageDesc& desc);

// kInvalidArgument FORMAT_PAIR: `file` ("JPEG") does not take `desc`.
absl::Status CannotEncode(const ImageDesc& desc, absl::string_view file);

}  // namespace preprocd

#endif  // ENGINE_CODEC_ENCODE_INPUT_H_
