#include "engine/masks/mask_kernels.h"

#include <algorithm>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/masks/mask_kernels.cc"
#include "hwy/foreach_target.h"
// foreach_target.h comes first.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

HWY_INLINE V LoadFloats(D d, const float* p) { return hn::LoadU(d, p); }
HWY_INLINE V LoadFloats(D d, const hwy::float16_t* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
}
HWY_INLINE V LoadFloats(D d, const int8_t* p) {
  const hn::RebindToSigned<D> di32;
  return hn::ConvertTo(
      d, hn::PromoteTo(di32, hn::LoadU(hn::Rebind<int8_t, D>(), p)));
}

HWY_INLINE float ToFloat(float v) { return v; }
HWY_INLINE float ToFloat(hwy::float16_t v) {
  uint16_t bits = 0;
  std::memcpy(&bits, &v, sizeof(bits));
  return HalfToFloat(bits);
}
HWY_INLINE float ToFloat(int8_t v) { return v; }

// One vector of logits at pixel `at` of a plane-major tensor.
template <typename T>
HWY_INLINE V PlaneLogits(D d, const T* data, size_t plane, int channels,
                         const FoldedCoefficients& mask, size_t at) {
  // Two sums hide the latency of the multiply-adds.
  V even = hn::Set(d, mask.bias);
  V odd = hn::Zero(d);
  int k = 0;
  for (; k + 2 <= channels; k += 2) {
    const T* p = data + static_cast<size_t>(k) * plane + at;
    even = hn::MulAdd(hn::Set(d, mask.values[k]), LoadFloats(d, p), even);
    odd = hn::MulAdd(hn::Set(d, mask.values[k + 1]), LoadFloats(d, p + plane),
                     odd);
  }
  if (k < channels) {
    even = hn::MulAdd(hn::Set(d, mask.values[k]),
                      LoadFloats(d, data + static_cast<size_t>(k) * plane + at),
                      even);
  }
  return hn::Mul(hn::Add(even, odd), hn::Set(d, mask.scale));
}

template <typename T>
void PlaneRow(const T* data, size_t plane, int channels,
              const FoldedCoefficients& mask, size_t first, size_t n,
              float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  if (plane < lanes) {
    for (size_t i = 0; i < n; ++i) {
      float sum = mask.bias;
      for (int k = 0; k < channels; ++k) {
        sum += mask.values[k] *
               ToFloat(data[static_cast<size_t>(k) * plane + first + i]);
      }
      out[i] = sum * mask.scale;
    }
    return;
  }
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(PlaneLogits(d, data, plane, channels, mask, first + i), d,
               out + i);
  }
  if (i == n) return;
  // The last vector starts earlier rather than reading past the plane.
  const size_t at = std::min(first + i, plane - lanes);
  HWY_ALIGN float tail[hn::MaxLanes(D())];
  hn::Store(PlaneLogits(d, data, plane, channels, mask, at), d, tail);
  std::memcpy(out + i, tail + (first + i - at), (n - i) * sizeof(float));
}

template <typename T>
HWY_INLINE float PixelLogit(D d, const T* p, int channels,
                            const FoldedCoefficients& mask) {
  const int lanes = static_cast<int>(hn::Lanes(d));
  V sum = hn::Zero(d);
  int k = 0;
  for (; k + lanes <= channels; k += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, mask.values + k), LoadFloats(d, p + k), sum);
  }
  float total = mask.bias;
  if (k > 0) total += hn::GetLane(hn::SumOfLanes(d, sum));
  for (; k < channels; ++k) total += mask.values[k] * ToFloat(p[k]);
  return total * mask.scale;
}

template <typename T>
void PixelRow(const T* data, int channels, const FoldedCoefficients& mask,
              size_t first, size_t n, float* out) {
  const D d;
  const T* p = data + first * static_cast<size_t>(channels);
  for (size_t i = 0; i < n; ++i, p += channels) {
    out[i] = PixelLogit(d, p, channels, mask);
  }
}

template <typename T>
void LogitRowOf(const PrototypeTensor& prototypes,
                const FoldedCoefficients& mask, size_t first, size_t n,
                float* out) {
  const T* data = reinterpret_cast<const T*>(prototypes.data);
  if (prototypes.channels_first) {
    const size_t plane = static_cast<size_t>(prototypes.height) *
                         static_cast<size_t>(prototypes.width);
    PlaneRow(data, plane, prototypes.channels, mask, first, n, out);
  } else {
    PixelRow(data, prototypes.channels, mask, first, n, out);
  }
}

void LogitRow(const PrototypeTensor& prototypes, const FoldedCoefficients& mask,
              size_t first, size_t n, float* out) {
  switch (prototypes.dtype) {
    case DType::kF16:
      return LogitRowOf<hwy::float16_t>(prototypes, mask, first, n, out);
    case DType::kI8:
      return LogitRowOf<int8_t>(prototypes, mask, first, n, out);
    default:
      return LogitRowOf<float>(prototypes, mask, first, n, out);
  }
}

#if HWY_TARGET != HWY_SCALAR
using D4 = hn::FixedTag<float, 4>;
HWY_INLINE hn::Vec<D4> LoadFour(const float* p) { return hn::LoadU(D4(), p); }
HWY_INLINE hn::Vec<D4> LoadFour(const hwy::float16_t* p) {
  return hn::PromoteTo(D4(), hn::LoadU(hn::FixedTag<hwy::float16_t, 4>(), p));
}
HWY_INLINE hn::Vec<D4> LoadFour(const int8_t* p) {
  return hn::ConvertTo(D4(),
                       hn::PromoteTo(hn::FixedTag<int32_t, 4>(),
                                     hn::LoadU(hn::FixedTag<int8_t, 4>(), p)));
}

// Four channels of four pixels, which lie `channels` elements apart.
template <typename T>
HWY_INLINE void TransposeFour(const T* p, size_t channels, size_t stride,
                              float* out) {
  const D4 d;
  const hn::RepartitionToWide<D4> d64;
  const auto p0 = LoadFour(p);
  const auto p1 = LoadFour(p + channels);
  const auto p2 = LoadFour(p + 2 * channels);
  const auto p3 = LoadFour(p + 3 * channels);
  const auto a = hn::BitCast(d64, hn::InterleaveLower(d, p0, p1));
  const auto b = hn::BitCast(d64, hn::InterleaveLower(d, p2, p3));
  const auto e = hn::BitCast(d64, hn::InterleaveUpper(d, p0, p1));
  const auto f = hn::BitCast(d64, hn::InterleaveUpper(d, p2, p3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, a, b)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, a, b)), d, out + stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d64, e, f)), d,
             out + 2 * stride);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d64, e, f)), d,
             out + 3 * stride);
}
#endif

// n pixels of `channels` elements: channel k's at out[k * stride].
template <typename T>
void PackPixels(const T* data, size_t channels, size_t n, size_t stride,
                float* out) {
  size_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; i + 4 <= n; i += 4) {
    const T* p = data + i * channels;
    size_t k = 0;
    for (; k + 4 <= channels; k += 4) {
      TransposeFour(p + k, channels, stride, out + k * stride + i);
    }
    for (; k < channels; ++k) {
      for (size_t j = 0; j < 4; ++j) {
        out[k * stride + i + j] = ToFloat(p[j * channels + k]);
      }
    }
  }
#endif
  for (; i < n; ++i) {
    const T* p = data + i * channels;
    for (size_t k = 0; k < channels; ++k) out[k * stride + i] = ToFloat(p[k]);
  }
}

template <typename T>
void PackOf(const PrototypeTensor& prototypes, size_t first, size_t n,
            size_t stride, float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const T* data = reinterpret_cast<const T*>(prototypes.data);
  const size_t channels = static_cast<size_t>(prototypes.channels);
  if (!prototypes.channels_first) {
    PackPixels(data + first * channels, channels, n, stride, out);
    return;
  }
  const size_t plane = static_cast<size_t>(prototypes.height) *
                       static_cast<size_t>(prototypes.width);
  for (size_t k = 0; k < channels; ++k) {
    const T* p = data + k * plane + first;
    float* to = out + k * stride;
    size_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      hn::StoreU(LoadFloats(d, p + i), d, to + i);
    }
    for (; i < n; ++i) to[i] = ToFloat(p[i]);
  }
}

void PackPrototypes(const PrototypeTensor& prototypes, size_t first, size_t n,
                    size_t stride, float* out) {
  switch (prototypes.dtype) {
    case DType::kF16:
      return PackOf<hwy::float16_t>(prototypes, first, n, stride, out);
    case DType::kI8:
      return PackOf<int8_t>(prototypes, first, n, stride, out);
    default:
      return PackOf<float>(prototypes, first, n, stride, out);
  }
}

// Four masks times two vectors: eight sums fit the registers of AVX2.
HWY_INLINE void FourRows(D d, const float* packed, size_t stride, int channels,
                         const FoldedCoefficients* m, size_t i, float* out) {
  const size_t lanes = hn::Lanes(d);
  V a0 = hn::Set(d, m[0].bias);
  V a1 = hn::Set(d, m[1].bias);
  V a2 = hn::Set(d, m[2].bias);
  V a3 = hn::Set(d, m[3].bias);
  V b0 = a0;
  V b1 = a1;
  V b2 = a2;
  V b3 = a3;
  const float* p = packed + i;
  for (int k = 0; k < channels; ++k, p += stride) {
    const V a = hn::LoadU(d, p);
    const V b = hn::LoadU(d, p + lanes);
    const V c0 = hn::Set(d, m[0].values[k]);
    a0 = hn::MulAdd(c0, a, a0);
    b0 = hn::MulAdd(c0, b, b0);
    const V c1 = hn::Set(d, m[1].values[k]);
    a1 = hn::MulAdd(c1, a, a1);
    b1 = hn::MulAdd(c1, b, b1);
    const V c2 = hn::Set(d, m[2].values[k]);
    a2 = hn::MulAdd(c2, a, a2);
    b2 = hn::MulAdd(c2, b, b2);
    const V c3 = hn::Set(d, m[3].values[k]);
    a3 = hn::MulAdd(c3, a, a3);
    b3 = hn::MulAdd(c3, b, b3);
  }
  // All rows of a block have the same scale.
  const V scale = hn::Set(d, m[0].scale);
  float* to = out + i;
  hn::StoreU(hn::Mul(a0, scale), d, to);
  hn::StoreU(hn::Mul(b0, scale), d, to + lanes);
  hn::StoreU(hn::Mul(a1, scale), d, to + stride);
  hn::StoreU(hn::Mul(b1, scale), d, to + stride + lanes);
  hn::StoreU(hn::Mul(a2, scale), d, to + 2 * stride);
  hn::StoreU(hn::Mul(b2, scale), d, to + 2 * stride + lanes);
  hn::StoreU(hn::Mul(a3, scale), d, to + 3 * stride);
  hn::StoreU(hn::Mul(b3, scale), d, to + 3 * stride + lanes);
}

HWY_INLINE void OneRow(D d, const float* packed, size_t stride, int channels,
                       const FoldedCoefficients& m, size_t i, float* out) {
  V sum = hn::Set(d, m.bias);
  const float* p = packed + i;
  for (int k = 0; k < channels; ++k, p += stride) {
    sum = hn::MulAdd(hn::Set(d, m.values[k]), hn::LoadU(d, p), sum);
  }
  hn::StoreU(hn::Mul(sum, hn::Set(d, m.scale)), d, out + i);
}

void LogitBlock(const float* packed, size_t stride, size_t n, int channels,
                const FoldedCoefficients* masks, int rows, float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  int r = 0;
  for (; r + 4 <= rows; r += 4) {
    float* to = out + static_cast<size_t>(r) * stride;
    for (size_t i = 0; i < n; i += 2 * lanes) {
      FourRows(d, packed, stride, channels, masks + r, i, to);
    }
  }
  for (; r < rows; ++r) {
    float* to = out + static_cast<size_t>(r) * stride;
    for (size_t i = 0; i < n; i += lanes) {
      OneRow(d, packed, stride, channels, masks[r], i, to);
    }
  }
}

// Boxes are a few vectors wide: several sums per vector keep the multipliers
// busy.
HWY_INLINE void TwoVectors(D d, const float* p, size_t stride, int channels,
                           const FoldedCoefficients& mask, float* out) {
  const size_t lanes = hn::Lanes(d);
  V a0 = hn::Set(d, mask.bias);
  V b0 = a0;
  V a1 = hn::Zero(d);
  V b1 = a1;
  int k = 0;
  for (; k + 2 <= channels; k += 2, p += 2 * stride) {
    const V c0 = hn::Set(d, mask.values[k]);
    a0 = hn::MulAdd(c0, hn::LoadU(d, p), a0);
    b0 = hn::MulAdd(c0, hn::LoadU(d, p + lanes), b0);
    const V c1 = hn::Set(d, mask.values[k + 1]);
    a1 = hn::MulAdd(c1, hn::LoadU(d, p + stride), a1);
    b1 = hn::MulAdd(c1, hn::LoadU(d, p + stride + lanes), b1);
  }
  if (k < channels) {
    const V c0 = hn::Set(d, mask.values[k]);
    a0 = hn::MulAdd(c0, hn::LoadU(d, p), a0);
    b0 = hn::MulAdd(c0, hn::LoadU(d, p + lanes), b0);
  }
  const V scale = hn::Set(d, mask.scale);
  hn::StoreU(hn::Mul(hn::Add(a0, a1), scale), d, out);
  hn::StoreU(hn::Mul(hn::Add(b0, b1), scale), d, out + lanes);
}

HWY_INLINE void OneVector(D d, const float* p, size_t stride, int channels,
                          const FoldedCoefficients& mask, float* out) {
  V a0 = hn::Set(d, mask.bias);
  V a1 = hn::Zero(d);
  V a2 = a1;
  V a3 = a1;
  int k = 0;
  for (; k + 4 <= channels; k += 4, p += 4 * stride) {
    const float* c = mask.values + k;
    a0 = hn::MulAdd(hn::Set(d, c[0]), hn::LoadU(d, p), a0);
    a1 = hn::MulAdd(hn::Set(d, c[1]), hn::LoadU(d, p + stride), a1);
    a2 = hn::MulAdd(hn::Set(d, c[2]), hn::LoadU(d, p + 2 * stride), a2);
    a3 = hn::MulAdd(hn::Set(d, c[3]), hn::LoadU(d, p + 3 * stride), a3);
  }
  for (; k < channels; ++k, p += stride) {
    a0 = hn::MulAdd(hn::Set(d, mask.values[k]), hn::LoadU(d, p), a0);
  }
  const V sum = hn::Add(hn::Add(a0, a1), hn::Add(a2, a3));
  hn::StoreU(hn::Mul(sum, hn::Set(d, mask.scale)), d, out);
}

void MultiplyRow(const float* packed, size_t stride, size_t n, int channels,
                 const FoldedCoefficients& mask, float* out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes < n; i += 2 * lanes) {
    TwoVectors(d, packed + i, stride, channels, mask, out + i);
  }
  if (i < n) OneVector(d, packed + i, stride, channels, mask, out + i);
}

void ExpandRow(const float* row, const int32_t* tap, const float* fraction,
               int32_t base, size_t n, float* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const int32_t first = tap[i];
    const float* p = row + (first - base);
    const auto index = hn::Sub(hn::LoadU(di, tap + i), hn::Set(di, first));
    const auto next = hn::Add(index, hn::Set(di, 1));
    V low;
    V high;
    if (tap[i + lanes - 1] - first + 1 < static_cast<int32_t>(lanes)) {
      // All taps lie in one vector.
      const V window = hn::LoadU(d, p);
      low = hn::TableLookupLanes(window, hn::IndicesFromVec(d, index));
      high = hn::TableLookupLanes(window, hn::IndicesFromVec(d, next));
    } else {
      low = hn::GatherIndex(d, p, index);
      high = hn::GatherIndex(d, p, next);
    }
    hn::StoreU(hn::MulAdd(hn::LoadU(d, fraction + i), hn::Sub(high, low), low),
               d, out + i);
  }
  for (; i < n; ++i) {
    const float* p = row + (tap[i] - base);
    out[i] = p[0] + fraction[i] * (p[1] - p[0]);
  }
}

// v of the header; with weight 0 b is not read, so that a row of infinite
// logits stays what it is.
template <bool kOneRow>
HWY_INLINE V Blend(D d, const float* a, const float* b, V w) {
  const V low = hn::LoadU(d, a);
  if constexpr (kOneRow) return low;
  return hn::MulAdd(w, hn::Sub(hn::LoadU(d, b), low), low);
}

// Runs `vector(i)` -> lanes bytes of u8 over n elements. The last vector may
// cover elements of the one before again.
template <class F>
HWY_INLINE void StoreBytes(D d, size_t n, uint8_t* out, F vector) {
  const hn::Rebind<uint8_t, D> d8;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(vector(i), d8, out + i);
  if (i == n) return;
  if (n >= lanes) {
    hn::StoreU(vector(n - lanes), d8, out + n - lanes);
    return;
  }
  HWY_ALIGN uint8_t tail[hn::MaxLanes(D())];
  hn::Store(vector(i), d8, tail);
  std::memcpy(out + i, tail, n - i);
}

template <bool kOneRow>
void ThresholdRowOf(const float* a, const float* b, float w, size_t n,
                    uint8_t* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const V zero = hn::Zero(d);
  const auto on = hn::Set(di, 255);
  const V weight = hn::Set(d, w);
  StoreBytes(d, n, out, [&](size_t i) HWY_ATTR {
    const auto set = hn::RebindMask(
        di, hn::Gt(Blend<kOneRow>(d, a + i, b + i, weight), zero));
    return hn::DemoteTo(d8, hn::IfThenElseZero(set, on));
  });
}

void ThresholdRow(const float* a, const float* b, float w, size_t n,
                  uint8_t* out) {
  if (w == 0) return ThresholdRowOf<true>(a, b, w, n, out);
  ThresholdRowOf<false>(a, b, w, n, out);
}

// Several output rows between the same two rows of logits.
void ThresholdRows(const float* a, const float* b, const float* w, size_t rows,
                   size_t n, size_t stride, uint8_t* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const size_t lanes = hn::Lanes(d);
  const V zero = hn::Zero(d);
  const auto on = hn::Set(di, 255);
  const auto column = [&](size_t i) HWY_ATTR {
    const V low = hn::LoadU(d, a + i);
    const V step = hn::Sub(hn::LoadU(d, b + i), low);
    uint8_t* to = out + i;
    for (size_t r = 0; r < rows; ++r, to += stride) {
      const V v = hn::MulAdd(hn::Set(d, w[r]), step, low);
      const auto set = hn::RebindMask(di, hn::Gt(v, zero));
      hn::StoreU(hn::DemoteTo(d8, hn::IfThenElseZero(set, on)), d8, to);
    }
  };
  if (n < lanes) {
    for (size_t r = 0; r < rows; ++r) {
      ThresholdRowOf<false>(a, b, w[r], n, out + r * stride);
    }
    return;
  }
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) column(i);
  if (i < n) column(n - lanes);
}

// exp2 by its series: |f| <= 1/2 leaves 1.2e-7 of the value.
HWY_INLINE V Sigmoid(D d, V v) {
  const hn::RebindToSigned<D> di;
  const V t = hn::Min(
      hn::Max(hn::Mul(v, hn::Set(d, -1.44269504f)), hn::Set(d, -120.0f)),
      hn::Set(d, 120.0f));
  const V whole = hn::Round(t);
  const V f = hn::Sub(t, whole);
  V p = hn::Set(d, 1.54035304e-4f);
  p = hn::MulAdd(p, f, hn::Set(d, 1.33335581e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 9.61812911e-3f));
  p = hn::MulAdd(p, f, hn::Set(d, 5.55041087e-2f));
  p = hn::MulAdd(p, f, hn::Set(d, 2.40226507e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 6.93147181e-1f));
  p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
  const auto power =
      hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, whole), hn::Set(di, 127)));
  const V e = hn::Mul(p, hn::BitCast(d, power));
  // One Newton step on the estimate costs less than a division.
  const V sum = hn::Add(hn::Set(d, 1.0f), e);
  const V r = hn::ApproximateReciprocal(sum);
  return hn::Mul(r, hn::NegMulAdd(sum, r, hn::Set(d, 2.0f)));
}

template <bool kOneRow>
void SigmoidBytesOf(const float* a, const float* b, float w, size_t n,
                    uint8_t* out) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const V weight = hn::Set(d, w);
  StoreBytes(d, n, out, [&](size_t i) HWY_ATTR {
    const V v = Blend<kOneRow>(d, a + i, b + i, weight);
    const V s = hn::IfThenElseZero(hn::Eq(v, v), Sigmoid(d, v));
    const V rounded = hn::MulAdd(s, hn::Set(d, 255.0f), hn::Set(d, 0.5f));
    return hn::DemoteTo(d8, hn::ConvertTo(di, rounded));
  });
}

void SigmoidBytes(const float* a, const float* b, float w, size_t n,
                  uint8_t* out) {
  if (w == 0) return SigmoidBytesOf<true>(a, b, w, n, out);
  SigmoidBytesOf<false>(a, b, w, n, out);
}

template <bool kOneRow>
void SigmoidFloatsOf(const float* a, const float* b, float w, size_t n,
                     float* out) {
  const D d;
  const V weight = hn::Set(d, w);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::StoreU(Sigmoid(d, Blend<kOneRow>(d, a + i, b + i, weight)), d, out + i);
  }
  if (i == n) return;
  if (n >= lanes) {
    i = n - lanes;
    hn::StoreU(Sigmoid(d, Blend<kOneRow>(d, a + i, b + i, weight)), d, out + i);
    return;
  }
  HWY_ALIGN float tail[hn::MaxLanes(D())];
  hn::Store(Sigmoid(d, Blend<kOneRow>(d, a + i, b + i, weight)), d, tail);
  std::memcpy(out + i, tail, (n - i) * sizeof(float));
}

void SigmoidFloats(const float* a, const float* b, float w, size_t n,
                   float* out) {
  if (w == 0) return SigmoidFloatsOf<true>(a, b, w, n, out);
  SigmoidFloatsOf<false>(a, b, w, n, out);
}

template <bool kOneRow>
void ArgmaxRowOf(const float* a, const float* b, float w, size_t n,
                 uint8_t value, float* best, uint8_t* index) {
  const D d;
  const hn::RebindToSigned<D> di;
  const hn::Rebind<uint8_t, D> d8;
  const V weight = hn::Set(d, w);
  const auto mine = hn::Set(di, value);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V v = Blend<kOneRow>(d, a + i, b + i, weight);
    const V old = hn::LoadU(d, best + i);
    const auto more = hn::Gt(v, old);
    hn::StoreU(hn::IfThenElse(more, v, old), d, best + i);
    const auto was = hn::PromoteTo(di, hn::LoadU(d8, index + i));
    hn::StoreU(
        hn::DemoteTo(d8, hn::IfThenElse(hn::RebindMask(di, more), mine, was)),
        d8, index + i);
  }
  for (; i < n; ++i) {
    const float v = kOneRow ? a[i] : a[i] + w * (b[i] - a[i]);
    if (!(v > best[i])) continue;
    best[i] = v;
    index[i] = value;
  }
}

void ArgmaxRow(const float* a, const float* b, float w, size_t n, uint8_t value,
               float* best, uint8_t* index) {
  if (w == 0) return ArgmaxRowOf<true>(a, b, w, n, value, best, index);
  ArgmaxRowOf<false>(a, b, w, n, value, best, index);
}

}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace preprocd {

HWY_EXPORT(LogitRow);
HWY_EXPORT(PackPrototypes);
HWY_EXPORT(LogitBlock);
HWY_EXPORT(MultiplyRow);
HWY_EXPORT(ExpandRow);
HWY_EXPORT(ThresholdRow);
HWY_EXPORT(ThresholdRows);
HWY_EXPORT(SigmoidBytes);
HWY_EXPORT(SigmoidFloats);
HWY_EXPORT(ArgmaxRow);

void LogitRow(const PrototypeTensor& prototypes, const FoldedCoefficients& mask,
              size_t first, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(LogitRow)(prototypes, mask, first, n, out);
}

void PackPrototypes(const PrototypeTensor& prototypes, size_t first, size_t n,
                    size_t stride, float* out) {
  HWY_DYNAMIC_DISPATCH(PackPrototypes)(prototypes, first, n, stride, out);
}

void LogitBlock(const float* packed, size_t stride, size_t n, int channels,
                const FoldedCoefficients* masks, int rows, float* out) {
  HWY_DYNAMIC_DISPATCH(LogitBlock)
  (packed, stride, n, channels, masks, rows, out);
}

void MultiplyRow(const float* packed, size_t stride, size_t n, int channels,
                 const FoldedCoefficients& mask, float* out) {
  HWY_DYNAMIC_DISPATCH(MultiplyRow)(packed, stride, n, channels, mask, out);
}

void ExpandRow(const float* row, const int32_t* tap, const float* fraction,
               int32_t base, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(ExpandRow)(row, tap, fraction, base, n, out);
}

void ThresholdRow(const float* a, const float* b, float w, size_t n,
                  uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ThresholdRow)(a, b, w, n, out);
}

void ThresholdRows(const float* a, const float* b, const float* w, size_t rows,
                   size_t n, size_t stride, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ThresholdRows)(a, b, w, rows, n, stride, out);
}

void SigmoidRow(const float* a, const float* b, float w, size_t n,
                uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(SigmoidBytes)(a, b, w, n, out);
}

void SigmoidRow(const float* a, const float* b, float w, size_t n, float* out) {
  HWY_DYNAMIC_DISPATCH(SigmoidFloats)(a, b, w, n, out);
}

void ArgmaxRow(const float* a, const float* b, float w, size_t n, uint8_t value,
               float* best, uint8_t* index) {
  HWY_DYNAMIC_DISPATCH(ArgmaxRow)(a, b, w, n, value, best, index);
}

}  // namespace preprocd

#endif  // HWY_ONCE
