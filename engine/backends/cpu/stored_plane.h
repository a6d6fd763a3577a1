// The component planes of a stored picture, and their rows as plain bytes:
// in place where memory already has that form, staged otherwise (signed
// pictures, packed YUV, columns of a picture that is turned by 90 degrees).
// Owns: nothing; views and arenas must outlive it.
// Thread-safety: compatible; one PlaneReader per band.
#ifndef ENGINE_BACKENDS_CPU_STORED_PLANE_H_
#define ENGINE_BACKENDS_CPU_STORED_PLANE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/backends/cpu/row_arena.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Sample i of row y: byte c lies at base + y * stride + i * step + offset[c].
struct StoredPlane {
  const uint8_t* base = nullptr;
  ptrdiff_t stride = 0;
  ptrdiff_t step = 1;
  int channels = 1;
  std::array<int8_t, 4> offset = {0, 1, 2, 3};
  // XOR of every byte but A: 0x80 for signed pictures.
  uint8_t flip = 0;
  bool chroma = false;
  // Rows in memory when the plane is a ring (row y lies at y % ring_rows), else
  // 0. REQUIRES: in_place(), not transposed.
  int ring_rows = 0;

  // True when a row's bytes can be used where they lie.
  bool in_place() const {
    return flip == 0 && step == channels && offset[0] == 0;
  }
};

struct StoredPlanes {
  std::array<StoredPlane, 4> planes;
  int count = 0;
  // Channel order: packed pixels B first, chroma pairs V first.
  bool bgr = false;
  bool v_first = false;
};

// YUV: luma, then one plane of pairs or the planes U and V. RGB: one packed
// plane, or the planes R, G, B (, A).
StoredPlanes GetStoredPlanes(const ConstImageView& view);

class PlaneReader {
 public:
  // Rows are windows of `extent` samples from `begin` on. `transposed`: row y
  // is the stored column y. Rows between `first_row` and `last_row` may be
  // asked for; of those asked for last, `live` stay valid.
  PlaneReader(const StoredPlane& plane, bool transposed, int begin, int extent,
              int first_row, int last_row, int live, RowArena& arena);

  const uint8_t* Row(int y);

  // Bytes that staging takes.
  static size_t StagedBytes(const StoredPlane& plane, bool transposed,
                            int extent, int live);

 private:
  void StageRow(int y, uint8_t* out) const;
  void StageColumns(int x, int count, uint8_t* out) const;

  const StoredPlane& plane_;
  const bool transposed_;
  const int begin_;
  const int extent_;
  const int first_row_;
  const int last_row_;
  int slots_ = 0;
  size_t row_bytes_ = 0;
  uint8_t* ring_ = nullptr;
  int* held_ = nullptr;  // row of every slot
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_STORED_PLANE_H_
