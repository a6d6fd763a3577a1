// Kernels of the separable filter in fixed point: rows down, columns along,
// picks where one sample stands for the result. Best instruction set chosen
// at run time.
// Staged samples are (v - 128) * 2^fraction (engine/backends/cpu/
// fixed_taps.h); RGBX rows hold 4 bytes per pixel, the fourth undefined
// unless the source has alpha.
// Outputs named "padded" are written up to the next multiple of
// FixedTaps::kBlock samples; staged inputs must be readable for
// kStagedPadding samples behind their end.
// Thread-safety: safe (no state). No allocation.
#ifndef ENGINE_BACKENDS_CPU_FILTER_KERNELS_H_
#define ENGINE_BACKENDS_CPU_FILTER_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "engine/backends/cpu/fixed_taps.h"

namespace preprocd {

inline constexpr size_t kStagedPadding = 64;

// out[i] = sum over k of (rows[k][i] - 128) * weights[k] / 2^7, rounded per
// tap. With count == 1 and weights[0] == 32767 the factor is exactly 2^8, with
// 128 it is 1.
// Reads `size` bytes of every row and writes `size` samples.
void FilterRows(const uint8_t* const* rows, const int16_t* weights, int count,
                size_t size, int16_t* out);

// Along one staged row: interleaved channels in, one row per channel out
// (padded); rounded to the staged fraction. REQUIRES: a table made for that
// number of channels.
void FilterColumns1(const int16_t* in, const FixedTaps& taps, int16_t* out);
void FilterColumns2(const int16_t* in, const FixedTaps& taps, int16_t* first,
                    int16_t* second);
// 3 or 4 channels, rounded to 8 bits (half up) and clamped; RGBX out, padded.
void FilterColumns4(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx);

// Along one row of samples minus 128 (fraction 0), rounded to 8 bits (half
// up) and clamped, with the exact weights; padded bytes out.
// REQUIRES: a table with request.rounds for that number of channels.
void RoundColumns1(const int16_t* in, const FixedTaps& taps, uint8_t* out);
void RoundColumns2(const int16_t* in, const FixedTaps& taps, uint8_t* first,
                   uint8_t* second);
void RoundColumns4(const int16_t* in, const FixedTaps& taps, uint8_t* rgbx);

// One sample per result; rows of 8-bit samples in (not read beyond their
// end), padded rows out. REQUIRES: taps.count == 1, made for that number of
// channels.
void PickColumns1(const uint8_t* in, const FixedTaps& taps, uint8_t* out);
void PickColumns2(const uint8_t* in, const FixedTaps& taps, uint8_t* first,
                  uint8_t* second);
// 3 or 4 channels; RGBX out.
void PickColumns4(const uint8_t* in, const FixedTaps& taps, uint8_t* rgbx);

// Staged samples to 8 bits, half up, clamped. Writes `size` bytes.
void RoundRow(const int16_t* in, int fraction, size_t size, uint8_t* out);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_FILTER_KERNELS_H_
