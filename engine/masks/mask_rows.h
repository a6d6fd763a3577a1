// Rows of mask logits at output resolution, computed where they are needed:
// coefficients folded once, prototype rows multiplied and expanded inside the
// asked area only.
// Owns: folded coefficients and scratch memory, kept from call to call.
// Thread-safety: MaskWorkspace is safe after Prepare; MaskScratch and MaskRows
// belong to one thread.
#ifndef ENGINE_MASKS_MASK_ROWS_H_
#define ENGINE_MASKS_MASK_ROWS_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "engine/image/geometry.h"
#include "engine/masks/mask_kernels.h"
#include "engine/masks/mask_plan.h"

namespace preprocd {

// Logits of one mask on the prototype grid, kept from a sweep.
struct LogitPlane {
  // Prototype pixels that the mask's area reads.
  Rect area;
  // First row; null = not kept. Rows follow each other by `stride` floats,
  // the pixel behind a row's last repeats it.
  float* logits = nullptr;
  size_t stride = 0;
};

// One thread's memory. Sizes only grow.
struct MaskScratch {
  std::vector<float> logits;  // one prototype row
  std::vector<float> upper;   // two rows at output resolution
  std::vector<float> lower;
  std::vector<float> packed;
  std::vector<float> block;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> more_bytes;
  std::vector<uint8_t> counts;

  std::vector<float> swept;
  std::vector<LogitPlane> planes;

  // Room for rows of `plan`, kMaskRowPadding included.
  void Reserve(const MaskPlan& plan);
};

class MaskWorkspace {
 public:
  MaskWorkspace() = default;
  MaskWorkspace(const MaskWorkspace&) = delete;
  MaskWorkspace& operator=(const MaskWorkspace&) = delete;

  // Folds `coefficients` (N x K, planned with `plan`). The tensors and the
  // plan are borrowed until the next Prepare.
  void Prepare(const MaskPlan& plan, const PrototypeTensor& prototypes,
               const CoefficientTensor& coefficients);

  const MaskPlan& plan() const { return *plan_; }
  const PrototypeTensor& prototypes() const { return *prototypes_; }
  // One per mask.
  const std::vector<FoldedCoefficients>& masks() const { return masks_; }

  // For a call that keeps the logits of all masks.
  std::vector<float>& logits() { return logits_; }
  std::vector<LogitPlane>& planes() { return planes_; }

  // Bytes of memory kept for later calls.
  size_t kept_bytes() const;

  std::unique_ptr<MaskScratch> TakeScratch();
  void Return(std::unique_ptr<MaskScratch> scratch);

 private:
  const MaskPlan* plan_ = nullptr;
  const PrototypeTensor* prototypes_ = nullptr;
  std::vector<float> values_;
  std::vector<FoldedCoefficients> masks_;
  std::vector<float> logits_;
  std::vector<LogitPlane> planes_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<MaskScratch>> free_;  // guarded by mutex_
};

// Floats of logits that a sweep keeps at once: they fit the second-level
// cache.
inline constexpr size_t kMaxSweptFloats = size_t{1} << 18;

// Places the logits of masks [begin, end) in `memory`; planes[i - begin] is
// mask i's. False, with null logits, when they need more than `most` floats.
bool LayOutPlanes(const MaskPlan& plan, int begin, int end, size_t most,
                  std::vector<float>& memory, std::vector<LogitPlane>& planes);

// Computes laid-out planes, those of masks from `begin` on; each prototype
// row is read and converted once for all of them.
void SweepLogits(const MaskWorkspace& workspace, int begin,
                 std::span<const LogitPlane> planes, MaskScratch& scratch);

// Output rows from y on, before `end`, that lie between the same two
// prototype rows as y and on neither; y is the first of them.
int RowsBetween(const MaskAxis& axis, int y, int end);

// Output pixels of mask i that are computed: its box, or all.
Rect ComputedArea(const MaskPlan& plan, size_t i);

// The rows of one mask inside `area` (of the output), top to bottom.
class MaskRows {
 public:
  // v(x) = a[x] + w * (b[x] - a[x]), x from the area's left edge; both
  // readable kMaskRowPadding further. Valid until the next Row.
  struct Row {
    const float* a = nullptr;
    const float* b = nullptr;
    float w = 0;
  };

  // `plane` may be null or not kept: rows are then computed here. `area` lies
  // inside the mask's computed area.
  MaskRows(const MaskWorkspace& workspace, size_t mask, const Rect& area,
           const LogitPlane* plane, MaskScratch& scratch);
  // REQUIRES: y inside the area and not above the last one asked for.
  Row At(int y);

 private:
  // The expanded row, in `out` or where it lies already.
  const float* Compute(int prototype_row, float* out);

  const MaskWorkspace& workspace_;
  const FoldedCoefficients& mask_;
  const Rect area_;
  const LogitPlane* plane_;
  MaskScratch& scratch_;
  int first_ = 0;  // prototype columns that the area's taps read
  int count_ = 0;
  float* upper_memory_;
  float* lower_memory_;
  const float* upper_ = nullptr;
  const float* lower_ = nullptr;
  int upper_row_ = -1;
  int lower_row_ = -1;
};

}  // namespace preprocd

#endif  // ENGINE_MASKS_MASK_ROWS_H_
