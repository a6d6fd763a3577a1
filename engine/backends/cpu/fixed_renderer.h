// Renders a plan in fixed point: one separable filter per stored plane, then
// colour, dtype stage and layout row by row. Serves every source, every
// filter and orientation and the grey and rgb destinations at eight-bit
// precision; the float rows (row_sampler.h) do the rest.
// Owns: nothing but shared tables. Thread-safety: RenderRows may run on
// several threads for disjoint rows.
#ifndef ENGINE_BACKENDS_CPU_FIXED_RENDERER_H_
#define ENGINE_BACKENDS_CPU_FIXED_RENDERER_H_

#include <array>
#include <memory>
#include <optional>

#include "absl/functional/function_ref.h"
#include "engine/backends/cpu/element_table.h"
#include "engine/backends/cpu/fixed_taps.h"
#include "engine/backends/cpu/pixel_kernels.h"
#include "engine/backends/cpu/stored_plane.h"
#include "engine/backends/cpu/table_cache.h"
#include "engine/convert/convert_plan.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Tables that outlive one convert. Thread-safety: safe.
struct FixedTables {
  TableCache<AxisRequest, FixedTaps> taps;
  TableCache<ElementStage, ElementTable> elements;
};

class FixedRenderer {
 public:
  // Nothing when the plan needs the float rows. The plan and both views must
  // outlive the renderer.
  static std::optional<FixedRenderer> Make(const ConvertPlan& plan,
                                           const ConstImageView& source,
                                           const ImageView& destination,
                                           FixedTables& tables);

  // The same for a picture whose planes are `stored`, wherever they lie; the
  // renderer reads no row that SourceRows does not name. Not for plans that
  // turn the picture by 90 degrees.
  static std::optional<FixedRenderer> Make(const ConvertPlan& plan,
                                           const StoredPlanes& stored,
                                           const ImageView& destination,
                                           FixedTables& tables);

  // Planes that are read, and the rows of one that destination row `y` of the
  // content is made of. REQUIRES: rows of the content, not transposed.
  int plane_count() const { return stored_.count; }
  struct RowRange {
    int first = 0;
    int last = 0;  // inclusive
  };
  RowRange SourceRows(int plane, int y) const;

  // All destination rows, padding first, then the content's rows: upwards when
  // `bottom_up`. `ready` is called before each row of the content; false ends
  // the rendering there.
  void RenderWhenReady(bool bottom_up,
                       absl::FunctionRef<bool(int y)> ready) const;

  // Destination rows [begin, end), whole width.
  void RenderRows(int begin, int end) const;

  // The rows of [begin, end) that are `wanted`, a piece at a time: `done` is
  // told of pixels [x0, x1) of row y before more are written. Short pieces
  // let copies of them drain to memory beside the next piece's arithmetic.
  // REQUIRES: a plan without padding.
  using PieceDone = absl::FunctionRef<void(int y, int x0, int x1)>;
  void RenderEach(int begin, int end, absl::FunctionRef<bool(int y)> wanted,
                  PieceDone done) const;

 private:
  struct Plane {
    std::shared_ptr<const FixedTaps> along;
    std::shared_ptr<const FixedTaps> down;
  };
  class Band;

  FixedRenderer(const ConvertPlan& plan, const StoredPlanes& stored,
                const ImageView& destination);
  bool FindTaps(FixedTables& tables);
  bool FitsScratch() const;
  void SetLumaTable();
  bool half_chroma() const;

  const ConvertPlan* plan_;
  const ImageView* destination_;
  const PixelFormatInfo* from_;
  const PixelFormatInfo* to_;
  StoredPlanes stored_;
  bool transposed_ = false;
  std::array<Plane, 4> planes_;
  std::shared_ptr<const ElementTable> elements_;
  FixedYuv yuv_;
  int fraction_ = kPlainFraction;
  // YUV to grey: luma code to grey value.
  std::array<uint8_t, 256> luma_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_FIXED_RENDERER_H_
