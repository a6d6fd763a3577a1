// Vector idioms that the row kernels share and Highway 1.0.3 lacks: packing
// and unpacking within 128-bit blocks, pairwise multiply-add.
// Included once per target (see hwy/foreach_target.h). Thread-safety: safe.
// Lint: no include guard of the usual kind; Highway's toggle instead.
#if defined(ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_) == \
    defined(HWY_TARGET_TOGGLE)
#ifdef ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_
#undef ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_
#else
#define ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_
#endif

#include "hwy/highway.h"

// The one-lane target has no blocks: kernels are not compiled for it and
// VectorKernelsRun() is false where it is the best.
#if HWY_TARGET != HWY_SCALAR
HWY_BEFORE_NAMESPACE();
namespace preprocd::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_ARCH_X86
using Bytes = hn::ScalableTag<uint8_t>;
#else
using Bytes = hn::FixedTag<uint8_t, 16>;
#endif
using Words = hn::Repartition<int16_t, Bytes>;
using ByteVec = hn::Vec<Bytes>;
using WordVec = hn::Vec<Words>;
using Words8 = hn::FixedTag<int16_t, 8>;
using Bytes16 = hn::FixedTag<uint8_t, 16>;
using Ints4 = hn::FixedTag<int32_t, 4>;

constexpr size_t kByteLanes = hn::MaxLanes(Bytes());

// (v - 128) * 256 of the lower and upper half of every block.
HWY_INLINE WordVec CenteredLower(ByteVec flipped) {
  return hn::BitCast(Words(),
                     hn::InterleaveLower(Bytes(), hn::Zero(Bytes()), flipped));
}
HWY_INLINE WordVec CenteredUpper(ByteVec flipped) {
  return hn::BitCast(Words(),
                     hn::InterleaveUpper(Bytes(), hn::Zero(Bytes()), flipped));
}

// Saturates to 0..255; inverse order of CenteredLower / CenteredUpper.
HWY_INLINE ByteVec PackBlocks(WordVec lower, WordVec upper) {
#if HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_packus_epi16(lower.raw, upper.raw)};
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return ByteVec{_mm512_packus_epi16(lower.raw, upper.raw)};
#elif HWY_ARCH_X86
  return ByteVec{_mm_packus_epi16(lower.raw, upper.raw)};
#else
  const hn::Half<Bytes> half;
  return hn::Combine(Bytes(), hn::DemoteTo(half, upper),
                     hn::DemoteTo(half, lower));
#endif
}

// Saturates to 0..255; lanes of `first`, then lanes of `second`.
HWY_INLINE ByteVec PackOrdered(WordVec first, WordVec second) {
  const ByteVec packed = PackBlocks(first, second);
#if HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_permute4x64_epi64(packed.raw, 0xd8)};
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return ByteVec{_mm512_permutexvar_epi64(
      _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), packed.raw)};
#else
  return packed;
#endif
}

// Stores the words of CenteredLower and CenteredUpper in the bytes' order.
HWY_INLINE void StoreBlocks(WordVec lower, WordVec upper, int16_t* out) {
  const Words d;
#if HWY_TARGET == HWY_AVX2
  hn::StoreU(hn::ConcatLowerLower(d, upper, lower), d, out);
  hn::StoreU(hn::ConcatUpperUpper(d, upper, lower), d, out + kByteLanes / 2);
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  const __m512i first = _mm512_permutex2var_epi64(
      lower.raw, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), upper.raw);
  const __m512i second = _mm512_permutex2var_epi64(
      lower.raw, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), upper.raw);
  hn::StoreU(WordVec{first}, d, out);
  hn::StoreU(WordVec{second}, d, out + kByteLanes / 2);
#else
  hn::StoreU(lower, d, out);
  hn::StoreU(upper, d, out + kByteLanes / 2);
#endif
}

// a[2i] * b[2i] + a[2i + 1] * b[2i + 1].
HWY_INLINE hn::Vec<Ints4> MulPairs(hn::Vec<Words8> a, hn::Vec<Words8> b) {
#if HWY_ARCH_X86
  return hn::Vec<Ints4>{_mm_madd_epi16(a.raw, b.raw)};
#else
  const Ints4 d;
  const auto a32 = hn::BitCast(d, a);
  const auto b32 = hn::BitCast(d, b);
  const auto even = [](auto v) {
    return hn::ShiftRight<16>(hn::ShiftLeft<16>(v));
  };
  return hn::Add(hn::Mul(even(a32), even(b32)),
                 hn::Mul(hn::ShiftRight<16>(a32), hn::ShiftRight<16>(b32)));
#endif
}

// Saturates; lanes of `first`, then lanes of `second`.
HWY_INLINE hn::Vec<Words8> PackInts(hn::Vec<Ints4> first,
                                    hn::Vec<Ints4> second) {
#if HWY_ARCH_X86
  return hn::Vec<Words8>{_mm_packs_epi32(first.raw, second.raw)};
#else
  const hn::Half<Words8> half;
  return hn::Combine(Words8(), hn::DemoteTo(half, second),
                     hn::DemoteTo(half, first));
#endif
}

HWY_INLINE hn::Vec<Bytes16> PackWords(hn::Vec<Words8> first,
                                      hn::Vec<Words8> second) {
#if HWY_ARCH_X86
  return hn::Vec<Bytes16>{_mm_packus_epi16(first.raw, second.raw)};
#else
  const hn::Half<Bytes16> half;
  return hn::Combine(Bytes16(), hn::DemoteTo(half, second),
                     hn::DemoteTo(half, first));
#endif
}

// Sums of neighbours: a0+a1, a2+a3, b0+b1, b2+b3.
HWY_INLINE hn::Vec<Ints4> AddNeighbours(hn::Vec<Ints4> a, hn::Vec<Ints4> b) {
  const Ints4 d;
  return hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
}

// Two 8-byte loads.
HWY_INLINE hn::Vec<Words8> LoadTwo(const int16_t* first,
                                   const int16_t* second) {
  const hn::Half<Words8> half;
  return hn::Combine(Words8(), hn::LoadU(half, second), hn::LoadU(half, first));
}

}  // namespace preprocd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // HWY_TARGET != HWY_SCALAR

#endif  // ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_
