#include "engine/masks/overlay_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/masks/overlay_kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// One lane cannot hold two 8-bit channels of 16 bits.
void Blend1(uint8_t color, uint32_t weight, uint8_t* p) {
  *p = static_cast<uint8_t>((color * weight + *p * (256 - weight) + 128) >> 8);
}

template <size_t kChannels>
void BlendScalar(const uint8_t* mask, const BlendColor& color, size_t n,
                 uint8_t* pixels) {
  for (size_t i = 0; i < n; ++i, pixels += kChannels) {
    if (mask[i] == 0) continue;
    for (size_t c = 0; c < kChannels; ++c) {
      Blend1(color.channels[c], color.weight, pixels + c);
    }
  }
}

void BlendPacked4(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  BlendScalar<4>(mask, color, n, pixels);
}
void BlendPacked3(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  BlendScalar<3>(mask, color, n, pixels);
}
void BlendPlane(const uint8_t* mask, const BlendColor& color, size_t n,
                uint8_t* pixels) {
  BlendScalar<1>(mask, color, n, pixels);
}

void BlendLogits4(const float* a, const float* b, const float* w, size_t rows,
                  const BlendColor& color, size_t n, size_t stride,
                  uint8_t* pixels) {
  for (size_t r = 0; r < rows; ++r, pixels += stride) {
    for (size_t i = 0; i < n; ++i) {
      const float v = w[r] == 0 ? a[i] : a[i] + w[r] * (b[i] - a[i]);
      const uint8_t mask = v > 0 ? 255 : 0;
      BlendScalar<4>(&mask, color, 1, pixels + 4 * i);
    }
  }
}
void BlendPairs(const uint8_t* counts, const BlendColor& color, size_t n,
                uint8_t* pairs) {
  for (size_t i = 0; i < n; ++i) {
    const uint32_t weight = (color.weight * counts[i] + 2u) >> 2;
    Blend1(color.channels[0], weight, pairs + 2 * i);
    Blend1(color.channels[1], weight, pairs + 2 * i + 1);
  }
}

#else

using D8 = hn::ScalableTag<uint8_t>;
using D16 = hn::Repartition<uint16_t, D8>;
using D32 = hn::Repartition<uint32_t, D8>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;

// colour * w + 128 for even and odd bytes, and 256 - w.
struct Weights {
  V16 even;
  V16 odd;
  V16 rest;
};

// The high bytes of two sums, put together.
HWY_INLINE V16 HighBytes(D16 d, V16 even, V16 odd) {
  return hn::Or(hn::ShiftRight<8>(even),
                hn::And(odd, hn::Set(d, uint16_t{0xff00})));
}

HWY_INLINE V8 BlendBytes(D8 d, V8 old, const Weights& w) {
  const D16 d16;
  const V16 pairs = hn::BitCast(d16, old);
  const V16 low = hn::And(pairs, hn::Set(d16, uint16_t{0xff}));
  const V16 high = hn::ShiftRight<8>(pairs);
  const V16 even = hn::Add(hn::Mul(low, w.rest), w.even);
  const V16 odd = hn::Add(hn::Mul(high, w.rest), w.odd);
  return hn::BitCast(d, HighBytes(d16, even, odd));
}

HWY_INLINE uint16_t Product(const BlendColor& color, size_t channel) {
  return static_cast<uint16_t>(color.channels[channel] * color.weight + 128);
}

HWY_INLINE Weights SameWeights(const BlendColor& color, size_t channel) {
  const D16 d;
  const V16 product = hn::Set(d, Product(color, channel));
  return {product, product,
          hn::Set(d, static_cast<uint16_t>(256 - color.weight))};
}

HWY_INLINE void Packed4Vector(D8 d, const uint8_t* mask, const Weights& w,
                              uint8_t* pixels) {
  const D32 d32;
  const hn::Rebind<uint8_t, D32> d_mask;
  const auto wide = hn::PromoteTo(d32, hn::LoadU(d_mask, mask));
  const auto on = hn::Ne(wide, hn::Zero(d32));
  const V8 old = hn::LoadU(d, pixels);
  const auto blended = hn::BitCast(d32, BlendBytes(d, old, w));
  hn::StoreU(hn::BitCast(d, hn::IfThenElse(on, blended, hn::BitCast(d32, old))),
             d, pixels);
}

HWY_INLINE Weights Packed4Weights(const BlendColor& color) {
  const D16 d16;
  const D32 d32;
  const auto pair = [&color](size_t c) {
    return static_cast<uint32_t>(Product(color, c)) |
           static_cast<uint32_t>(Product(color, c + 2)) << 16;
  };
  return {hn::BitCast(d16, hn::Set(d32, pair(0))),
          hn::BitCast(d16, hn::Set(d32, pair(1))),
          hn::Set(d16, static_cast<uint16_t>(256 - color.weight))};
}

// One vector of pixels where `on`.
HWY_INLINE void BlendWhere(D8 d8, hn::Mask<hn::ScalableTag<float> > on,
                           const Weights& weights, uint8_t* p) {
  const hn::ScalableTag<float> d;
  const D32 d32;
  if (hn::AllFalse(d, on)) return;
  const V8 old = hn::LoadU(d8, p);
  const auto blended = hn::BitCast(d32, BlendBytes(d8, old, weights));
  hn::StoreU(hn::BitCast(d8, hn::IfThenElse(hn::RebindMask(d32, on), blended,
                                            hn::BitCast(d32, old))),
             d8, p);
}

void BlendLogits4(const float* a, const float* b, const float* w, size_t rows,
                  const BlendColor& color, size_t n, size_t stride,
                  uint8_t* pixels) {
  const hn::ScalableTag<float> d;
  const D8 d8;
  const size_t lanes = hn::Lanes(d);
  const Weights weights = Packed4Weights(color);
  const auto zero = hn::Zero(d);
  // Pixels [i, i + lanes) of every row: neighbours above are alike, which
  // makes the skipping of empty vectors predictable.
  // A row of weight 0 comes alone: b is then not read.
  const bool one_row = w[0] == 0;
  // Pixels [i, i + lanes) of every row where `wanted`: neighbours above are
  // alike, which makes the skipping of empty vectors predictable.
  const auto column = [&](size_t i, hn::Mask<decltype(d)> wanted, uint8_t* p,
                          size_t step) HWY_ATTR {
    const auto low = hn::LoadU(d, a + i);
    const auto rise = one_row ? zero : hn::Sub(hn::LoadU(d, b + i), low);
    for (size_t r = 0; r < rows; ++r, p += step) {
      const auto v = hn::MulAdd(hn::Set(d, w[r]), rise, low);
      BlendWhere(d8, hn::And(wanted, hn::Gt(v, zero)), weights, p);
    }
  };
  const auto all = hn::FirstN(d, lanes);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) column(i, all, pixels + 4 * i, stride);
  if (i == n) return;
  if (n >= lanes) {
    // The last whole vector, without the pixels that were blended.
    const auto left = hn::Not(hn::FirstN(d, lanes - (n - i)));
    column(n - lanes, left, pixels + 4 * (n - lanes), stride);
    return;
  }
  const auto narrow = hn::FirstN(d, n);
  HWY_ALIGN uint8_t copy[hn::MaxLanes(D8())] = {};
  for (size_t r = 0; r < rows; ++r, pixels += stride) {
    std::memcpy(copy, pixels, 4 * n);
    const auto low = hn::LoadU(d, a);
    const auto rise = one_row ? zero : hn::Sub(hn::LoadU(d, b), low);
    const auto v = hn::MulAdd(hn::Set(d, w[r]), rise, low);
    BlendWhere(d8, hn::And(narrow, hn::Gt(v, zero)), weights, copy);
    std::memcpy(pixels, copy, 4 * n);
  }
}

void BlendPacked4(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  const D8 d;
  const D32 d32;
  const size_t lanes = hn::Lanes(d32);
  const Weights w = Packed4Weights(color);
  size_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    const V8 all = hn::LoadU(d, mask + i);
    if (hn::AllTrue(d, hn::Eq(all, hn::Zero(d)))) continue;
    for (size_t j = i; j < i + 4 * lanes; j += lanes) {
      Packed4Vector(d, mask + j, w, pixels + 4 * j);
    }
  }
  for (; i + lanes <= n; i += lanes) {
    Packed4Vector(d, mask + i, w, pixels + 4 * i);
  }
  if (i == n) return;
  HWY_ALIGN uint8_t tail[hn::MaxLanes(D8())] = {};
  HWY_ALIGN uint8_t tail_mask[hn::MaxLanes(D8())] = {};
  std::memcpy(tail, pixels + 4 * i, 4 * (n - i));
  std::memcpy(tail_mask, mask + i, n - i);
  Packed4Vector(d, tail_mask, w, tail);
  std::memcpy(pixels + 4 * i, tail, 4 * (n - i));
}

HWY_INLINE void Packed3Vector(D8 d, const uint8_t* mask, const Weights& w0,
                              const Weights& w1, const Weights& w2,
                              uint8_t* pixels) {
  const auto off = hn::Eq(hn::LoadU(d, mask), hn::Zero(d));
  if (hn::AllTrue(d, off)) return;
  V8 c0;
  V8 c1;
  V8 c2;
  hn::LoadInterleaved3(d, pixels, c0, c1, c2);
  c0 = hn::IfThenElse(off, c0, BlendBytes(d, c0, w0));
  c1 = hn::IfThenElse(off, c1, BlendBytes(d, c1, w1));
  c2 = hn::IfThenElse(off, c2, BlendBytes(d, c2, w2));
  hn::StoreInterleaved3(c0, c1, c2, d, pixels);
}

void BlendPacked3(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  const D8 d;
  const size_t lanes = hn::Lanes(d);
  const Weights w0 = SameWeights(color, 0);
  const Weights w1 = SameWeights(color, 1);
  const Weights w2 = SameWeights(color, 2);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    Packed3Vector(d, mask + i, w0, w1, w2, pixels + 3 * i);
  }
  if (i == n) return;
  HWY_ALIGN uint8_t tail[3 * hn::MaxLanes(D8())] = {};
  HWY_ALIGN uint8_t tail_mask[hn::MaxLanes(D8())] = {};
  std::memcpy(tail, pixels + 3 * i, 3 * (n - i));
  std::memcpy(tail_mask, mask + i, n - i);
  Packed3Vector(d, tail_mask, w0, w1, w2, tail);
  std::memcpy(pixels + 3 * i, tail, 3 * (n - i));
}

HWY_INLINE void PlaneVector(D8 d, const uint8_t* mask, const Weights& w,
                            uint8_t* pixels) {
  const auto off = hn::Eq(hn::LoadU(d, mask), hn::Zero(d));
  const V8 old = hn::LoadU(d, pixels);
  hn::StoreU(hn::IfThenElse(off, old, BlendBytes(d, old, w)), d, pixels);
}

void BlendPlane(const uint8_t* mask, const BlendColor& color, size_t n,
                uint8_t* pixels) {
  const D8 d;
  const size_t lanes = hn::Lanes(d);
  const Weights w = SameWeights(color, 0);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) PlaneVector(d, mask + i, w, pixels + i);
  if (i == n) return;
  HWY_ALIGN uint8_t tail[hn::MaxLanes(D8())] = {};
  HWY_ALIGN uint8_t tail_mask[hn::MaxLanes(D8())] = {};
  std::memcpy(tail, pixels + i, n - i);
  std::memcpy(tail_mask, mask + i, n - i);
  PlaneVector(d, tail_mask, w, tail);
  std::memcpy(pixels + i, tail, n - i);
}

HWY_INLINE void PairsVector(const uint8_t* counts, const BlendColor& color,
                            uint8_t* pairs) {
  const D8 d;
  const D16 d16;
  const V16 count =
      hn::PromoteTo(d16, hn::LoadU(hn::Rebind<uint8_t, D16>(), counts));
  const V16 w = hn::ShiftRight<2>(hn::Add(
      hn::Mul(count, hn::Set(d16, color.weight)), hn::Set(d16, uint16_t{2})));
  const V16 rest = hn::Sub(hn::Set(d16, uint16_t{256}), w);
  const V16 half = hn::Set(d16, uint16_t{128});
  const V16 old = hn::BitCast(d16, hn::LoadU(d, pairs));
  const V16 low = hn::And(old, hn::Set(d16, uint16_t{0xff}));
  const V16 high = hn::ShiftRight<8>(old);
  const V16 c0 = hn::Mul(w, hn::Set(d16, uint16_t{color.channels[0]}));
  const V16 c1 = hn::Mul(w, hn::Set(d16, uint16_t{color.channels[1]}));
  const V16 even = hn::Add(hn::Add(c0, half), hn::Mul(low, rest));
  const V16 odd = hn::Add(hn::Add(c1, half), hn::Mul(high, rest));
  hn::StoreU(hn::BitCast(d, HighBytes(d16, even, odd)), d, pairs);
}

void BlendPairs(const uint8_t* counts, const BlendColor& color, size_t n,
                uint8_t* pairs) {
  const size_t lanes = hn::Lanes(D16());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    PairsVector(counts + i, color, pairs + 2 * i);
  }
  if (i == n) return;
  HWY_ALIGN uint8_t tail[hn::MaxLanes(D8())] = {};
  HWY_ALIGN uint8_t tail_counts[hn::MaxLanes(D8())] = {};
  std::memcpy(tail, pairs + 2 * i, 2 * (n - i));
  std::memcpy(tail_counts, counts + i, n - i);
  PairsVector(tail_counts, color, tail);
  std::memcpy(pairs + 2 * i, tail, 2 * (n - i));
}

#endif  // HWY_TARGET == HWY_SCALAR

#if HWY_TARGET != HWY_SCALAR
// Pixels [x, x + 16), whose columns lie within 16, from a row of at least 16.
HWY_INLINE void PickSixteen(const GridColumns& columns, const uint8_t* row,
                            size_t size, int32_t left, size_t x, uint8_t* out) {
  const hn::FixedTag<uint8_t, 16> d;
  const hn::FixedTag<int8_t, 16> di;
  // Nothing behind the row is read.
  const int32_t first =
      std::min(columns.column[x] - left, static_cast<int32_t>(size) - 16);
  const auto index =
      hn::Sub(hn::LoadU(d, columns.low.data() + x),
              hn::Set(d, static_cast<uint8_t>((first + left) & 255)));
  const auto picked = hn::TableLookupBytes(hn::LoadU(d, row + first), index);
  const auto set = hn::Lt(hn::BitCast(di, picked), hn::Zero(di));
  hn::StoreU(hn::BitCast(d, hn::VecFromMask(di, set)), d, out);
}
#endif

void PickMaskRow(const GridColumns& columns, const uint8_t* row,
                 [[maybe_unused]] size_t size, int32_t left, size_t x, size_t n,
                 uint8_t* out) {
#if HWY_TARGET != HWY_SCALAR
  if (columns.narrow && size >= 16 && n >= 16) {
    for (size_t i = 0; i + 16 <= n; i += 16) {
      PickSixteen(columns, row, size, left, x + i, out + i);
    }
    PickSixteen(columns, row, size, left, x + n - 16, out + n - 16);
    return;
  }
#endif
  for (size_t i = 0; i < n; ++i) {
    out[i] = row[columns.column[x + i] - left] >= 128 ? 0xff : 0;
  }
}

void CountQuads(const uint8_t* HWY_RESTRICT top,
                const uint8_t* HWY_RESTRICT bottom, size_t n,
                uint8_t* HWY_RESTRICT counts) {
  for (size_t i = 0; i < n; ++i) {
    counts[i] =
        static_cast<uint8_t>((top[2 * i] & 1) + (top[2 * i + 1] & 1) +
                             (bottom[2 * i] & 1) + (bottom[2 * i + 1] & 1));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace preprocd {

HWY_EXPORT(BlendPacked4);
HWY_EXPORT(BlendLogits4);
HWY_EXPORT(BlendPacked3);
HWY_EXPORT(BlendPlane);
HWY_EXPORT(PickMaskRow);
HWY_EXPORT(CountQuads);
HWY_EXPORT(BlendPairs);

void BlendPacked4(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  HWY_DYNAMIC_DISPATCH(BlendPacked4)(mask, color, n, pixels);
}
void BlendPacked4(const float* a, const float* b, const float* w, size_t rows,
                  const BlendColor& color, size_t n, size_t stride,
                  uint8_t* pixels) {
  HWY_DYNAMIC_DISPATCH(BlendLogits4)
  (a, b, w, rows, color, n, stride, pixels);
}
void BlendPacked3(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels) {
  HWY_DYNAMIC_DISPATCH(BlendPacked3)(mask, color, n, pixels);
}
void BlendPlane(const uint8_t* mask, const BlendColor& color, size_t n,
                uint8_t* pixels) {
  HWY_DYNAMIC_DISPATCH(BlendPlane)(mask, color, n, pixels);
}
void GridColumns::Map(int width, int grid) {
  const auto n = static_cast<size_t>(width);
  column.resize(n);
  low.resize(n);
  narrow = true;
  for (size_t i = 0; i < n; ++i) {
    column[i] = static_cast<int32_t>((2 * static_cast<int64_t>(i) + 1) * grid /
                                     (2 * int64_t{width}));
    low[i] = static_cast<uint8_t>(column[i] & 255);
    narrow = narrow && (i < 15 || column[i] - column[i - 15] < 16);
  }
}

void PickMaskRow(const GridColumns& columns, const uint8_t* row,
                 [[maybe_unused]] size_t size, int32_t left, size_t x, size_t n,
                 uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PickMaskRow)(columns, row, size, left, x, n, out);
}
void CountQuads(const uint8_t* top, const uint8_t* bottom, size_t n,
                uint8_t* counts) {
  HWY_DYNAMIC_DISPATCH(CountQuads)(top, bottom, n, counts);
}
void BlendPairs(const uint8_t* counts, const BlendColor& color, size_t n,
                uint8_t* pairs) {
  HWY_DYNAMIC_DISPATCH(BlendPairs)(counts, color, n, pairs);
}

}  // namespace preprocd

#endif  // HWY_ONCE
