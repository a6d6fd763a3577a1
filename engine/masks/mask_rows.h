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
#include <vector>

#include "engine/masks/mask_kernels.h"
#include "engine/masks/mask_plan.h"

namespace preprocd {

// One thread's memory. Sizes only grow.
struct MaskScratch {
  std::vector<float> logits;  // one prototype row
  std::vector<float> upper;   // two rows at output resolution
  std::vector<float> lower;
  std::vector<float> packed;
  std::vector<float> block;
  std::vector<uint8_t> bytes;
  std::vector<uint8_t> more_bytes;
  std::vector<uint8_t> weights;

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

  std::unique_ptr<MaskScratch> TakeScratch();
  void Return(std::unique_ptr<MaskScratch> scratch);

 private:
  const MaskPlan* plan_ = nullptr;
  const PrototypeTensor* prototypes_ = nullptr;
  std::vector<float> values_;
  std::vector<FoldedCoefficients> masks_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<MaskScratch>> free_;  // guarded by mutex_
};

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

  MaskRows(const MaskWorkspace& workspace, const FoldedCoefficients& mask,
           const Rect& area, MaskScratch& scratch);
  // REQUIRES: y inside the area and not above the last one asked for.
  Row At(int y);

 private:
  void Compute(int prototype_row, float* out);

  const MaskWorkspace& workspace_;
  const FoldedCoefficients& mask_;
  const Rect area_;
  MaskScratch& scratch_;
  int first_ = 0;  // prototype columns that the area's taps read
  int count_ = 0;
  float* upper_;
  float* lower_;
  int upper_row_ = -1;
  int lower_row_ = -1;
};

}  // namespace preprocd

#endif  // ENGINE_MASKS_MASK_ROWS_H_
