// Stages 3 to 5 of the CPU backend: colour, dtype and layout of one
// destination row.
// Owns: nothing; plan and view must outlive it. Thread-safety: compatible.
// Source: DESIGN section 5 (colour result rounded to 8 bits half away from
// zero, n = (v - offset) * multiplier, q = clamp(round_half_even(n * m) +
// zero_point)).
#ifndef ENGINE_BACKENDS_CPU_ROW_WRITER_H_
#define ENGINE_BACKENDS_CPU_ROW_WRITER_H_

#include <array>
#include <cstddef>

#include "engine/backends/cpu/row_sampler.h"
#include "engine/convert/convert_plan.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Turns sampled source channels into destination channels, in place: `rows`
// has kMaxChannels rows of `width` floats; entries 0.. hold the source
// family's values and afterwards the destination family's (alpha filled with
// 255 when the source has none), not rounded.
class RowColor {
 public:
  explicit RowColor(const ConvertPlan& plan);
  void Apply(const std::array<float*, kMaxChannels>& rows, int width) const;

 private:
  void YuvToRgb(const std::array<float*, kMaxChannels>& rows, int width) const;
  void RgbToYuv(const std::array<float*, kMaxChannels>& rows, int width) const;

  const PixelFormatInfo& from_;
  const PixelFormatInfo& to_;
  const bool same_yuv_;
  YuvToRgbCoefficients yuv_to_rgb_;
  RgbToYuvCoefficients rgb_to_yuv_;
};

// Rounds, applies the dtype stage and stores one row.
class RowWriter {
 public:
  RowWriter(const ConvertPlan& plan, const ImageView& destination);

  // Row `y` of the destination from unrounded values, whole width; grey and
  // rgb families.
  void Write(int y, const std::array<float*, kMaxChannels>& rows,
             BandScratch& scratch) const;

  // YUV family: luma of row `y`, and the chroma rows' sums; the caller passes
  // the rows that share chroma one after the other and then calls
  // WriteChroma.
  void WriteLuma(int y, const float* luma) const;
  // `u` and `v`: sums over `rows_summed` destination rows, one per pixel.
  void WriteChroma(int chroma_y, const float* u, const float* v,
                   int rows_summed) const;

 private:
  template <typename T>
  void StoreRow(int y, size_t channel, int position, const T* elements) const;
  template <typename T>
  void WriteAs(int y, const std::array<float*, kMaxChannels>& rows,
               BandScratch& scratch) const;

  const ConvertPlan& plan_;
  const ImageView& destination_;
  const PixelFormatInfo& to_;
  const size_t width_;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ROW_WRITER_H_
