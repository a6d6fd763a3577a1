// Walks the chunks of a PNG file without any library: size, colour type,
// transparency, EXIF, and whether the file has its end.
// Thread-safety: safe (no state). Borrows the bytes that spans point into.
// Limits: kMaxImageAxis, kMaxDecodedPixels, kMaxPngAncillaryChunks before the
// pixels; no allocation.
// Source: W3C PNG 3rd edition, 5.2 to 5.6, 11.2, 11.3.
#ifndef ENGINE_CODEC_PNG_HEADER_H_
#define ENGINE_CODEC_PNG_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

inline constexpr size_t kPngSignatureBytes = 8;
inline constexpr char kPngSignature[] = "\x89PNG\r\n\x1a\n";

// Numbers as in the file.
enum class PngColorType : uint8_t {
  kGrey = 0,
  kRgb = 2,
  kPalette = 3,
  kGreyAlpha = 4,
  kRgba = 6,
};

struct PngHeader {
  int width = 0;
  int height = 0;
  int bit_depth = 8;
  PngColorType color_type = PngColorType::kGrey;
  bool interlaced = false;
  bool has_transparency_chunk = false;  // tRNS
  bool is_animated = false;             // acTL; only the still picture is read
  bool has_end_chunk = false;           // IEND was found
  bool has_icc = false;                 // iCCP
  // TIFF block of the eXIf chunk; empty when there is none.
  std::span<const std::byte> exif;

  bool is_grey() const {
    return color_type == PngColorType::kGrey ||
           color_type == PngColorType::kGreyAlpha;
  }
  bool has_alpha() const {
    return color_type == PngColorType::kGreyAlpha ||
           color_type == PngColorType::kRgba || has_transparency_chunk;
  }
  int components() const;
  absl::string_view color_name() const;
  PixelFormat native_format() const;
};

// REQUIRES: `bytes` begins with the signature.
// Errors: kInvalidArgument IMAGE_TRUNCATED, IMAGE_CORRUPT, TOO_LARGE;
//         kUnimplemented IMAGE_UNSUPPORTED
absl::StatusOr<PngHeader> ReadPngHeader(std::span<const std::byte> bytes);

}  // namespace preprocd

#endif  // ENGINE_CODEC_PNG_HEADER_H_
