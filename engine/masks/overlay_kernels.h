// Inner loops of drawing, compiled for every vector target and chosen at run
// time. Blend of one 8-bit channel, rounded half up:
//   out = floor((colour * w + old * (256 - w) + 128) / 256)
// Masks are bytes, 0 or not 0, one per pixel; where they are 0 nothing
// changes. Lengths are pixels, any number >= 0; nothing else is read or
// written.
// Thread-safety: safe (no state).
#ifndef ENGINE_MASKS_OVERLAY_KERNELS_H_
#define ENGINE_MASKS_OVERLAY_KERNELS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace preprocd {

// Channels in memory order, and the weight w, 0..256.
struct BlendColor {
  std::array<uint8_t, 4> channels = {};
  uint16_t weight = 0;
};

void BlendPacked4(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels);
void BlendPacked3(const uint8_t* mask, const BlendColor& color, size_t n,
                  uint8_t* pixels);
// channels[0] only.
void BlendPlane(const uint8_t* mask, const BlendColor& color, size_t n,
                uint8_t* pixels);
// The mask being logits: where a[i] + w[r] * (b[i] - a[i]) > 0 in row r, at
// pixels + r * stride. Both logit rows are readable kMaskRowPadding further.
// Several rows have weights other than 0; with one row of weight 0 b is not
// read.
void BlendPacked4(const float* a, const float* b, const float* w, size_t rows,
                  const BlendColor& color, size_t n, size_t stride,
                  uint8_t* pixels);
// The grid column under each pixel of a row.
struct GridColumns {
  std::vector<int32_t> column;  // not falling
  std::vector<uint8_t> low;     // column % 256
  // Columns of any 16 neighbours lie within 16.
  bool narrow = false;

  // Column floor((2 i + 1) * grid / (2 * width)) for pixel i: nearest at
  // pixel centres.
  void Map(int width, int grid);
};
// out[i] = row[column[x + i] - left] >= 128 ? 0xff : 0, i < n. `row` has `size`
// elements; every column asked for lies within them.
void PickMaskRow(const GridColumns& columns, const uint8_t* row, size_t size,
                 int32_t left, size_t x, size_t n, uint8_t* out);
// How many of each four pixels are set, 0..4, from two mask rows of 2 n
// pixels, 0 or 0xff.
void CountQuads(const uint8_t* top, const uint8_t* bottom, size_t n,
                uint8_t* counts);
// n interleaved pairs, channels[0] and [1], with weights floor((w * counts[i]
// + 2) / 4).
void BlendPairs(const uint8_t* counts, const BlendColor& color, size_t n,
                uint8_t* pairs);

}  // namespace preprocd

#endif  // ENGINE_MASKS_OVERLAY_KERNELS_H_
