// The picks of filter_kernels.h: one stored sample per result.
#include <cstring>

#include "engine/backends/cpu/filter_kernels.h"
#include "engine/backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/pick_kernels.cc"
// clang-format off
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "engine/backends/cpu/vector_blocks-inl.h"
// clang-format on

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
namespace preprocd::HWY_NAMESPACE {
namespace {
void PickColumns1T(const uint8_t*, const FixedTaps&, uint8_t*) {
  NoVectorKernels();
}
void PickColumns2T(const uint8_t*, const FixedTaps&, uint8_t*, uint8_t*) {
  NoVectorKernels();
}
void PickColumns4T(const uint8_t*, const FixedTaps&, uint8_t*) {
  NoVectorKernels();
}
}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
#else

HWY_BEFORE_NAMESPACE();
namespace preprocd::HWY_NAMESPACE {
namespace {

// The block at `in` from its window. Folding the blocks together costs more
// than loading them apart, so vectors are two blocks at most.
HWY_INLINE hn::Vec<Bytes16> PickBlock(const uint8_t* in,
                                      const uint8_t* shuffle) {
  const hn::CappedTag<uint8_t, 32> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  auto picked =
      hn::TableLookupBytesOr0(hn::LoadU(d, in), hn::LoadU(d, shuffle));
  for (size_t i = kLanes; i < FixedTaps::kPickWindow; i += kLanes) {
    picked = hn::Or(picked, hn::TableLookupBytesOr0(hn::LoadU(d, in + i),
                                                    hn::LoadU(d, shuffle + i)));
  }
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3 || \
    HWY_TARGET == HWY_AVX3_DL
  const Bytes16 d16;
  return hn::Or(hn::LowerHalf(d16, picked), hn::UpperHalf(d16, picked));
#else
  return picked;
#endif
}

void PickColumns1T(const uint8_t* in, const FixedTaps& taps, uint8_t* out) {
  const auto padded = taps.first.size();
  if (taps.identity) {
    memcpy(out, in, static_cast<size_t>(taps.extent));
    return;
  }
  if (taps.loads.empty()) {
    const int32_t* first = taps.first.data();
    for (size_t i = 0; i < padded; ++i) out[i] = in[first[i]];
    return;
  }
  const int32_t* load = taps.loads.data();
  const uint8_t* shuffle = taps.shuffles.data();
  for (size_t i = 0; i < padded;
       i += 16, shuffle += FixedTaps::kPickWindow, ++load) {
    hn::StoreU(PickBlock(in + *load, shuffle), Bytes16(), out + i);
  }
}

void PickColumns2T(const uint8_t* in, const FixedTaps& taps, uint8_t* first,
                   uint8_t* second) {
  const auto padded = taps.first.size();
  if (taps.loads.empty()) {
    const int32_t* at = taps.first.data();
    for (size_t i = 0; i < padded; ++i) {
      const uint8_t* sample = in + 2 * static_cast<ptrdiff_t>(at[i]);
      first[i] = sample[0];
      second[i] = sample[1];
    }
    return;
  }
  const int32_t* load = taps.loads.data();
  const uint8_t* shuffle = taps.shuffles.data();
  const hn::Half<Bytes16> half;
  for (size_t i = 0; i < padded;
       i += 8, shuffle += FixedTaps::kPickWindow, ++load) {
    const auto v = PickBlock(in + *load, shuffle);
    hn::StoreU(hn::LowerHalf(half, v), half, first + i);
    hn::StoreU(hn::UpperHalf(half, v), half, second + i);
  }
}

void PickColumns4T(const uint8_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  const auto padded = taps.first.size();
  const int32_t* first = taps.first.data();
  if (taps.request.channels == 4) {
    for (size_t i = 0; i < padded; ++i) {
      memcpy(rgbx + 4 * i, in + 4 * static_cast<ptrdiff_t>(first[i]), 4);
    }
    return;
  }
  // A load of 4 bytes would leave the row at its last pixel.
  const int last = taps.extent - 1;
  for (size_t i = 0; i < padded; ++i) {
    const uint8_t* pixel = in + 3 * static_cast<ptrdiff_t>(first[i]);
    uint32_t v = 0;
    if (first[i] == last) {
      memcpy(&v, pixel, 3);
    } else {
      memcpy(&v, pixel, 4);
    }
    memcpy(rgbx + 4 * i, &v, 4);
  }
}

}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // fallback targets

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(PickColumns1T);
HWY_EXPORT(PickColumns2T);
HWY_EXPORT(PickColumns4T);

void PickColumns1(const uint8_t* in, const FixedTaps& taps, uint8_t* out) {
  HWY_DYNAMIC_DISPATCH(PickColumns1T)(in, taps, out);
}

void PickColumns2(const uint8_t* in, const FixedTaps& taps, uint8_t* first,
                  uint8_t* second) {
  HWY_DYNAMIC_DISPATCH(PickColumns2T)(in, taps, first, second);
}

void PickColumns4(const uint8_t* in, const FixedTaps& taps, uint8_t* rgbx) {
  HWY_DYNAMIC_DISPATCH(PickColumns4T)(in, taps, rgbx);
}

}  // namespace preprocd
#endif  // HWY_ONCE
