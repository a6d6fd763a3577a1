// The policy tables of the GL backend, as data: what is known about renderers
// by name, how a picture is lowered, in how many passes a plan runs, and which
// part of a buffer is imported. No GL in here: everything is tested on a host.
// Thread-safety: safe (no state).
#ifndef ENGINE_BACKENDS_GLES_GL_POLICY_H_
#define ENGINE_BACKENDS_GLES_GL_POLICY_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_settings.h"
#include "engine/convert/convert_plan.h"
#include "engine/memory/buffer.h"

namespace preprocd {

// What is known about a renderer by its GL_RENDERER string.
struct RendererTraits {
  absl::string_view match;  // part of the string, lower case; "" = any
  bool software = false;
  GlSerialisation serialisation = GlSerialisation::kLifecycle;
  GlYuvPath yuv_path = GlYuvPath::kTexelFetch;
  // Float targets are trusted when the driver offers them.
  bool float_targets = true;
  // Strides of imports must be multiples of this, bytes.
  int pitch_alignment = 1;
  // Offsets of imports must be multiples of this, bytes.
  int offset_alignment = 1;
  // Pixels are written in blocks of so many columns and rows: the rest of a
  // block that a picture does not fill is read and written back, which is a
  // race with whoever owns those bytes, and a crash behind the memory's end.
  int target_block = 1;
  // For memory that is not imported.
  GlTransfer upload = GlTransfer::kPbo;
  int workers = 1;
};

// The row for `renderer`; the last row matches everything.
const RendererTraits& TraitsOfRenderer(absl::string_view renderer);

// Traits with the settings' overrides applied.
RendererTraits ResolveTraits(absl::string_view renderer,
                             const GlSettings& settings);

// How one picture travels. Zero-copy needs a kind of buffer that imports and,
// for the other directions, an override that does not forbid it.
GlTransfer LowerPicture(BufferKind kind, const GlFeatures& features,
                        const RendererTraits& traits,
                        const GlSettings& settings);

// In how many passes a plan runs.
enum class PassShape : uint8_t {
  kDirect,   // one pass writes the destination's own elements
  kPacked,   // pixels first, then elements in the destination's layout
  kTwoAxes,  // along the rows, then down, then as kPacked or kDirect
};
struct PassShapes {
  bool two_axes = false;
  PassShape last = PassShape::kDirect;
};
// `taps_x`, `taps_y`: taps per axis; `rounds`: the filter rounds to 8 bits
// between the axes.
PassShapes ShapePasses(const ConvertPlan& plan, int taps_x, int taps_y,
                       bool rounds, const GlFeatures& features);

// The part of a buffer that is imported as one image, and where the plane
// lies in it. Whole buffers are preferred: all pictures and tiles of the same
// stride in a buffer then share one import, and offset 0 meets every
// alignment.
struct ImportWindow {
  uint64_t offset_bytes = 0;  // of the image in the buffer
  int width = 0;              // texels of the image
  int height = 0;
  int x = 0;  // texel of the image that holds the plane's first byte
  int y = 0;
};
// `row_bytes` x `rows` at `offset_bytes` with `stride_bytes`, in texels of
// `texel_bytes`. Nothing when the plane cannot be imported so: a stride or
// offset that is no multiple of the texel or the alignments, an image larger
// than `max_texture`, or a place that is no whole number of `block`s (see
// RendererTraits; 1 for sources). Never reaches past `buffer_bytes`.
std::optional<ImportWindow> ChooseImport(
    uint64_t buffer_bytes, uint64_t offset_bytes, uint64_t stride_bytes,
    uint64_t row_bytes, int rows, int texel_bytes, int block, int max_texture,
    const RendererTraits& traits);

// How long a job may show no progress, milliseconds: the setting, and for
// software, which draws on cores, more for more work. `taps` counts texel
// reads of all passes.
int64_t StallLimitMs(const GlSettings& settings, bool software, int64_t taps);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_POLICY_H_
