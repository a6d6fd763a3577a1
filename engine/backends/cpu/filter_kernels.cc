#include "engine/backends/cpu/filter_kernels.h"

#include <cstring>
#include <limits>

#include "engine/backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/filter_kernels.cc"
// clang-format off
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "engine/backends/cpu/vector_blocks-inl.h"
// clang-format on

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
namespace preprocd::HWY_NAMESPACE {
namespace {
void FilterRowsT(const uint8_t* const*, const int16_t*, int, size_t, int16_t*) {
  NoVectorKernels();
}
void FilterColumns1T(const int16_t*, const FixedTaps&, int16_t*) {
  NoVectorKernels();
}
void FilterColumns2T(const int16_t*, const FixedTaps&, int16_t*, int16_t*) {
  NoVectorKernels();
}
void FilterColumns4T(const int16_t*, const FixedTaps&, uint8_t*) {
  NoVectorKernels();
}
void RoundColumns1T(const int16_t*, const FixedTaps&, uint8_t*) {
  NoVectorKernels();
}
void RoundColumns2T(const int16_t*, const FixedTaps&, uint8_t*, uint8_t*) {
  NoVectorKernels();
}
void RoundColumns4T(const int16_t*, const FixedTaps&, uint8_t*) {
  NoVectorKernels();
}
void RoundRowT(const int16_t*, int, size_t, uint8_t*) { NoVectorKernels(); }
}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
#else

HWY_BEFORE_NAMESPACE();
namespace preprocd::HWY_NAMESPACE {
namespace {

// `kCount` taps known at compile time keep the weights in registers; 0 is any
// number.
template <int kCount>
HWY_INLINE void FilterBlock(const uint8_t* const* rows, const int16_t* weights,
                            int count, size_t at, int16_t* out) {
  const Bytes d8;
  const Words d16;
  const auto flip = hn::Set(d8, 0x80);
  auto lower = hn::Zero(d16);
  auto upper = hn::Zero(d16);
  const int n = kCount == 0 ? count : kCount;
  for (int k = 0; k < n; ++k) {
    const auto v = hn::Xor(hn::LoadU(d8, rows[k] + at), flip);
    const auto w = hn::Set(d16, weights[k]);
    lower = hn::Add(lower, hn::MulFixedPoint15(CenteredLower(v), w));
    upper = hn::Add(upper, hn::MulFixedPoint15(CenteredUpper(v), w));
  }
  StoreBlocks(lower, upper, out + at);
}

HWY_INLINE void WidenBlock(const uint8_t* row, size_t at, int16_t* out) {
  const Bytes d8;
  const auto v = hn::Xor(hn::LoadU(d8, row + at), hn::Set(d8, 0x80));
  StoreBlocks(CenteredLower(v), CenteredUpper(v), out + at);
}

template <int kCount>
void FilterAll(const uint8_t* const* rows, const int16_t* weights, int count,
               size_t size, int16_t* out) {
  size_t i = 0;
  for (; i + kByteLanes <= size; i += kByteLanes) {
    FilterBlock<kCount>(rows, weights, count, i, out);
  }
  // The last block overlaps the one before: same inputs, same results.
  if (i < size)
    FilterBlock<kCount>(rows, weights, count, size - kByteLanes, out);
}

// Rows shorter than a vector.
void FilterShort(const uint8_t* const* rows, const int16_t* weights, int count,
                 size_t size, bool widen, int16_t* out) {
  const size_t n = size;
  for (size_t i = 0; i < n; ++i) {
    int sum = 0;
    for (int k = 0; k < count; ++k) {
      const int v = (rows[k][i] - 128) * 256;
      sum += widen ? v : (v * weights[k] + (1 << 14)) >> 15;
    }
    out[i] = static_cast<int16_t>(sum);
  }
}

void FilterRowsT(const uint8_t* const* rows, const int16_t* weights, int count,
                 size_t size, int16_t* out) {
  const bool widen =
      count == 1 && weights[0] == std::numeric_limits<int16_t>::max();
  if (size < kByteLanes) {
    FilterShort(rows, weights, count, size, widen, out);
    return;
  }
  if (widen) {
    size_t i = 0;
    for (; i + kByteLanes <= size; i += kByteLanes) WidenBlock(rows[0], i, out);
    if (i < size) WidenBlock(rows[0], size - kByteLanes, out);
    return;
  }
  switch (count) {
    case 1:
      return FilterAll<1>(rows, weights, count, size, out);
    case 2:
      return FilterAll<2>(rows, weights, count, size, out);
    case 3:
      return FilterAll<3>(rows, weights, count, size, out);
    case 4:
      return FilterAll<4>(rows, weights, count, size, out);
    case 5:
      return FilterAll<5>(rows, weights, count, size, out);
    default:
      return FilterAll<0>(rows, weights, count, size, out);
  }
}

// Weighted sums to staged samples.
template <int kBits>
HWY_INLINE hn::Vec<Words8> ToStaged(hn::Vec<Ints4> a, hn::Vec<Ints4> b) {
  const auto half = hn::Set(Ints4(), 1 << (kBits - 1));
  return PackInts(hn::ShiftRight<kBits>(hn::Add(a, half)),
                  hn::ShiftRight<kBits>(hn::Add(b, half)));
}

// 4 sums of 4 samples each.
HWY_INLINE hn::Vec<Ints4> Quad(const int16_t* in, const int32_t* first,
                               const int16_t* weights) {
  const Words8 d;
  const auto a =
      MulPairs(LoadTwo(in + first[0], in + first[1]), hn::LoadU(d, weights));
  const auto b = MulPairs(LoadTwo(in + first[2], in + first[3]),
                          hn::LoadU(d, weights + 8));
  return AddNeighbours(a, b);
}

HWY_INLINE hn::Vec<Ints4> LongSum(const int16_t* in, const int16_t* weights,
                                  int stride) {
  const Words8 d;
  auto sum = MulPairs(hn::LoadU(d, in), hn::LoadU(d, weights));
  for (int k = 8; k < stride; k += 8) {
    sum =
        hn::Add(sum, MulPairs(hn::LoadU(d, in + k), hn::LoadU(d, weights + k)));
  }
  return sum;
}

HWY_INLINE hn::Vec<Ints4> LongQuad(const int16_t* in, const int32_t* first,
                                   const int16_t* weights, int stride) {
  const auto a = LongSum(in + first[0], weights, stride);
  const auto b = LongSum(in + first[1], weights + stride, stride);
  const auto c = LongSum(in + first[2], weights + 2 * stride, stride);
  const auto e = LongSum(in + first[3], weights + 3 * stride, stride);
  return AddNeighbours(AddNeighbours(a, b), AddNeighbours(c, e));
}

// 4 sums of 2 samples each from one load.
HWY_INLINE hn::Vec<Ints4> Pair(const int16_t* in, const uint8_t* shuffle,
                               const int16_t* weights) {
  const Words8 d;
  const Bytes16 d8;
  const auto taps =
      hn::BitCast(d, hn::TableLookupBytes(hn::BitCast(d8, hn::LoadU(d, in)),
                                          hn::LoadU(d8, shuffle)));
  // Of 4 weights per sample the first 2 count.
  const auto w0 = hn::BitCast(Ints4(), hn::LoadU(d, weights));
  const auto w1 = hn::BitCast(Ints4(), hn::LoadU(d, weights + 8));
  return MulPairs(taps, hn::BitCast(d, hn::ConcatEven(Ints4(), w1, w0)));
}

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX3_DL
#define PREPROCD_PERMUTES 1
#else
#define PREPROCD_PERMUTES 0
#endif

#if PREPROCD_PERMUTES
// 16 sums of the 64 words at `in`, rounded to staged samples.
template <int kBits>
HWY_INLINE __m256i PermuteBlock(const int16_t* in, const uint16_t* indexes,
                                const int16_t* weights, int pairs) {
  const __m512i low = _mm512_loadu_si512(in);
  const __m512i high = _mm512_loadu_si512(in + 32);
  __m512i sum = _mm512_set1_epi32(1 << (kBits - 1));
  for (int p = 0; p < pairs; ++p, indexes += 32, weights += 32) {
    const __m512i taps =
        _mm512_permutex2var_epi16(low, _mm512_loadu_si512(indexes), high);
    sum = _mm512_add_epi32(
        sum, _mm512_madd_epi16(taps, _mm512_loadu_si512(weights)));
  }
  return _mm512_cvtsepi32_epi16(_mm512_srai_epi32(sum, kBits));
}

template <int kBits, bool kTwoChannels>
void PermuteColumns(const int16_t* in, const FixedTaps& taps, int16_t* out0,
                    int16_t* out1) {
  const int pairs = (taps.count + 1) / 2;
  const uint16_t* indexes = taps.permute_indexes.data();
  const int16_t* weights = taps.permute_weights.data();
  for (const int32_t base : taps.permute_bases) {
    const __m256i v = PermuteBlock<kBits>(in + base, indexes, weights, pairs);
    if (kTwoChannels) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out0),
                       _mm256_castsi256_si128(v));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out1),
                       _mm256_extracti128_si256(v, 1));
      out0 += 8;
      out1 += 8;
    } else {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out0), v);
      out0 += 16;
    }
    indexes += 32 * pairs;
    weights += 32 * pairs;
  }
}
#endif  // PREPROCD_PERMUTES

template <int kBits>
void Columns1(const int16_t* in, const FixedTaps& taps, int16_t* out) {
#if PREPROCD_PERMUTES
  if (!taps.permute_bases.empty()) {
    return PermuteColumns<kBits, false>(in, taps, out, nullptr);
  }
#endif
  const Words8 d;
  const auto padded = taps.first.size();
  const int32_t* first = taps.first.data();
  const int16_t* w = taps.weights.data();
  if (!taps.loads.empty()) {
    const int32_t* loads = taps.loads.data();
    const uint8_t* shuffle = taps.shuffles.data();
    for (size_t i = 0; i < padded; i += 8, w += 32, loads += 2, shuffle += 32) {
      hn::StoreU(ToStaged<kBits>(Pair(in + loads[0], shuffle, w),
                                 Pair(in + loads[1], shuffle + 16, w + 16)),
                 d, out + i);
    }
    return;
  }
  if (taps.stride == 4) {
    for (size_t i = 0; i < padded; i += 8, w += 32, first += 8) {
      hn::StoreU(
          ToStaged<kBits>(Quad(in, first, w), Quad(in, first + 4, w + 16)), d,
          out + i);
    }
    return;
  }
  const int stride = taps.stride;
  for (size_t i = 0; i < padded; i += 8, w += 8 * stride, first += 8) {
    hn::StoreU(ToStaged<kBits>(LongQuad(in, first, w, stride),
                               LongQuad(in, first + 4, w + 4 * stride, stride)),
               d, out + i);
  }
}

// Pairs of interleaved channels: a0 b0 a1 b1 ... to a0 a1 b0 b1 ...
HWY_INLINE hn::Vec<Words8> PairChannels(hn::Vec<Words8> v) {
  alignas(16) static constexpr uint8_t kOrder[16] = {
      0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  const Bytes16 d8;
  return hn::BitCast(
      Words8(), hn::TableLookupBytes(hn::BitCast(d8, v), hn::Load(d8, kOrder)));
}

// Each pair of weights twice, for two channels.
HWY_INLINE hn::Vec<Words8> TwiceLower(hn::Vec<Words8> w) {
  const auto w32 = hn::BitCast(Ints4(), w);
  return hn::BitCast(Words8(), hn::InterleaveLower(w32, w32));
}
HWY_INLINE hn::Vec<Words8> TwiceUpper(hn::Vec<Words8> w) {
  const auto w32 = hn::BitCast(Ints4(), w);
  return hn::BitCast(Words8(), hn::InterleaveUpper(Ints4(), w32, w32));
}

// a b a b a b a b to a a a a b b b b, stored apart.
HWY_INLINE void StoreApart(hn::Vec<Words8> v, int16_t* first, int16_t* second) {
  alignas(16) static constexpr uint8_t kOrder[16] = {
      0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
  const Bytes16 d8;
  const hn::Half<Words8> half;
  const auto apart = hn::BitCast(
      Words8(), hn::TableLookupBytes(hn::BitCast(d8, v), hn::Load(d8, kOrder)));
  hn::StoreU(hn::LowerHalf(half, apart), half, first);
  hn::StoreU(hn::UpperHalf(half, apart), half, second);
}

// Sums of one sample of two channels: a01 b01 a23 b23.
HWY_INLINE hn::Vec<Ints4> SumOfTwo(const int16_t* in, const int16_t* weights,
                                   int stride) {
  const Words8 d;
  const hn::Half<Words8> half;
  auto sum = hn::Zero(Ints4());
  for (int k = 0; k < stride; k += 4) {
    const auto w = hn::ZeroExtendVector(d, hn::LoadU(half, weights + k));
    sum = hn::Add(
        sum, MulPairs(PairChannels(hn::LoadU(d, in + 2 * k)), TwiceLower(w)));
  }
  return sum;
}

HWY_INLINE hn::Vec<Ints4> FoldTwo(hn::Vec<Ints4> a, hn::Vec<Ints4> b) {
  const hn::Repartition<int64_t, Ints4> d64;
  const auto a64 = hn::BitCast(d64, a);
  const auto b64 = hn::BitCast(d64, b);
  return hn::Add(hn::BitCast(Ints4(), hn::InterleaveLower(a64, b64)),
                 hn::BitCast(Ints4(), hn::InterleaveUpper(d64, a64, b64)));
}

template <int kBits>
void Columns2(const int16_t* in, const FixedTaps& taps, int16_t* out0,
              int16_t* out1) {
#if PREPROCD_PERMUTES
  if (!taps.permute_bases.empty()) {
    return PermuteColumns<kBits, true>(in, taps, out0, out1);
  }
#endif
  const Words8 d;
  const auto padded = taps.first.size();
  const int32_t* first = taps.first.data();
  const int16_t* w = taps.weights.data();
  if (taps.stride == 2) {
    for (size_t i = 0; i < padded; i += 4, w += 8, first += 4) {
      const auto weights = hn::LoadU(d, w);
      const auto a =
          MulPairs(PairChannels(LoadTwo(in + 2 * first[0], in + 2 * first[1])),
                   TwiceLower(weights));
      const auto b =
          MulPairs(PairChannels(LoadTwo(in + 2 * first[2], in + 2 * first[3])),
                   TwiceUpper(weights));
      StoreApart(ToStaged<kBits>(a, b), out0 + i, out1 + i);
    }
    return;
  }
  const int stride = taps.stride;
  for (size_t i = 0; i < padded; i += 4, w += 4 * stride, first += 4) {
    const auto a = FoldTwo(SumOfTwo(in + 2 * first[0], w, stride),
                           SumOfTwo(in + 2 * first[1], w + stride, stride));
    const auto b = FoldTwo(SumOfTwo(in + 2 * first[2], w + 2 * stride, stride),
                           SumOfTwo(in + 2 * first[3], w + 3 * stride, stride));
    StoreApart(ToStaged<kBits>(a, b), out0 + i, out1 + i);
  }
}

// Two taps of one packed pixel: r0 r1 g0 g1 b0 b1 and nothing or a0 a1.
template <int kChannels>
HWY_INLINE hn::Vec<Words8> PairPixels(hn::Vec<Words8> v) {
  alignas(16) static constexpr uint8_t kThree[16] = {
      0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, 0x80, 0x80, 0x80, 0x80};
  alignas(16) static constexpr uint8_t kFour[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                                    4, 5, 12, 13, 6, 7, 14, 15};
  const Bytes16 d8;
  return hn::BitCast(
      Words8(),
      hn::TableLookupBytes(hn::BitCast(d8, v),
                           hn::Load(d8, kChannels == 3 ? kThree : kFour)));
}

template <int kChannels, int kStride>
HWY_INLINE hn::Vec<Ints4> PixelSum(const int16_t* in, const int16_t* weights,
                                   int any_stride) {
  const Words8 d;
  const int stride = kStride == 0 ? any_stride : kStride;
  auto sum = hn::Zero(Ints4());
  for (int k = 0; k < stride; k += 2) {
    int32_t pair = 0;
    memcpy(&pair, weights + k, sizeof(pair));
    const auto w = hn::BitCast(d, hn::Set(Ints4(), pair));
    sum = hn::Add(
        sum,
        MulPairs(PairPixels<kChannels>(hn::LoadU(d, in + kChannels * k)), w));
  }
  return sum;
}

template <int kChannels, int kStride, int kShift>
void Pixels(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  const Bytes16 d8;
  const auto padded = taps.first.size();
  const int32_t* first = taps.first.data();
  const int16_t* w = taps.weights.data();
  const int stride = taps.stride;
  // Back to 0..255, half up.
  const auto bias = hn::Set(Ints4(), (128 << kShift) + (1 << (kShift - 1)));
  const auto pixel = [&](size_t j) HWY_ATTR {
    const auto sum = PixelSum<kChannels, kStride>(
        in + kChannels * first[j], w + static_cast<ptrdiff_t>(j) * stride,
        stride);
    return hn::ShiftRight<kShift>(hn::Add(sum, bias));
  };
  for (size_t i = 0; i < padded; i += 4, w += 4 * stride, first += 4) {
    const auto a = PackInts(pixel(0), pixel(1));
    const auto b = PackInts(pixel(2), pixel(3));
    hn::StoreU(PackWords(a, b), d8, rgbx + 4 * i);
  }
}

template <int kChannels, int kShift>
void PixelsByStride(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  switch (taps.stride) {
    case 2:
      return Pixels<kChannels, 2, kShift>(in, taps, rgbx);
    case 4:
      return Pixels<kChannels, 4, kShift>(in, taps, rgbx);
    case 6:
      return Pixels<kChannels, 6, kShift>(in, taps, rgbx);
    case 8:
      return Pixels<kChannels, 8, kShift>(in, taps, rgbx);
    default:
      return Pixels<kChannels, 0, kShift>(in, taps, rgbx);
  }
}

// Sums with 22-bit weights to values, not yet clamped.
HWY_INLINE hn::Vec<Ints4> ExactValue(hn::Vec<Ints4> high, hn::Vec<Ints4> low,
                                     hn::Vec<Ints4> bias) {
  const auto sum = hn::Add(hn::ShiftLeft<8>(high), low);
  return hn::ShiftRight<22>(hn::Add(sum, bias));
}

void RoundColumns1T(const int16_t* in, const FixedTaps& taps, uint8_t* out) {
  const auto padded = taps.first.size();
  const int stride = taps.stride;
  const int16_t* high = taps.exact_high.data();
  const int16_t* low = taps.exact_low.data();
  const auto quad = [&](size_t i) HWY_ATTR {
    const int32_t* first = taps.first.data() + i;
    const auto bias = hn::LoadU(Ints4(), taps.exact_bias.data() + i);
    const auto at = static_cast<ptrdiff_t>(i) * stride;
    if (stride == 4) {
      return ExactValue(Quad(in, first, high + at), Quad(in, first, low + at),
                        bias);
    }
    return ExactValue(LongQuad(in, first, high + at, stride),
                      LongQuad(in, first, low + at, stride), bias);
  };
  for (size_t i = 0; i < padded; i += 16) {
    hn::StoreU(PackWords(PackInts(quad(i), quad(i + 4)),
                         PackInts(quad(i + 8), quad(i + 12))),
               Bytes16(), out + i);
  }
}

void RoundColumns2T(const int16_t* in, const FixedTaps& taps, uint8_t* first,
                    uint8_t* second) {
  alignas(16) static constexpr uint8_t kApart[16] = {0, 2, 4, 6, 8, 10, 12, 14,
                                                     1, 3, 5, 7, 9, 11, 13, 15};
  const Bytes16 d8;
  const hn::Half<Bytes16> half;
  const auto padded = taps.first.size();
  const int stride = taps.stride;
  const auto sums = [&](size_t i,
                        const std::vector<int16_t>& weights) HWY_ATTR {
    const int16_t* w = weights.data() + static_cast<ptrdiff_t>(i) * stride;
    return FoldTwo(SumOfTwo(in + 2 * taps.first[i], w, stride),
                   SumOfTwo(in + 2 * taps.first[i + 1], w + stride, stride));
  };
  const auto two = [&](size_t i) HWY_ATTR {
    const int32_t* bias = taps.exact_bias.data() + i;
    const auto biases = hn::ConcatLowerLower(Ints4(), hn::Set(Ints4(), bias[1]),
                                             hn::Set(Ints4(), bias[0]));
    return ExactValue(sums(i, taps.exact_high), sums(i, taps.exact_low),
                      biases);
  };
  for (size_t i = 0; i < padded; i += 8) {
    const auto pairs = PackWords(PackInts(two(i), two(i + 2)),
                                 PackInts(two(i + 4), two(i + 6)));
    const auto apart = hn::TableLookupBytes(pairs, hn::Load(d8, kApart));
    hn::StoreU(hn::LowerHalf(half, apart), half, first + i);
    hn::StoreU(hn::UpperHalf(half, apart), half, second + i);
  }
}

template <int kChannels>
void RoundPixels(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  const auto padded = taps.first.size();
  const int stride = taps.stride;
  const auto pixel = [&](size_t i) HWY_ATTR {
    const auto at = static_cast<ptrdiff_t>(i) * stride;
    const int16_t* from = in + kChannels * taps.first[i];
    return ExactValue(
        PixelSum<kChannels, 0>(from, taps.exact_high.data() + at, stride),
        PixelSum<kChannels, 0>(from, taps.exact_low.data() + at, stride),
        hn::Set(Ints4(), taps.exact_bias[i]));
  };
  for (size_t i = 0; i < padded; i += 4) {
    hn::StoreU(PackWords(PackInts(pixel(i), pixel(i + 1)),
                         PackInts(pixel(i + 2), pixel(i + 3))),
               Bytes16(), rgbx + 4 * i);
  }
}

void RoundColumns4T(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  taps.request.channels == 3 ? RoundPixels<3>(in, taps, rgbx)
                             : RoundPixels<4>(in, taps, rgbx);
}

void FilterColumns1T(const int16_t* in, const FixedTaps& taps, int16_t* out) {
  taps.weight_bits == 15 ? Columns1<15>(in, taps, out)
                         : Columns1<14>(in, taps, out);
}

void FilterColumns2T(const int16_t* in, const FixedTaps& taps, int16_t* first,
                     int16_t* second) {
  taps.weight_bits == 15 ? Columns2<15>(in, taps, first, second)
                         : Columns2<14>(in, taps, first, second);
}

void FilterColumns4T(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  constexpr int kPlain = 15 + kPlainFraction;
  constexpr int kLobes = 14 + kLobeFraction;
  if (taps.request.channels == 3) {
    taps.weight_bits == 15 ? PixelsByStride<3, kPlain>(in, taps, rgbx)
                           : PixelsByStride<3, kLobes>(in, taps, rgbx);
  } else {
    taps.weight_bits == 15 ? PixelsByStride<4, kPlain>(in, taps, rgbx)
                           : PixelsByStride<4, kLobes>(in, taps, rgbx);
  }
}

template <int kFraction>
void Round(const int16_t* in, size_t size, uint8_t* out) {
  const Words d16;
  const Bytes d8;
  const auto half = hn::Set(d16, 1 << (kFraction - 1));
  const auto middle = hn::Set(d16, 128);
  const auto block = [&](const int16_t* from) HWY_ATTR {
    const auto one = [&](const int16_t* at) HWY_ATTR {
      return hn::Add(
          hn::ShiftRight<kFraction>(hn::SaturatedAdd(hn::LoadU(d16, at), half)),
          middle);
    };
    return PackOrdered(one(from), one(from + kByteLanes / 2));
  };
  size_t i = 0;
  for (; i + kByteLanes <= size; i += kByteLanes) {
    hn::StoreU(block(in + i), d8, out + i);
  }
  if (i == size) return;
  // `in` is padded; `out` may end here.
  alignas(64) uint8_t rest[kByteLanes];
  hn::Store(block(in + i), d8, rest);
  memcpy(out + i, rest, size - i);
}

void RoundRowT(const int16_t* in, int fraction, size_t size, uint8_t* out) {
  fraction == kPlainFraction ? Round<kPlainFraction>(in, size, out)
                             : Round<kLobeFraction>(in, size, out);
}

#undef PREPROCD_PERMUTES

}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // fallback targets

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(FilterRowsT);
HWY_EXPORT(FilterColumns1T);
HWY_EXPORT(FilterColumns2T);
HWY_EXPORT(FilterColumns4T);
HWY_EXPORT(RoundColumns1T);
HWY_EXPORT(RoundColumns2T);
HWY_EXPORT(RoundColumns4T);
HWY_EXPORT(RoundRowT);

void FilterRows(const uint8_t* const* rows, const int16_t* weights, int count,
                size_t size, int16_t* out) {
  HWY_DYNAMIC_DISPATCH(FilterRowsT)(rows, weights, count, size, out);
}

void FilterColumns1(const int16_t* in, const FixedTaps& taps, int16_t* out) {
  HWY_DYNAMIC_DISPATCH(FilterColumns1T)(in, taps, out);
}

void FilterColumns2(const int16_t* in, const FixedTaps& taps, int16_t* first,
                    int16_t* second) {
  HWY_DYNAMIC_DISPATCH(FilterColumns2T)(in, taps, first, second);
}

void FilterColumns4(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  HWY_DYNAMIC_DISPATCH(FilterColumns4T)(in, taps, rgbx);
}

void RoundColumns1(const int16_t* in, const FixedTaps& taps, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(RoundColumns1T)(in, taps, out);
}

void RoundColumns2(const int16_t* in, const FixedTaps& taps, uint8_t* first,
                   uint8_t* second) {
  HWY_DYNAMIC_DISPATCH(RoundColumns2T)(in, taps, first, second);
}

void RoundColumns4(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  HWY_DYNAMIC_DISPATCH(RoundColumns4T)(in, taps, rgbx);
}

void RoundRow(const int16_t* in, int fraction, size_t size, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(RoundRowT)(in, fraction, size, out);
}

}  // namespace preprocd
#endif  // HWY_ONCE
