#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/exif.h"
#include "engine/codec/header_reader.h"

namespace preprocd {
namespace {

constexpr size_t kSignatureBytes = 8;
constexpr size_t kChunkOverhead = 12;  // length, type, CRC

uint32_t U32(std::span<const std::byte> bytes, size_t at) {
  return static_cast<uint32_t>(bytes[at]) << 24 |
         static_cast<uint32_t>(bytes[at + 1]) << 16 |
         static_cast<uint32_t>(bytes[at + 2]) << 8 |
         static_cast<uint32_t>(bytes[at + 3]);
}

absl::Status Truncated() {
  return ImageError(ErrorReason::kImageTruncated,
                    "the PNG ends inside its headers");
}

bool DepthFits(int color_type, int depth) {
  switch (color_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 ||
             depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

absl::Status ReadIhdr(std::span<const std::byte> data, ImageInfo& info) {
  RETURN_IF_ERROR(CheckPictureSize(U32(data, 0), U32(data, 4)));
  info.width = static_cast<int>(U32(data, 0));
  info.height = static_cast<int>(U32(data, 4));
  info.bit_depth = static_cast<int>(data[8]);
  const int color_type = static_cast<int>(data[9]);
  if (!DepthFits(color_type, info.bit_depth)) {
    return ImageError(ErrorReason::kImageCorrupt,
                      absl::StrCat("PNG colour type ", color_type,
                                   " with depth ", info.bit_depth));
  }
  if (data[12] == std::byte{1}) info.process = "interlaced";
  switch (color_type) {
    case 0:
      info.components = 1;
      info.color_space = "grey";
      info.native_format = PixelFormat::kGrey;
      break;
    case 2:
      info.components = 3;
      info.color_space = "rgb";
      info.native_format = PixelFormat::kRgb;
      break;
    case 3:
      info.components = 1;
      info.color_space = "palette";
      info.native_format = PixelFormat::kRgb;
      break;
    case 4:
      info.components = 2;
      info.color_space = "grey-alpha";
      info.has_alpha = true;
      info.native_format = PixelFormat::kGrey;
      break;
    default:
      info.components = 4;
      info.color_space = "rgba";
      info.has_alpha = true;
      info.native_format = PixelFormat::kRgba;
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ImageInfo> ReadPngHeader(std::span<const std::byte> bytes) {
  ImageInfo info;
  info.file_format = FileFormat::kPng;
  size_t at = kSignatureBytes;
  bool first = true;
  int ancillary = 0;
  while (true) {
    if (bytes.size() - at < kChunkOverhead) return Truncated();
    const uint32_t length = U32(bytes, at);
    const std::byte* type = bytes.data() + at + 4;
    if (length > 0x7fffffffU) {
      return ImageError(ErrorReason::kImageCorrupt,
                        "a PNG chunk's length is above 2^31");
    }
    if (first) {
      if (memcmp(type, "IHDR", 4) != 0 || length != 13) {
        return ImageError(ErrorReason::kImageCorrupt,
                          "the PNG does not begin with IHDR");
      }
      if (bytes.size() - at < kChunkOverhead + 13) return Truncated();
      RETURN_IF_ERROR(ReadIhdr(bytes.subspan(at + 8, 13), info));
      first = false;
    } else if (memcmp(type, "IDAT", 4) == 0) {
      return info;
    } else if (memcmp(type, "IEND", 4) == 0) {
      return ImageError(ErrorReason::kImageCorrupt, "the PNG has no IDAT");
    } else if (memcmp(type, "tRNS", 4) == 0) {
      info.has_alpha = true;
      if (info.native_format == PixelFormat::kRgb) {
        info.native_format = PixelFormat::kRgba;
      }
    }
    if (bytes.size() - at - kChunkOverhead < length) return Truncated();
    if (memcmp(type, "eXIf", 4) == 0 && !info.has_orientation) {
      const auto orientation =
          ReadExifOrientation(bytes.subspan(at + 8, length));
      info.has_orientation = orientation.has_value();
      info.orientation = orientation.value_or(Orientation::kNormal);
    }
    const bool is_ancillary = (type[0] & std::byte{0x20}) != std::byte{0};
    if (is_ancillary && ++ancillary > kMaxPngAncillaryChunks) {
      return ImageError(
          ErrorReason::kTooLarge,
          absl::StrCat("PNG has more than ", kMaxPngAncillaryChunks,
                       " ancillary chunks"));
    }
    at += kChunkOverhead + length;
  }
}

}  // namespace preprocd
