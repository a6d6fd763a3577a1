#include "engine/codec/ycc_rows.h"

#include <algorithm>
#include <cstring>

#include "engine/base/check.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/codec/ycc_rows.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#include "engine/codec/vector_dot-inl.h"

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace {

// 16-bit fractions of jdcolor.c: 1.402 and 1.772 less the whole part that
// keeps the product in 16 bits, 0.34414 and 1 - 0.71414.
constexpr int kCrToRed = 26345;     // 1.40200 - 1
constexpr int kCbToBlue = -14942;   // 1.77200 - 2
constexpr int kCbToGreen = -22554;  // -0.34414
constexpr int kCrToGreen = 18734;   // 1 - 0.71414
constexpr int kRound = 1 << 15;

#if HWY_TARGET == HWY_SCALAR

void SumRow(const uint8_t* near, const uint8_t* far, int width,
            uint16_t* sums) {
  for (int x = 0; x < width; ++x) {
    sums[x] = static_cast<uint16_t>(3 * near[x] + far[x]);
  }
}

void WidenRow(const uint8_t* row, int width, uint16_t* sums) {
  for (int x = 0; x < width; ++x) sums[x] = row[x];
}

// `kEven`, `kOdd`: roundings of the two samples made of one.
template <int kEven, int kOdd, int kShift>
void AcrossRow(const uint16_t* sums, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    const int near = 3 * sums[x];
    out[2 * x] = static_cast<uint8_t>((near + sums[x - 1] + kEven) >> kShift);
    out[2 * x + 1] =
        static_cast<uint8_t>((near + sums[x + 1] + kOdd) >> kShift);
  }
}

void DownRow(const uint8_t* near, const uint8_t* far, int round, int width,
             uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    out[x] = static_cast<uint8_t>((3 * near[x] + far[x] + round) >> 2);
  }
}

void ReplicateRow(const uint8_t* row, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x) out[2 * x] = out[2 * x + 1] = row[x];
}

// Red, green and blue positions in a pixel of `kChannels` bytes.
template <int kChannels, int kRed>
void PixelRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
              size_t width, uint8_t* out) {
  const auto clamped = [](int value) {
    return static_cast<uint8_t>(std::clamp(value, 0, 255));
  };
  for (size_t x = 0; x < width; ++x, out += kChannels) {
    const int b = cb[x] - 128;
    const int r = cr[x] - 128;
    out[kRed] = clamped(y[x] + r + ((kCrToRed * r + kRound) >> 16));
    out[1] =
        clamped(y[x] - r + ((kCbToGreen * b + kCrToGreen * r + kRound) >> 16));
    out[2 - kRed] = clamped(y[x] + 2 * b + ((kCbToBlue * b + kRound) >> 16));
    if (kChannels == 4) out[3] = 255;
  }
}

#else  // HWY_TARGET == HWY_SCALAR

using DU16 = hn::RebindToUnsigned<D16>;
using VU16 = hn::Vec<DU16>;
// Bytes of one vector of 16-bit lanes.
using DHalf8 = hn::Rebind<uint8_t, D16>;
using VHalf8 = hn::Vec<DHalf8>;

HWY_INLINE VU16 Widened(const uint8_t* p) {
  return hn::PromoteTo(DU16(), hn::LoadU(DHalf8(), p));
}

HWY_INLINE VU16 Times3(VU16 v) { return hn::Add(v, hn::Add(v, v)); }

HWY_INLINE VHalf8 ToBytes(VU16 v) {
  return hn::DemoteTo(DHalf8(), hn::BitCast(D16(), v));
}

void SumRow(const uint8_t* near, const uint8_t* far, int width,
            uint16_t* sums) {
  for (int x = 0; x < width; x += static_cast<int>(hn::MaxLanes(DU16()))) {
    hn::StoreU(hn::Add(Times3(Widened(near + x)), Widened(far + x)), DU16(),
               sums + x);
  }
}

void WidenRow(const uint8_t* row, int width, uint16_t* sums) {
  for (int x = 0; x < width; x += static_cast<int>(hn::MaxLanes(DU16()))) {
    hn::StoreU(Widened(row + x), DU16(), sums + x);
  }
}

// `kEven`, `kOdd`: roundings of the two samples made of one.
template <int kEven, int kOdd, int kShift>
HWY_INLINE void AcrossRow(const uint16_t* sums, int width, uint8_t* out) {
  const DU16 d;
  for (int x = 0; x < width; x += static_cast<int>(hn::MaxLanes(d))) {
    const VU16 near = Times3(hn::LoadU(d, sums + x));
    const VU16 even =
        hn::Add(hn::Add(near, hn::LoadU(d, sums + x - 1)), hn::Set(d, kEven));
    const VU16 odd =
        hn::Add(hn::Add(near, hn::LoadU(d, sums + x + 1)), hn::Set(d, kOdd));
    // Both are below 256, so that a byte of each makes the pair in order.
    const VU16 both = hn::Or(hn::ShiftRight<kShift>(even),
                             hn::ShiftLeft<8>(hn::ShiftRight<kShift>(odd)));
    const hn::Repartition<uint8_t, DU16> d8;
    hn::StoreU(hn::BitCast(d8, both), d8, out + 2 * x);
  }
}

HWY_INLINE void DownRow(const uint8_t* near, const uint8_t* far, int round,
                        int width, uint8_t* out) {
  const DU16 d;
  const VU16 rounding = hn::Set(d, static_cast<uint16_t>(round));
  for (int x = 0; x < width; x += static_cast<int>(hn::MaxLanes(d))) {
    const VU16 sum =
        hn::Add(hn::Add(Times3(Widened(near + x)), Widened(far + x)), rounding);
    hn::StoreU(ToBytes(hn::ShiftRight<2>(sum)), DHalf8(), out + x);
  }
}

void ReplicateRow(const uint8_t* row, int width, uint8_t* out) {
  const DU16 d;
  for (int x = 0; x < width; x += static_cast<int>(hn::MaxLanes(d))) {
    const VU16 v = Widened(row + x);
    const hn::Repartition<uint8_t, DU16> d8;
    hn::StoreU(hn::BitCast(d8, hn::Or(v, hn::ShiftLeft<8>(v))), d8,
               out + 2 * x);
  }
}

struct Colours {
  V16 red, green, blue;
};

// round(c * kFactor / 2^16), exact because floor(floor(2 a) + 1) / 2) is
// floor(a + 1/2).
template <int kFactor>
HWY_INLINE V16 Scaled(V16 c) {
  const D16 d;
  const V16 twice =
      hn::MulHigh(hn::Add(c, c), hn::Set(d, static_cast<int16_t>(kFactor)));
  return hn::ShiftRight<1>(hn::Add(twice, hn::Set(d, 1)));
}

HWY_INLINE Colours Convert(VU16 y8, VU16 cb8, VU16 cr8) {
  const D16 d;
  const V16 y = hn::BitCast(d, y8);
  const V16 cb = hn::Sub(hn::BitCast(d, cb8), hn::Set(d, 128));
  const V16 cr = hn::Sub(hn::BitCast(d, cr8), hn::Set(d, 128));
  const V32 round = hn::Set(D32(), kRound);
  const V32 lower = hn::ShiftRight<16>(hn::Add(
      Dot<kCbToGreen, kCrToGreen>(hn::InterleaveLower(d, cb, cr)), round));
  const V32 upper = hn::ShiftRight<16>(hn::Add(
      Dot<kCbToGreen, kCrToGreen>(hn::InterleaveUpper(d, cb, cr)), round));
  const V16 green = hn::Sub(Narrow(lower, upper), cr);
  const V16 red = hn::Add(Scaled<kCrToRed>(cr), cr);
  const V16 blue = hn::Add(Scaled<kCbToBlue>(cb), hn::Add(cb, cb));
  return {hn::Add(y, red), hn::Add(y, green), hn::Add(y, blue)};
}

// Lanes(D16) pixels, everything written.
template <int kChannels, int kRed>
HWY_INLINE void PixelStep(const uint8_t* y, const uint8_t* cb,
                          const uint8_t* cr, uint8_t* out) {
  const DHalf8 d;
  const Colours colours = Convert(Widened(y), Widened(cb), Widened(cr));
  const VHalf8 red = hn::DemoteTo(d, colours.red);
  const VHalf8 green = hn::DemoteTo(d, colours.green);
  const VHalf8 blue = hn::DemoteTo(d, colours.blue);
  const VHalf8 first = kRed == 0 ? red : blue;
  const VHalf8 third = kRed == 0 ? blue : red;
  if constexpr (kChannels == 4) {
    hn::StoreInterleaved4(first, green, third, hn::Set(d, 255), d, out);
  } else {
    hn::StoreInterleaved3(first, green, third, d, out);
  }
}

template <int kChannels, int kRed>
HWY_INLINE void PixelRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                         size_t width, uint8_t* out) {
  constexpr size_t kStep = hn::MaxLanes(D16());
  size_t x = 0;
  for (; x + kStep <= width; x += kStep) {
    PixelStep<kChannels, kRed>(y + x, cb + x, cr + x, out + x * kChannels);
  }
  if (x == width) return;
  alignas(64) uint8_t last[kStep * kChannels];
  PixelStep<kChannels, kRed>(y + x, cb + x, cr + x, last);
  memcpy(out + x * kChannels, last, (width - x) * kChannels);
}

#endif  // HWY_TARGET == HWY_SCALAR

void AcrossQuarters(const uint16_t* sums, int width, uint8_t* out) {
  AcrossRow<1, 2, 2>(sums, width, out);
}

void AcrossSixteenths(const uint16_t* sums, int width, uint8_t* out) {
  AcrossRow<8, 7, 4>(sums, width, out);
}

void DownQuarters(const uint8_t* near, const uint8_t* far, bool upper,
                  int width, uint8_t* out) {
  DownRow(near, far, upper ? 1 : 2, width, out);
}

void RgbRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
            size_t width, uint8_t* out) {
  PixelRow<3, 0>(y, cb, cr, width, out);
}

void BgrRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
            size_t width, uint8_t* out) {
  PixelRow<3, 2>(y, cb, cr, width, out);
}

void RgbaRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
             size_t width, uint8_t* out) {
  PixelRow<4, 0>(y, cb, cr, width, out);
}

void BgraRow(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
             size_t width, uint8_t* out) {
  PixelRow<4, 2>(y, cb, cr, width, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(SumRow);
HWY_EXPORT(WidenRow);
HWY_EXPORT(AcrossQuarters);
HWY_EXPORT(AcrossSixteenths);
HWY_EXPORT(DownQuarters);
HWY_EXPORT(ReplicateRow);
HWY_EXPORT(RgbRow);
HWY_EXPORT(BgrRow);
HWY_EXPORT(RgbaRow);
HWY_EXPORT(BgraRow);

namespace {

// With the outermost sums repeated, the filter needs no rule for the edges:
// (3 s + s + 8) >> 4 is what libjpeg writes there.
void RepeatEdges(uint16_t* first, int width) {
  first[-1] = first[0];
  first[width] = first[width - 1];
}

}  // namespace

void TriangleAcross(const uint8_t* row, int width, ChromaSums sums,
                    uint8_t* out) {
  uint16_t* first = sums.data + kRowPadding;
  HWY_DYNAMIC_DISPATCH(WidenRow)(row, width, first);
  RepeatEdges(first, width);
  HWY_DYNAMIC_DISPATCH(AcrossQuarters)(first, width, out);
}

void TriangleAcrossAndDown(const uint8_t* near, const uint8_t* far, int width,
                           ChromaSums sums, uint8_t* out) {
  uint16_t* first = sums.data + kRowPadding;
  HWY_DYNAMIC_DISPATCH(SumRow)(near, far, width, first);
  RepeatEdges(first, width);
  HWY_DYNAMIC_DISPATCH(AcrossSixteenths)(first, width, out);
}

void TriangleDown(const uint8_t* near, const uint8_t* far, bool upper,
                  int width, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(DownQuarters)(near, far, upper, width, out);
}

void ReplicateAcross(const uint8_t* row, int width, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(ReplicateRow)(row, width, out);
}

void YccRowToPixels(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                    int width, PixelFormat format, uint8_t* out) {
  const auto count = static_cast<size_t>(width);
  switch (format) {
    case PixelFormat::kRgb:
      HWY_DYNAMIC_DISPATCH(RgbRow)(y, cb, cr, count, out);
      return;
    case PixelFormat::kBgr:
      HWY_DYNAMIC_DISPATCH(BgrRow)(y, cb, cr, count, out);
      return;
    case PixelFormat::kRgba:
      HWY_DYNAMIC_DISPATCH(RgbaRow)(y, cb, cr, count, out);
      return;
    case PixelFormat::kBgra:
      HWY_DYNAMIC_DISPATCH(BgraRow)(y, cb, cr, count, out);
      return;
    default:
      PREPROCD_CHECK(false);
  }
}

}  // namespace preprocd
#endif  // HWY_ONCE
