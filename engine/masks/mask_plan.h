// Prototypes, coefficients and boxes as values, the proof that they belong
// together, and where every mask lies in the output. Pure: no tensor element
// is read here.
// Formula: logit(n, y, x) = sum over k of coefficient(n, k) * prototype(k, y,
// x), each value dequantised as (q - zero point) * scale. A pixel belongs to
// the mask when its logit is greater than 0 (sigmoid > 1/2); a logit of
// exactly 0 and one that is not a number do not.
// Geometry: a scaled output pixel's centre, (x + 1/2) / width of the content,
// is carried into the prototype plane, where pixel centres lie at halves
// (align_corners false); logits, not probabilities, are interpolated
// bilinearly. Taps are clamped, index and fraction together, to the prototype
// pixels that touch the content.
// Thread-safety: compatible (values only).
// Limits: kMaxImageAxis, kMaxMasks, kMaxPrototypes, kMaxMaskPixels,
// kMaxMaskProducts.
#ifndef ENGINE_MASKS_MASK_PLAN_H_
#define ENGINE_MASKS_MASK_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/geometry.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

// Beyond these the answer is INVALID_ARGUMENT, reason TOO_LARGE.
inline constexpr int kMaxMasks = 4096;
inline constexpr int kMaxPrototypes = 1024;
inline constexpr int kMaxClasses = 256;
// Pixels computed by one call, boxes that overlap and classes counted each.
inline constexpr int64_t kMaxMaskPixels = 1LL << 30;
// Products of coefficient and prototype in one call (seconds of one core).
inline constexpr int64_t kMaxMaskProducts = 1LL << 35;

// value = (q - zero point) * scale. Floating types: both empty. Integer
// types: scales has 1 entry or one per channel (K), each finite and > 0;
// zero_points is empty (0), or as long as scales.
struct TensorQuantization {
  std::span<const float> scales;
  std::span<const int32_t> zero_points;
};

// K planes of H x W: [H, W, K], or [K, H, W] with channels_first; tight.
// dtype: f32, f16, i8. `data` is borrowed, aligned to the element.
struct PrototypeTensor {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  bool channels_first = false;
  int height = 0;
  int width = 0;
  int channels = 0;  // K
  TensorQuantization quantization;
};

// [N, K], tight. dtype: f32, f16, i8, i16. Borrowed.
struct CoefficientTensor {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int rows = 0;      // N
  int channels = 0;  // K
  TensorQuantization quantization;
};

// Corners, normalised to the model input, each in 0..1, in any order.
struct MaskBox {
  float x0 = 0;
  float y0 = 0;
  float x1 = 0;
  float y1 = 0;
};

// Numbers equal preproc.v1.MaskValues.
enum class MaskValues : uint8_t {
  kUnspecified = 0,  // binary
  kBinary = 1,       // u8: 0 or 255
  kContinuous = 2,   // sigmoid: u8 round(255 s), half up; f32 s
};

// What one mask covers. Numbers equal preproc.v1.MaskExtent.
enum class MaskExtent : uint8_t {
  kUnspecified = 0,  // box
  kBox = 1,          // only the pixels of its box, tight
  kPlane = 2,        // the whole output, 0 outside the box
  kUncropped = 3,    // the whole output; the box does not cut
};

struct MaskSpec {
  // Output of every mask, pixels; 0x0 = the prototypes' own grid.
  Size size;
  // The letterbox content inside a model input of size `input`, pixels: the
  // output then covers the content, not the padding. Needs `size`.
  std::optional<Rect> content;
  Size input;
  MaskValues values = MaskValues::kBinary;
  MaskExtent extent = MaskExtent::kBox;
  // Element of the output: u8, or f32 for continuous values.
  DType dtype = DType::kU8;
  // The tensor holds one score plane per class, not prototypes: the output
  // is one class index (u8) per pixel, the highest score's, the lower index
  // at ties. No coefficients, no boxes.
  bool semantic = false;
};

// Where output pixel i samples: prototype pixels tap[i] and tap[i] + 1 with
// weights 1 - fraction[i] and fraction[i]. fraction is 0 when tap[i] is the
// last pixel that may be read.
struct MaskAxis {
  std::vector<int32_t> tap;
  std::vector<float> fraction;
  // True when every fraction is 0 and taps run 0, 1, 2 ...
  bool identity = false;
};

struct MaskPlacement {
  // Pixels of the output that the box keeps; never empty.
  Rect box;
  // What is stored: the box, or the whole output.
  Rect bounds;
  // First byte of the dense mask.
  uint64_t offset_bytes = 0;
};

struct MaskPlan {
  Size size;
  Size prototype_size;
  int channels = 0;
  MaskValues values = MaskValues::kBinary;
  MaskExtent extent = MaskExtent::kBox;
  DType dtype = DType::kU8;
  bool semantic = false;
  MaskAxis x;
  MaskAxis y;
  std::vector<MaskPlacement> masks;
  // Bytes of all dense masks, tight, one after the other.
  uint64_t size_bytes = 0;
};

// Bytes of a tensor, tight. REQUIRES: shapes that passed PlanMasks.
uint64_t TensorBytes(const PrototypeTensor& tensor);
uint64_t TensorBytes(const CoefficientTensor& tensor);

// Box rules, W x H the output:
//   at prototype size  x0 = min(floor(xmin W), W - 1), x1 = min(ceil(xmax W),
//                      W), as y; at least one pixel
//   scaled             the box mapped through the inverse letterbox, clamped
//                      to 0..1, then x0 = min(round(xmin W), W - 1), x1 =
//                      min(round(xmax W), W), halves up; at least one pixel
// Does not look at `data`. Replaces `plan`, keeping its memory.
// Errors, all kInvalidArgument with the field: FIELD_INVALID prototypes.dtype,
// prototypes.scales, coefficients..., boxes (count), boxes[i].x0 (not finite,
// outside 0..1), values, extent, dtype; GEOMETRY_INVALID prototypes.shape,
// coefficients.shape, size, content, input; TOO_LARGE.
absl::Status PlanMasks(const PrototypeTensor& prototypes,
                       const CoefficientTensor& coefficients,
                       std::span<const MaskBox> boxes, const MaskSpec& spec,
                       MaskPlan& plan);

// IEEE half precision to single, exact.
float HalfToFloat(uint16_t half);

}  // namespace preprocd

#endif  // ENGINE_MASKS_MASK_PLAN_H_
