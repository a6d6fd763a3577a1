// COCO run lengths of a binary mask: the lengths of runs of 0, 1, 0, ... in
// column-major order over the whole output, the first one of 0 (perhaps 0
// long).
// Thread-safety: safe (no state).
#ifndef ENGINE_MASKS_RUN_LENGTH_H_
#define ENGINE_MASKS_RUN_LENGTH_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/image/geometry.h"

namespace preprocd {

// `pixels` are those of `bounds` (inside `size`), tight, 0 or not 0; outside
// they are 0. Replaces `counts`, which then sums to width * height.
void RunLengths(const uint8_t* pixels, const Rect& bounds, Size size,
                std::vector<uint32_t>& counts);

// COCO's "counts" string: each count (from the fourth on its difference to
// the one two before) in groups of 5 bits, least significant first, bit 5 set
// when more follow, plus 48.
std::string CompressRunLengths(std::span<const uint32_t> counts);

}  // namespace preprocd

#endif  // ENGINE_MASKS_RUN_LENGTH_H_
