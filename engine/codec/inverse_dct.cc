#include "engine/codec/inverse_dct.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/codec/inverse_dct.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#include "engine/codec/vector_dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace {

constexpr int kConstBits = 13;
constexpr int kPass1Bits = 2;
constexpr int kPass1Shift = kConstBits - kPass1Bits;
constexpr int kPass2Shift = kConstBits + kPass1Bits + 3;

// Cosines times 2^13, rounded, as in jidctint.c.
constexpr int k0_298631336 = 2446;
constexpr int k0_390180644 = 3196;
constexpr int k0_541196100 = 4433;
constexpr int k0_765366865 = 6270;
constexpr int k0_899976223 = 7373;
constexpr int k1_175875602 = 9633;
constexpr int k1_501321110 = 12299;
constexpr int k1_847759065 = 15137;
constexpr int k1_961570560 = 16069;
constexpr int k2_053119869 = 16819;
constexpr int k2_562915447 = 20995;
constexpr int k3_072711026 = 25172;

#if HWY_TARGET == HWY_SCALAR

int16_t Wrap(int value) { return static_cast<int16_t>(value); }

int16_t Saturate(int value) {
  return static_cast<int16_t>(std::clamp(value, -32768, 32767));
}

// One pass over eight values that lie `step` apart.
template <int kShift>
void Pass(int16_t* v, size_t step) {
  const auto in = [&](size_t i) { return int{v[i * step]}; };
  const int tmp2 = in(2) * k0_541196100 + in(6) * (k0_541196100 - k1_847759065);
  const int tmp3 = in(2) * (k0_541196100 + k0_765366865) + in(6) * k0_541196100;
  const int tmp0 = Wrap(in(0) + in(4)) * (1 << kConstBits);
  const int tmp1 = Wrap(in(0) - in(4)) * (1 << kConstBits);
  const int sum73 = Wrap(in(7) + in(3));
  const int sum51 = Wrap(in(5) + in(1));
  const int z3 = sum73 * (k1_175875602 - k1_961570560) + sum51 * k1_175875602;
  const int z4 = sum73 * k1_175875602 + sum51 * (k1_175875602 - k0_390180644);
  const int odd[4] = {
      in(7) * (k0_298631336 - k0_899976223) - in(1) * k0_899976223,
      in(5) * (k2_053119869 - k2_562915447) - in(3) * k2_562915447,
      in(3) * (k3_072711026 - k2_562915447) - in(5) * k2_562915447,
      in(1) * (k1_501321110 - k0_899976223) - in(7) * k0_899976223};
  const int even[4] = {tmp0 + tmp3, tmp1 + tmp2, tmp1 - tmp2, tmp0 - tmp3};
  const int z[4] = {z3, z4, z3, z4};
  // In 64 bits: sums of values that no encoder writes wrap.
  const auto finish = [](int64_t sum) {
    const auto wrapped = static_cast<int32_t>(sum + (1 << (kShift - 1)));
    return Saturate(wrapped >> kShift);
  };
  for (size_t i = 0; i < 4; ++i) {
    const int64_t other = int64_t{odd[3 - i]} + z[3 - i];
    v[i * step] = finish(even[i] + other);
    v[(7 - i) * step] = finish(even[i] - other);
  }
}

void OneBlock(int16_t* c, const int16_t* q, uint8_t* out, size_t stride) {
  int16_t block[kDctCoefficients];
  bool others = false;
  for (size_t i = 0; i < kDctCoefficients; ++i) {
    const size_t at = i / kDctSize * DctPair::kRowStep + i % kDctSize;
    others |= i >= kDctSize && c[at] != 0;
    block[i] = Wrap(c[at] * q[at]);
    c[at] = 0;
  }
  for (size_t x = 0; x < kDctSize; ++x) {
    // See WrapFirstRow.
    if (!others) block[x] = Wrap(Wrap(block[x] * 4) >> kPass1Bits);
    Pass<kPass1Shift>(block + x, kDctSize);
  }
  for (size_t y = 0; y < kDctSize; ++y, out += stride) {
    int16_t* row = block + y * kDctSize;
    Pass<kPass2Shift>(row, 1);
    for (size_t x = 0; x < kDctSize; ++x) {
      out[x] = static_cast<uint8_t>(std::clamp<int>(row[x], -128, 127) + 128);
    }
  }
}

void InverseDctRow(DctPair* pairs, const uint8_t*, const DctPair& quantiser,
                   int block_count, uint8_t* out, size_t stride) {
  for (int block = 0; block < block_count; ++block, out += kDctSize) {
    const size_t lane = block % 2 == 0 ? 0 : kDctSize;
    OneBlock(pairs[block / 2].values.data() + lane, quantiser.values.data(),
             out, stride);
  }
  if (block_count % 2 != 0) pairs[block_count / 2] = {};
}

#else  // HWY_TARGET == HWY_SCALAR

// A vector holds one row of both blocks, or of one where it has 8 lanes only.
static_assert(DctPair::kRowStep == 16);

struct Eight32 {
  V32 v0, v1, v2, v3, v4, v5, v6, v7;
};

struct Eight16 {
  V16 v0, v1, v2, v3, v4, v5, v6, v7;
};

struct Four16 {
  V16 v0, v1, v2, v3;
};

// x * 2^13 of the lower or upper halves.
template <bool kUpper>
HWY_INLINE V32 Scaled(V16 x) {
  const V16 zero = hn::Zero(D16());
  const V16 high = kUpper ? hn::InterleaveUpper(D16(), zero, x)
                          : hn::InterleaveLower(D16(), zero, x);
  return hn::ShiftRight<16 - kConstBits>(hn::BitCast(D32(), high));
}

template <bool kUpper>
HWY_INLINE V16 Pairs(V16 a, V16 b) {
  return kUpper ? hn::InterleaveUpper(D16(), a, b)
                : hn::InterleaveLower(D16(), a, b);
}

template <int kShift>
HWY_INLINE Eight32 Butterflies(V32 even0, V32 even1, V32 even2, V32 even3,
                               V32 odd0, V32 odd1, V32 odd2, V32 odd3) {
  const V32 round = hn::Set(D32(), 1 << (kShift - 1));
  const V32 e0 = hn::Add(even0, round);
  const V32 e1 = hn::Add(even1, round);
  const V32 e2 = hn::Add(even2, round);
  const V32 e3 = hn::Add(even3, round);
  return {hn::ShiftRight<kShift>(hn::Add(e0, odd3)),
          hn::ShiftRight<kShift>(hn::Add(e1, odd2)),
          hn::ShiftRight<kShift>(hn::Add(e2, odd1)),
          hn::ShiftRight<kShift>(hn::Add(e3, odd0)),
          hn::ShiftRight<kShift>(hn::Sub(e3, odd0)),
          hn::ShiftRight<kShift>(hn::Sub(e2, odd1)),
          hn::ShiftRight<kShift>(hn::Sub(e1, odd2)),
          hn::ShiftRight<kShift>(hn::Sub(e0, odd3))};
}

// One pass over half of the lanes. Names follow jidctint.c.
template <int kShift, bool kUpper>
HWY_INLINE Eight32 PassOfEight(const Eight16& in) {
  const V16 z23 = Pairs<kUpper>(in.v2, in.v6);
  const V32 tmp2 = Dot<k0_541196100, k0_541196100 - k1_847759065>(z23);
  const V32 tmp3 = Dot<k0_541196100 + k0_765366865, k0_541196100>(z23);
  const V32 tmp0 = Scaled<kUpper>(hn::Add(in.v0, in.v4));
  const V32 tmp1 = Scaled<kUpper>(hn::Sub(in.v0, in.v4));
  const V16 z34 = Pairs<kUpper>(hn::Add(in.v7, in.v3), hn::Add(in.v5, in.v1));
  const V32 z3 = Dot<k1_175875602 - k1_961570560, k1_175875602>(z34);
  const V32 z4 = Dot<k1_175875602, k1_175875602 - k0_390180644>(z34);
  const V16 odd71 = Pairs<kUpper>(in.v7, in.v1);
  const V16 odd53 = Pairs<kUpper>(in.v5, in.v3);
  const V32 odd0 =
      hn::Add(Dot<k0_298631336 - k0_899976223, -k0_899976223>(odd71), z3);
  const V32 odd1 =
      hn::Add(Dot<k2_053119869 - k2_562915447, -k2_562915447>(odd53), z4);
  const V32 odd2 =
      hn::Add(Dot<-k2_562915447, k3_072711026 - k2_562915447>(odd53), z3);
  const V32 odd3 =
      hn::Add(Dot<-k0_899976223, k1_501321110 - k0_899976223>(odd71), z4);
  return Butterflies<kShift>(hn::Add(tmp0, tmp3), hn::Add(tmp1, tmp2),
                             hn::Sub(tmp1, tmp2), hn::Sub(tmp0, tmp3), odd0,
                             odd1, odd2, odd3);
}

// The same where inputs 4 to 7 are zero.
template <int kShift, bool kUpper>
HWY_INLINE Eight32 PassOfFour(const Four16& in) {
  const V16 z23 = Pairs<kUpper>(in.v2, in.v2);
  const V32 tmp2 = Dot<k0_541196100, 0>(z23);
  const V32 tmp3 = Dot<k0_541196100 + k0_765366865, 0>(z23);
  const V32 tmp0 = Scaled<kUpper>(in.v0);
  const V16 odd31 = Pairs<kUpper>(in.v3, in.v1);
  const V32 odd0 =
      Dot<k1_175875602 - k1_961570560, k1_175875602 - k0_899976223>(odd31);
  const V32 odd1 =
      Dot<k1_175875602 - k2_562915447, k1_175875602 - k0_390180644>(odd31);
  const V32 odd2 =
      Dot<k3_072711026 - k2_562915447 + k1_175875602 - k1_961570560,
          k1_175875602>(odd31);
  const V32 odd3 = Dot<k1_175875602, k1_501321110 - k0_899976223 +
                                         k1_175875602 - k0_390180644>(odd31);
  return Butterflies<kShift>(hn::Add(tmp0, tmp3), hn::Add(tmp0, tmp2),
                             hn::Sub(tmp0, tmp2), hn::Sub(tmp0, tmp3), odd0,
                             odd1, odd2, odd3);
}

HWY_INLINE Eight16 NarrowAll(const Eight32& lower, const Eight32& upper) {
  return {Narrow(lower.v0, upper.v0), Narrow(lower.v1, upper.v1),
          Narrow(lower.v2, upper.v2), Narrow(lower.v3, upper.v3),
          Narrow(lower.v4, upper.v4), Narrow(lower.v5, upper.v5),
          Narrow(lower.v6, upper.v6), Narrow(lower.v7, upper.v7)};
}

template <class T>
HWY_INLINE V16 LowerAs(V16 a, V16 b) {
  const hn::Repartition<T, D16> d;
  return hn::BitCast(
      D16(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

template <class T>
HWY_INLINE V16 UpperAs(V16 a, V16 b) {
  const hn::Repartition<T, D16> d;
  return hn::BitCast(
      D16(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

HWY_INLINE Eight16 Transposed(const Eight16& r) {
  const V16 a0 = LowerAs<int16_t>(r.v0, r.v1);
  const V16 a1 = UpperAs<int16_t>(r.v0, r.v1);
  const V16 a2 = LowerAs<int16_t>(r.v2, r.v3);
  const V16 a3 = UpperAs<int16_t>(r.v2, r.v3);
  const V16 a4 = LowerAs<int16_t>(r.v4, r.v5);
  const V16 a5 = UpperAs<int16_t>(r.v4, r.v5);
  const V16 a6 = LowerAs<int16_t>(r.v6, r.v7);
  const V16 a7 = UpperAs<int16_t>(r.v6, r.v7);
  const V16 b0 = LowerAs<int32_t>(a0, a2);
  const V16 b1 = UpperAs<int32_t>(a0, a2);
  const V16 b2 = LowerAs<int32_t>(a1, a3);
  const V16 b3 = UpperAs<int32_t>(a1, a3);
  const V16 b4 = LowerAs<int32_t>(a4, a6);
  const V16 b5 = UpperAs<int32_t>(a4, a6);
  const V16 b6 = LowerAs<int32_t>(a5, a7);
  const V16 b7 = UpperAs<int32_t>(a5, a7);
  return {LowerAs<int64_t>(b0, b4), UpperAs<int64_t>(b0, b4),
          LowerAs<int64_t>(b1, b5), UpperAs<int64_t>(b1, b5),
          LowerAs<int64_t>(b2, b6), UpperAs<int64_t>(b2, b6),
          LowerAs<int64_t>(b3, b7), UpperAs<int64_t>(b3, b7)};
}

// Eight rows of four columns (lower lanes of 32 bits) to four columns.
HWY_INLINE Four16 TransposedLeft(const Eight32& r) {
  const V16 q0 = Narrow(r.v0, r.v4);
  const V16 q1 = Narrow(r.v1, r.v5);
  const V16 q2 = Narrow(r.v2, r.v6);
  const V16 q3 = Narrow(r.v3, r.v7);
  const V16 a = LowerAs<int16_t>(q0, q1);
  const V16 b = UpperAs<int16_t>(q0, q1);
  const V16 c = LowerAs<int16_t>(q2, q3);
  const V16 d = UpperAs<int16_t>(q2, q3);
  const V16 e = LowerAs<int32_t>(a, c);
  const V16 f = UpperAs<int32_t>(a, c);
  const V16 g = LowerAs<int32_t>(b, d);
  const V16 h = UpperAs<int32_t>(b, d);
  return {LowerAs<int64_t>(e, g), UpperAs<int64_t>(e, g),
          LowerAs<int64_t>(f, h), UpperAs<int64_t>(f, h)};
}

template <class T>
HWY_INLINE V8 LowerAs(V8 a, V8 b) {
  const hn::Repartition<T, D8> d;
  return hn::BitCast(
      D8(), hn::InterleaveLower(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

template <class T>
HWY_INLINE V8 UpperAs(V8 a, V8 b) {
  const hn::Repartition<T, D8> d;
  return hn::BitCast(
      D8(), hn::InterleaveUpper(d, hn::BitCast(d, a), hn::BitCast(d, b)));
}

// Two rows of each block: 8 samples of the first row, 8 of the second.
template <bool kBoth>
HWY_INLINE void StoreRows(V8 rows, uint8_t* first, uint8_t* second) {
  const hn::Repartition<uint64_t, D8> d64;
  const auto samples =
      hn::BitCast(d64, hn::Xor(rows, hn::Set(D8(), static_cast<int8_t>(-128))));
  if constexpr (kBoth && hn::MaxLanes(d64) == 4) {
    // Rows of both blocks beside each other.
    const auto ordered = hn::ConcatEven(d64, samples, samples);
    const auto others = hn::ConcatOdd(d64, samples, samples);
    const hn::Half<hn::Repartition<uint8_t, D8> > half;
    const hn::Repartition<uint8_t, D8> d8;
    hn::StoreU(hn::LowerHalf(half, hn::BitCast(d8, ordered)), half, first);
    hn::StoreU(hn::LowerHalf(half, hn::BitCast(d8, others)), half, second);
  } else {
    const uint64_t row0 = hn::ExtractLane(samples, 0);
    const uint64_t row1 = hn::ExtractLane(samples, 1);
    memcpy(first, &row0, sizeof(row0));
    memcpy(second, &row1, sizeof(row1));
  }
}

// Columns of samples (rows in lanes) to rows in memory.
template <bool kBoth>
HWY_INLINE void StoreBlocks(const Eight16& c, uint8_t* out, size_t stride) {
  const V8 p04 = Narrow(c.v0, c.v4);
  const V8 p15 = Narrow(c.v1, c.v5);
  const V8 p26 = Narrow(c.v2, c.v6);
  const V8 p37 = Narrow(c.v3, c.v7);
  const V8 q01 = LowerAs<int8_t>(p04, p15);
  const V8 q45 = UpperAs<int8_t>(p04, p15);
  const V8 q23 = LowerAs<int8_t>(p26, p37);
  const V8 q67 = UpperAs<int8_t>(p26, p37);
  const V8 left_top = LowerAs<int16_t>(q01, q23);
  const V8 left_bottom = UpperAs<int16_t>(q01, q23);
  const V8 right_top = LowerAs<int16_t>(q45, q67);
  const V8 right_bottom = UpperAs<int16_t>(q45, q67);
  StoreRows<kBoth>(LowerAs<int32_t>(left_top, right_top), out, out + stride);
  StoreRows<kBoth>(UpperAs<int32_t>(left_top, right_top), out + 2 * stride,
                   out + 3 * stride);
  StoreRows<kBoth>(LowerAs<int32_t>(left_bottom, right_bottom),
                   out + 4 * stride, out + 5 * stride);
  StoreRows<kBoth>(UpperAs<int32_t>(left_bottom, right_bottom),
                   out + 6 * stride, out + 7 * stride);
}

// Dequantised row; the coefficients are zero afterwards.
HWY_INLINE V16 Take(int16_t* row, const int16_t* quantiser) {
  const D16 d;
  const V16 value = hn::Mul(hn::Load(d, row), hn::Load(d, quantiser));
  hn::Store(hn::Zero(d), d, row);
  return value;
}

// The library shifts the first row where the others hold nothing, and lets
// the product wrap; elsewhere it saturates. Only values that no encoder
// writes show it.
HWY_NOINLINE V16 WrapFirstRow(V16 row, const int16_t* coefficients) {
  const D16 d;
  constexpr size_t kLanes = hn::MaxLanes(D16());
  alignas(32) int16_t values[kLanes];
  hn::Store(row, d, values);
  for (size_t block = 0; block < kLanes; block += kDctSize) {
    bool others = false;
    for (size_t y = 1; y < kDctSize; ++y) {
      for (size_t x = 0; x < kDctSize; ++x) {
        others |= coefficients[y * DctPair::kRowStep + block + x] != 0;
      }
    }
    for (size_t x = block; x < block + kDctSize && !others; ++x) {
      const auto shifted = static_cast<int16_t>(static_cast<uint16_t>(
          static_cast<uint16_t>(values[x]) << kPass1Bits));
      values[x] = static_cast<int16_t>(shifted >> kPass1Bits);
    }
  }
  return hn::Load(d, values);
}

HWY_INLINE V16 TakeFirst(int16_t* row, const int16_t* quantiser) {
  const D16 d;
  const V16 value = hn::Mul(hn::Load(d, row), hn::Load(d, quantiser));
  const V16 back = hn::ShiftRight<kPass1Bits>(hn::ShiftLeft<kPass1Bits>(value));
  const V16 fixed = HWY_LIKELY(hn::AllTrue(d, hn::Eq(back, value)))
                        ? value
                        : WrapFirstRow(value, row);
  hn::Store(hn::Zero(d), d, row);
  return fixed;
}

template <bool kBoth>
HWY_INLINE void FullBlocks(int16_t* c, const int16_t* q, uint8_t* out,
                           size_t stride) {
  constexpr int kStep = DctPair::kRowStep;
  const Eight16 in = {TakeFirst(c, q),
                      Take(c + kStep, q + kStep),
                      Take(c + 2 * kStep, q + 2 * kStep),
                      Take(c + 3 * kStep, q + 3 * kStep),
                      Take(c + 4 * kStep, q + 4 * kStep),
                      Take(c + 5 * kStep, q + 5 * kStep),
                      Take(c + 6 * kStep, q + 6 * kStep),
                      Take(c + 7 * kStep, q + 7 * kStep)};
  const Eight16 columns = Transposed(NarrowAll(
      PassOfEight<kPass1Shift, false>(in), PassOfEight<kPass1Shift, true>(in)));
  StoreBlocks<kBoth>(NarrowAll(PassOfEight<kPass2Shift, false>(columns),
                               PassOfEight<kPass2Shift, true>(columns)),
                     out, stride);
}

// Where only the top left 4x4 coefficients are set.
template <bool kBoth>
HWY_INLINE void QuarterBlocks(int16_t* c, const int16_t* q, uint8_t* out,
                              size_t stride) {
  constexpr int kStep = DctPair::kRowStep;
  const Four16 in = {TakeFirst(c, q), Take(c + kStep, q + kStep),
                     Take(c + 2 * kStep, q + 2 * kStep),
                     Take(c + 3 * kStep, q + 3 * kStep)};
  const Four16 columns = TransposedLeft(PassOfFour<kPass1Shift, false>(in));
  StoreBlocks<kBoth>(NarrowAll(PassOfFour<kPass2Shift, false>(columns),
                               PassOfFour<kPass2Shift, true>(columns)),
                     out, stride);
}

// A block without AC coefficients is one colour.
HWY_INLINE uint8_t FlatSample(int16_t dc, int16_t quantiser) {
  const auto product = static_cast<uint16_t>(
      static_cast<uint32_t>(uint16_t(dc)) * uint16_t(quantiser));
  const auto scaled =
      static_cast<int16_t>(static_cast<uint16_t>(product << kPass1Bits));
  constexpr int kShift = kPass1Bits + 3;
  const int sample = (scaled + (1 << (kShift - 1))) >> kShift;
  return static_cast<uint8_t>(std::clamp(sample, -128, 127) + 128);
}

template <bool kBoth>
HWY_INLINE void FlatBlocks(int16_t* c, const int16_t* q, uint8_t* out,
                           size_t stride) {
  constexpr uint64_t kOnes = 0x0101010101010101;
  uint64_t samples[2] = {kOnes * FlatSample(c[0], q[0]), 0};
  c[0] = 0;
  if constexpr (kBoth) {
    samples[1] = kOnes * FlatSample(c[kDctSize], q[kDctSize]);
    c[kDctSize] = 0;
  }
  for (int y = 0; y < kDctSize; ++y, out += stride) {
    memcpy(out, samples, kBoth ? 16 : 8);
  }
}

// Zigzag positions up to 9 lie in the top left 4x4.
constexpr int kQuarterExtent = 9;

// `kBoth`: the blocks of a vector are both written.
template <bool kBoth>
HWY_INLINE void Blocks(int16_t* c, int extent, const int16_t* q, uint8_t* out,
                       size_t stride) {
  if (extent > kQuarterExtent) {
    FullBlocks<kBoth>(c, q, out, stride);
  } else {
    QuarterBlocks<kBoth>(c, q, out, stride);
  }
}

void InverseDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int block_count, uint8_t* out,
                   size_t stride) {
  constexpr bool kTwoAtOnce = hn::MaxLanes(D16()) == DctPair::kRowStep;
  const int16_t* q = quantiser.values.data();
  int block = 0;
  for (; block + 2 <= block_count; block += 2, extents += 2, ++pairs) {
    int16_t* c = pairs->values.data();
    const int left = extents[0];
    const int right = extents[1];
    if ((left | right) == 0) {
      FlatBlocks<true>(c, q, out, stride);
    } else if constexpr (kTwoAtOnce) {
      Blocks<true>(c, std::max(left, right), q, out, stride);
    } else {
      Blocks<false>(c, left, q, out, stride);
      Blocks<false>(c + kDctSize, right, q, out + kDctSize, stride);
    }
    out += 2 * kDctSize;
  }
  if (block < block_count) {
    int16_t* c = pairs->values.data();
    Blocks<false>(c, extents[0], q, out, stride);
    *pairs = {};
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(InverseDctRow);

DctPair MakeQuantiser(const std::array<uint16_t, kDctCoefficients>& zigzag) {
  DctPair pair;
  for (size_t k = 0; k < kDctCoefficients; ++k) {
    const size_t natural = kZigzagToNatural[k];
    const size_t at =
        natural / kDctSize * DctPair::kRowStep + natural % kDctSize;
    pair.values[at] = pair.values[at + kDctSize] =
        static_cast<int16_t>(zigzag[k]);
  }
  return pair;
}

void InverseDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int block_count, uint8_t* out,
                   size_t stride_bytes) {
  HWY_DYNAMIC_DISPATCH(InverseDctRow)
  (pairs, extents, quantiser, block_count, out, stride_bytes);
}

}  // namespace preprocd
#endif  // HWY_ONCE
