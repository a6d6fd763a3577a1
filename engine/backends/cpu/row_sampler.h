// Stage 2 of the CPU backend: filters staged rows horizontally into a bounded
// ring and combines ring rows vertically. A source row is fetched once per
// band; nothing of the size of a picture is held.
// Owns: the ring (in the caller's scratch, reused). Thread-safety:
// compatible; one sampler per band.
// Limits: the ring holds taps_y.count rows of the destination's width, but at
// most kMaxRingFloats (at least one row); with fewer slots than taps a source
// row is fetched again for every destination row that uses it.
#ifndef ENGINE_BACKENDS_CPU_ROW_SAMPLER_H_
#define ENGINE_BACKENDS_CPU_ROW_SAMPLER_H_

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "engine/backends/cpu/row_source.h"
#include "engine/image/sampling.h"

namespace preprocd {

struct FloatTapsRequest {
  Filter filter = Filter::kUnspecified;
  int source_extent = 0;
  int destination_extent = 0;
  bool area_blends = false;  // AreaBlends, for Filter::kArea
  bool rounds = false;       // 8 bits between the axes (RoundsBetweenAxes)
  bool operator==(const FloatTapsRequest&) const = default;
};

// Float copies of AxisTaps, shared between the bands of a convert and, by a
// small cache, between converts of equal requests.
struct FloatTaps {
  FloatTapsRequest request;
  int count = 0;
  std::vector<int> first;
  std::vector<float> weights;
  // request.rounds: WeightBetweenAxes of every weight.
  std::vector<double> exact_weights;

  size_t bytes() const;
};
std::shared_ptr<const FloatTaps> MakeFloatTaps(const FloatTapsRequest& request);

// Memory of one band, grown on first use and kept per thread.
struct BandScratch {
  std::vector<float> fetched;     // channels x source width
  std::vector<float> ring;        // ring rows x channels x destination width
  std::vector<int> ring_rows;     // source row held by each ring slot, or -1
  std::vector<float> values;      // channels x destination row
  std::vector<float> chroma;      // sums for subsampled destinations
  std::vector<std::byte> packed;  // one destination row of elements
};

// 4 MiB: a 4K frame shrunk to 640 with Lanczos needs 0.3, and a client's
// choice of extents must not decide how much a thread keeps.
inline constexpr size_t kMaxRingFloats = size_t{1} << 20;

class RowSampler {
 public:
  RowSampler(const RowSource& source, const FloatTaps& taps_x,
             const FloatTaps& taps_y, BandScratch& scratch);

  // Row `y` of the placement into rows[0..channels-1], placement wide.
  // Rows asked for in rising order cost each source row once.
  void Sample(int y, const std::array<float*, kMaxChannels>& rows);

 private:
  // Channels of width_ floats each, valid until the next call.
  const float* RingRow(int source_y);
  void FilterRow(const float* in, float* out) const;
  void RoundedRow(const float* in, float* out) const;

  const RowSource& source_;
  const FloatTaps& taps_x_;
  const FloatTaps& taps_y_;
  const bool round_rows_;
  BandScratch& scratch_;
  const size_t channels_;
  const size_t width_;  // destination
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ROW_SAMPLER_H_
