// Inner loops of drawing, compiled for every vector target and chosen at run
// time. Blend of one 8-bit channel, rounded half up:
//   out = floor((colour * a + old * (255 - a) + 127) / 255)
// Masks are bytes, 0 or not 0, one per pixel; where they are 0 nothing
// changes. Lengths are pixels, any number >= 0; nothing else is read or
// written.
// Thread-safety: safe (no state).
#ifndef ENGINE_MASKS_OVERLAY_KERNELS_H_
#define ENGINE_MASKS_OVERLAY_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace preprocd {

// Channels in memory order, and the weight `a` 0..255.
struct BlendColor {
  std::array<uint8_t, 4> channels = {};
  uint8_t alpha = 0;
};

void BlendPacked4(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels);
void BlendPacked3(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels);
// channels[0] only.
void BlendPlane(const uint8_t* mask, const BlendColor& color, size_t n,
                uint8_t* pixels);
// n interleaved pairs, channels[0] and [1]; weight[i] replaces color.alpha.
void BlendPairs(const uint8_t* weight, const BlendColor& color, size_t n,
                uint8_t* pairs);

}  // namespace preprocd

#endif  // ENGINE_MASKS_OVERLAY_KERNELS_H_
