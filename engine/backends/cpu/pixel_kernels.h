// Kernels that turn channel rows into pixels: YUV to RGB and the layouts of
// 8-bit destinations, in one pass. Best instruction set chosen at run time.
// Colour in 16-bit fixed point: every product is rounded at 1/64 of a step (at
// 1/16 for filters with lobes), the sum is rounded half up to 8 bits.
// Outputs are written exactly; nothing outside them, no input beyond its end
// (staged inputs: kStagedPadding).
// Thread-safety: safe (no state). No allocation.
// Source: engine/image/color_encoding.h for the coefficients.
#ifndef ENGINE_BACKENDS_CPU_PIXEL_KERNELS_H_
#define ENGINE_BACKENDS_CPU_PIXEL_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/image/color_encoding.h"

namespace preprocd {

// Fixed-point YUV to RGB for centred samples (v - 128) * 2^fraction.
struct FixedYuv {
  int16_t y = 0, vr = 0, ug = 0, vg = 0, ub = 0;  // coefficient / 4, Q15
  int16_t bias = 0;                               // of luma, with the rounding
  int shift = 6;  // bits below one step in the sums
};
// `fraction`: kPlainFraction for 8-bit and plain staged samples.
FixedYuv MakeFixedYuv(const YuvToRgbCoefficients& exact, int fraction);

// What a row of pixels is made from.
enum class PixelSource : uint8_t {
  kYuv,            // rows Y, U, V, one byte per pixel each
  kYuvHalfPacked,  // Y, and a row of U V pairs (or V U), one per two pixels
  kYuvHalfPlanar,  // Y, and rows U and V, one byte per two pixels
  kYuvStaged,      // staged rows Y, U, V
  kPlanes,         // rows R, G, B and, where the source has it, A
  kRgbx,           // 4 bytes per pixel
};
struct PixelInput {
  PixelSource source = PixelSource::kPlanes;
  // Bytes; int16_t for kYuvStaged. Entry 3: A, or null for opaque.
  std::array<const void*, 4> rows = {};
  bool v_first = false;    // kYuvHalfPacked
  bool has_alpha = false;  // kRgbx: the fourth byte is A; else opaque
  bool bgr = false;        // kRgbx: B comes first
  FixedYuv yuv;            // kYuv...
};

// The same input from pixel `x` on. REQUIRES: an even `x`.
PixelInput AdvancePixels(const PixelInput& in, size_t x);

enum class PixelLayout : uint8_t {
  kPlanes,  // rows R, G, B and, where not null, A
  kRgb,
  kBgr,
  kRgba,
  kBgra,
  kGrey,  // BT.601 luma of R, G, B; one row
};
struct PixelOutput {
  PixelLayout layout = PixelLayout::kRgb;
  std::array<uint8_t*, 4> rows = {};
  uint8_t flip = 0;  // XOR of every byte but A
};

void WritePixels(const PixelInput& in, size_t width, const PixelOutput& out);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_PIXEL_KERNELS_H_
