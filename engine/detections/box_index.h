// Finds the boxes near a box: uniform grids, one per power of two of box size
// from the median on, each box in the cell of its upper left corner at the
// finest grid whose cells are at least as large as it. A query looks at the
// cells that it touches and one before them, per grid; when those are more than
// the grid's boxes, at all of these. Boxes that are removed are forgotten where
// a query meets them.
// Owns: its grids. Thread-safety: compatible.
// Limits: coordinates within kMaxBoxCoordinate.
#ifndef ENGINE_DETECTIONS_BOX_INDEX_H_
#define ENGINE_DETECTIONS_BOX_INDEX_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"

namespace preprocd {

struct BoxPlace {
  float x0 = 0, y0 = 0, x1 = 0, y1 = 0;  // x0 <= x1, y0 <= y1
};

class BoxIndex {
 public:
  // Box i is places[i]. `members` are the boxes to index. `gone` is the
  // index's memory of what was removed, one zero per place; borrowed.
  BoxIndex(std::span<const BoxPlace> places, std::span<const int32_t> members,
           std::vector<uint8_t>& gone);

  // Calls `visit` once for every member that is still there and lies near
  // `query`; every one that shares an area with it is among them. Members for
  // which `visit` returns true are removed. `least_side_ratio`: members whose
  // longer side is below that share of the query's may be left out.
  void Visit(const BoxPlace& query, double least_side_ratio,
             absl::FunctionRef<bool(int32_t)> visit);

 private:
  struct Grid {
    int exponent = 0;  // cells are 2^exponent wide
    std::vector<int32_t> members;
    // By cell; a key is the cell's column and row.
    absl::flat_hash_map<uint64_t, std::vector<int32_t>> cells;
    // Members in cells: those of `members` that are still there.
    size_t left = 0;
  };

  void VisitAll(Grid& grid, absl::FunctionRef<bool(int32_t)> visit);

  std::vector<Grid> grids_;  // rising exponents
  std::vector<uint8_t>& gone_;
};

}  // namespace preprocd

#endif  // ENGINE_DETECTIONS_BOX_INDEX_H_
