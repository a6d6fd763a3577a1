// The one pure planner: request + capability data -> plan or refusal with
// reasons. It validates everything that can be known without the pixels.
// Thread-safety: safe (no state).
#ifndef ENGINE_CONVERT_PLANNER_H_
#define ENGINE_CONVERT_PLANNER_H_

#include <span>

#include "absl/status/statusor.h"
#include "engine/convert/capabilities.h"
#include "engine/convert/convert_plan.h"
#include "engine/convert/convert_spec.h"

namespace preprocd {

// Resolves `output` to a description with tight planes: format (CHW turns rgb
// into planar_rgb), dtype, size (0x0 = oriented source rectangle, or the size
// of `place`'s extent never: place needs a size).
// Errors: kInvalidArgument with fields "destination..." (FORMAT_PAIR for a
// tensor layout that the format cannot have: HWC and CHW of YUV, CHW of
// bgra), kUnimplemented (tiled layouts: NOT_BUILT).
absl::StatusOr<ImageDesc> ResolveDestination(const ImageDesc& source,
                                             const OutputSpec& output,
                                             const ConvertSpec& spec);

// Geometry, colour and dtype stage; no backend yet. `from_jpeg` picks the
// chroma default. Field paths begin with "source", "destination", "spec".
// Errors: kInvalidArgument GEOMETRY_INVALID  rectangles, sizes
//                          FIELD_INVALID     non-finite or zero factors,
//                                            quantisation on a float type, ...
//                          TOO_LARGE         an axis above kMaxImageAxis
//                          FORMAT_PAIR       the pair makes no sense
//         kUnimplemented   FORMAT_PAIR       a source type but u8 and i8
//                          NOT_BUILT         numerics ev74
absl::StatusOr<ConvertPlan> PlanConvert(const ImageDesc& source,
                                        const ImageDesc& destination,
                                        const ConvertSpec& spec,
                                        bool from_jpeg);

// Chooses the first backend, in the order that spec.backends or the ranks
// give, that accepts; fills backend, ranking and declines.
// Errors: kInvalidArgument BACKEND_UNKNOWN  spec.backends names none of these
//         kUnimplemented   NO_BACKEND       all declined (message lists why)
absl::Status SelectBackend(std::span<const Capabilities* const> backends,
                           const ConvertSpec& spec, ConvertPlan& plan);

// The colour value of padding in the destination's family, 0..255 doubles in
// R G B A order (grey: entry 0 is the BT.601 full-range luma of the pad
// colour, rounded half away from zero; YUV: entries 0..2 are Y, U, V codes).
std::array<double, kMaxChannels> PadValues(const ConvertPlan& plan);

}  // namespace preprocd

#endif  // ENGINE_CONVERT_PLANNER_H_
