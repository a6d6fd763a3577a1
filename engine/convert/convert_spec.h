// What a client asks of a conversion, as values with every default applied
// by the planner, not here.
// Thread-safety: compatible (values only).
#ifndef ENGINE_CONVERT_CONVERT_SPEC_H_
#define ENGINE_CONVERT_CONVERT_SPEC_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/image/geometry.h"
#include "engine/image/image_desc.h"
#include "engine/image/orientation.h"
#include "engine/image/sampling.h"

namespace preprocd {

// Numbers equal preproc.v1.ChromaUpsampling.
enum class ChromaUpsampling : uint8_t {
  kUnspecified = 0,  // fancy for pictures decoded from JPEG, else replicate
  kReplicate = 1,
  kFancy = 2,
};

// Numbers equal preproc.v1.Precision.
enum class Precision : uint8_t {
  kUnspecified = 0,  // eight bit
  kEightBit = 1,     // the colour result is rounded to 8 bits first
  kFull = 2,         // the fraction is kept up to the destination type
};

// Numbers equal preproc.v1.Numerics.
enum class Numerics : uint8_t { kUnspecified = 0, kDefault = 1, kEv74 = 2 };

// Numbers equal preproc.v1.TensorLayout.
enum class TensorLayout : uint8_t {
  kUnspecified = 0,  // as the pixel format says
  kHwc = 1,
  kChw = 2,
  kTiledCompact = 3,
  kTiledPad16 = 4,
};

// n = (v - offset) * multiplier per channel (R G B A order; grey uses entry
// 0), v in 0..255.
struct Normalization {
  std::array<double, kMaxChannels> offset = {0, 0, 0, 0};
  std::array<double, kMaxChannels> multiplier = {1, 1, 1, 1};
  bool operator==(const Normalization&) const = default;
};

// q = clamp(round_half_even(n * multiplier) + zero_point).
struct Quantization {
  double multiplier = 1;
  int zero_point = 0;
  bool operator==(const Quantization&) const = default;
};

// 0..255 per channel.
struct PadColor {
  uint8_t r = 114, g = 114, b = 114, a = 255;
  bool operator==(const PadColor&) const = default;
};

struct ConvertSpec {
  // Stored pixels; nothing = the whole picture.
  std::optional<Rect> source_rect;
  Orientation orientation = Orientation::kNormal;
  Fit fit = Fit::kUnspecified;
  LetterboxRule letterbox_rule = LetterboxRule::kUnspecified;
  std::optional<Rect> place;  // destination pixels, for Fit::kPlace
  PadColor pad;
  Filter filter = Filter::kUnspecified;
  std::optional<Normalization> normalization;
  std::optional<Quantization> quantization;
  ChromaUpsampling chroma = ChromaUpsampling::kUnspecified;
  Precision precision = Precision::kUnspecified;
  Numerics numerics = Numerics::kUnspecified;
  // Backends to try, in this order; empty = all by rank.
  std::vector<std::string> backends;
};

// What the result shall be, before its memory is known.
struct OutputSpec {
  PixelFormat format = PixelFormat::kUnspecified;  // unspecified = rgb
  DType dtype = DType::kUnspecified;               // unspecified = u8
  TensorLayout layout = TensorLayout::kUnspecified;
  Size size;  // 0x0 = the oriented source rectangle
  ColorEncoding color;
};

std::optional<ChromaUpsampling> ParseChromaUpsampling(absl::string_view name);
absl::string_view ChromaUpsamplingName(ChromaUpsampling chroma);
// "hwc", "chw", "tiled-compact", "tiled-pad16" (without the tile size).
std::optional<TensorLayout> ParseTensorLayout(absl::string_view name);
absl::string_view TensorLayoutName(TensorLayout layout);

}  // namespace preprocd

#endif  // ENGINE_CONVERT_CONVERT_SPEC_H_
