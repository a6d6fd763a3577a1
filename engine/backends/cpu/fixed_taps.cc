#include "engine/backends/cpu/fixed_taps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backends/cpu/table_cache.h"

namespace preprocd {
namespace {

// Weights below a quarter of the last bit of 16 are nothing.
constexpr double kNegligible = 1.0 / 131072;

// One destination sample's weights over stored samples lo, lo + 1, ...
struct Window {
  int lo = 0;
  std::vector<double> weights;

  void Add(int index, double weight) {
    if (weights.empty()) lo = index;
    if (index < lo) {
      weights.insert(weights.begin(), static_cast<size_t>(lo - index), 0.0);
      lo = index;
    }
    const auto at = static_cast<size_t>(index - lo);
    if (at >= weights.size()) weights.resize(at + 1, 0.0);
    weights[at] += weight;
  }

  void Trim() {
    const auto negligible = [](double w) { return std::abs(w) < kNegligible; };
    while (weights.size() > 1 && negligible(weights.back())) weights.pop_back();
    size_t zeros = 0;
    while (zeros + 1 < weights.size() && negligible(weights[zeros])) ++zeros;
    weights.erase(weights.begin(),
                  weights.begin() + static_cast<ptrdiff_t>(zeros));
    lo += static_cast<int>(zeros);
  }
};

void AddStored(const AxisRequest& r, int luma, double weight, Window& window) {
  const auto clamp = [&r](int i) {
    return std::clamp(i, r.min_index, r.max_index);
  };
  if (r.shift == 0 || !r.fancy) {
    window.Add(clamp(luma >> r.shift), weight);
    return;
  }
  const ChromaTaps c = FancyChroma(luma, r.shift, r.max_index + 2);
  window.Add(clamp(c.index0), weight * c.weight0);
  window.Add(clamp(c.index1), weight * c.weight1);
}

std::vector<Window> MakeWindows(const AxisRequest& r) {
  const AxisTaps exact = ComputeTaps(r.filter, r.shown_extent,
                                     r.destination_extent, r.area_blends);
  std::vector<Window> windows(static_cast<size_t>(r.destination_extent));
  for (size_t d = 0; d < windows.size(); ++d) {
    const auto count = static_cast<size_t>(exact.count);
    for (size_t k = 0; k < count; ++k) {
      const double w = exact.weights[d * count + k];
      if (w == 0) continue;
      const int shown = exact.first[d] + static_cast<int>(k);
      AddStored(r, r.origin + r.direction * shown, w, windows[d]);
    }
    windows[d].Trim();
  }
  return windows;
}

// Integers that sum to `one` exactly, the rest given to the largest.
void Quantize(const std::vector<double>& exact, int one, int16_t* out) {
  int sum = 0;
  size_t largest = 0;
  std::vector<int> rounded(exact.size());
  for (size_t k = 0; k < exact.size(); ++k) {
    rounded[k] = static_cast<int>(std::lround(exact[k] * one));
    sum += rounded[k];
    if (rounded[k] > rounded[largest]) largest = k;
  }
  rounded[largest] += one - sum;
  for (size_t k = 0; k < exact.size(); ++k) {
    out[k] = static_cast<int16_t>(
        std::clamp<int>(rounded[k], std::numeric_limits<int16_t>::min(),
                        std::numeric_limits<int16_t>::max()));
  }
}

// The weights in 22 bits, split so that 16-bit products can be used.
void AddExactWeights(const std::vector<double>& exact, size_t d, FixedTaps& t) {
  const size_t at = d * static_cast<size_t>(t.stride);
  int32_t sum = 0;
  for (size_t k = 0; k < exact.size(); ++k) {
    const auto weight =
        static_cast<int32_t>(WeightBetweenAxes(exact[k]) * (1 << 22));
    const int32_t high = (weight + 128) >> 8;
    t.exact_high[at + k] = static_cast<int16_t>(high);
    t.exact_low[at + k] = static_cast<int16_t>(weight - high * 256);
    sum += weight;
  }
  t.exact_bias[d] = 128 * sum + (1 << 21);
}

int StrideOf(const AxisRequest& r, int count) {
  if (r.channels == 0) return count;
  switch (r.channels) {
    case 1:
      return count <= 4 ? 4 : (count + 7) / 8 * 8;
    case 2:
      // The exact sums take two channels four taps at a time.
      return count <= 2 && !r.rounds ? 2 : (count + 3) / 4 * 4;
    default:
      return (count + 1) / 2 * 2;
  }
}

// Picks: a block of destination samples from kPickWindow bytes at one offset,
// one shuffle per 16 of them.
void MakePicks(FixedTaps& t) {
  const int element = t.request.channels;
  const size_t block = element == 1 ? 16 : 8;
  const auto extent = static_cast<size_t>(t.request.destination_extent);
  const int window = FixedTaps::kPickWindow;
  std::vector<int32_t> loads;
  std::vector<uint8_t> shuffles;
  for (size_t d = 0; d < t.first.size(); d += block) {
    const size_t end = std::min(d + block, extent);
    int32_t base = 0;
    if (d < end) {
      const auto [lo, hi] =
          std::minmax_element(t.first.begin() + static_cast<ptrdiff_t>(d),
                              t.first.begin() + static_cast<ptrdiff_t>(end));
      if ((*hi + 1 - *lo) * element > window) return;
      // Never beyond the row: its end may be the end of the memory.
      base = std::min(*lo * element, t.extent * element - window);
    }
    loads.push_back(base);
    const size_t at = shuffles.size();
    shuffles.resize(at + static_cast<size_t>(window), 0x80);
    for (size_t i = d; i < end; ++i) {
      for (int c = 0; c < element; ++c) {
        const int byte = t.first[i] * element + c - base;
        const size_t lane = i - d + static_cast<size_t>(c) * 8;
        shuffles[at + static_cast<size_t>(byte / 16 * 16) + lane] =
            static_cast<uint8_t>(byte % 16);
      }
    }
  }
  t.loads = std::move(loads);
  t.shuffles = std::move(shuffles);
}

// Pairs of staged samples for 4 destination samples from one load.
void MakePairShuffles(FixedTaps& t) {
  const auto padded = t.first.size();
  const auto extent = static_cast<size_t>(t.request.destination_extent);
  std::vector<int32_t> loads;
  std::vector<uint8_t> shuffles(padded * 4, 0x80);
  for (size_t d = 0; d < padded; d += 4) {
    const size_t end = std::min(d + 4, extent);
    int32_t base = 0;
    if (d < end) {
      const auto [lo, hi] =
          std::minmax_element(t.first.begin() + static_cast<ptrdiff_t>(d),
                              t.first.begin() + static_cast<ptrdiff_t>(end));
      if (*hi + 2 - *lo > 8) return;
      base = *lo;
    }
    loads.push_back(base);
    uint8_t* shuffle = shuffles.data() + d * 4;
    for (size_t i = d; i < end; ++i) {
      for (int b = 0; b < 4; ++b) {
        *shuffle++ = static_cast<uint8_t>((t.first[i] - base) * 2 + b);
      }
    }
  }
  t.loads = std::move(loads);
  t.shuffles = std::move(shuffles);
}

// Word permutes: a vector of 16 sums (of 16 samples, or of 8 samples of two
// channels) from 64 staged words, two taps at a time.
void MakePermutes(FixedTaps& t) {
  constexpr int kWindow = FixedTaps::kPermuteWindow;
  const int channels = t.request.channels;
  const size_t block = channels == 1 ? 16 : 8;
  const auto extent = static_cast<size_t>(t.request.destination_extent);
  const int pairs = (t.count + 1) / 2;
  const size_t words = static_cast<size_t>(pairs) * 32;
  std::vector<int32_t> bases;
  std::vector<uint16_t> indexes;
  std::vector<int16_t> weights;
  for (size_t d = 0; d < t.first.size(); d += block) {
    const size_t end = std::min(d + block, extent);
    const size_t at = indexes.size();
    indexes.resize(at + words, 0);
    weights.resize(at + words, 0);
    if (d >= end) {
      bases.push_back(0);
      continue;
    }
    const auto [lo, hi] =
        std::minmax_element(t.first.begin() + static_cast<ptrdiff_t>(d),
                            t.first.begin() + static_cast<ptrdiff_t>(end));
    if ((*hi + t.count - *lo) * channels > kWindow) return;
    const int base = *lo * channels;
    bases.push_back(base);
    for (size_t i = d; i < end; ++i) {
      for (int k = 0; k < t.count; ++k) {
        for (int c = 0; c < channels; ++c) {
          const size_t lane = (i - d) + static_cast<size_t>(c) * 8;
          const size_t word = at + static_cast<size_t>(k / 2) * 32 + lane * 2 +
                              static_cast<size_t>(k % 2);
          indexes[word] =
              static_cast<uint16_t>((t.first[i] + k) * channels + c - base);
          weights[word] = t.weights[i * static_cast<size_t>(t.stride) +
                                    static_cast<size_t>(k)];
        }
      }
    }
  }
  t.permute_bases = std::move(bases);
  t.permute_indexes = std::move(indexes);
  t.permute_weights = std::move(weights);
}

void FillTables(const std::vector<Window>& windows, FixedTaps& t) {
  const AxisRequest& r = t.request;
  const bool lobes = HasNegativeLobes(r.filter);
  int one = 1 << 15;
  if (lobes) one = r.channels == 0 ? 1 << 13 : 1 << 14;
  t.weight_bits = lobes ? 14 : 15;
  t.stride = StrideOf(r, t.count);
  const size_t padded = (windows.size() + FixedTaps::kBlock - 1) /
                        FixedTaps::kBlock * FixedTaps::kBlock;
  t.first.assign(padded, 0);
  t.weights.assign(padded * static_cast<size_t>(t.stride), 0);
  const bool exact = r.rounds;
  if (exact) {
    t.exact_high.assign(t.weights.size(), 0);
    t.exact_low.assign(t.weights.size(), 0);
    t.exact_bias.assign(padded, 0);
  }
  t.identity = t.count == 1;
  t.doubled = t.count == 1;
  for (size_t d = 0; d < windows.size(); ++d) {
    const int first = windows[d].lo - t.begin;
    t.first[d] = first;
    const size_t at = d * static_cast<size_t>(t.stride);
    Quantize(windows[d].weights, one, t.weights.data() + at);
    if (exact) AddExactWeights(windows[d].weights, d, t);
    t.identity = t.identity && first == static_cast<int>(d);
    t.doubled = t.doubled && first == static_cast<int>(d / 2);
  }
}

}  // namespace

bool HasNegativeLobes(Filter filter) {
  return filter == Filter::kBicubic || filter == Filter::kBicubicAa ||
         filter == Filter::kLanczos3;
}

std::shared_ptr<const FixedTaps> MakeFixedTaps(const AxisRequest& request) {
  std::vector<Window> windows = MakeWindows(request);
  int count = 1;
  int lo = std::numeric_limits<int>::max();
  int hi = std::numeric_limits<int>::min();
  for (const Window& w : windows) {
    const auto size = static_cast<int>(w.weights.size());
    count = std::max(count, size);
    lo = std::min(lo, w.lo);
    hi = std::max(hi, w.lo + size);
  }
  if (count > kMaxFixedTaps) return nullptr;
  auto t = std::make_shared<FixedTaps>();
  t->request = request;
  t->count = count;
  t->begin = lo;
  t->extent = hi - lo;
  // Shorter windows at the far edge move back so that `count` taps fit.
  for (Window& w : windows) {
    const int room = hi - w.lo;
    if (room >= count) continue;
    const int back = std::min(count - room, w.lo - lo);
    w.weights.insert(w.weights.begin(), static_cast<size_t>(back), 0.0);
    w.lo -= back;
  }
  FillTables(windows, *t);
  if (count == 1 && (request.channels == 1 || request.channels == 2) &&
      t->extent * request.channels >= FixedTaps::kPickWindow) {
    MakePicks(*t);
  }
  if (count > 1 && (request.channels == 1 || request.channels == 2)) {
    MakePermutes(*t);
  }
  if (count == 2 && request.channels == 1) MakePairShuffles(*t);
  return t;
}

size_t FixedTaps::bytes() const {
  return sizeof(*this) + BytesOf(first) + BytesOf(weights) +
         BytesOf(exact_high) + BytesOf(exact_low) + BytesOf(exact_bias) +
         BytesOf(loads) + BytesOf(shuffles) + BytesOf(permute_bases) +
         BytesOf(permute_indexes) + BytesOf(permute_weights);
}

}  // namespace preprocd
