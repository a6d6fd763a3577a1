#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/limits.h"
#include "engine/codec/header_reader.h"
#include "engine/codec/image_decoder.h"

namespace preprocd {
namespace {

constexpr std::array<unsigned char, 3> kJpegMagic = {0xff, 0xd8, 0xff};
constexpr std::array<unsigned char, 8> kPngMagic = {0x89, 'P',  'N',  'G',
                                                    0x0d, 0x0a, 0x1a, 0x0a};

template <size_t N>
bool StartsWithMagic(std::span<const std::byte> bytes,
                     const std::array<unsigned char, N>& magic) {
  return bytes.size() >= N &&
         std::equal(
             magic.begin(), magic.end(), bytes.begin(),
             [](unsigned char a, std::byte b) { return std::byte{a} == b; });
}

// A file that ends inside its magic bytes is truncated, not unknown.
template <size_t N>
bool IsPrefixOfMagic(std::span<const std::byte> bytes,
                     const std::array<unsigned char, N>& magic) {
  return bytes.size() < N &&
         std::equal(
             bytes.begin(), bytes.end(), magic.begin(),
             [](std::byte a, unsigned char b) { return a == std::byte{b}; });
}

}  // namespace

absl::string_view FileFormatName(FileFormat format) {
  return format == FileFormat::kPng ? "png" : "jpeg";
}

absl::Status ImageError(ErrorReason reason, absl::string_view message) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = "source";
  const absl::StatusCode code = reason == ErrorReason::kImageUnsupported
                                    ? absl::StatusCode::kUnimplemented
                                    : absl::StatusCode::kInvalidArgument;
  return MakeError(code, std::move(detail), absl::StrCat("source: ", message));
}

absl::Status CheckPictureSize(int64_t width, int64_t height) {
  if (width <= 0 || height <= 0) {
    return ImageError(ErrorReason::kImageCorrupt,
                      absl::StrCat("size ", width, "x", height, " is empty"));
  }
  ErrorDetail detail;
  detail.reason = ErrorReason::kTooLarge;
  detail.field = "source";
  detail.got = absl::StrCat(width, "x", height);
  if (width > kMaxImageAxis || height > kMaxImageAxis) {
    detail.limit = absl::StrCat(kMaxImageAxis);
    return MakeError(absl::StatusCode::kInvalidArgument, detail,
                     absl::StrCat("source: size ", width, "x", height, " > ",
                                  kMaxImageAxis, " on an axis"));
  }
  if (width * height > kMaxDecodedPixels) {
    detail.limit = absl::StrCat(kMaxDecodedPixels);
    return MakeError(absl::StatusCode::kInvalidArgument, detail,
                     absl::StrCat("source: size ", width, "x", height, " > ",
                                  kMaxDecodedPixels, " pixels"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageInfo> PeekImage(std::span<const std::byte> bytes) {
  if (bytes.empty()) {
    return ImageError(ErrorReason::kImageFormat, "no bytes");
  }
  if (bytes.size() > static_cast<uint64_t>(kMaxEncodedBytes)) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kTooLarge;
    detail.field = "source";
    detail.got = absl::StrCat(bytes.size());
    detail.limit = absl::StrCat(kMaxEncodedBytes);
    return MakeError(
        absl::StatusCode::kInvalidArgument, detail,
        absl::StrCat("source: ", bytes.size(), " bytes > ", kMaxEncodedBytes));
  }
  if (StartsWithMagic(bytes, kJpegMagic)) return ReadJpegHeader(bytes);
  if (StartsWithMagic(bytes, kPngMagic)) return ReadPngHeader(bytes);
  if (IsPrefixOfMagic(bytes, kJpegMagic) || IsPrefixOfMagic(bytes, kPngMagic)) {
    return ImageError(ErrorReason::kImageTruncated,
                      absl::StrCat("ends after ", bytes.size(), " bytes"));
  }
  return ImageError(ErrorReason::kImageFormat, "neither JPEG nor PNG");
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
      // Without a detour through rgb: the native one, or nv12 by averaging.
      return info.native_format == format ||
             (format == PixelFormat::kNv12 &&
              (info.native_format == PixelFormat::kNv16 ||
               info.native_format == PixelFormat::kNv24));
    default:
      return false;
  }
}

}  // namespace preprocd
