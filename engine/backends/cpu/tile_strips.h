// Tiles of one frame at its own scale, row by row: every row of the frame is
// converted once into a strip that stays in the first-level cache and is
// copied to all tiles that show it. Overlapping tiles share the arithmetic,
// and the frame is read once.
// Owns: nothing. Thread-safety: safe.
// Alternatives: converting every tile by itself computes 1.6 times the pixels
// at 20 % overlap; converting the whole frame first and cropping writes and
// reads it once more.
#ifndef ENGINE_BACKENDS_CPU_TILE_STRIPS_H_
#define ENGINE_BACKENDS_CPU_TILE_STRIPS_H_

#include <span>

#include "engine/backends/cpu/fixed_renderer.h"
#include "engine/convert/converter.h"

namespace preprocd {

// True when the plans differ in nothing but their rectangle and destination
// memory, nothing is resampled, and a pixel does not depend on its
// rectangle's edges: then a strip has every tile's bytes.
bool CanShareStrips(std::span<const ConvertPlan> plans);

// Renders `plans` into `tiles`, calling `finished` for each from the thread
// that writes its last row. False when the plans need the float rows; nothing
// is written then. REQUIRES: CanShareStrips(plans), tiles.size() ==
// plans.size(), views in memory that may be written at once.
bool RenderStrips(std::span<const ConvertPlan> plans,
                  const ConstImageView& source,
                  std::span<const ImageView> tiles, FixedTables& tables,
                  RowPool& pool, PictureFinished finished);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_TILE_STRIPS_H_
