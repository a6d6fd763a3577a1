// Finds the boxes near a box: uniform grids, one per power of two of box size
// from the median on, each box in the cell of its upper left corner at the
// finest grid whose cells are at least as large as it. A query looks at the
// cells that it touches and one before them, per grid; when those are more than
// the grid's boxes, at all of these.
// Owns: its grids, with copies of the boxes. Thread-safety: compatible.
// Limits: coordinates within kMaxBoxCoordinate.
#ifndef ENGINE_DETECTIONS_BOX_INDEX_H_
#define ENGINE_DETECTIONS_BOX_INDEX_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"

namespace preprocd {

struct BoxPlace {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // x0 <= x1, y0 <= y1
};

class BoxIndex {
 public:
  BoxIndex() = default;
  BoxIndex(const BoxIndex&) = delete;
  BoxIndex& operator=(const BoxIndex&) = delete;

  // Replaces the content; its memory is used again. Box i is places[i],
  // `members` are the boxes to index.
  void Build(std::span<const BoxPlace> places,
             std::span<const int32_t> members);

  // Calls `visit` for every member that is still there and shares an area with
  // `query`, in any order, rarely more than once. Members for which it returns
  // true are removed. `least_side_ratio`: members whose longer side is below
  // that share of the query's may be left out.
  void Visit(const BoxPlace& query, double least_side_ratio,
             absl::FunctionRef<bool(int32_t)> visit);

  // Entries that all visits since construction have looked at.
  uint64_t looked() const { return looked_; }

 private:
  // Sides of 2^-10 and less ... 2^21.
  static constexpr int kMinExponent = -10;
  static constexpr int kExponents = 32;

  struct Entry {
    BoxPlace place;
    int32_t box = 0;
  };
  // Cells of a row follow each other; rows and far cells share buckets.
  struct Bucket {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  struct Grid {
    double scale = 1;  // 1 / width of a cell
    size_t left = 0;   // entries that are still there
    std::vector<Entry> entries;
    std::vector<Bucket> buckets;  // a power of two of them

    size_t BucketOf(int64_t column, int64_t row) const;
    int64_t CellOf(float coordinate) const;
    // Puts `from` into buckets.
    void Fill(std::span<const Entry> from);
  };

  void VisitAll(Grid& grid, const BoxPlace& query,
                absl::FunctionRef<bool(int32_t)> visit);
  void VisitBucket(Grid& grid, Bucket& bucket, const BoxPlace& query,
                   absl::FunctionRef<bool(int32_t)> visit);

  std::array<Grid, kExponents> grids_;
  std::vector<Entry> sorted_;  // scratch of Build and VisitAll
  uint64_t looked_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_BOX_INDEX_H_
