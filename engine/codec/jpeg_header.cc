#include "engine/codec/jpeg_header.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/codec/decode_status.h"

namespace preprocd {
namespace {

constexpr uint8_t kTem = 0x01;
constexpr uint8_t kSof0 = 0xC0;
constexpr uint8_t kDht = 0xC4;
constexpr uint8_t kJpgExtension = 0xC8;
constexpr uint8_t kDac = 0xCC;
constexpr uint8_t kSofLast = 0xCF;
constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kRst7 = 0xD7;
constexpr uint8_t kSoi = 0xD8;
constexpr uint8_t kEoi = 0xD9;
constexpr uint8_t kSos = 0xDA;
constexpr uint8_t kDnl = 0xDC;
constexpr uint8_t kDhp = 0xDE;
constexpr uint8_t kExp = 0xDF;
constexpr uint8_t kApp0 = 0xE0;
constexpr uint8_t kApp1 = 0xE1;
constexpr uint8_t kApp2 = 0xE2;
constexpr uint8_t kApp14 = 0xEE;

absl::Status Truncated() {
  return BadImage(ErrorReason::kImageTruncated, "JPEG ends inside its headers");
}

absl::Status Corrupt(absl::string_view what) {
  return BadImage(ErrorReason::kImageCorrupt, absl::StrCat("JPEG ", what));
}

bool IsFrameHeader(uint8_t marker) {
  return marker >= kSof0 && marker <= kSofLast && marker != kDht &&
         marker != kJpgExtension && marker != kDac;
}

bool HasNoLength(uint8_t marker) {
  return marker == kTem || (marker >= kRst0 && marker <= kRst7);
}

bool StartsWith(std::span<const std::byte> bytes, absl::string_view text) {
  return bytes.size() >= text.size() &&
         memcmp(bytes.data(), text.data(), text.size()) == 0;
}

int Read16(std::span<const std::byte> bytes, size_t offset) {
  return std::to_integer<int>(bytes[offset]) << 8 |
         std::to_integer<int>(bytes[offset + 1]);
}

uint8_t Read8(std::span<const std::byte> bytes, size_t offset) {
  return std::to_integer<uint8_t>(bytes[offset]);
}

// Names the coding processes that are not decoded.
absl::Status CheckProcess(uint8_t marker) {
  switch (marker) {
    case 0xC0:
    case 0xC1:
    case 0xC2:
    case 0xC9:
    case 0xCA:
      return absl::OkStatus();
    case 0xC3:
    case 0xCB:
      return UnsupportedImage(
          absl::StrCat("lossless JPEG (SOF", marker - kSof0, ")"));
    default:
      return UnsupportedImage(
          absl::StrCat("hierarchical JPEG (SOF", marker - kSof0, ")"));
  }
}

class HeaderWalk {
 public:
  explicit HeaderWalk(std::span<const std::byte> bytes) : bytes_(bytes) {}

  absl::StatusOr<JpegHeader> Run() {
    while (true) {
      ASSIGN_OR_RETURN(const uint8_t marker, NextMarker());
      if (HasNoLength(marker)) continue;
      if (marker == kSoi) return Corrupt("has two SOI markers");
      if (marker == kEoi) return Corrupt("has no scan before its EOI marker");
      if (marker == kDhp || marker == kExp) {
        return UnsupportedImage("hierarchical JPEG (DHP)");
      }
      if (marker == kJpgExtension) {
        return UnsupportedImage("JPEG extension (SOF8)");
      }
      ASSIGN_OR_RETURN(const std::span<const std::byte> body, Segment());
      if (marker == kSos) break;
      RETURN_IF_ERROR(ReadSegment(marker, body));
    }
    if (!has_frame_) return Corrupt("has a scan before its frame header");
    if (header_.height == 0) RETURN_IF_ERROR(ReadHeightAfterScan());
    header_.color = DecideColor();
    header_.has_broken_icc |= icc_parts_found_ != icc_count_;
    return header_;
  }

 private:
  // Leaves `at_` behind the marker.
  absl::StatusOr<uint8_t> NextMarker() {
    while (true) {
      const size_t left = bytes_.size() - at_;
      if (left == 0) return Truncated();
      const auto* found = static_cast<const std::byte*>(
          memchr(bytes_.data() + at_, 0xFF, left));
      if (found == nullptr) return Truncated();
      const auto position = static_cast<size_t>(found - bytes_.data());
      header_.stray_bytes += position - at_;
      at_ = position;
      while (at_ < bytes_.size() && Read8(bytes_, at_) == 0xFF) ++at_;
      if (at_ == bytes_.size()) return Truncated();
      const uint8_t marker = Read8(bytes_, at_++);
      if (marker != 0) return marker;
      header_.stray_bytes += 2;
    }
  }

  // Body of the segment at `at_`, which moves behind it.
  absl::StatusOr<std::span<const std::byte>> Segment() {
    if (bytes_.size() - at_ < 2) return Truncated();
    const auto length = static_cast<size_t>(Read16(bytes_, at_));
    if (length < 2) return Corrupt(absl::StrCat("segment length ", length));
    if (bytes_.size() - at_ < length) return Truncated();
    const auto body = bytes_.subspan(at_ + 2, length - 2);
    at_ += length;
    return body;
  }

  absl::Status ReadSegment(uint8_t marker, std::span<const std::byte> body) {
    if (IsFrameHeader(marker)) return ReadFrame(marker, body);
    if (marker == kApp0 && body.size() >= 14 &&
        StartsWith(body, absl::string_view("JFIF\0", 5))) {
      header_.has_jfif = true;
    }
    if (marker == kApp0 && body.size() >= 5 && StartsWith(body, "AVI1")) {
      const int polarity = Read8(body, 4);
      header_.avi_field = polarity <= 2 ? polarity : 0;
    }
    if (marker == kApp1 && header_.exif.empty() &&
        StartsWith(body, absl::string_view("Exif\0", 5))) {
      if (body.size() > 6) header_.exif = body.subspan(6);
      header_.has_empty_exif = body.size() <= 6;
    }
    if (marker == kApp2 &&
        StartsWith(body, absl::string_view("ICC_PROFILE\0", 12))) {
      NoteIccPart(body.subspan(12));
    }
    if (marker == kApp14 && body.size() >= 12 && StartsWith(body, "Adobe")) {
      header_.has_adobe = true;
      header_.adobe_transform = Read8(body, 11);
    }
    return absl::OkStatus();
  }

  void NoteIccPart(std::span<const std::byte> part) {
    header_.has_icc = true;
    const size_t number = part.size() < 2 ? 0 : Read8(part, 0);
    const int count = part.size() < 2 ? 0 : Read8(part, 1);
    if (number == 0 || static_cast<int>(number) > count || icc_parts_[number] ||
        (icc_count_ != 0 && count != icc_count_)) {
      header_.has_broken_icc = true;
      return;
    }
    icc_parts_[number] = true;
    icc_count_ = count;
    ++icc_parts_found_;
  }

  absl::Status ReadFrame(uint8_t marker, std::span<const std::byte> body) {
    RETURN_IF_ERROR(CheckProcess(marker));
    if (has_frame_) return Corrupt("has two frame headers");
    has_frame_ = true;
    if (body.size() < 6) return Corrupt("frame header is too short");
    const int precision = Read8(body, 0);
    header_.height = Read16(body, 1);
    header_.width = Read16(body, 3);
    header_.height_offset =
        static_cast<size_t>(body.data() - bytes_.data()) + 1;
    const int count = Read8(body, 5);
    if (body.size() != 6 + static_cast<size_t>(count) * 3) {
      return Corrupt("frame header length does not fit its components");
    }
    if (precision == 12) return UnsupportedImage("12-bit JPEG");
    if (precision != 8) {
      return Corrupt(absl::StrCat("sample precision ", precision));
    }
    if (count == 0) return Corrupt("has no components");
    if (count == 2 || count > 4) {
      return UnsupportedImage(absl::StrCat("JPEG with ", count, " components"));
    }
    if (header_.width == 0) return Corrupt("width 0");
    header_.progressive = marker == 0xC2 || marker == 0xCA;
    header_.arithmetic = marker == 0xC9 || marker == 0xCA;
    header_.extended = marker == 0xC1;
    RETURN_IF_ERROR(ReadComponents(count, body.subspan(6)));
    return CheckPictureSize(header_.width, header_.height);
  }

  absl::Status ReadComponents(int count, std::span<const std::byte> body) {
    header_.component_count = count;
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      JpegComponent& component = header_.components[i];
      component.id = Read8(body, i * 3);
      component.h = Read8(body, i * 3 + 1) >> 4;
      component.v = Read8(body, i * 3 + 1) & 15;
      if (component.h < 1 || component.h > 4 || component.v < 1 ||
          component.v > 4) {
        return Corrupt(
            absl::StrCat("sampling factors ", component.h, "x", component.v));
      }
      header_.max_h = std::max<int>(header_.max_h, component.h);
      header_.max_v = std::max<int>(header_.max_v, component.v);
    }
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const JpegComponent& component = header_.components[i];
      if (header_.max_h % component.h != 0 ||
          header_.max_v % component.v != 0) {
        return UnsupportedImage("JPEG with fractional chroma sampling");
      }
    }
    return absl::OkStatus();
  }

  // T.81 B.2.5: a frame of unknown height names it behind the first scan.
  absl::Status ReadHeightAfterScan() {
    while (true) {
      ASSIGN_OR_RETURN(const uint8_t marker, NextMarkerInScan());
      if (marker != kDnl) break;
      ASSIGN_OR_RETURN(const std::span<const std::byte> body, Segment());
      if (body.size() != 2) return Corrupt("DNL segment has a wrong length");
      header_.height = Read16(body, 0);
      header_.height_from_dnl = true;
      if (header_.height == 0) return Corrupt("height 0 in its DNL segment");
      return CheckPictureSize(header_.width, header_.height);
    }
    return Corrupt("height 0 and no DNL segment");
  }

  absl::StatusOr<uint8_t> NextMarkerInScan() {
    const size_t stray_bytes = header_.stray_bytes;
    while (true) {
      ASSIGN_OR_RETURN(const uint8_t marker, NextMarker());
      header_.stray_bytes = stray_bytes;
      if (marker < kRst0 || marker > kRst7) return marker;
    }
  }

  JpegColor DecideColor() const {
    if (header_.component_count == 1) return JpegColor::kGrey;
    if (header_.component_count == 4) {
      if (!header_.has_adobe || header_.adobe_transform == 0) {
        return JpegColor::kCmyk;
      }
      return JpegColor::kYcck;
    }
    if (header_.has_jfif) return JpegColor::kYcc;
    if (header_.has_adobe) {
      return header_.adobe_transform == 0 ? JpegColor::kRgb : JpegColor::kYcc;
    }
    const auto& c = header_.components;
    return c[0].id == 'R' && c[1].id == 'G' && c[2].id == 'B' ? JpegColor::kRgb
                                                              : JpegColor::kYcc;
  }

  std::span<const std::byte> bytes_;
  size_t at_ = 2;  // behind SOI
  bool has_frame_ = false;
  std::array<bool, 256> icc_parts_ = {};
  int icc_count_ = 0;  // that the parts name
  int icc_parts_found_ = 0;
  JpegHeader header_;
};

}  // namespace

JpegHeader::Ratio JpegHeader::chroma_ratio() const {
  if (color != JpegColor::kYcc) return {};
  const auto& c = components;
  if (c[0].h != max_h || c[0].v != max_v || c[1].h != c[2].h ||
      c[1].v != c[2].v) {
    return {};
  }
  return {max_h / c[1].h, max_v / c[1].v};
}

std::string JpegHeader::subsampling() const {
  if (color != JpegColor::kYcc) return "";
  struct Name {
    Ratio ratio;
    const char* name;
  };
  constexpr Name kNames[] = {{{1, 1}, "4:4:4"}, {{2, 1}, "4:2:2"},
                             {{2, 2}, "4:2:0"}, {{1, 2}, "4:4:0"},
                             {{4, 1}, "4:1:1"}, {{4, 2}, "4:1:0"},
                             {{1, 4}, "4:4:1"}};
  const Ratio ratio = chroma_ratio();
  for (const Name& entry : kNames) {
    if (entry.ratio == ratio) return entry.name;
  }
  std::string factors;
  for (size_t i = 0; i < 3; ++i) {
    absl::StrAppend(&factors, i == 0 ? "" : ",", components[i].h, "x",
                    components[i].v);
  }
  return factors;
}

absl::string_view JpegHeader::process() const {
  if (arithmetic) return progressive ? "arithmetic-progressive" : "arithmetic";
  if (progressive) return "progressive";
  return extended ? "extended" : "baseline";
}

absl::string_view JpegHeader::color_name() const {
  switch (color) {
    case JpegColor::kGrey:
      return "grey";
    case JpegColor::kYcc:
      return "ycbcr";
    case JpegColor::kRgb:
      return "rgb";
    case JpegColor::kCmyk:
      return "cmyk";
    case JpegColor::kYcck:
      return "ycck";
  }
  return "";
}

PixelFormat JpegHeader::native_format() const {
  if (color == JpegColor::kGrey) return PixelFormat::kGrey;
  if (color != JpegColor::kYcc) return PixelFormat::kRgb;
  const Ratio ratio = chroma_ratio();
  if (ratio == Ratio{1, 1}) return PixelFormat::kNv24;
  if (ratio == Ratio{2, 1}) return PixelFormat::kNv16;
  return PixelFormat::kNv12;
}

absl::StatusOr<JpegHeader> ReadJpegHeader(std::span<const std::byte> bytes) {
  return HeaderWalk(bytes).Run();
}

}  // namespace preprocd
