// Colour encoding of YUV pictures: matrix and range (ITU-T H.273), how a
// missing axis is resolved, and the coefficients both ways.
// Thread-safety: safe (values only).
#ifndef ENGINE_IMAGE_COLOR_ENCODING_H_
#define ENGINE_IMAGE_COLOR_ENCODING_H_

#include <array>
#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace preprocd {

// Numbers equal preproc.v1.MatrixCoefficients.
enum class MatrixCoefficients : uint8_t {
  kUnspecified = 0,
  kBt601 = 1,
  kBt709 = 2,
  kBt2020 = 3,  // non-constant luminance
};

// Numbers equal preproc.v1.ColorRange.
enum class ColorRange : uint8_t { kUnspecified = 0, kLimited = 1, kFull = 2 };

struct ColorEncoding {
  MatrixCoefficients matrix = MatrixCoefficients::kUnspecified;
  ColorRange range = ColorRange::kUnspecified;
  bool operator==(const ColorEncoding&) const = default;
};

// Fills missing axes: matrix = BT.709 when `height` >= 720 or is 0 (unknown),
// else BT.601; range = limited. The result has no kUnspecified.
ColorEncoding ResolveColorEncoding(ColorEncoding encoding, int height);

// Luma weights: R = kr, B = kb, G = 1 - kr - kb.
struct LumaWeights {
  double kr = 0;
  double kb = 0;
  double kg() const { return 1.0 - kr - kb; }
};
// 601: .299 .114; 709: .2126 .0722; 2020: .2627 .0593. REQUIRES: specified.
LumaWeights GetLumaWeights(MatrixCoefficients matrix);

// YUV -> RGB in 8-bit units (0..255), for 8-bit codes y, u, v:
//   l = (y - y_offset) * y_scale
//   R = l + vr * (v - 128)
//   G = l - ug * (u - 128) - vg * (v - 128)
//   B = l + ub * (u - 128)
// then clamped to 0..255. Footroom below y_offset is kept until that clamp.
struct YuvToRgbCoefficients {
  double y_offset = 0;
  double y_scale = 1;
  double vr = 0;
  double ug = 0;
  double vg = 0;
  double ub = 0;
};
// With c = 255 / chroma swing (224 limited, 255 full): y_scale = 255 / luma
// swing (219 limited, 255 full), vr = 2(1-kr)c, ug = 2(1-kb)(kb/kg)c,
// vg = 2(1-kr)(kr/kg)c, ub = 2(1-kb)c. REQUIRES: both axes specified.
YuvToRgbCoefficients GetYuvToRgbCoefficients(ColorEncoding encoding);

// RGB (0..255) -> 8-bit YUV codes: row r of the matrix times (R,G,B) plus
// offset[r], for r = Y, U, V; the caller rounds half away from zero and
// clamps to 0..255.
struct RgbToYuvCoefficients {
  std::array<std::array<double, 3>, 3> matrix = {};
  std::array<double, 3> offset = {};
};
RgbToYuvCoefficients GetRgbToYuvCoefficients(ColorEncoding encoding);

absl::string_view MatrixName(MatrixCoefficients matrix);  // "601" "709" "2020"
std::optional<MatrixCoefficients> ParseMatrix(absl::string_view name);
absl::string_view RangeName(ColorRange range);  // "limited" "full"
std::optional<ColorRange> ParseRange(absl::string_view name);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_COLOR_ENCODING_H_
