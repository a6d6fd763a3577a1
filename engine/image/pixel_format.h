// The table of pixel formats and element types: names, planes, subsampling,
// channel order. One row per format is all that other rooms need to know.
// Thread-safety: safe (constants).
// Source: DRM fourcc codes, linux/drm_fourcc.h (little-endian words; the
// comment beside each format spells the bytes in memory).
#ifndef ENGINE_IMAGE_PIXEL_FORMAT_H_
#define ENGINE_IMAGE_PIXEL_FORMAT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "absl/strings/string_view.h"
#include "engine/base/limits.h"

namespace preprocd {

// Numbers equal preproc.v1.PixelFormat. Append only.
enum class PixelFormat : uint8_t {
  kUnspecified = 0,
  kGrey = 1,        // Y
  kRgb = 2,         // R G B
  kRgba = 3,        // R G B A
  kBgr = 4,         // B G R
  kBgra = 5,        // B G R A
  kPlanarRgb = 6,   // plane R, plane G, plane B
  kPlanarBgr = 7,   // plane B, plane G, plane R
  kPlanarRgba = 8,  // plane R, plane G, plane B, plane A
  kNv12 = 9,        // plane Y, plane U V at half width and half height
  kNv21 = 10,       // plane Y, plane V U at half width and half height
  kNv16 = 11,       // plane Y, plane U V at half width
  kNv24 = 12,       // plane Y, plane U V at full size
  kI420 = 13,       // plane Y, plane U, plane V at half width and height
  kYuyv = 14,       // Y0 U Y1 V
  kUyvy = 15,       // U Y0 V Y1
  kVyuy = 16,       // V Y0 U Y1
};
inline constexpr int kPixelFormatCount = 17;

// Numbers equal preproc.v1.DataType. Append only.
enum class DType : uint8_t {
  kUnspecified = 0,
  kU8 = 1,
  kI8 = 2,
  kU16 = 3,
  kI16 = 4,
  kF16 = 5,
  kBf16 = 6,
  kF32 = 7,
};
inline constexpr int kDTypeCount = 8;

enum class ColorFamily : uint8_t { kGrey, kRgb, kYuv };

// One plane is a grid of units: a unit covers `unit_width` pixels of one row
// and holds `unit_elements` elements; a plane has ceil(height / 2^vertical
// shift) rows.
struct PlaneInfo {
  uint8_t unit_width = 1;
  uint8_t unit_elements = 1;
  uint8_t vertical_shift = 0;
};

struct PixelFormatInfo {
  PixelFormat format = PixelFormat::kUnspecified;
  absl::string_view name;  // as in commands and messages, e.g. "nv12"
  uint32_t fourcc = 0;     // DRM code; 0 when DRM has none
  ColorFamily family = ColorFamily::kGrey;
  uint8_t plane_count = 0;
  // Logical channels: 1 grey, 3 rgb and yuv, 4 with alpha.
  uint8_t channels = 0;
  bool has_alpha = false;
  // Chroma subsampling as shifts; 0 for grey and rgb.
  uint8_t chroma_x_shift = 0;
  uint8_t chroma_y_shift = 0;
  // For the rgb family: position of R, G, B, A inside a pixel (packed) or
  // the plane that holds it (planar); -1 when absent.
  std::array<int8_t, 4> channel_order = {-1, -1, -1, -1};
  std::array<PlaneInfo, kMaxPlanes> planes = {};

  bool is_planar_rgb() const {
    return family == ColorFamily::kRgb && plane_count > 1;
  }
};

// The row of `format`. REQUIRES: a known format (not kUnspecified).
const PixelFormatInfo& GetPixelFormatInfo(PixelFormat format);
// All known formats, in enum order.
std::span<const PixelFormatInfo> AllPixelFormats();
// Looks a name up ("nv12"); nothing when unknown.
std::optional<PixelFormat> ParsePixelFormat(absl::string_view name);
absl::string_view PixelFormatName(PixelFormat format);  // "unspecified" for 0

// kRgb <-> kPlanarRgb and so on: the same channels in the other layout;
// `format` itself when it has no such twin.
PixelFormat PlanarVariant(PixelFormat format);
PixelFormat PackedVariant(PixelFormat format);

std::optional<DType> ParseDType(absl::string_view name);  // "u8" .. "f32"
absl::string_view DTypeName(DType dtype);
// Bytes per element. REQUIRES: a known type.
int DTypeSize(DType dtype);
bool IsFloat(DType dtype);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_PIXEL_FORMAT_H_
