#include "engine/image/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>

#include "absl/strings/string_view.h"
#include "engine/base/check.h"

namespace preprocd {
namespace {

struct FilterRow {
  Filter filter;
  absl::string_view name;
};
constexpr std::array<FilterRow, 7> kFilters = {{
    {Filter::kNearest, "nearest"},
    {Filter::kBilinear, "bilinear"},
    {Filter::kBilinearAa, "bilinear-aa"},
    {Filter::kArea, "area"},
    {Filter::kBicubic, "bicubic"},
    {Filter::kBicubicAa, "bicubic-aa"},
    {Filter::kLanczos3, "lanczos3"},
}};

double Triangle(double x) { return std::max(0.0, 1.0 - std::abs(x)); }

// Keys' cubic convolution kernel.
double Cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

double Sinc(double x) {
  if (x == 0) return 1;
  const double t = x * std::numbers::pi;
  return std::sin(t) / t;
}

double Lanczos3(double x) {
  if (x < -3 || x >= 3) return 0;
  return Sinc(x) * Sinc(x / 3);
}

double PillowKernel(Filter filter, double x) {
  switch (filter) {
    case Filter::kBilinearAa:
      return Triangle(x);
    case Filter::kBicubicAa:
      return Cubic(x, -0.5);
    default:
      return Lanczos3(x);
  }
}

double PillowSupport(Filter filter) {
  switch (filter) {
    case Filter::kBilinearAa:
      return 1;
    case Filter::kBicubicAa:
      return 2;
    default:
      return 3;
  }
}

double ScaledSupport(Filter filter, double scale) {
  return PillowSupport(filter) * std::max(scale, 1.0);
}

// Source samples per destination sample, were the source endless.
int UnboundedTapCount(Filter filter, int source_extent, int destination_extent,
                      bool area_blends) {
  const double scale = static_cast<double>(source_extent) / destination_extent;
  switch (filter) {
    case Filter::kNearest:
      return 1;
    case Filter::kUnspecified:
    case Filter::kBilinear:
      return 2;
    case Filter::kArea:
      return !area_blends && source_extent > destination_extent
                 ? static_cast<int>(std::ceil(scale)) + 1
                 : 2;
    case Filter::kBicubic:
      return 4;
    case Filter::kBilinearAa:
    case Filter::kBicubicAa:
    case Filter::kLanczos3:
      break;
  }
  return static_cast<int>(std::ceil(ScaledSupport(filter, scale))) * 2 + 1;
}

AxisTaps MakeTaps(Filter filter, int source_extent, int destination_extent,
                  bool area_blends = false) {
  AxisTaps taps;
  taps.source_extent = source_extent;
  taps.destination_extent = destination_extent;
  taps.count = TapCount(filter, source_extent, destination_extent, area_blends);
  taps.first.resize(static_cast<size_t>(destination_extent));
  taps.weights.assign(
      static_cast<size_t>(destination_extent) * static_cast<size_t>(taps.count),
      0.0);
  return taps;
}

// Adds `weight` at source index `index`, clamped to the edge; `first` was
// chosen so that every clamped index fits into the window.
void AddTap(AxisTaps& taps, int d, int index, double weight) {
  index = std::clamp(index, 0, taps.source_extent - 1);
  const int k = index - taps.first[static_cast<size_t>(d)];
  PREPROCD_CHECK(k >= 0 && k < taps.count);
  taps.weights[static_cast<size_t>(d) * static_cast<size_t>(taps.count) +
               static_cast<size_t>(k)] += weight;
}

void SetFirst(AxisTaps& taps, int d, int first) {
  taps.first[static_cast<size_t>(d)] =
      std::clamp(first, 0, taps.source_extent - taps.count);
}

AxisTaps NearestTaps(int source_extent, int destination_extent) {
  AxisTaps taps = MakeTaps(Filter::kNearest, source_extent, destination_extent);
  for (int d = 0; d < destination_extent; ++d) {
    taps.first[static_cast<size_t>(d)] =
        NearestIndex(d, source_extent, destination_extent);
    taps.weights[static_cast<size_t>(d)] = 1;
  }
  return taps;
}

AxisTaps BilinearTaps(int source_extent, int destination_extent) {
  AxisTaps taps =
      MakeTaps(Filter::kBilinear, source_extent, destination_extent);
  const double scale = static_cast<double>(source_extent) / destination_extent;
  for (int d = 0; d < destination_extent; ++d) {
    const double s = (d + 0.5) * scale - 0.5;
    const int base = static_cast<int>(std::floor(s));
    const double fraction = s - base;
    SetFirst(taps, d, base);
    AddTap(taps, d, base, 1 - fraction);
    AddTap(taps, d, base + 1, fraction);
  }
  return taps;
}

// What INTER_AREA does when an axis grows: a linear blend only where a
// destination pixel straddles two source pixels.
AxisTaps AreaBlendTaps(int source_extent, int destination_extent) {
  AxisTaps taps =
      MakeTaps(Filter::kArea, source_extent, destination_extent, true);
  const double scale = static_cast<double>(source_extent) / destination_extent;
  const double inverse =
      static_cast<double>(destination_extent) / source_extent;
  for (int d = 0; d < destination_extent; ++d) {
    const int base = static_cast<int>(std::floor(d * scale));
    double fraction = (d + 1) - (base + 1) * inverse;
    fraction = fraction <= 0 ? 0 : fraction - std::floor(fraction);
    SetFirst(taps, d, base);
    AddTap(taps, d, base, 1 - fraction);
    AddTap(taps, d, base + 1, fraction);
  }
  return taps;
}

AxisTaps AreaAverageTaps(int source_extent, int destination_extent) {
  const double scale = static_cast<double>(source_extent) / destination_extent;
  AxisTaps taps = MakeTaps(Filter::kArea, source_extent, destination_extent);
  for (int d = 0; d < destination_extent; ++d) {
    const double begin = d * scale;
    const double end =
        std::min((d + 1) * scale, static_cast<double>(source_extent));
    const int first = static_cast<int>(std::floor(begin));
    const int last = std::min(static_cast<int>(std::ceil(end)), source_extent);
    SetFirst(taps, d, first);
    for (int s = first; s < last; ++s) {
      const double overlap =
          std::min(end, s + 1.0) - std::max(begin, static_cast<double>(s));
      if (overlap > 0) AddTap(taps, d, s, overlap / (end - begin));
    }
  }
  return taps;
}

AxisTaps BicubicTaps(int source_extent, int destination_extent) {
  AxisTaps taps = MakeTaps(Filter::kBicubic, source_extent, destination_extent);
  const double scale = static_cast<double>(source_extent) / destination_extent;
  for (int d = 0; d < destination_extent; ++d) {
    const double s = (d + 0.5) * scale - 0.5;
    const int base = static_cast<int>(std::floor(s));
    SetFirst(taps, d, base - 1);
    for (int k = -1; k <= 2; ++k) {
      AddTap(taps, d, base + k, Cubic(s - (base + k), -0.75));
    }
  }
  return taps;
}

// The window is cut at the edges and renormalised, not folded.
AxisTaps PillowTaps(Filter filter, int source_extent, int destination_extent) {
  const double scale = static_cast<double>(source_extent) / destination_extent;
  const double filter_scale = std::max(scale, 1.0);
  const double support = ScaledSupport(filter, scale);
  AxisTaps taps = MakeTaps(filter, source_extent, destination_extent);
  for (int d = 0; d < destination_extent; ++d) {
    const double center = (d + 0.5) * scale;
    const int first = std::max(0, static_cast<int>(center - support + 0.5));
    const int last =
        std::min(source_extent, static_cast<int>(center + support + 0.5));
    SetFirst(taps, d, first);
    double sum = 0;
    for (int s = first; s < last; ++s) {
      sum += PillowKernel(filter, (s - center + 0.5) / filter_scale);
    }
    for (int s = first; s < last; ++s) {
      AddTap(taps, d, s,
             PillowKernel(filter, (s - center + 0.5) / filter_scale) / sum);
    }
  }
  return taps;
}

}  // namespace

std::optional<Filter> ParseFilter(absl::string_view name) {
  for (const FilterRow& row : kFilters) {
    if (row.name == name) return row.filter;
  }
  return std::nullopt;
}

absl::string_view FilterName(Filter filter) {
  for (const FilterRow& row : kFilters) {
    if (row.filter == filter) return row.name;
  }
  return "unspecified";
}

int NearestIndex(int d, int source_extent, int destination_extent) {
  const int64_t index =
      (int64_t{2} * d + 1) * source_extent / (int64_t{2} * destination_extent);
  return static_cast<int>(
      std::clamp<int64_t>(index, 0, int64_t{source_extent} - 1));
}

bool AreaBlends(Size source, Size destination) {
  return destination.width > source.width || destination.height > source.height;
}

bool RoundsBetweenAxes(Filter filter, ColorFamily source) {
  if (source == ColorFamily::kYuv) return false;
  return filter == Filter::kBicubicAa || filter == Filter::kLanczos3;
}

double WeightBetweenAxes(double weight) {
  return std::round(weight * 0x1p22) * 0x1p-22;
}

int TapCount(Filter filter, int source_extent, int destination_extent,
             bool area_blends) {
  return std::min(
      UnboundedTapCount(filter, source_extent, destination_extent, area_blends),
      source_extent);
}

AxisTaps ComputeTaps(Filter filter, int source_extent, int destination_extent,
                     bool area_blends) {
  PREPROCD_CHECK(source_extent > 0 && destination_extent > 0);
  switch (filter) {
    case Filter::kNearest:
      return NearestTaps(source_extent, destination_extent);
    case Filter::kUnspecified:
    case Filter::kBilinear:
      return BilinearTaps(source_extent, destination_extent);
    case Filter::kArea:
      return !area_blends && source_extent > destination_extent
                 ? AreaAverageTaps(source_extent, destination_extent)
                 : AreaBlendTaps(source_extent, destination_extent);
    case Filter::kBicubic:
      return BicubicTaps(source_extent, destination_extent);
    case Filter::kBilinearAa:
    case Filter::kBicubicAa:
    case Filter::kLanczos3:
      return PillowTaps(filter, source_extent, destination_extent);
  }
  return BilinearTaps(source_extent, destination_extent);
}

ChromaTaps ReplicateChroma(int x, int shift) {
  ChromaTaps taps;
  taps.index0 = x >> shift;
  taps.index1 = taps.index0;
  return taps;
}

ChromaTaps FancyChroma(int x, int shift, int chroma_extent) {
  if (shift == 0) return ReplicateChroma(x, 0);
  ChromaTaps taps;
  taps.index0 = x >> 1;
  // Luma sample 2i lies a quarter before chroma i, 2i + 1 a quarter after.
  const int far = (x & 1) != 0 ? taps.index0 + 1 : taps.index0 - 1;
  taps.index1 = std::clamp(far, 0, chroma_extent - 1);
  taps.weight0 = 0.75;
  taps.weight1 = 0.25;
  return taps;
}

}  // namespace preprocd
