#include "engine/codec/reduced_dct.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/codec/reduced_dct.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#include "engine/base/check.h"
#include "engine/codec/vector_dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kConstBits = 13;
constexpr int kPass1Bits = 2;

// Cosines times 2^13, rounded, as in jidctred.c.
constexpr int k0_211164243 = 1730;
constexpr int k0_509795579 = 4176;
constexpr int k0_601344887 = 4926;
constexpr int k0_720959822 = 5906;
constexpr int k0_765366865 = 6270;
constexpr int k0_850430095 = 6967;
constexpr int k0_899976223 = 7373;
constexpr int k1_061594337 = 8697;
constexpr int k1_272758580 = 10426;
constexpr int k1_451774981 = 11893;
constexpr int k1_847759065 = 15137;
constexpr int k2_172734803 = 17799;
constexpr int k2_562915447 = 20995;
constexpr int k3_624509785 = 29692;

// The larger transform's scale is 8, so each halving drops one bit more.
constexpr int kPass1ShiftOf4 = kConstBits - kPass1Bits + 1;
constexpr int kPass2ShiftOf4 = kConstBits + kPass1Bits + 3 + 1;
constexpr int kPass1ShiftOf2 = kConstBits - kPass1Bits + 2;
constexpr int kPass2ShiftOf2 = kConstBits + kPass1Bits + 3 + 2;

int16_t Wrap(int value) { return static_cast<int16_t>(value); }

int16_t Saturate(int value) {
  return static_cast<int16_t>(std::clamp(value, -32768, 32767));
}

uint8_t Sample(int value) {
  return static_cast<uint8_t>(std::clamp(value, -128, 127) + 128);
}

int Descaled(int64_t sum, int shift) {
  // Sums of values that no encoder writes wrap.
  return static_cast<int32_t>(sum + (int64_t{1} << (shift - 1))) >> shift;
}

int16_t Dequantised(const int16_t* c, const int16_t* q, size_t row,
                    size_t column) {
  const size_t at = row * DctPair::kRowStep + column;
  return Wrap(c[at] * q[at]);
}

uint8_t FlatSample(const int16_t* c, const int16_t* q) {
  return Sample((Dequantised(c, q, 0, 0) + 4) >> 3);
}

// Odd part of the 2-point transform.
int64_t OddOf2(int v1, int v3, int v5, int v7) {
  return int64_t{v1} * k3_624509785 - int64_t{v3} * k1_272758580 +
         int64_t{v5} * k0_850430095 - int64_t{v7} * k0_720959822;
}

void OneBlockOf2(const int16_t* c, const int16_t* q, uint8_t* out,
                 size_t stride) {
  constexpr size_t kColumns[] = {0, 1, 3, 5, 7};
  int rows[2][kDctSize] = {};
  for (const size_t x : kColumns) {
    const int64_t even = int64_t{Dequantised(c, q, 0, x)} << (kConstBits + 2);
    const int64_t odd =
        OddOf2(Dequantised(c, q, 1, x), Dequantised(c, q, 3, x),
               Dequantised(c, q, 5, x), Dequantised(c, q, 7, x));
    rows[0][x] = Saturate(Descaled(even + odd, kPass1ShiftOf2));
    rows[1][x] = Saturate(Descaled(even - odd, kPass1ShiftOf2));
  }
  for (size_t y = 0; y < 2; ++y, out += stride) {
    const int* v = rows[y];
    const int64_t even = int64_t{v[0]} * (1 << (kConstBits + 2));
    const int64_t odd = OddOf2(v[1], v[3], v[5], v[7]);
    out[0] = Sample(Descaled(even + odd, kPass2ShiftOf2));
    out[1] = Sample(Descaled(even - odd, kPass2ShiftOf2));
  }
}

#if HWY_TARGET == HWY_SCALAR

// One pass over eight values to four.
void Pass4(const int (&v)[kDctSize], int shift, int (&out)[4]) {
  const int64_t even0 = int64_t{v[0]} * (1 << (kConstBits + 1));
  const int64_t even2 =
      int64_t{v[2]} * k1_847759065 - int64_t{v[6]} * k0_765366865;
  const int64_t odd0 =
      int64_t{v[1]} * k1_061594337 - int64_t{v[3]} * k2_172734803 +
      int64_t{v[5]} * k1_451774981 - int64_t{v[7]} * k0_211164243;
  const int64_t odd2 =
      int64_t{v[1]} * k2_562915447 + int64_t{v[3]} * k0_899976223 -
      int64_t{v[5]} * k0_601344887 - int64_t{v[7]} * k0_509795579;
  out[0] = Descaled(even0 + even2 + odd2, shift);
  out[3] = Descaled(even0 + even2 - odd2, shift);
  out[1] = Descaled(even0 - even2 + odd0, shift);
  out[2] = Descaled(even0 - even2 - odd0, shift);
}

void OneBlockOf4(const int16_t* c, const int16_t* q, uint8_t* out,
                 size_t stride) {
  int rows[4][kDctSize] = {};
  for (size_t x = 0; x < kDctSize; ++x) {
    int column[kDctSize];
    for (size_t y = 0; y < kDctSize; ++y) column[y] = Dequantised(c, q, y, x);
    int four[4];
    Pass4(column, kPass1ShiftOf4, four);
    for (size_t y = 0; y < 4; ++y) rows[y][x] = Saturate(four[y]);
  }
  for (size_t y = 0; y < 4; ++y, out += stride) {
    int four[4];
    Pass4(rows[y], kPass2ShiftOf4, four);
    for (size_t x = 0; x < 4; ++x) out[x] = Sample(four[x]);
  }
}

template <bool kBoth>
void BlocksOf4(const int16_t* c, const int16_t* q, uint8_t* out,
               size_t stride) {
  OneBlockOf4(c, q, out, stride);
  if (kBoth) OneBlockOf4(c + kDctSize, q, out + 4, stride);
}

#else  // HWY_TARGET == HWY_SCALAR

struct Rows4 {
  V32 v0, v1, v2, v3;
};

template <bool kUpper>
HWY_INLINE V16 Pairs(V16 a, V16 b) {
  return kUpper ? hn::InterleaveUpper(D16(), a, b)
                : hn::InterleaveLower(D16(), a, b);
}

template <class T, bool kUpper>
HWY_INLINE V16 Woven(V16 a, V16 b) {
  const hn::Repartition<T, D16> d;
  const auto x = hn::BitCast(d, a);
  const auto y = hn::BitCast(d, b);
  return hn::BitCast(D16(), kUpper ? hn::InterleaveUpper(d, x, y)
                                   : hn::InterleaveLower(d, x, y));
}

template <int kShift>
HWY_INLINE Rows4 Butterflies4(V32 even0, V32 even2, V32 odd0, V32 odd2) {
  const V32 rounded = hn::Add(even0, hn::Set(D32(), 1 << (kShift - 1)));
  const V32 tmp10 = hn::Add(rounded, even2);
  const V32 tmp12 = hn::Sub(rounded, even2);
  return {hn::ShiftRight<kShift>(hn::Add(tmp10, odd2)),
          hn::ShiftRight<kShift>(hn::Add(tmp12, odd0)),
          hn::ShiftRight<kShift>(hn::Sub(tmp12, odd0)),
          hn::ShiftRight<kShift>(hn::Sub(tmp10, odd2))};
}

HWY_INLINE V16 Row(const int16_t* c, const int16_t* q, size_t y) {
  const D16 d;
  return hn::Mul(hn::Load(d, c + y * DctPair::kRowStep),
                 hn::Load(d, q + y * DctPair::kRowStep));
}

// Columns, over half of the lanes.
template <bool kUpper>
HWY_INLINE Rows4 Down(V16 r0, V16 r1, V16 r2, V16 r3, V16 r5, V16 r6, V16 r7) {
  const V16 odd31 = Pairs<kUpper>(r3, r1);
  const V16 odd75 = Pairs<kUpper>(r7, r5);
  const V16 zero = hn::Zero(D16());
  const V32 even0 = hn::ShiftRight<16 - kConstBits - 1>(
      hn::BitCast(D32(), Pairs<kUpper>(zero, r0)));
  return Butterflies4<kPass1ShiftOf4>(
      even0, Dot<k1_847759065, -k0_765366865>(Pairs<kUpper>(r2, r6)),
      hn::Add(Dot<-k2_172734803, k1_061594337>(odd31),
              Dot<-k0_211164243, k1_451774981>(odd75)),
      hn::Add(Dot<k0_899976223, k2_562915447>(odd31),
              Dot<-k0_509795579, -k0_601344887>(odd75)));
}

// `kBoth`: the blocks of a vector are both written.
template <bool kBoth>
HWY_INLINE void BlocksOf4(const int16_t* c, const int16_t* q, uint8_t* out,
                          size_t stride) {
  const V16 in0 = Row(c, q, 0);
  const V16 in1 = Row(c, q, 1);
  const V16 in2 = Row(c, q, 2);
  const V16 in3 = Row(c, q, 3);
  const V16 in5 = Row(c, q, 5);
  const V16 in6 = Row(c, q, 6);
  const V16 in7 = Row(c, q, 7);
  const Rows4 low = Down<false>(in0, in1, in2, in3, in5, in6, in7);
  const Rows4 high = Down<true>(in0, in1, in2, in3, in5, in6, in7);
  const V16 r0 = Narrow(low.v0, high.v0);
  const V16 r1 = Narrow(low.v1, high.v1);
  const V16 r2 = Narrow(low.v2, high.v2);
  const V16 r3 = Narrow(low.v3, high.v3);
  // Pairs of columns, a row to a lane.
  const V16 a = Woven<int32_t, false>(r0, r1);
  const V16 b = Woven<int32_t, true>(r0, r1);
  const V16 e = Woven<int32_t, false>(r2, r3);
  const V16 f = Woven<int32_t, true>(r2, r3);
  const V16 c01 = Woven<int64_t, false>(a, e);
  const V16 c23 = Woven<int64_t, true>(a, e);
  const V16 c45 = Woven<int64_t, false>(b, f);
  const V16 c67 = Woven<int64_t, true>(b, f);
  const Rows4 columns = Butterflies4<kPass2ShiftOf4>(
      Dot<1 << (kConstBits + 1), 0>(c01),
      hn::Add(Dot<k1_847759065, 0>(c23), Dot<-k0_765366865, 0>(c67)),
      hn::Add(hn::Add(Dot<0, k1_061594337>(c01), Dot<0, -k2_172734803>(c23)),
              hn::Add(Dot<0, k1_451774981>(c45), Dot<0, -k0_211164243>(c67))),
      hn::Add(hn::Add(Dot<0, k2_562915447>(c01), Dot<0, k0_899976223>(c23)),
              hn::Add(Dot<0, -k0_601344887>(c45), Dot<0, -k0_509795579>(c67))));
  const V8 bytes =
      Narrow(Narrow(columns.v0, columns.v1), Narrow(columns.v2, columns.v3));
  const V8 samples = hn::Xor(bytes, hn::Set(D8(), static_cast<int8_t>(-128)));
  // Per block column after column of four rows: turned to rows.
  const hn::Repartition<uint8_t, D8> d;
  alignas(16) static constexpr uint8_t kRows[16] = {0, 4, 8,  12, 1, 5, 9,  13,
                                                    2, 6, 10, 14, 3, 7, 11, 15};
  constexpr size_t kBytes = hn::MaxLanes(d);
  alignas(32) uint8_t stored[kBytes];
  hn::Store(
      hn::TableLookupBytes(hn::BitCast(d, samples), hn::LoadDup128(d, kRows)),
      d, stored);
  for (size_t y = 0; y < 4; ++y, out += stride) {
    memcpy(out, stored + 4 * y, 4);
    if constexpr (kBoth) memcpy(out + 4, stored + 16 + 4 * y, 4);
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

#if HWY_TARGET == HWY_SCALAR
constexpr bool kTwoAtOnce = true;
#else
constexpr bool kTwoAtOnce = hn::MaxLanes(D16()) == DctPair::kRowStep;
#endif

template <int kSize>
HWY_INLINE void Flat(uint8_t sample, uint8_t* out, size_t stride) {
  for (int y = 0; y < kSize; ++y, out += stride) memset(out, sample, kSize);
}

// Both blocks of a pair, or its left one.
template <int kSize>
HWY_INLINE void Pair(const int16_t* c, const uint8_t* extents, const int16_t* q,
                     bool both, uint8_t* out, size_t stride) {
  if (kSize == 1 || (extents[0] | (both ? extents[1] : 0)) == 0) {
    Flat<kSize>(FlatSample(c, q), out, stride);
    if (both) {
      Flat<kSize>(FlatSample(c + kDctSize, q), out + kSize, stride);
    }
  } else if constexpr (kSize == 4) {
    if (!both) return BlocksOf4<false>(c, q, out, stride);
    if constexpr (kTwoAtOnce) return BlocksOf4<true>(c, q, out, stride);
    BlocksOf4<false>(c, q, out, stride);
    BlocksOf4<false>(c + kDctSize, q, out + kSize, stride);
  } else {
    OneBlockOf2(c, q, out, stride);
    if (both) OneBlockOf2(c + kDctSize, q, out + kSize, stride);
  }
}

template <int kSize>
void RowOf(DctPair* pairs, const uint8_t* extents, const DctPair& quantiser,
           int block_count, uint8_t* out, size_t stride) {
  for (int block = 0; block < block_count; block += 2, extents += 2, ++pairs) {
    Pair<kSize>(pairs->values.data(), extents, quantiser.values.data(),
                block + 1 < block_count, out, stride);
    *pairs = {};
    out += 2 * kSize;
  }
}

void ReducedDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int size, int block_count,
                   uint8_t* out, size_t stride) {
  switch (size) {
    case 4:
      return RowOf<4>(pairs, extents, quantiser, block_count, out, stride);
    case 2:
      return RowOf<2>(pairs, extents, quantiser, block_count, out, stride);
    default:
      return RowOf<1>(pairs, extents, quantiser, block_count, out, stride);
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(ReducedDctRow);

void ReducedDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int size, int block_count,
                   uint8_t* out, size_t stride_bytes) {
  PREPROCD_CHECK(size == 4 || size == 2 || size == 1);
  HWY_DYNAMIC_DISPATCH(ReducedDctRow)
  (pairs, extents, quantiser, size, block_count, out, stride_bytes);
}

}  // namespace preprocd
#endif  // HWY_ONCE
