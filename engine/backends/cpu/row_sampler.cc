#include "engine/backends/cpu/row_sampler.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "engine/backends/cpu/fixed_taps.h"
#include "engine/backends/cpu/table_cache.h"

namespace preprocd {

std::shared_ptr<const FloatTaps> MakeFloatTaps(
    const FloatTapsRequest& request) {
  const AxisTaps exact =
      ComputeTaps(request.filter, request.source_extent,
                  request.destination_extent, request.area_blends);
  auto taps = std::make_shared<FloatTaps>();
  taps->request = request;
  taps->count = exact.count;
  taps->first = exact.first;
  taps->weights.assign(exact.weights.begin(), exact.weights.end());
  if (request.rounds) {
    taps->exact_weights.resize(exact.weights.size());
    std::ranges::transform(exact.weights, taps->exact_weights.begin(),
                           WeightBetweenAxes);
  }
  return taps;
}

size_t FloatTaps::bytes() const {
  return sizeof(*this) + BytesOf(first) + BytesOf(weights) +
         BytesOf(exact_weights);
}

RowSampler::RowSampler(const RowSource& source, const FloatTaps& taps_x,
                       const FloatTaps& taps_y, BandScratch& scratch)
    : source_(source),
      taps_x_(taps_x),
      taps_y_(taps_y),
      round_rows_(taps_x.request.rounds && taps_x.count > 1),
      scratch_(scratch),
      channels_(static_cast<size_t>(source.channels())),
      width_(static_cast<size_t>(taps_x.request.destination_extent)) {
  const size_t slots = std::clamp<size_t>(kMaxRingFloats / (channels_ * width_),
                                          1, static_cast<size_t>(taps_y.count));
  const size_t fetched = channels_ * static_cast<size_t>(source.width());
  const size_t ring = slots * channels_ * width_;
  if (scratch.fetched.size() < fetched) scratch.fetched.resize(fetched);
  if (scratch.ring.size() < ring) scratch.ring.resize(ring);
  scratch.ring_rows.assign(slots, -1);
}

const float* RowSampler::RingRow(int source_y) {
  const size_t slot = static_cast<size_t>(source_y) % scratch_.ring_rows.size();
  float* base = scratch_.ring.data() + slot * channels_ * width_;
  if (scratch_.ring_rows[slot] != source_y) {
    scratch_.ring_rows[slot] = source_y;
    std::array<float*, kMaxChannels> rows = {};
    const auto in_width = static_cast<size_t>(source_.width());
    for (size_t c = 0; c < channels_; ++c) {
      rows[c] = scratch_.fetched.data() + c * in_width;
    }
    source_.Fetch(source_y, rows);
    for (size_t c = 0; c < channels_; ++c) {
      float* out = base + c * width_;
      round_rows_ ? RoundedRow(rows[c], out) : FilterRow(rows[c], out);
    }
  }
  return base;
}

void RowSampler::FilterRow(const float* in, float* out) const {
  const int* first = taps_x_.first.data();
  const float* weights = taps_x_.weights.data();
  switch (taps_x_.count) {
    case 1:
      for (size_t x = 0; x < width_; ++x) out[x] = in[first[x]];
      return;
    case 2:
      for (size_t x = 0; x < width_; ++x) {
        const float* at = in + first[x];
        out[x] = weights[2 * x] * at[0] + weights[2 * x + 1] * at[1];
      }
      return;
    default:
      break;
  }
  const auto count = static_cast<size_t>(taps_x_.count);
  for (size_t x = 0; x < width_; ++x) {
    const float* at = in + first[x];
    const float* w = weights + x * count;
    float sum = 0;
    for (size_t k = 0; k < count; ++k) sum += w[k] * at[k];
    out[x] = sum;
  }
}

// Sums of bytes and 22-bit fractions, which doubles hold exactly.
void RowSampler::RoundedRow(const float* in, float* out) const {
  const auto count = static_cast<size_t>(taps_x_.count);
  for (size_t x = 0; x < width_; ++x) {
    const float* at = in + taps_x_.first[x];
    const double* w = taps_x_.exact_weights.data() + x * count;
    double sum = 0.5;
    for (size_t k = 0; k < count; ++k) {
      sum += w[k] * double{at[k]};
    }
    out[x] = static_cast<float>(std::clamp(std::floor(sum), 0.0, 255.0));
  }
}

void RowSampler::Sample(int y, const std::array<float*, kMaxChannels>& rows) {
  const auto count = static_cast<size_t>(taps_y_.count);
  const auto d = static_cast<size_t>(y);
  const int first = taps_y_.first[d];
  const float* weights = taps_y_.weights.data() + d * count;
  bool empty = true;
  for (size_t k = 0; k < count; ++k) {
    const float w = weights[k];
    if (w == 0) continue;
    const float* in = RingRow(first + static_cast<int>(k));
    for (size_t c = 0; c < channels_; ++c, in += width_) {
      float* out = rows[c];
      if (empty && w == 1) {
        memcpy(out, in, width_ * sizeof(float));
      } else if (empty) {
        for (size_t x = 0; x < width_; ++x) out[x] = w * in[x];
      } else {
        for (size_t x = 0; x < width_; ++x) out[x] += w * in[x];
      }
    }
    empty = false;
  }
  if (!empty) {
    // Colour is defined on 0..255; lobes overshoot.
    if (!HasNegativeLobes(taps_y_.request.filter)) return;
    for (size_t c = 0; c < channels_; ++c) {
      float* out = rows[c];
      for (size_t x = 0; x < width_; ++x) {
        out[x] = std::min(std::max(out[x], 0.0f), 255.0f);
      }
    }
    return;
  }
  for (size_t c = 0; c < channels_; ++c) std::fill_n(rows[c], width_, 0.0f);
}

}  // namespace preprocd
