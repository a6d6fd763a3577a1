// The pixels of one object, found in pieces in overlapping tiles, united.
// A piece says for every pixel of a rectangle of the frame whether it belongs
// to the object; outside its rectangle it says nothing. The union has every
// pixel that at least one piece has.
// Thread-safety: safe (no state). Limits: kMaxMaskRuns.
// Source of the run lengths: COCO (cocoapi, maskApi.c): alternating counts of
// pixels that do not and that do belong, beginning with those that do not,
// column after column.
#ifndef ENGINE_DETECTIONS_MASK_UNION_H_
#define ENGINE_DETECTIONS_MASK_UNION_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/image/geometry.h"

namespace preprocd {

// Runs plus columns of all pieces of one call; more is TOO_LARGE.
inline constexpr uint64_t kMaxMaskRuns = 1u << 22;

struct MaskPiece {
  Rect bounds;  // frame pixels
  // bounds.width * bounds.height bytes, row after row, 128 and more belong to
  // the object; or empty, and then:
  std::span<const uint8_t> dense;
  // Run lengths over `bounds` that sum up to its pixels.
  std::span<const uint32_t> rle_counts;
};

struct UnitedMask {
  Rect bounds;  // frame pixels
  std::vector<uint32_t> rle_counts;
};

// Checks piece `index` of a call and adds its cost to `runs`.
// Errors, kInvalidArgument: GEOMETRY_INVALID "masks[index].bounds" (empty,
//   outside the frame), FIELD_INVALID "masks[index].dense" (other size, or run
//   lengths too), "masks[index].rle_counts" (other sum), TOO_LARGE "masks"
absl::Status CheckMaskPiece(const MaskPiece& piece, size_t index, Size frame,
                            uint64_t& runs);

// The union of `members` (indexes of `pieces`), over the rectangle that
// encloses their bounds. REQUIRES: pieces that passed CheckMaskPiece; at least
// one member.
UnitedMask UniteMasks(std::span<const MaskPiece> pieces,
                      std::span<const int32_t> members);

// The same pixels over the whole frame. REQUIRES: mask.bounds inside it.
UnitedMask OverFrame(const UnitedMask& mask, Size frame);

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_MASK_UNION_H_
