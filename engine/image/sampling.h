// Sampling coordinates and filter taps of one axis: which source samples a
// destination sample is made of, and with which weights. The only place that
// knows the coordinate convention; backends quantise what it returns.
// Thread-safety: safe (no state).
// Source: DESIGN section 5; half-pixel centres s = (d + 0.5) * S / D - 0.5.
// At the source's edge bilinear, bicubic and area clamp (OpenCV), the three
// scaled filters cut their window and renormalise it (Pillow).
#ifndef ENGINE_IMAGE_SAMPLING_H_
#define ENGINE_IMAGE_SAMPLING_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/image/geometry.h"
#include "engine/image/orientation.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

// Numbers equal preproc.v1.Filter.
enum class Filter : uint8_t {
  kUnspecified = 0,  // bilinear
  kNearest = 1,      // floor((d + 0.5) * S / D)
  kBilinear = 2,     // 2 taps, no anti-aliasing
  kBilinearAa = 3,   // triangle, support scaled when shrinking
  // Pixel-area average where no axis grows. As soon as one does, both axes
  // blend as INTER_AREA does: only a destination pixel that straddles two
  // source pixels mixes them (see AreaBlends).
  kArea = 4,
  kBicubic = 5,    // 4 taps, a = -0.75
  kBicubicAa = 6,  // a = -0.5, support scaled when shrinking
  kLanczos3 = 7,   // a = 3, support scaled when shrinking
};
std::optional<Filter> ParseFilter(absl::string_view name);
absl::string_view FilterName(Filter filter);

// floor((2d + 1) * S / (2D)) in integers, exact: a centre on the border of
// two pixels takes the higher one, where libraries that step in fixed or
// floating point may take either.
int NearestIndex(int d, int source_extent, int destination_extent);

// True when kArea blends instead of averaging: an axis grows.
bool AreaBlends(Size source, Size destination);

// Filters that, at eight-bit precision, round and clamp grey and rgb pictures
// to 8 bits between the axes: along the rows first, then down. Pillow's
// definition of these two: their lobes overshoot at hard edges, and the clamp
// in between shows there (by up to 65 of 255). Pictures in YUV, which Pillow
// does not scale, are rounded once.
bool RoundsBetweenAxes(Filter filter, ColorFamily source);
// The weight that such a filter uses along the rows: `weight` in 22 bits after
// the point, as Pillow has it, so that ties (common, since weights are ratios
// of small numbers) fall the same way in every arithmetic.
double WeightBetweenAxes(double weight);

// Taps of every destination sample of one axis. Sample d reads source indexes
// first[d] .. first[d] + count - 1 (all inside 0..S-1), with weights
// weights[d * count .. d * count + count - 1], which sum to 1; some may be 0.
struct AxisTaps {
  int source_extent = 0;
  int destination_extent = 0;
  int count = 0;
  std::vector<int> first;
  std::vector<double> weights;
};

// REQUIRES: both extents in 1..kMaxImageAxis, a specified filter.
// `area_blends`: AreaBlends of both axes, for kArea.
// With `offset`/`shown` use ComputeTaps on the shown extent and add the
// offset to `first`.
AxisTaps ComputeTaps(Filter filter, int source_extent, int destination_extent,
                     bool area_blends = false);

// The `count` of those taps, without computing them.
int TapCount(Filter filter, int source_extent, int destination_extent,
             bool area_blends = false);

// Chroma at luma position x (0-based luma index) of a plane subsampled by
// 2^shift along this axis: two taps (index, weight); replicate gives one tap
// x >> shift with weight 1; fancy is the centred triangle of libjpeg:
// (3 near + 1 far) / 4. `chroma_extent` bounds the clamp.
struct ChromaTaps {
  int index0 = 0;
  int index1 = 0;
  double weight0 = 1;
  double weight1 = 0;
};
ChromaTaps ReplicateChroma(int x, int shift);
ChromaTaps FancyChroma(int x, int shift, int chroma_extent);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_SAMPLING_H_
