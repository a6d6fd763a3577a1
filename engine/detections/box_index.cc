#include "engine/detections/box_index.h"

#include <algorithm>
#include <cmath>

namespace preprocd {
namespace {

// Smaller boxes share a grid: coordinates of single precision hardly tell
// them apart, and 2^(20 + 11) cells per axis fit half a key.
constexpr int kMinExponent = -10;

// In double: a side that single precision rounds down would reach one cell
// too far.
double LongerSide(const BoxPlace& place) {
  return std::max(
      static_cast<double>(place.x1) - static_cast<double>(place.x0),
      static_cast<double>(place.y1) - static_cast<double>(place.y0));
}

// The least e with side <= 2^e.
int ExponentOf(double side) {
  if (!(side > 0)) return kMinExponent;
  int exponent = 0;
  const double mantissa = std::frexp(side, &exponent);  // 0.5 <= m < 1
  if (mantissa == 0.5) --exponent;
  return std::max(exponent, kMinExponent);
}

int64_t CellOf(float coordinate, int exponent) {
  return static_cast<int64_t>(
      std::floor(std::ldexp(static_cast<double>(coordinate), -exponent)));
}

uint64_t KeyOf(int64_t column, int64_t row) {
  return static_cast<uint64_t>(column) << 32 |
         (static_cast<uint64_t>(row) & 0xffffffffu);
}

}  // namespace

BoxIndex::BoxIndex(std::span<const BoxPlace> places,
                   std::span<const int32_t> members, std::vector<uint8_t>& gone)
    : gone_(gone) {
  const auto exponent_of = [&](int32_t box) {
    return ExponentOf(LongerSide(places[static_cast<size_t>(box)]));
  };
  std::vector<int> exponents;
  for (const int32_t box : members) exponents.push_back(exponent_of(box));
  std::sort(exponents.begin(), exponents.end());
  // Half of the boxes share the finest grid: still finer ones would have more
  // cells for a usual query than boxes in them.
  const int finest = exponents.empty() ? 0 : exponents[exponents.size() / 2];
  for (int& exponent : exponents) exponent = std::max(exponent, finest);
  exponents.erase(std::unique(exponents.begin(), exponents.end()),
                  exponents.end());
  grids_.resize(exponents.size());
  for (size_t i = 0; i < grids_.size(); ++i) grids_[i].exponent = exponents[i];
  for (const int32_t box : members) {
    const auto found = std::lower_bound(exponents.begin(), exponents.end(),
                                        std::max(exponent_of(box), finest));
    Grid& grid = grids_[static_cast<size_t>(found - exponents.begin())];
    const BoxPlace& place = places[static_cast<size_t>(box)];
    grid.members.push_back(box);
    grid.cells[KeyOf(CellOf(place.x0, grid.exponent),
                     CellOf(place.y0, grid.exponent))]
        .push_back(box);
    ++grid.left;
  }
}

void BoxIndex::VisitAll(Grid& grid, absl::FunctionRef<bool(int32_t)> visit) {
  std::erase_if(grid.members, [&](int32_t box) {
    const auto i = static_cast<size_t>(box);
    if (gone_[i] != 0) return true;
    if (!visit(box)) return false;
    gone_[i] = 1;
    --grid.left;
    return true;
  });
}

void BoxIndex::Visit(const BoxPlace& query, double least_side_ratio,
                     absl::FunctionRef<bool(int32_t)> visit) {
  const double least = least_side_ratio * LongerSide(query);
  for (Grid& grid : grids_) {
    if (grid.left == 0 || std::ldexp(1.0, grid.exponent) < least) continue;
    // A box reaches at most into the next cell.
    const int64_t left = CellOf(query.x0, grid.exponent) - 1;
    const int64_t top = CellOf(query.y0, grid.exponent) - 1;
    const int64_t right = CellOf(query.x1, grid.exponent);
    const int64_t bottom = CellOf(query.y1, grid.exponent);
    const auto cells = static_cast<uint64_t>(right - left + 1) *
                       static_cast<uint64_t>(bottom - top + 1);
    if (cells > grid.left) {
      VisitAll(grid, visit);
      continue;
    }
    for (int64_t row = top; row <= bottom; ++row) {
      for (int64_t column = left; column <= right; ++column) {
        const auto found = grid.cells.find(KeyOf(column, row));
        if (found == grid.cells.end()) continue;
        std::erase_if(found->second, [&](int32_t box) {
          const auto i = static_cast<size_t>(box);
          if (gone_[i] != 0) return true;
          if (!visit(box)) return false;
          gone_[i] = 1;
          --grid.left;
          return true;
        });
        if (found->second.empty()) grid.cells.erase(found);
      }
    }
  }
}

}  // namespace preprocd
