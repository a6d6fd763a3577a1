#include "engine/image/color_encoding.h"

#include "absl/strings/string_view.h"
#include "engine/base/check.h"

namespace preprocd {
namespace {

constexpr int kHdHeight = 720;

struct RangeScales {
  double luma_offset;
  double luma_swing;
  double chroma_swing;
};

RangeScales ScalesOf(ColorRange range) {
  PREPROCD_CHECK(range != ColorRange::kUnspecified);
  if (range == ColorRange::kFull) return {0, 255, 255};
  return {16, 219, 224};
}

}  // namespace

ColorEncoding ResolveColorEncoding(ColorEncoding encoding, int height) {
  if (encoding.matrix == MatrixCoefficients::kUnspecified) {
    encoding.matrix = height == 0 || height >= kHdHeight
                          ? MatrixCoefficients::kBt709
                          : MatrixCoefficients::kBt601;
  }
  if (encoding.range == ColorRange::kUnspecified) {
    encoding.range = ColorRange::kLimited;
  }
  return encoding;
}

LumaWeights GetLumaWeights(MatrixCoefficients matrix) {
  switch (matrix) {
    case MatrixCoefficients::kBt601:
      return {.299, .114};
    case MatrixCoefficients::kBt709:
      return {.2126, .0722};
    case MatrixCoefficients::kBt2020:
      return {.2627, .0593};
    case MatrixCoefficients::kUnspecified:
      break;
  }
  PREPROCD_CHECK(matrix != MatrixCoefficients::kUnspecified);
  return {};
}

YuvToRgbCoefficients GetYuvToRgbCoefficients(ColorEncoding encoding) {
  const LumaWeights w = GetLumaWeights(encoding.matrix);
  const RangeScales scales = ScalesOf(encoding.range);
  const double c = 255.0 / scales.chroma_swing;
  YuvToRgbCoefficients k;
  k.y_offset = scales.luma_offset;
  k.y_scale = 255.0 / scales.luma_swing;
  k.vr = 2 * (1 - w.kr) * c;
  k.ug = 2 * (1 - w.kb) * (w.kb / w.kg()) * c;
  k.vg = 2 * (1 - w.kr) * (w.kr / w.kg()) * c;
  k.ub = 2 * (1 - w.kb) * c;
  return k;
}

RgbToYuvCoefficients GetRgbToYuvCoefficients(ColorEncoding encoding) {
  const LumaWeights w = GetLumaWeights(encoding.matrix);
  const RangeScales scales = ScalesOf(encoding.range);
  const double luma = scales.luma_swing / 255.0;
  const double chroma = scales.chroma_swing / 255.0;
  // U = (B - Y) / (2 (1 - kb)), V = (R - Y) / (2 (1 - kr)).
  const double u = chroma / (2 * (1 - w.kb));
  const double v = chroma / (2 * (1 - w.kr));
  RgbToYuvCoefficients k;
  k.matrix[0] = {w.kr * luma, w.kg() * luma, w.kb * luma};
  k.matrix[1] = {-w.kr * u, -w.kg() * u, (1 - w.kb) * u};
  k.matrix[2] = {(1 - w.kr) * v, -w.kg() * v, -w.kb * v};
  k.offset = {scales.luma_offset, 128, 128};
  return k;
}

absl::string_view MatrixName(MatrixCoefficients matrix) {
  switch (matrix) {
    case MatrixCoefficients::kBt601:
      return "601";
    case MatrixCoefficients::kBt709:
      return "709";
    case MatrixCoefficients::kBt2020:
      return "2020";
    case MatrixCoefficients::kUnspecified:
      break;
  }
  return "unspecified";
}

std::optional<MatrixCoefficients> ParseMatrix(absl::string_view name) {
  if (name == "601") return MatrixCoefficients::kBt601;
  if (name == "709") return MatrixCoefficients::kBt709;
  if (name == "2020") return MatrixCoefficients::kBt2020;
  return std::nullopt;
}

absl::string_view RangeName(ColorRange range) {
  switch (range) {
    case ColorRange::kLimited:
      return "limited";
    case ColorRange::kFull:
      return "full";
    case ColorRange::kUnspecified:
      break;
  }
  return "unspecified";
}

std::optional<ColorRange> ParseRange(absl::string_view name) {
  if (name == "limited") return ColorRange::kLimited;
  if (name == "full") return ColorRange::kFull;
  return std::nullopt;
}

}  // namespace preprocd
