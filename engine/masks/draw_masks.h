// Draws masks, class maps and boxes over a picture.
// The destination is always completely written: the background, or zeros
// (black for YUV) without one, or what it held when asked to keep that; then
// every mask in list order, blended over what is there (overlay_kernels.h);
// then the box lines. Overlapping masks mix.
// A destination's alpha channel is blended as a channel of value 255: over
// zeros the result is a premultiplied layer.
// Thread-safety: safe; a workspace belongs to one call at a time.
// Limits: those of mask_plan.h.
#ifndef ENGINE_MASKS_DRAW_MASKS_H_
#define ENGINE_MASKS_DRAW_MASKS_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/exec/row_pool.h"
#include "engine/image/image_desc.h"
#include "engine/masks/mask_rows.h"

namespace preprocd {

inline constexpr int kMaxPaletteColors = 256;
// Box lines lie outside the box, this many pixels wide, opaque.
inline constexpr int kBoxLinePixels = 3;

struct MaskColor {
  uint8_t r = 0;
  uint8_t g = 0;
  uint8_t b = 0;
  uint8_t a = 0;  // weight round(256 a opacity / 255) of 256
};
// Used when no palette is given; twenty colours, alpha 179 (0.7).
std::span<const MaskColor> DefaultPalette();

// Numbers equal preproc.v1.ColorMode.
enum class ColorMode : uint8_t {
  kUnspecified = 0,  // class
  kClass = 1,        // label
  kInstance = 2,     // position in the list
  kTrack = 3,        // track id; position when it is 0
};

struct DrawnObject {
  int32_t label = 0;      // >= 0
  uint64_t track_id = 0;  // 0 = none
};

struct DrawStyle {
  ColorMode color_mode = ColorMode::kClass;
  double opacity = 1;  // 0..1
  // Empty = DefaultPalette(). Colour i of n is entry i modulo n. Borrowed.
  std::span<const MaskColor> palette;
  bool boxes = false;
};

// A mask that was materialised earlier: its pixels (at least 128 = set) on a
// grid that covers the destination. Sampled at pixel centres, nearest.
struct DenseMask {
  Rect bounds;  // on the grid, not empty
  const uint8_t* pixels = nullptr;
  size_t stride_bytes = 0;
};

// What to draw; exactly one of `workspace` and `dense` is used.
struct DrawnMasks {
  // Prepared with a plan whose size is the destination's (extent kBox). A
  // semantic plan draws every class but the last, the background; it needs
  // `class_map`: width x height bytes of scratch.
  MaskWorkspace* workspace = nullptr;
  std::span<uint8_t> class_map;
  std::span<const DenseMask> dense;
  Size dense_grid;
  // One per mask; unused for semantic plans.
  std::span<const DrawnObject> objects;
};

enum class Backdrop : uint8_t { kZeros, kPicture, kKeep };

// Destination pixels that dense masks cover, overlaps counted each; bounded
// by the caller (kMaxMaskPixels).
int64_t CoveredPixels(std::span<const DenseMask> masks, Size grid,
                      const ImageDesc& destination);

// Errors: kInvalidArgument with the field: FIELD_INVALID color_mode, opacity,
// palette, masks.boxes[i].label; FORMAT_PAIR destination.layout.format (rgba,
// bgra, rgb, bgr, nv12, all u8); GEOMETRY_INVALID background (another format
// or size). Nothing is written.
absl::Status CheckDraw(const ImageDesc& destination,
                       const ImageDesc* background, const DrawStyle& style,
                       std::span<const DrawnObject> objects);

// REQUIRES: CheckDraw passed; `background` is set exactly for kPicture and
// shares no byte with `destination`.
void DrawMasks(const DrawnMasks& masks, const DrawStyle& style,
               Backdrop backdrop, const ConstImageView* background,
               const ImageView& destination, RowPool& pool);

}  // namespace preprocd

#endif  // ENGINE_MASKS_DRAW_MASKS_H_
