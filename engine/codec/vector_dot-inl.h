// Products of neighbouring 16-bit lanes summed in 32 bits, and narrowing in
// the lanes' order inside each block of 128 bits: what integer transforms and
// colour matrices are made of. Included by files that Highway compiles once
// for each target.
// Thread-safety: safe (no state).
#if defined(ENGINE_CODEC_VECTOR_DOT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ENGINE_CODEC_VECTOR_DOT_INL_H_
#undef ENGINE_CODEC_VECTOR_DOT_INL_H_
#else
#define ENGINE_CODEC_VECTOR_DOT_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

namespace hn = hwy::HWY_NAMESPACE;

// At most 16 lanes, so that one target's code is another's with more blocks.
using D16 = hn::CappedTag<int16_t, 16>;
using V16 = hn::Vec<D16>;
using D32 = hn::RepartitionToWide<D16>;
using V32 = hn::Vec<D32>;
using D8 = hn::Repartition<int8_t, D16>;
using V8 = hn::Vec<D8>;

// a[i] * kX + a[i + 1] * kY of neighbouring lanes.
template <int kX, int kY>
HWY_INLINE V32 Dot(V16 a) {
  static_assert(kX >= -32768 && kX < 32768 && kY >= -32768 && kY < 32768);
  const D32 d;
#if HWY_ARCH_X86 && HWY_TARGET != HWY_EMU128
  const V16 factors = hn::BitCast(
      D16(),
      hn::Set(d, static_cast<int32_t>((static_cast<uint32_t>(kY) << 16) |
                                      (static_cast<uint32_t>(kX) & 0xFFFFu))));
  V32 unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, factors, hn::Zero(d), unused);
#else
  const V32 both = hn::BitCast(d, a);
  const V32 even = hn::ShiftRight<16>(hn::ShiftLeft<16>(both));
  const V32 odd = hn::ShiftRight<16>(both);
  return hn::Add(hn::Mul(even, hn::Set(d, kX)), hn::Mul(odd, hn::Set(d, kY)));
#endif
}

// Narrows with saturation, inside each block of 128 bits: a, then b.
HWY_INLINE V16 Narrow(V32 a, V32 b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return V16{_mm256_packs_epi32(a.raw, b.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  return V16{_mm_packs_epi32(a.raw, b.raw)};
#else
  const hn::Half<D16> half;
  return hn::Combine(D16(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

HWY_INLINE V8 Narrow(V16 a, V16 b) {
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  return V8{_mm256_packs_epi16(a.raw, b.raw)};
#elif HWY_ARCH_X86 && HWY_TARGET <= HWY_SSSE3
  return V8{_mm_packs_epi16(a.raw, b.raw)};
#else
  const hn::Half<D8> half;
  return hn::Combine(D8(), hn::DemoteTo(half, b), hn::DemoteTo(half, a));
#endif
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#endif  // toggled include guard
