// Tap tables of one axis of one stored plane in fixed point: which samples of
// a stored row (or column) each destination sample is made of. Crop,
// mirroring and chroma siting are folded in, so that the kernels see one
// separable filter per plane.
// Owns: its tables. Thread-safety: immutable once made.
// Source: engine/image/sampling.h for the taps; a chroma plane's table is the
// luma table with every tap moved to the chroma samples that stand for it.
// Limits: kMaxFixedTaps taps; more make no table (the float rows take over).
#ifndef ENGINE_BACKENDS_CPU_FIXED_TAPS_H_
#define ENGINE_BACKENDS_CPU_FIXED_TAPS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/image/sampling.h"

namespace preprocd {

// Rounding of 64 weights of 16 bits moves a result by half a step of 1/255 at
// most; beyond that the float rows are used.
inline constexpr int kMaxFixedTaps = 64;

// Staged 16-bit samples are (v - 128) * 2^fraction with v in 0..255.
// Filters with negative lobes overshoot and keep two bits of headroom.
inline constexpr int kPlainFraction = 8;
inline constexpr int kLobeFraction = 6;
bool HasNegativeLobes(Filter filter);

struct AxisRequest {
  Filter filter = Filter::kBilinear;
  int shown_extent = 0;
  int destination_extent = 0;
  bool area_blends = false;  // AreaBlends, for Filter::kArea
  bool rounds = false;       // RoundsBetweenAxes, for tables along rows
  // Stored luma index of shown sample i: origin + direction * i.
  int origin = 0;
  int direction = 1;
  // Chroma planes: log2 of the subsampling, and whether chroma between its
  // samples is interpolated (else replicated). 0 for luma and rgb.
  int shift = 0;
  bool fancy = false;
  // Stored samples (of this plane) that may be read.
  int min_index = 0;
  int max_index = 0;
  // Interleaved channels per sample for tables that run along a row; 0 for
  // tables that run down the rows.
  int channels = 0;
  bool operator==(const AxisRequest&) const = default;
};

struct FixedTaps {
  AxisRequest request;
  int count = 0;   // taps per destination sample, after trimming zeros
  int begin = 0;   // first stored sample that any destination sample reads
  int extent = 0;  // stored samples from `begin` on
  // Per destination sample, relative to `begin`; padded with zeros to a
  // multiple of kBlock samples.
  std::vector<int32_t> first;
  // `stride` weights per destination sample (zeros behind `count`), padded
  // like `first`. Along rows 2^weight_bits is one; down rows the weights turn
  // 8-bit samples into staged ones (Q15, or Q13 for filters with lobes).
  std::vector<int16_t> weights;
  int stride = 0;
  int weight_bits = 15;
  // request.rounds: the weights again, in 22 bits: high * 2^8 + low, and per
  // destination sample what makes sums of samples minus 128 values, half up.
  std::vector<int16_t> exact_high;
  std::vector<int16_t> exact_low;
  std::vector<int32_t> exact_bias;
  // count == 1 and first[d] == d.
  bool identity = false;
  // count == 1 and first[d] == d / 2: every sample stands for two.
  bool doubled = false;

  // Byte shuffles; empty where samples lie too far apart.
  // count == 1: every block of 16 (1 channel) or 8 (2 channels) destination
  // samples comes from the kPickWindow bytes at byte `loads[block]`: the OR
  // of their blocks of 16, each shuffled (0x80 = zero).
  // count == 2, 1 channel: every 4 destination samples come from the 8 staged
  // samples at `loads`.
  std::vector<int32_t> loads;
  std::vector<uint8_t> shuffles;
  // count > 1, for machines that permute 64 words: every 16 sums (1 channel:
  // 16 samples; 2 channels: 8 samples of the first, then of the second) come
  // from the words at `permute_bases`; 32 indexes and weights per two taps.
  std::vector<int32_t> permute_bases;
  std::vector<uint16_t> permute_indexes;
  std::vector<int16_t> permute_weights;

  static constexpr int kPickWindow = 64;     // bytes
  static constexpr int kPermuteWindow = 64;  // words
  static constexpr int kBlock = 16;

  size_t bytes() const;
};

// Nothing when the axis needs more than kMaxFixedTaps taps.
std::shared_ptr<const FixedTaps> MakeFixedTaps(const AxisRequest& request);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_FIXED_TAPS_H_
