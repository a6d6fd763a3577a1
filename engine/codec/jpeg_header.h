// Walks the marker segments of a JPEG file up to its first scan, without any
// library: what the frame is, how its components are coded, where EXIF lies.
// Thread-safety: safe (no state). Borrows the bytes that spans point into.
// Limits: kMaxImageAxis, kMaxDecodedPixels; no allocation.
// Source: ITU-T T.81 B.1, B.2; T.871 (JFIF); Adobe TN 5116 (APP14). Colour
// coding is decided as libjpeg does, from JFIF, APP14 and component ids.
#ifndef ENGINE_CODEC_JPEG_HEADER_H_
#define ENGINE_CODEC_JPEG_HEADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

enum class JpegColor : uint8_t { kGrey, kYcc, kRgb, kCmyk, kYcck };

struct JpegComponent {
  uint8_t id = 0;
  uint8_t h = 1;  // horizontal sampling factor, 1..4
  uint8_t v = 1;  // vertical sampling factor, 1..4
};

struct JpegHeader {
  int width = 0;
  int height = 0;
  int component_count = 0;  // 1, 3 or 4
  std::array<JpegComponent, 4> components = {};
  int max_h = 1;
  int max_v = 1;
  bool progressive = false;
  bool arithmetic = false;
  bool extended = false;  // SOF1
  JpegColor color = JpegColor::kGrey;
  bool has_jfif = false;
  // Motion JPEG of AVI files: the frame is one field of an interlaced picture
  // (1: odd lines, 2: even lines), 0: a whole frame or not said.
  int avi_field = 0;
  bool has_adobe = false;
  int adobe_transform = 0;
  // TIFF block of the first EXIF segment; empty when there is none.
  std::span<const std::byte> exif;
  // An EXIF segment without even a TIFF header.
  bool has_empty_exif = false;
  bool has_icc = false;
  // Its parts (APP2 before the scan) are not 1..count, each once.
  bool has_broken_icc = false;
  // Bytes between marker segments that belong to none.
  size_t stray_bytes = 0;
  // Offset of the two height bytes in the frame header.
  size_t height_offset = 0;
  // The frame header says 0 and `height` is from the DNL segment.
  bool height_from_dnl = false;

  // Luma to chroma sampling ratio; {0, 0} unless YCbCr, luma fully sampled
  // and both chroma components alike.
  struct Ratio {
    int x = 0;
    int y = 0;
    bool operator==(const Ratio&) const = default;
  };
  Ratio chroma_ratio() const;
  // "4:2:0" ..., the factors ("2x2,1x2,1x1") when they have no such name, ""
  // for files that are not YCbCr.
  std::string subsampling() const;
  absl::string_view process() const;
  absl::string_view color_name() const;
  PixelFormat native_format() const;
};

// REQUIRES: `bytes` begins with FF D8.
// Errors: kInvalidArgument IMAGE_TRUNCATED, IMAGE_CORRUPT, TOO_LARGE;
//         kUnimplemented IMAGE_UNSUPPORTED with the process' name
absl::StatusOr<JpegHeader> ReadJpegHeader(std::span<const std::byte> bytes);

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_HEADER_H_
