// Renders a plan from a picture that is still being decoded: a ring of rows
// per plane takes the strips, and every destination row is made as soon as
// its source rows are there. With a second thread the decoder reads on while
// that thread finishes strips and converts.
// Owns: the ring, kept by the calling thread. Thread-safety: safe.
// Limits: kMaxRingBytes; plans that need more rows at once, and those of
// FixedRenderer's limits, are not taken.
#ifndef ENGINE_BACKENDS_CPU_STRIP_RENDERER_H_
#define ENGINE_BACKENDS_CPU_STRIP_RENDERER_H_

#include <cstddef>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/backends/cpu/fixed_renderer.h"
#include "engine/convert/strip_converter.h"
#include "engine/exec/row_pool.h"
#include "engine/image/strip_source.h"

namespace preprocd {

inline constexpr size_t kMaxRingBytes = size_t{2} << 20;

// As StripConverter::ConvertStrips; bytes_copied is left 0.
absl::StatusOr<std::optional<StripConvertReport>> RenderFromStrips(
    const ConvertPlan& plan, StripSource& source, const ImageView& destination,
    FixedTables& tables, RowPool& pool);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_STRIP_RENDERER_H_
