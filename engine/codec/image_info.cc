#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/decode_status.h"
#include "engine/codec/encoded_file.h"
#include "engine/codec/exif.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/png_header.h"

namespace preprocd {
namespace {

// How many bytes of `signature` the file begins with.
size_t MatchingPrefix(std::span<const std::byte> bytes,
                      absl::string_view signature) {
  const size_t count = std::min(bytes.size(), signature.size());
  size_t i = 0;
  while (i < count && std::to_integer<char>(bytes[i]) == signature[i]) ++i;
  return i;
}

absl::StatusOr<FileFormat> DetectFormat(std::span<const std::byte> bytes) {
  constexpr absl::string_view kJpegSignature = "\xFF\xD8\xFF";
  constexpr absl::string_view kPng(kPngSignature, kPngSignatureBytes);
  // Four bytes of eight are told apart from every other format; the rest of
  // the signature is there to show that a transfer changed the bytes.
  constexpr size_t kPngTellingBytes = 4;
  if (bytes.empty()) {
    return BadImage(ErrorReason::kImageFormat, "encoded image has 0 bytes");
  }
  if (bytes.size() > static_cast<uint64_t>(kMaxEncodedBytes)) {
    return ImageTooLarge("encoded bytes", static_cast<int64_t>(bytes.size()),
                         kMaxEncodedBytes);
  }
  const size_t jpeg = MatchingPrefix(bytes, kJpegSignature);
  if (jpeg == kJpegSignature.size()) return FileFormat::kJpeg;
  const size_t png = MatchingPrefix(bytes, kPng);
  if (png == kPng.size()) return FileFormat::kPng;
  if (jpeg == bytes.size() || png == bytes.size()) {
    return BadImage(ErrorReason::kImageTruncated,
                    absl::StrCat("encoded image has only ", bytes.size(),
                                 " bytes, the beginning of a ",
                                 jpeg > 0 ? "JPEG" : "PNG", " file"));
  }
  if (png >= kPngTellingBytes) {
    return BadImage(ErrorReason::kImageCorrupt,
                    "PNG signature is damaged, as by a text-mode transfer");
  }
  return BadImage(ErrorReason::kImageFormat,
                  "encoded image is neither JPEG nor PNG");
}

void FillOrientation(std::span<const std::byte> exif, ImageInfo& info) {
  const std::optional<Orientation> orientation = ReadExifOrientation(exif);
  info.has_orientation = orientation.has_value();
  info.orientation = orientation.value_or(Orientation::kNormal);
}

ImageInfo InfoOf(const JpegHeader& header) {
  ImageInfo info;
  info.file_format = FileFormat::kJpeg;
  info.width = header.width;
  info.height = header.height;
  info.components = header.component_count;
  info.subsampling = header.subsampling();
  info.process = std::string(header.process());
  info.color_space = std::string(header.color_name());
  info.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  info.native_format = header.native_format();
  info.has_icc = header.has_icc;
  FillOrientation(header.exif, info);
  return info;
}

ImageInfo InfoOf(const PngHeader& header) {
  ImageInfo info;
  info.file_format = FileFormat::kPng;
  info.width = header.width;
  info.height = header.height;
  info.components = header.components();
  info.bit_depth = header.bit_depth;
  if (header.interlaced) info.process = "interlaced";
  info.color_space = std::string(header.color_name());
  info.has_alpha = header.has_alpha();
  info.color.range = ColorRange::kFull;
  info.native_format = header.native_format();
  info.has_icc = header.has_icc;
  FillOrientation(header.exif, info);
  return info;
}

}  // namespace

absl::string_view FileFormatName(FileFormat format) {
  return format == FileFormat::kJpeg ? "jpeg" : "png";
}

absl::StatusOr<EncodedFile> OpenEncodedFile(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(const FileFormat format, DetectFormat(bytes));
  EncodedFile file;
  if (format == FileFormat::kJpeg) {
    ASSIGN_OR_RETURN(file.jpeg, ReadJpegHeader(bytes));
    file.info = InfoOf(file.jpeg);
  } else {
    ASSIGN_OR_RETURN(file.png, ReadPngHeader(bytes));
    file.info = InfoOf(file.png);
  }
  return file;
}

absl::StatusOr<ImageInfo> PeekImage(std::span<const std::byte> bytes) {
  ASSIGN_OR_RETURN(EncodedFile file, OpenEncodedFile(bytes));
  return std::move(file.info);
}

bool CanDecodeTo(const ImageInfo& info, PixelFormat format) {
  switch (format) {
    case PixelFormat::kGrey:
    case PixelFormat::kRgb:
    case PixelFormat::kRgba:
    case PixelFormat::kBgr:
    case PixelFormat::kBgra:
      return true;
    case PixelFormat::kNv12:
    case PixelFormat::kNv16:
    case PixelFormat::kNv24:
      return info.file_format == FileFormat::kJpeg;
    default:
      return false;
  }
}

}  // namespace preprocd
