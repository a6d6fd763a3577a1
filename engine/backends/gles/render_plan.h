// A ConvertPlan as the renderer wants it: textures, tap tables, matrices and
// target planes, as plain values that are copied into a job. Pure.
// Thread-safety: compatible (values only).
// Source: DESIGN section 5; the reference backend is the definition.
#ifndef ENGINE_BACKENDS_GLES_RENDER_PLAN_H_
#define ENGINE_BACKENDS_GLES_RENDER_PLAN_H_

#include <array>
#include <cstdint>

#include "engine/backends/gles/element_bits.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_policy.h"
#include "engine/convert/convert_plan.h"

namespace preprocd {

// How a shader reads one stored pixel; the components come in stored order
// and the first matrix sorts them.
enum class PixelFetch : uint8_t {
  kGrey,        // one byte
  kRgba,        // one texel of four bytes
  kRgbBytes,    // three texels of one byte
  kRgbTexel,    // one texel of three bytes
  kPlanar,      // one byte each of three or four planes
  kSemiPlanar,  // luma, and a texel of two chroma bytes
  kThreePlane,  // luma, u, v
  kYuvPairs,    // a texel of four bytes for two pixels
  kExternal,    // the driver converts to rgb
};

enum class TexelFormat : uint8_t { kR8, kRg8, kRgb8, kRgba8 };
int TexelBytes(TexelFormat format);

// One stored plane as a texture. Width and height in texels of the whole
// plane.
struct SourcePlane {
  TexelFormat format = TexelFormat::kR8;
  int width = 0;
  int height = 0;
  uint64_t row_bytes = 0;  // of the whole plane
};

// How a picture is read, for every plan of a batch alike.
struct SourceLayout {
  PixelFetch fetch = PixelFetch::kGrey;
  PixelFormat format = PixelFormat::kGrey;
  int plane_count = 0;
  std::array<SourcePlane, kMaxPlanes> planes = {};
  // YUV: pixels per chroma sample as shifts.
  int chroma_x_shift = 0;
  int chroma_y_shift = 0;
  // Signed bytes: stored value v means v - 128 (not alpha).
  bool biased = false;
};

// A part of a plane, texels.
struct TexelRect {
  int x = 0;
  int y = 0;
  int width = 0;
  int height = 0;
  bool operator==(const TexelRect&) const = default;
};

// Taps of one axis; equal keys have equal tables.
struct TapsKey {
  Filter filter = Filter::kNearest;
  int source_extent = 0;
  int destination_extent = 0;
  bool area_blends = false;
  bool rounded = false;  // weights in 22 bits, see WeightBetweenAxes
  bool operator==(const TapsKey&) const = default;
};

// out = second * clamp(first * in + first_offset, 0, 255) + second_offset,
// column-major as GL wants it.
struct ColourSteps {
  std::array<float, 16> first = {};
  std::array<float, 4> first_offset = {};
  std::array<float, 16> second = {};
  std::array<float, 4> second_offset = {};
};

// What the shader that makes elements out of pixels does.
enum class PackKind : uint8_t {
  kBytes,    // 8-bit values as they are
  kTable,    // 8-bit values looked up
  kFormula,  // fractions computed (precision full)
  kYuv,      // luma, and chroma averaged over its block
};

// One plane of the destination, as bytes.
struct TargetPlane {
  uint32_t buffer_index = 0;
  uint64_t offset_bytes = 0;
  uint64_t stride_bytes = 0;
  uint64_t row_bytes = 0;
  int rows = 0;
  // kBytes, kTable, kFormula: channels of a pixel in this plane, and which
  // channel (R G B A) each of its positions holds.
  int channels = 1;
  std::array<int, 4> order = {0, 0, 0, 0};
  // kYuv: for each byte of a texel of four, 0 luma, 1 u, 2 v; its pixel or
  // chroma sample is step * texel + add. Rows are chroma rows when the whole
  // plane is chroma.
  std::array<int, 4> component = {0, 0, 0, 0};
  std::array<int, 4> step = {4, 4, 4, 4};
  std::array<int, 4> add = {0, 1, 2, 3};
  bool chroma_rows = false;
};

struct RenderPlan {
  // Oriented pixel (x, y) of the shown part is stored pixel
  // orient * (x, y) + corner of the whole picture.
  std::array<int, 4> orient = {1, 0, 0, 1};  // xx, xy, yx, yy
  std::array<int, 2> corner = {0, 0};
  // Chroma samples that may be read: low x, low y, high x, high y.
  std::array<int, 4> chroma_bounds = {};
  bool fancy = false;

  TapsKey taps_x;
  TapsKey taps_y;
  int count_x = 1;
  int count_y = 1;
  bool rounds = false;  // to 8 bits between the axes
  PassShapes shapes;

  PixelFormat format = PixelFormat::kRgb;  // of the destination
  DType dtype = DType::kU8;
  int width = 0;  // destination, pixels
  int height = 0;
  Rect placed;  // destination pixels that show the source
  bool has_padding = false;

  ColourSteps colour;
  // Sampled values are rounded to 8 bits; otherwise they stay fractions.
  bool eight_bits = true;
  // Padding in the channels of the intermediate, 0..255.
  std::array<float, 4> pad = {};

  PackKind pack = PackKind::kBytes;
  GlElementStage elements;
  int element_bytes = 1;
  int target_count = 0;
  std::array<TargetPlane, kMaxPlanes> targets = {};
  // kYuv: pixels per chroma sample, as shifts.
  int block_x_shift = 0;
  int block_y_shift = 0;
  // kDirect: position -> channel of the texel that is written.
  std::array<int, 4> direct_order = {0, 1, 2, 3};

  // Texel reads of all passes, for deadlines.
  int64_t reads = 0;
};

// The layout of `source` when its planes are uploaded or imported.
// `external`: read through the driver's converting sampler.
SourceLayout LayOutSource(const ImageDesc& source, int max_texture,
                          bool external);

// The stored pixels that `plan` may read, with those for fancy chroma.
Rect ReadRect(const ConvertPlan& plan);
// The part of plane `plane` that holds the pixels `read` and what their chroma
// needs. REQUIRES: `read` inside the picture.
TexelRect PlaneWindow(const SourceLayout& layout, int plane, const Rect& read);
// The smallest rectangle that holds both; `a` may be empty.
Rect Unite(const Rect& a, const Rect& b);

// REQUIRES: a plan that the gles backend accepted.
RenderPlan MakeRenderPlan(const ConvertPlan& plan, const SourceLayout& layout,
                          const GlFeatures& features);

// The dtype stage as numbers for a shader (precision full):
// e = v * scale + offset per channel, then by mode.
enum class ElementMode : uint8_t {
  kF32,
  kF16,
  kBf16,
  kQuantized,  // round half even, + zero_point, clamp to low..high
  kPlain,      // round half away, then the bits are flipped
};
struct ElementFormula {
  std::array<ElementMode, 4> mode = {};
  std::array<float, 4> scale = {};
  std::array<float, 4> offset = {};
  std::array<uint32_t, 4> flip = {};
  float zero_point = 0;
  float low = 0;
  float high = 255;
};
ElementFormula MakeElementFormula(const GlElementStage& stage);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_RENDER_PLAN_H_
