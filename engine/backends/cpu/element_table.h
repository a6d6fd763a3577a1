// The dtype stage of 8-bit values: since colour is rounded to 8 bits first,
// every stage is a table of 256 elements per channel. Rows of f32, f16 and
// bf16 are computed in vectors instead where the machine's arithmetic was
// found to give the table's bits for all 256 values.
// Owns: its tables. Thread-safety: immutable once made.
// Source: engine/convert/convert_plan.h (normalisation, quantisation).
#ifndef ENGINE_BACKENDS_CPU_ELEMENT_TABLE_H_
#define ENGINE_BACKENDS_CPU_ELEMENT_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "engine/convert/convert_plan.h"

namespace preprocd {

// What decides the elements; equal stages share a table.
struct ElementStage {
  DType dtype = DType::kU8;
  bool normalize = false;
  Normalization normalization;
  std::optional<Quantization> quantization;
  bool operator==(const ElementStage&) const = default;
};
ElementStage ElementStageOf(const ConvertPlan& plan);

class ElementTable {
 public:
  explicit ElementTable(const ElementStage& stage);

  const ElementStage request;
  size_t bytes() const { return sizeof(*this); }

  // Bytes per element: 1, 2 or 4.
  size_t element_bytes() const { return element_bytes_; }
  // u8 and i8 without normalisation: the value itself, XOR flip() for all
  // channels but alpha.
  bool plain() const { return plain_; }
  uint8_t flip() const { return flip_; }
  // The bits of channel `c` (R G B A; grey is 0) for value `v`.
  uint32_t bits(size_t c, uint8_t v) const { return bits_[c][v]; }

  // `size` elements of channel `c` from 8-bit values.
  void Row(size_t c, const uint8_t* values, size_t size, std::byte* out) const;

  // factor[0] * v + the products with the parts that a float loses.
  struct Affine {
    float offset = 0, offset_rest = 0;  // subtracted from v
    float factor = 0, factor_rest = 0;
  };

 private:
  void Fill(size_t c);
  bool VectorsAgree(size_t c) const;

  size_t element_bytes_ = 1;
  bool plain_ = false;
  uint8_t flip_ = 0;
  std::array<std::array<uint32_t, 256>, kMaxChannels> bits_ = {};
  std::array<Affine, kMaxChannels> affine_ = {};
  std::array<bool, kMaxChannels> vectors_agree_ = {};
};

// Interleaves `channels` (3 or 4) rows of `size` elements of 2 or 4 bytes.
void InterleaveElements(const std::array<const std::byte*, kMaxChannels>& rows,
                        int channels, size_t element_bytes, size_t size,
                        std::byte* out);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ELEMENT_TABLE_H_
