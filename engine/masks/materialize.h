// Prototypes to dense masks, and to the two forms that travel well: COCO run
// lengths and polygon rings.
// Cost: proportional to the area of the boxes, not to boxes x frame (extent
// plane and uncropped write, and uncropped computes, whole planes).
// Thread-safety: safe; a workspace belongs to one call at a time.
// Limits: those of mask_plan.h.
#ifndef ENGINE_MASKS_MATERIALIZE_H_
#define ENGINE_MASKS_MATERIALIZE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "engine/exec/row_pool.h"
#include "engine/masks/mask_rows.h"

namespace preprocd {

// Writes every byte of every mask at its offset: `out` holds plan.size_bytes
// (more is left alone). Values: MaskSpec. No allocation once the workspace
// has seen a plan of this size.
// Errors: kInvalidArgument BUFFER_TOO_SMALL "destination", nothing written.
absl::Status MaterializeMasks(MaskWorkspace& workspace,
                              std::span<std::byte> out, RowPool& pool);

// Calls visit(i, pixels, stride) for every mask in order with its box, binary
// (0 or 255), whatever the plan's values and extent kBox or kPlane say;
// extent kUncropped gives the whole output. A semantic plan gives one mask
// per class, whole output. `pixels` is valid during the call.
void VisitMasks(
    MaskWorkspace& workspace,
    absl::FunctionRef<void(int mask, const Rect& bounds, const uint8_t* pixels)>
        visit);

}  // namespace preprocd

#endif  // ENGINE_MASKS_MATERIALIZE_H_
