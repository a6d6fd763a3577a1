#include "engine/image/pixel_format.h"

#include "absl/strings/string_view.h"
#include "engine/base/check.h"

namespace preprocd {
namespace {

constexpr uint32_t Fourcc(char a, char b, char c, char d) {
  return static_cast<uint32_t>(static_cast<unsigned char>(a)) |
         static_cast<uint32_t>(static_cast<unsigned char>(b)) << 8 |
         static_cast<uint32_t>(static_cast<unsigned char>(c)) << 16 |
         static_cast<uint32_t>(static_cast<unsigned char>(d)) << 24;
}

constexpr PixelFormatInfo Rgb(PixelFormat format, absl::string_view name,
                              uint32_t fourcc, uint8_t channels, int8_t r,
                              int8_t g, int8_t b, int8_t a, bool planar) {
  PixelFormatInfo info;
  info.format = format;
  info.name = name;
  info.fourcc = fourcc;
  info.family = ColorFamily::kRgb;
  info.plane_count = planar ? channels : uint8_t{1};
  info.channels = channels;
  info.has_alpha = channels == 4;
  info.channel_order = {r, g, b, a};
  for (int plane = 0; plane < info.plane_count; ++plane) {
    info.planes[static_cast<size_t>(plane)] = {
        1, planar ? uint8_t{1} : channels, 0};
  }
  return info;
}

// `chroma` is the unit of the chroma plane(s).
constexpr PixelFormatInfo PlanarYuv(PixelFormat format, absl::string_view name,
                                    uint32_t fourcc, uint8_t plane_count,
                                    uint8_t x_shift, uint8_t y_shift) {
  PixelFormatInfo info;
  info.format = format;
  info.name = name;
  info.fourcc = fourcc;
  info.family = ColorFamily::kYuv;
  info.plane_count = plane_count;
  info.channels = 3;
  info.chroma_x_shift = x_shift;
  info.chroma_y_shift = y_shift;
  info.planes[0] = {1, 1, 0};
  const uint8_t elements = plane_count == 2 ? 2 : 1;
  const auto unit_width = static_cast<uint8_t>(1 << x_shift);
  for (size_t plane = 1; plane < plane_count; ++plane) {
    info.planes[plane] = {unit_width, elements, y_shift};
  }
  return info;
}

constexpr PixelFormatInfo PackedYuv(PixelFormat format, absl::string_view name,
                                    uint32_t fourcc) {
  PixelFormatInfo info;
  info.format = format;
  info.name = name;
  info.fourcc = fourcc;
  info.family = ColorFamily::kYuv;
  info.plane_count = 1;
  info.channels = 3;
  info.chroma_x_shift = 1;
  info.planes[0] = {2, 4, 0};
  return info;
}

constexpr PixelFormatInfo Grey() {
  PixelFormatInfo info;
  info.format = PixelFormat::kGrey;
  info.name = "grey";
  info.fourcc = Fourcc('R', '8', ' ', ' ');
  info.family = ColorFamily::kGrey;
  info.plane_count = 1;
  info.channels = 1;
  info.planes[0] = {1, 1, 0};
  return info;
}

using enum PixelFormat;

constexpr std::array<PixelFormatInfo, kPixelFormatCount - 1> kFormats = {
    Grey(),
    Rgb(kRgb, "rgb", Fourcc('B', 'G', '2', '4'), 3, 0, 1, 2, -1, false),
    Rgb(kRgba, "rgba", Fourcc('A', 'B', '2', '4'), 4, 0, 1, 2, 3, false),
    Rgb(kBgr, "bgr", Fourcc('R', 'G', '2', '4'), 3, 2, 1, 0, -1, false),
    Rgb(kBgra, "bgra", Fourcc('A', 'R', '2', '4'), 4, 2, 1, 0, 3, false),
    Rgb(kPlanarRgb, "planar_rgb", 0, 3, 0, 1, 2, -1, true),
    Rgb(kPlanarBgr, "planar_bgr", 0, 3, 2, 1, 0, -1, true),
    Rgb(kPlanarRgba, "planar_rgba", 0, 4, 0, 1, 2, 3, true),
    PlanarYuv(kNv12, "nv12", Fourcc('N', 'V', '1', '2'), 2, 1, 1),
    PlanarYuv(kNv21, "nv21", Fourcc('N', 'V', '2', '1'), 2, 1, 1),
    PlanarYuv(kNv16, "nv16", Fourcc('N', 'V', '1', '6'), 2, 1, 0),
    PlanarYuv(kNv24, "nv24", Fourcc('N', 'V', '2', '4'), 2, 0, 0),
    PlanarYuv(kI420, "i420", Fourcc('Y', 'U', '1', '2'), 3, 1, 1),
    PackedYuv(kYuyv, "yuyv", Fourcc('Y', 'U', 'Y', 'V')),
    PackedYuv(kUyvy, "uyvy", Fourcc('U', 'Y', 'V', 'Y')),
    PackedYuv(kVyuy, "vyuy", Fourcc('V', 'Y', 'U', 'Y')),
};

constexpr bool TableIsInEnumOrder() {
  for (size_t i = 0; i < kFormats.size(); ++i) {
    if (static_cast<size_t>(kFormats[i].format) != i + 1) return false;
  }
  return true;
}
static_assert(TableIsInEnumOrder());

struct DTypeRow {
  DType dtype;
  absl::string_view name;
  int size;
};
constexpr std::array<DTypeRow, kDTypeCount - 1> kDTypes = {{
    {DType::kU8, "u8", 1},
    {DType::kI8, "i8", 1},
    {DType::kU16, "u16", 2},
    {DType::kI16, "i16", 2},
    {DType::kF16, "f16", 2},
    {DType::kBf16, "bf16", 2},
    {DType::kF32, "f32", 4},
}};

}  // namespace

const PixelFormatInfo& GetPixelFormatInfo(PixelFormat format) {
  const auto index = static_cast<size_t>(format);
  PREPROCD_CHECK(index >= 1 && index <= kFormats.size());
  return kFormats[index - 1];
}

std::span<const PixelFormatInfo> AllPixelFormats() { return kFormats; }

std::optional<PixelFormat> ParsePixelFormat(absl::string_view name) {
  for (const PixelFormatInfo& info : kFormats) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

absl::string_view PixelFormatName(PixelFormat format) {
  const auto index = static_cast<size_t>(format);
  if (index < 1 || index > kFormats.size()) return "unspecified";
  return kFormats[index - 1].name;
}

PixelFormat PlanarVariant(PixelFormat format) {
  switch (format) {
    case kRgb:
      return kPlanarRgb;
    case kBgr:
      return kPlanarBgr;
    case kRgba:
      return kPlanarRgba;
    default:
      return format;
  }
}

PixelFormat PackedVariant(PixelFormat format) {
  switch (format) {
    case kPlanarRgb:
      return kRgb;
    case kPlanarBgr:
      return kBgr;
    case kPlanarRgba:
      return kRgba;
    default:
      return format;
  }
}

std::optional<DType> ParseDType(absl::string_view name) {
  for (const DTypeRow& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

absl::string_view DTypeName(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  if (index < 1 || index > kDTypes.size()) return "unspecified";
  return kDTypes[index - 1].name;
}

int DTypeSize(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  PREPROCD_CHECK(index >= 1 && index <= kDTypes.size());
  return kDTypes[index - 1].size;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16 || dtype == DType::kF32;
}

}  // namespace preprocd
