// The dtype stage as a table: the bits of a destination element for each of
// the 256 values a channel can have at eight-bit precision, so that a shader
// that looks them up has the definition's double-precision result.
// Thread-safety: safe (no state).
// Source: DESIGN section 5 and engine/convert/convert_plan.h.
#ifndef ENGINE_BACKENDS_GLES_ELEMENT_BITS_H_
#define ENGINE_BACKENDS_GLES_ELEMENT_BITS_H_

#include <array>
#include <cstdint>
#include <optional>

#include "engine/convert/convert_plan.h"

namespace preprocd {

// What decides an element, as a comparable value.
struct GlElementStage {
  DType dtype = DType::kU8;
  bool alpha = false;  // channel 3 is alpha
  bool normalize = false;
  bool quantized = false;
  Normalization normalization;
  Quantization quantization;
  bool operator==(const GlElementStage&) const = default;
};
GlElementStage GlElementStageOf(const ConvertPlan& plan);
// True when an element is the value itself, in 8 bits.
bool IsPlainGlByte(const GlElementStage& stage);

// bits[channel * 256 + value], in the low bytes; channels in R G B A order.
using ElementBitsTable = std::array<uint32_t, 4 * 256>;
ElementBitsTable MakeElementBitsTable(const GlElementStage& stage);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_ELEMENT_BITS_H_
