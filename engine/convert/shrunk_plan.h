// A plan for a picture of which a decoder gives a smaller version: the same
// conversion with less left to shrink.
// Thread-safety: safe (pure functions).
// Error: the smaller picture's last column and row stand for fewer pixels
// where the size is no multiple; its edges may be off by less than one of its
// pixels.
#ifndef ENGINE_CONVERT_SHRUNK_PLAN_H_
#define ENGINE_CONVERT_SHRUNK_PLAN_H_

#include "absl/status/statusor.h"
#include "engine/convert/convert_plan.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

// Largest of 8, 4, 2 that the plan shrinks by on both axes and that its
// rectangles are multiples of (or reach the picture's edge); 1 when none.
int LargestShrink(const ConvertPlan& plan);

// `plan` for a source of 1/shrink of the size, rounded up, in `format`. Its
// map and ranking are left out: they are the full plan's.
// REQUIRES: shrink is at most LargestShrink(plan), a power of two.
// Errors: those of MakeImageDesc
absl::StatusOr<ConvertPlan> ShrunkPlan(const ConvertPlan& plan, int shrink,
                                       PixelFormat format);

}  // namespace preprocd

#endif  // ENGINE_CONVERT_SHRUNK_PLAN_H_
