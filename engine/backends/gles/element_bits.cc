#include "engine/backends/gles/element_bits.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>

namespace preprocd {
namespace {

// Rounded to nearest even to `mantissa_bits` stored bits; exponents from
// `min_exponent` (subnormals below) to `max_exponent` (infinity above).
uint32_t RoundToFormat(double value, int mantissa_bits, int min_exponent,
                       int max_exponent) {
  const uint32_t sign = std::signbit(value) ? 0x8000U : 0U;
  const double magnitude = std::fabs(value);
  const uint32_t exponents =
      static_cast<uint32_t>(max_exponent - min_exponent + 2);
  const uint32_t infinity = exponents << mantissa_bits;
  if (std::isinf(magnitude)) return sign | infinity;
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), min_exponent);
  // In units of the format's last place; the division is by a power of two.
  const double units =
      std::nearbyint(std::ldexp(magnitude, mantissa_bits - exponent));
  // A subnormal has no implicit bit; a carry out of the mantissa lands in the
  // exponent by itself.
  const double one = std::ldexp(1.0, mantissa_bits);
  const double bits =
      units < one ? units : units + one * (exponent - min_exponent);
  return sign |
         static_cast<uint32_t>(std::min(bits, static_cast<double>(infinity)));
}

uint32_t QuantizedBits(DType dtype, double q) {
  double low = 0;
  double high = 0;
  switch (dtype) {
    case DType::kI8:
      low = -128;
      high = 127;
      break;
    case DType::kU16:
      high = 65535;
      break;
    case DType::kI16:
      low = -32768;
      high = 32767;
      break;
    default:
      high = 255;
      break;
  }
  return static_cast<uint32_t>(static_cast<int32_t>(std::clamp(q, low, high)));
}

uint32_t PlainBits(DType dtype, uint32_t value, bool alpha) {
  switch (dtype) {
    case DType::kI8:
      return alpha ? value : value ^ 0x80U;
    case DType::kU16:
      return value * 257;
    case DType::kI16:
      return alpha ? value * 257 : (value * 257) ^ 0x8000U;
    default:
      return value;
  }
}

uint32_t BitsOf(const GlElementStage& stage, size_t channel, uint32_t value) {
  const bool alpha = stage.alpha && channel == 3;
  if (!stage.normalize || (alpha && !IsFloat(stage.dtype))) {
    return PlainBits(stage.dtype, value, alpha);
  }
  const double n = (value - stage.normalization.offset[channel]) *
                   stage.normalization.multiplier[channel];
  switch (stage.dtype) {
    case DType::kF16:
      return RoundToFormat(n, 10, -14, 15);
    case DType::kBf16:
      return RoundToFormat(n, 7, -126, 127);
    case DType::kF32:
      return std::bit_cast<uint32_t>(static_cast<float>(n));
    default:
      return QuantizedBits(stage.dtype,
                           std::nearbyint(n * stage.quantization.multiplier) +
                               stage.quantization.zero_point);
  }
}

}  // namespace

GlElementStage GlElementStageOf(const ConvertPlan& plan) {
  GlElementStage stage;
  stage.dtype = plan.destination.dtype;
  stage.alpha =
      GetPixelFormatInfo(plan.destination.format).family == ColorFamily::kRgb;
  stage.normalize = plan.normalize;
  if (plan.normalize) stage.normalization = plan.normalization;
  stage.quantized = plan.normalize && plan.quantization.has_value();
  if (stage.quantized) stage.quantization = *plan.quantization;
  return stage;
}

bool IsPlainGlByte(const GlElementStage& stage) {
  return stage.dtype == DType::kU8 && !stage.normalize;
}

ElementBitsTable MakeElementBitsTable(const GlElementStage& stage) {
  ElementBitsTable table;
  for (size_t channel = 0; channel < 4; ++channel) {
    for (uint32_t value = 0; value < 256; ++value) {
      table[channel * 256 + value] = BitsOf(stage, channel, value);
    }
  }
  return table;
}

}  // namespace preprocd
