// Inner loops of mask materialisation, compiled for every vector target and
// chosen at run time. Lengths are elements and may be any number >= 0;
// outputs are written exactly, inputs that must be readable further say so.
// Thread-safety: safe (no state).
#ifndef ENGINE_MASKS_MASK_KERNELS_H_
#define ENGINE_MASKS_MASK_KERNELS_H_

#include <cstddef>
#include <cstdint>

#include "engine/masks/mask_plan.h"

namespace preprocd {

// Floats that must be readable behind the row given to ExpandRow, and behind
// the rows given to ThresholdRow and SigmoidRow.
inline constexpr size_t kMaskRowPadding = 64;

// coefficients of one mask, folded: logit = scale * (bias + sum over k of
// coefficients[k] * stored prototype(k)).
struct FoldedCoefficients {
  const float* values = nullptr;
  float bias = 0;
  float scale = 1;
};

// Logits of pixels [first, first + n) of the prototype plane (index y * W +
// x), which must lie inside it.
void LogitRow(const PrototypeTensor& prototypes, const FoldedCoefficients& mask,
              size_t first, size_t n, float* out);

// Pixels [first, first + n) of every prototype as floats, packed: plane k's
// begin at out[k * stride], stride >= n.
void PackPrototypes(const PrototypeTensor& prototypes, size_t first, size_t n,
                    size_t stride, float* out);

// Logits of `rows` masks from packed prototypes: mask r's begin at out[r *
// stride]. Writes whole vectors: stride must be a multiple of 64 >= n, and
// `packed` must be readable that far.
void LogitBlock(const float* packed, size_t stride, size_t n, int channels,
                const FoldedCoefficients* masks, int rows, float* out);

// n logits of one mask from packed prototypes, which are readable, as out is
// writable, kMaskRowPadding further.
void MultiplyRow(const float* packed, size_t stride, size_t n, int channels,
                 const FoldedCoefficients& mask, float* out);

// out[i] = row[tap[i] - base] * (1 - fraction[i]) + row[tap[i] - base + 1] *
// fraction[i]. `row` is readable kMaskRowPadding past its last tap; taps rise.
void ExpandRow(const float* row, const int32_t* tap, const float* fraction,
               int32_t base, size_t n, float* out);

// With v = a[i] + w * (b[i] - a[i]): 255 when v > 0, else 0.
void ThresholdRow(const float* a, const float* b, float w, size_t n,
                  uint8_t* out);
// The same for `rows` rows of weights w[r], row r at out + r * stride.
void ThresholdRows(const float* a, const float* b, const float* w, size_t rows,
                   size_t n, size_t stride, uint8_t* out);
// floor(255 / (1 + exp(-v)) + 1/2); 0 for NaN. Within 1e-4 before rounding.
void SigmoidRow(const float* a, const float* b, float w, size_t n,
                uint8_t* out);
// 1 / (1 + exp(-v)), absolute error below 1e-6.
void SigmoidRow(const float* a, const float* b, float w, size_t n, float* out);

// Where v > best[i]: best[i] = v, index[i] = value.
void ArgmaxRow(const float* a, const float* b, float w, size_t n, uint8_t value,
               float* best, uint8_t* index);

}  // namespace preprocd

#endif  // ENGINE_MASKS_MASK_KERNELS_H_
