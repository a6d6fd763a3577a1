#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/codec/exif.h"
#include "engine/codec/header_reader.h"

namespace preprocd {
namespace {

constexpr int kMaxComponents = 4;

struct Component {
  int id = 0;
  int h = 0;
  int v = 0;
};

struct Frame {
  int marker = 0;
  int precision = 0;
  int width = 0;
  int height = 0;
  int count = 0;
  std::array<Component, kMaxComponents> components = {};
};

// Walks marker segments up to the first scan.
class HeaderWalk {
 public:
  explicit HeaderWalk(std::span<const std::byte> bytes) : bytes_(bytes) {}

  absl::Status Run() {
    at_ = 2;  // after SOI
    while (true) {
      ASSIGN_OR_RETURN(const int marker, NextMarker());
      if (marker == 0xd9) {
        return ImageError(ErrorReason::kImageCorrupt,
                          "the JPEG ends before its first scan");
      }
      // TEM and RSTn stand alone; a second SOI is junk between segments.
      if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) continue;
      if (marker == 0xda) {
        if (!saw_frame) {
          return ImageError(ErrorReason::kImageCorrupt,
                            "the JPEG's scan comes before its frame header");
        }
        return absl::OkStatus();
      }
      ASSIGN_OR_RETURN(const std::span<const std::byte> segment, Segment());
      RETURN_IF_ERROR(Read(marker, segment));
    }
  }

  bool saw_frame = false;
  Frame frame;
  bool saw_jfif = false;
  int adobe_transform = -1;  // -1: no Adobe marker
  std::optional<Orientation> orientation;

 private:
  static absl::Status Truncated() {
    return ImageError(ErrorReason::kImageTruncated,
                      "the JPEG ends inside its headers");
  }

  absl::StatusOr<int> NextMarker() {
    // Junk between segments is skipped, as libjpeg does; FF fill bytes are
    // legal.
    while (at_ + 1 < bytes_.size()) {
      if (bytes_[at_] == std::byte{0xff} &&
          bytes_[at_ + 1] != std::byte{0xff} &&
          bytes_[at_ + 1] != std::byte{0}) {
        const int marker = static_cast<int>(bytes_[at_ + 1]);
        at_ += 2;
        return marker;
      }
      ++at_;
    }
    return Truncated();
  }

  absl::StatusOr<std::span<const std::byte>> Segment() {
    if (bytes_.size() - at_ < 2) return Truncated();
    const size_t length = Word(bytes_.subspan(at_), 0);
    if (length < 2) {
      return ImageError(ErrorReason::kImageCorrupt,
                        "a JPEG segment is shorter than its own length");
    }
    if (bytes_.size() - at_ < length) return Truncated();
    const auto segment = bytes_.subspan(at_ + 2, length - 2);
    at_ += length;
    return segment;
  }

  static int Byte(std::span<const std::byte> s, size_t i) {
    return static_cast<int>(s[i]);
  }
  static size_t Word(std::span<const std::byte> s, size_t i) {
    return static_cast<size_t>(s[i]) << 8 | static_cast<size_t>(s[i + 1]);
  }
  static bool HasPrefix(std::span<const std::byte> s, const char* prefix,
                        size_t size) {
    return s.size() >= size && memcmp(s.data(), prefix, size) == 0;
  }

  absl::Status Read(int marker, std::span<const std::byte> segment) {
    const bool sof = marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 &&
                     marker != 0xc8 && marker != 0xcc;
    if (sof) return ReadFrame(marker, segment);
    if (marker == 0xe0 && HasPrefix(segment, "JFIF\0", 5)) saw_jfif = true;
    if (marker == 0xe1 && !orientation && HasPrefix(segment, "Exif\0\0", 6)) {
      orientation = ReadExifOrientation(segment.subspan(6));
    }
    if (marker == 0xee && segment.size() >= 12 &&
        HasPrefix(segment, "Adobe", 5)) {
      adobe_transform = Byte(segment, 11);
    }
    return absl::OkStatus();
  }

  absl::Status ReadFrame(int marker, std::span<const std::byte> segment) {
    if (saw_frame) {
      return ImageError(ErrorReason::kImageCorrupt,
                        "the JPEG has two frame headers");
    }
    if (segment.size() < 6) {
      return ImageError(ErrorReason::kImageCorrupt,
                        "the JPEG's frame header is too short");
    }
    Frame f;
    f.marker = marker;
    f.precision = Byte(segment, 0);
    f.height = static_cast<int>(Word(segment, 1));
    f.width = static_cast<int>(Word(segment, 3));
    f.count = Byte(segment, 5);
    if (f.count < 1 || segment.size() < 6 + 3 * static_cast<size_t>(f.count)) {
      return ImageError(ErrorReason::kImageCorrupt,
                        "the JPEG's frame header is too short");
    }
    if (f.count > kMaxComponents || f.count == 2) {
      return ImageError(ErrorReason::kImageUnsupported,
                        absl::StrCat("JPEG with ", f.count, " components"));
    }
    for (int i = 0; i < f.count; ++i) {
      const size_t base = 6 + 3 * static_cast<size_t>(i);
      Component& c = f.components[static_cast<size_t>(i)];
      c.id = Byte(segment, base);
      c.h = Byte(segment, base + 1) >> 4;
      c.v = Byte(segment, base + 1) & 15;
      if (c.h < 1 || c.h > 4 || c.v < 1 || c.v > 4) {
        return ImageError(ErrorReason::kImageCorrupt,
                          absl::StrCat("JPEG sampling factor ", c.h, "x", c.v,
                                       " is not in 1..4"));
      }
    }
    frame = f;
    saw_frame = true;
    return absl::OkStatus();
  }

  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

absl::Status CheckProcess(const Frame& f) {
  switch (f.marker) {
    case 0xc0:
    case 0xc1:
    case 0xc2:
    case 0xc9:
    case 0xca:
      break;
    case 0xc3:
    case 0xcb:
      return ImageError(ErrorReason::kImageUnsupported, "lossless JPEG");
    default:
      return ImageError(ErrorReason::kImageUnsupported, "hierarchical JPEG");
  }
  if (f.precision != 8) {
    return ImageError(ErrorReason::kImageUnsupported,
                      absl::StrCat(f.precision, "-bit JPEG"));
  }
  if (f.height == 0) {
    return ImageError(ErrorReason::kImageUnsupported,
                      "JPEG whose height comes after the scan (DNL)");
  }
  return absl::OkStatus();
}

const char* ProcessName(int marker) {
  switch (marker) {
    case 0xc0:
      return "baseline";
    case 0xc1:
      return "extended";
    case 0xc2:
      return "progressive";
    default:
      return "arithmetic";
  }
}

// The same rules as libjpeg: JFIF, then Adobe, then component ids.
const char* ColorSpaceName(const HeaderWalk& walk) {
  const Frame& f = walk.frame;
  if (f.count == 1) return "grey";
  if (f.count == 4) {
    return walk.adobe_transform == 2 ? "ycck" : "cmyk";
  }
  if (walk.saw_jfif) return "ycbcr";
  if (walk.adobe_transform >= 0) {
    return walk.adobe_transform == 0 ? "rgb" : "ycbcr";
  }
  const bool letters = f.components[0].id == 'R' && f.components[1].id == 'G' &&
                       f.components[2].id == 'B';
  return letters ? "rgb" : "ycbcr";
}

std::string Subsampling(const Frame& f) {
  if (f.count != 3) return "";
  const Component& y = f.components[0];
  const Component& u = f.components[1];
  const Component& v = f.components[2];
  if (u.h == v.h && u.v == v.v && y.h % u.h == 0 && y.v % u.v == 0) {
    switch (y.h / u.h * 10 + y.v / u.v) {
      case 11:
        return "4:4:4";
      case 21:
        return "4:2:2";
      case 22:
        return "4:2:0";
      case 12:
        return "4:4:0";
      case 41:
        return "4:1:1";
      case 42:
        return "4:1:0";
      default:
        break;
    }
  }
  return absl::StrCat(y.h, "x", y.v, ",", u.h, "x", u.v, ",", v.h, "x", v.v);
}

PixelFormat NativeFormat(const ImageInfo& info) {
  if (info.color_space == "grey") return PixelFormat::kGrey;
  if (info.color_space != "ycbcr") return PixelFormat::kRgb;
  if (info.subsampling == "4:2:0") return PixelFormat::kNv12;
  if (info.subsampling == "4:2:2") return PixelFormat::kNv16;
  if (info.subsampling == "4:4:4") return PixelFormat::kNv24;
  // 4:4:0, 4:1:1 and 4:1:0 average or repeat into nv12 exactly.
  if (info.subsampling == "4:4:0" || info.subsampling == "4:1:1" ||
      info.subsampling == "4:1:0") {
    return PixelFormat::kNv12;
  }
  return PixelFormat::kRgb;
}

}  // namespace

absl::StatusOr<ImageInfo> ReadJpegHeader(std::span<const std::byte> bytes) {
  HeaderWalk walk(bytes);
  RETURN_IF_ERROR(walk.Run());
  const Frame& f = walk.frame;
  RETURN_IF_ERROR(CheckProcess(f));
  RETURN_IF_ERROR(CheckPictureSize(f.width, f.height));
  ImageInfo info;
  info.file_format = FileFormat::kJpeg;
  info.width = f.width;
  info.height = f.height;
  info.components = f.count;
  info.bit_depth = f.precision;
  info.process = ProcessName(f.marker);
  info.color_space = ColorSpaceName(walk);
  info.subsampling = Subsampling(f);
  info.has_orientation = walk.orientation.has_value();
  info.orientation = walk.orientation.value_or(Orientation::kNormal);
  info.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  info.native_format = NativeFormat(info);
  return info;
}

}  // namespace preprocd
