// Rows of decoded YCbCr samples to packed pixels: chroma made as wide as luma
// as libjpeg makes it, and the colour conversion. Every Highway target gives
// the same bytes, which are libjpeg's.
// Owns: nothing. Thread-safety: safe (no state).
// Source: T.871 clause 7; libjpeg's jdsample.c (triangle filter with weights
// 3/4 and 1/4, roundings alternating) and jdcolor.c (16-bit fractions).
//
// Buffers are read and written up to kRowPadding samples behind the width
// that is asked for, unless a parameter says otherwise.
#ifndef ENGINE_CODEC_YCC_ROWS_H_
#define ENGINE_CODEC_YCC_ROWS_H_

#include <cstddef>
#include <cstdint>

#include "engine/image/pixel_format.h"

namespace preprocd {

inline constexpr size_t kRowPadding = 64;

// Scratch of a row: width + 2 * kRowPadding sums.
struct ChromaSums {
  uint16_t* data = nullptr;
};

// 2 * width samples from `width` of one chroma row (4:2:2).
void TriangleAcross(const uint8_t* row, int width, ChromaSums sums,
                    uint8_t* out);
// 2 * width samples of one of the two luma rows at chroma row `near`; `far`
// is the chroma row on that luma row's side, or `near` again at the picture's
// edge (4:2:0).
void TriangleAcrossAndDown(const uint8_t* near, const uint8_t* far, int width,
                           ChromaSums sums, uint8_t* out);
// `width` samples likewise (4:4:0); `upper`: the luma row above the middle of
// the chroma row.
void TriangleDown(const uint8_t* near, const uint8_t* far, bool upper,
                  int width, uint8_t* out);
// Each sample twice.
void ReplicateAcross(const uint8_t* row, int width, uint8_t* out);

// `width` pixels of rgb, rgba, bgr or bgra (alpha 255) at `out`, which is not
// written behind them.
void YccRowToPixels(const uint8_t* y, const uint8_t* cb, const uint8_t* cr,
                    int width, PixelFormat format, uint8_t* out);

}  // namespace preprocd

#endif  // ENGINE_CODEC_YCC_ROWS_H_
