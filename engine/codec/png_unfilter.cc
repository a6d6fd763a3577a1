#include "engine/codec/png_unfilter.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/codec/png_unfilter.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace {

// Each pixel depends on the one before, so a vector is one pixel: what counts
// is the number of steps from pixel to pixel.

#if HWY_TARGET == HWY_SCALAR

// Left to the bytewise code.
bool UnfilterPixels(PngFilter, size_t, const uint8_t*, const uint8_t*, size_t,
                    uint8_t*) {
  return false;
}

#else

namespace hn = hwy::HWY_NAMESPACE;

using D8 = hn::FixedTag<uint8_t, 4>;
using V8 = hn::Vec<D8>;
using D16 = hn::FixedTag<int16_t, 4>;
using V16 = hn::Vec<D16>;
// The bytes of the 16-bit lanes.
using DBytes = hn::Repartition<uint8_t, D16>;

template <size_t kPixel>
HWY_INLINE void SubRow(const uint8_t* in, size_t bytes, uint8_t* out) {
  const D8 d;
  V8 left = hn::Zero(d);
  for (size_t i = 0; i < bytes; i += kPixel) {
    left = hn::Add(left, hn::LoadU(d, in + i));
    hn::StoreU(left, d, out + i);
  }
}

// On complements: floor((a + b) / 2) is ~AverageRound(~a, ~b), which leaves
// two steps from pixel to pixel.
template <size_t kPixel>
HWY_INLINE void AverageRow(const uint8_t* in, const uint8_t* above,
                           size_t bytes, uint8_t* out) {
  const D8 d;
  V8 left = hn::Set(d, 255);
  for (size_t i = 0; i < bytes; i += kPixel) {
    const V8 up = hn::Not(hn::LoadU(d, above + i));
    left = hn::Sub(hn::AverageRound(left, up), hn::LoadU(d, in + i));
    hn::StoreU(hn::Not(left), d, out + i);
  }
}

template <size_t kPixel>
HWY_INLINE void PaethRow(const uint8_t* in, const uint8_t* above, size_t bytes,
                         uint8_t* out) {
  const D8 d8;
  const D16 d;
  const DBytes bytewise;
  V16 left = hn::Zero(d);
  V16 corner = hn::Zero(d);
  for (size_t i = 0; i < bytes; i += kPixel) {
    const V16 up = hn::PromoteTo(d, hn::LoadU(d8, above + i));
    const V16 raw = hn::PromoteTo(d, hn::LoadU(d8, in + i));
    const V16 rise = hn::Sub(up, corner);
    const V16 run = hn::Sub(left, corner);
    const V16 to_left = hn::Abs(rise);
    const V16 to_up = hn::Abs(run);
    const V16 to_corner = hn::Abs(hn::Add(rise, run));
    const V16 other = hn::IfThenElse(hn::Gt(to_up, to_corner), corner, up);
    const V16 predicted =
        hn::IfThenElse(hn::Gt(to_left, hn::Min(to_up, to_corner)), other, left);
    // The upper bytes are and stay zero.
    left = hn::BitCast(d, hn::Add(hn::BitCast(bytewise, predicted),
                                  hn::BitCast(bytewise, raw)));
    corner = up;
    hn::StoreU(hn::DemoteTo(d8, left), d8, out + i);
  }
}

template <size_t kPixel>
bool UnfilterPixelsOf(PngFilter filter, const uint8_t* in, const uint8_t* above,
                      size_t bytes, uint8_t* out) {
  switch (filter) {
    case PngFilter::kSub:
      SubRow<kPixel>(in, bytes, out);
      return true;
    case PngFilter::kAverage:
      AverageRow<kPixel>(in, above, bytes, out);
      return true;
    case PngFilter::kPaeth:
      PaethRow<kPixel>(in, above, bytes, out);
      return true;
    default:
      return false;
  }
}

// False for what the bytewise code does.
bool UnfilterPixels(PngFilter filter, size_t pixel_bytes, const uint8_t* in,
                    const uint8_t* above, size_t bytes, uint8_t* out) {
  if (pixel_bytes == 3) {
    return UnfilterPixelsOf<3>(filter, in, above, bytes, out);
  }
  if (pixel_bytes == 4) {
    return UnfilterPixelsOf<4>(filter, in, above, bytes, out);
  }
  return false;
}

#endif  // HWY_TARGET == HWY_SCALAR

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(UnfilterPixels);

namespace {

int Paeth(int left, int up, int corner) {
  const int to_left = std::abs(up - corner);
  const int to_up = std::abs(left - corner);
  const int to_corner = std::abs(left + up - 2 * corner);
  if (to_left <= to_up && to_left <= to_corner) return left;
  return to_up <= to_corner ? up : corner;
}

void UnfilterBytes(PngFilter filter, size_t pixel_bytes, const uint8_t* in,
                   const uint8_t* above, size_t bytes, uint8_t* out) {
  for (size_t i = 0; i < bytes; ++i) {
    const int left = i < pixel_bytes ? 0 : out[i - pixel_bytes];
    const int corner = i < pixel_bytes ? 0 : above[i - pixel_bytes];
    const int up = above[i];
    int predicted = left;
    if (filter == PngFilter::kAverage) predicted = (left + up) / 2;
    if (filter == PngFilter::kPaeth) predicted = Paeth(left, up, corner);
    out[i] = static_cast<uint8_t>(in[i] + predicted);
  }
}

}  // namespace

void UnfilterPngRow(PngFilter filter, size_t pixel_bytes,
                    const uint8_t* filtered, const uint8_t* above,
                    size_t row_bytes, uint8_t* out) {
  switch (filter) {
    case PngFilter::kNone:
      memcpy(out, filtered, row_bytes);
      return;
    case PngFilter::kUp:
      for (size_t i = 0; i < row_bytes; ++i) {
        out[i] = static_cast<uint8_t>(filtered[i] + above[i]);
      }
      return;
    default:
      break;
  }
  if (!HWY_DYNAMIC_DISPATCH(UnfilterPixels)(filter, pixel_bytes, filtered,
                                            above, row_bytes, out)) {
    UnfilterBytes(filter, pixel_bytes, filtered, above, row_bytes, out);
  }
}

}  // namespace preprocd
#endif  // HWY_ONCE
