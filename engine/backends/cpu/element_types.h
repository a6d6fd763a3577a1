// Float to element conversions of the dtype stage.
// Thread-safety: safe (no state).
// Source: IEEE 754 binary16 and bfloat16, round to nearest even.
#ifndef ENGINE_BACKENDS_CPU_ELEMENT_TYPES_H_
#define ENGINE_BACKENDS_CPU_ELEMENT_TYPES_H_

#include <bit>
#include <cmath>
#include <cstdint>

namespace preprocd {

inline uint16_t FloatToBfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  // A NaN must not round up to infinity.
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<uint16_t>(bits >> 16 | 0x40U);
  }
  return static_cast<uint16_t>((bits + 0x7fffU + (bits >> 16 & 1U)) >> 16);
}

inline uint16_t FloatToHalf(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000U);
  const uint32_t magnitude = bits & 0x7fffffffU;
  if (magnitude > 0x7f800000U) return static_cast<uint16_t>(sign | 0x7e00U);
  // 65520 and above round to infinity.
  if (magnitude >= 0x477ff000U) return static_cast<uint16_t>(sign | 0x7c00U);
  if (magnitude < 0x38800000U) {
    // Subnormal: adding 0.5 aligns the mantissa so that the addition itself
    // rounds to nearest even at the right bit.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(
        sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000U));
  }
  const uint32_t rounded =
      magnitude + 0xfffU + (magnitude >> 13 & 1U) - 0x38000000U;
  return static_cast<uint16_t>(sign | rounded >> 13);
}

// Half away from zero for v >= 0.
inline float RoundHalfUp(float v) { return std::floor(v + 0.5f); }

// Half to even for |v| < 2^22; independent of the rounding mode by using the
// default one that every thread of ours keeps.
inline float RoundHalfEven(float v) { return std::nearbyintf(v); }

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ELEMENT_TYPES_H_
