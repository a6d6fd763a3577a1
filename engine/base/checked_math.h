// Overflow-safe arithmetic for sizes computed from foreign numbers.
// Thread-safety: safe (no state).
#ifndef ENGINE_BASE_CHECKED_MATH_H_
#define ENGINE_BASE_CHECKED_MATH_H_

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

namespace preprocd {

// a + b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> CheckedAdd(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_add_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// a * b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> CheckedMul(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

// a * b + c, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> CheckedMulAdd(uint64_t a, uint64_t b,
                                             uint64_t c) {
  const std::optional<uint64_t> product = CheckedMul(a, b);
  if (!product) return std::nullopt;
  return CheckedAdd(*product, c);
}

// `value` as a To, or nothing when To cannot hold it.
template <std::integral To, std::integral From>
constexpr std::optional<To> CheckedCast(From value) {
  if (!std::in_range<To>(value)) return std::nullopt;
  return static_cast<To>(value);
}

// Rounds up to a multiple of `alignment` (> 0); nothing on overflow.
inline std::optional<uint64_t> CheckedAlignUp(uint64_t value,
                                              uint64_t alignment) {
  const std::optional<uint64_t> sum = CheckedAdd(value, alignment - 1);
  if (!sum) return std::nullopt;
  return *sum / alignment * alignment;
}

// ceil(a / b) for b > 0.
constexpr int CeilDiv(int a, int b) { return a / b + (a % b != 0 ? 1 : 0); }

}  // namespace preprocd

#endif  // ENGINE_BASE_CHECKED_MATH_H_
