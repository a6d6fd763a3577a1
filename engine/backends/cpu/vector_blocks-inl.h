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

// The fallback targets (one lane, or emulated ones; which of them exists is up
// to the compiler) have no instructions for this: kernels are not compiled and
// VectorKernelsRun() is false where one of them is the best.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
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

// Grouped order: block b holds the groups of 4 bytes b, b + blocks, b + 2
// blocks, ... so that interleaving within blocks twice gives pixels in memory
// order. Vectors of one block are grouped as they are.
HWY_INLINE ByteVec Group(ByteVec v) {
#if HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_permutevar8x32_epi32(
      v.raw, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7))};
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return ByteVec{_mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
      v.raw)};
#else
  return v;
#endif
}

// As PackOrdered, in grouped order.
HWY_INLINE ByteVec PackGrouped(WordVec first, WordVec second) {
  const ByteVec packed = PackBlocks(first, second);
#if HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_permutevar8x32_epi32(
      packed.raw, _mm256_setr_epi32(0, 4, 2, 6, 1, 5, 3, 7))};
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return ByteVec{_mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 8, 2, 10, 1, 9, 3, 11, 4, 12, 6, 14, 5, 13, 7, 15),
      packed.raw)};
#else
  return packed;
#endif
}

// Four byte rows in grouped order to pixels in memory order.
struct PixelVectors {
  ByteVec v[4];
};
HWY_INLINE PixelVectors InterleaveGrouped(ByteVec r, ByteVec g, ByteVec b,
                                          ByteVec a) {
  const Bytes d8;
  const hn::Repartition<uint16_t, Bytes> d16;
  const auto rg0 = hn::BitCast(d16, hn::InterleaveLower(d8, r, g));
  const auto rg1 = hn::BitCast(d16, hn::InterleaveUpper(d8, r, g));
  const auto ba0 = hn::BitCast(d16, hn::InterleaveLower(d8, b, a));
  const auto ba1 = hn::BitCast(d16, hn::InterleaveUpper(d8, b, a));
  return {{hn::BitCast(d8, hn::InterleaveLower(d16, rg0, ba0)),
           hn::BitCast(d8, hn::InterleaveUpper(d16, rg0, ba0)),
           hn::BitCast(d8, hn::InterleaveLower(d16, rg1, ba1)),
           hn::BitCast(d8, hn::InterleaveUpper(d16, rg1, ba1))}};
}

// Packs the bytes of every pixel's first three channels to the front of each
// block; 4 bytes of zeros follow.
HWY_INLINE ByteVec DropFourthInBlocks(ByteVec v) {
  alignas(16) static constexpr uint8_t kOrder[16] = {
      0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 0x80, 0x80, 0x80, 0x80};
  return hn::TableLookupBytes(v, hn::LoadDup128(Bytes(), kOrder));
}

// Drops the fourth byte of every pixel; the last quarter is undefined.
HWY_INLINE ByteVec DropFourth(ByteVec v) {
  const ByteVec dense = DropFourthInBlocks(v);
#if HWY_TARGET == HWY_AVX2
  return ByteVec{_mm256_permutevar8x32_epi32(
      dense.raw, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7))};
#elif HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
  return ByteVec{_mm512_permutexvar_epi32(
      _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 15, 15, 15, 15),
      dense.raw)};
#else
  return dense;
#endif
}

// Four vectors of 4-byte pixels as 3-byte pixels. May write kDenseOverhang
// bytes behind them.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
constexpr size_t kDenseOverhang = 0;
HWY_INLINE void StoreDense(const PixelVectors& p, uint8_t* out) {
  const __m512i a = DropFourthInBlocks(p.v[0]).raw;
  const __m512i b = DropFourthInBlocks(p.v[1]).raw;
  const __m512i c = DropFourthInBlocks(p.v[2]).raw;
  const __m512i e = DropFourthInBlocks(p.v[3]).raw;
  const __m512i first = _mm512_permutex2var_epi32(
      a,
      _mm512_setr_epi32(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20),
      b);
  const __m512i second = _mm512_permutex2var_epi32(
      b,
      _mm512_setr_epi32(5, 6, 8, 9, 10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24,
                        25),
      c);
  const __m512i third = _mm512_permutex2var_epi32(
      c,
      _mm512_setr_epi32(10, 12, 13, 14, 16, 17, 18, 20, 21, 22, 24, 25, 26, 28,
                        29, 30),
      e);
  _mm512_storeu_si512(out, first);
  _mm512_storeu_si512(out + 64, second);
  _mm512_storeu_si512(out + 128, third);
}
#else
constexpr size_t kDenseOverhang = kByteLanes / 4;
HWY_INLINE void StoreDense(const PixelVectors& p, uint8_t* out) {
  for (int k = 0; k < 4; ++k, out += kByteLanes / 4 * 3) {
    hn::StoreU(DropFourth(p.v[k]), Bytes(), out);
  }
}
#endif

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
#endif  // not a fallback target

#endif  // ENGINE_BACKENDS_CPU_VECTOR_BLOCKS_INL_H_
