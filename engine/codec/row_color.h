// Colour steps on single rows that the codec libraries do not offer, and the
// writer of semi-planar pictures from rows with full chroma.
// Thread-safety: safe for the functions; NvRowWriter is compatible.
// Source: T.871 clause 7 (BT.601 full range):
//   Y  =  0.299 R + 0.587 G + 0.114 B
//   Cb = -0.168735892 R - 0.331264108 G + 0.5 B + 128
//   Cr =  0.5 R - 0.418687589 G - 0.081312411 B + 128
// in 16-bit fixed point, rounded to nearest.
#ifndef ENGINE_CODEC_ROW_COLOR_H_
#define ENGINE_CODEC_ROW_COLOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/scratch_bytes.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Four bytes of C M Y K, where 255 is no ink (the polarity Adobe writes), to
// rgb, rgba, bgr, bgra or grey: R = round(C * K / 255) and so on, alpha 255.
void CmykRowToRgb(const uint8_t* cmyk, int width, const PixelFormatInfo& format,
                  uint8_t* out);

// R G B bytes to one luma byte each.
void RgbRowToGrey(const uint8_t* rgb, int width, uint8_t* out);

// R G B bytes to Y Cb Cr bytes; may be in place.
void RgbRowToYcc(const uint8_t* rgb, int width, uint8_t* ycc);

// Fills rows [first, height) of every plane with mid grey (alpha 255), so
// that a partly decoded picture holds nothing of what was there before.
void FillRows(const ImageView& picture, int first);

// Takes Y Cb Cr rows from top to bottom and writes nv12, nv16 or nv24; the
// chroma of each cell is the average of its pixels, rounded half up, cells at
// the right and bottom edge averaging the pixels they have.
class NvRowWriter {
 public:
  // REQUIRES: `picture` is nv12, nv16 or nv24 and outlives this object.
  // Errors: kResourceExhausted
  absl::Status Begin(const ImageView& picture, ScratchBytes& sums);
  void AddRow(const uint8_t* ycc);

 private:
  void WriteChroma(int chroma_row, int rows);

  ImageView picture_;
  int x_shift_ = 0;
  int y_shift_ = 0;
  int chroma_width_ = 0;
  int next_row_ = 0;
  std::span<uint16_t> sums_;  // Cb, Cr interleaved, one pair per cell
};

// Interleaves two chroma rows as Cb Cr pairs.
void InterleaveChroma(const uint8_t* cb, const uint8_t* cr, int width,
                      uint8_t* out);

}  // namespace preprocd

#endif  // ENGINE_CODEC_ROW_COLOR_H_
