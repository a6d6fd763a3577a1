// Header walks of the two formats: bounded reads, nothing allocated that
// depends on the picture's size.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_HEADER_READER_H_
#define ENGINE_CODEC_HEADER_READER_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/codec/image_decoder.h"

namespace preprocd {

// Both: REQUIRES the format's magic bytes at the start.
// Errors: as PeekImage.
absl::StatusOr<ImageInfo> ReadJpegHeader(std::span<const std::byte> bytes);
absl::StatusOr<ImageInfo> ReadPngHeader(std::span<const std::byte> bytes);

// An INVALID_ARGUMENT about the bytes, or UNIMPLEMENTED for
// IMAGE_UNSUPPORTED.
absl::Status ImageError(ErrorReason reason, absl::string_view message);

// Axis and pixel limits. Errors: TOO_LARGE, IMAGE_CORRUPT for empty sizes.
absl::Status CheckPictureSize(int64_t width, int64_t height);

}  // namespace preprocd

#endif  // ENGINE_CODEC_HEADER_READER_H_
