// Encodes pictures as JPEG (libjpeg-turbo) and PNG (libpng) files.
// Thread-safety: safe (no state).
// Limits: kMaxImageAxis per axis (checked here, JPEG itself allows 65500).
// Source: ITU-T T.81; W3C PNG 3rd edition.
#ifndef ENGINE_CODEC_IMAGE_ENCODER_H_
#define ENGINE_CODEC_IMAGE_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Numbers of chroma samples relative to luma.
enum class JpegSubsampling : uint8_t { k444 = 0, k422 = 1, k420 = 2 };

struct JpegEncodeOptions {
  int quality = 90;  // 1..100
  JpegSubsampling subsampling = JpegSubsampling::k420;
};

// From grey, rgb, rgba, bgr, bgra (alpha dropped) or nv12 (no detour through
// rgb, always 4:2:0; BT.601 full range expected), u8, any stride. Appends
// nothing: `out` is replaced, and empty after an error.
// Errors: kInvalidArgument FORMAT_PAIR, FIELD_INVALID "quality", TOO_LARGE;
//         kResourceExhausted
absl::Status EncodeJpeg(const ConstImageView& picture,
                        const JpegEncodeOptions& options,
                        std::vector<std::byte>& out);

struct PngEncodeOptions {
  int compression = 6;  // 0..9
};

// From grey, rgb, rgba, bgr, bgra, planar_rgb, planar_bgr, planar_rgba in u8
// or u16 (native endian in, big endian in the file).
// Errors: kInvalidArgument FORMAT_PAIR, FIELD_INVALID "compression",
//         TOO_LARGE; kResourceExhausted
absl::Status EncodePng(const ConstImageView& picture,
                       const PngEncodeOptions& options,
                       std::vector<std::byte>& out);

}  // namespace preprocd

#endif  // ENGINE_CODEC_IMAGE_ENCODER_H_
