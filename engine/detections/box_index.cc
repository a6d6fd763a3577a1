#include "engine/detections/box_index.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace preprocd {
namespace {

// In double: a side that single precision rounds down would reach one cell
// too far.
double LongerSide(const BoxPlace& place) {
  return std::max(
      static_cast<double>(place.x1) - static_cast<double>(place.x0),
      static_cast<double>(place.y1) - static_cast<double>(place.y0));
}

bool Overlap(const BoxPlace& a, const BoxPlace& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

}  // namespace

int64_t BoxIndex::Grid::CellOf(float coordinate) const {
  // floor(), which is a call without SSE4.1.
  const double place = static_cast<double>(coordinate) * scale;
  const auto cell = static_cast<int64_t>(place);
  return cell - (static_cast<double>(cell) > place ? 1 : 0);
}

size_t BoxIndex::Grid::BucketOf(int64_t column, int64_t row) const {
  constexpr uint64_t kMix = 0x9e3779b97f4a7c15;
  const uint64_t mixed = static_cast<uint64_t>(row) * kMix;
  return static_cast<size_t>((mixed >> 32) + static_cast<uint64_t>(column)) &
         (buckets.size() - 1);
}

void BoxIndex::Grid::Fill(std::span<const Entry> from) {
  left = from.size();
  buckets.assign(std::bit_ceil(from.size()), Bucket());
  const auto bucket_of = [this](const Entry& entry) -> Bucket& {
    return buckets[BucketOf(CellOf(entry.place.x0), CellOf(entry.place.y0))];
  };
  for (const Entry& entry : from) ++bucket_of(entry).size;
  uint32_t at = 0;
  for (Bucket& bucket : buckets) {
    bucket.begin = at;
    at += bucket.size;
    bucket.size = 0;
  }
  entries.resize(from.size());
  for (const Entry& entry : from) {
    Bucket& bucket = bucket_of(entry);
    entries[bucket.begin + bucket.size++] = entry;
  }
}

void BoxIndex::Build(std::span<const BoxPlace> places,
                     std::span<const int32_t> members) {
  // The least e with side <= 2^e, counted from kMinExponent.
  const auto level_of = [&places](int32_t box) {
    const double side = LongerSide(places[static_cast<size_t>(box)]);
    int exponent = kMinExponent;
    if (side > 0) {
      const double mantissa = std::frexp(side, &exponent);
      if (mantissa == 0.5) --exponent;
    }
    return static_cast<size_t>(
        std::clamp(exponent - kMinExponent, 0, kExponents - 1));
  };
  std::array<size_t, kExponents> counts = {};
  for (const int32_t box : members) ++counts[level_of(box)];
  // Half of the boxes share the finest grid: still finer ones would have more
  // cells for a usual query than boxes in them.
  size_t finest = 0;
  for (size_t below = counts[0];
       finest + 1 < counts.size() && 2 * below < members.size();) {
    below += counts[++finest];
  }
  for (size_t level = 0; level < finest; ++level) {
    counts[finest] += std::exchange(counts[level], 0);
  }
  std::array<size_t, kExponents> ends = {};
  size_t end = 0;
  for (size_t level = 0; level < counts.size(); ++level) {
    ends[level] = end;
    end += counts[level];
  }
  sorted_.resize(members.size());
  for (const int32_t box : members) {
    sorted_[ends[std::max(level_of(box), finest)]++] = {
        places[static_cast<size_t>(box)], box};
  }
  for (size_t level = 0; level < counts.size(); ++level) {
    Grid& grid = grids_[level];
    grid.scale = std::ldexp(1.0, -(static_cast<int>(level) + kMinExponent));
    grid.left = 0;
    if (counts[level] == 0) continue;
    grid.Fill(std::span<const Entry>(sorted_).subspan(
        ends[level] - counts[level], counts[level]));
  }
}

void BoxIndex::VisitBucket(Grid& grid, Bucket& bucket, const BoxPlace& query,
                           absl::FunctionRef<bool(int32_t)> visit) {
  looked_ += bucket.size;
  Entry* const entries = grid.entries.data() + bucket.begin;
  for (uint32_t i = 0; i < bucket.size;) {
    if (!Overlap(entries[i].place, query) || !visit(entries[i].box)) {
      ++i;
      continue;
    }
    entries[i] = entries[--bucket.size];
    --grid.left;
  }
}

void BoxIndex::VisitAll(Grid& grid, const BoxPlace& query,
                        absl::FunctionRef<bool(int32_t)> visit) {
  for (Bucket& bucket : grid.buckets) {
    VisitBucket(grid, bucket, query, visit);
  }
  // Otherwise every later visit would look at what is gone.
  if (grid.left == 0 || 4 * grid.left > grid.buckets.size()) return;
  sorted_.clear();
  for (const Bucket& bucket : grid.buckets) {
    const auto first = grid.entries.begin() + bucket.begin;
    sorted_.insert(sorted_.end(), first, first + bucket.size);
  }
  grid.Fill(sorted_);
}

void BoxIndex::Visit(const BoxPlace& query, double least_side_ratio,
                     absl::FunctionRef<bool(int32_t)> visit) {
  const double least = least_side_ratio * LongerSide(query);
  for (Grid& grid : grids_) {
    if (grid.left == 0 || least * grid.scale > 1) continue;
    // A box reaches at most into the next cell.
    const int64_t left = grid.CellOf(query.x0) - 1;
    const int64_t top = grid.CellOf(query.y0) - 1;
    const int64_t right = grid.CellOf(query.x1);
    const int64_t bottom = grid.CellOf(query.y1);
    const auto cells = static_cast<uint64_t>(right - left + 1) *
                       static_cast<uint64_t>(bottom - top + 1);
    if (cells > grid.left) {
      VisitAll(grid, query, visit);
      continue;
    }
    for (int64_t row = top; row <= bottom; ++row) {
      const size_t first = grid.BucketOf(left, row);
      const auto width = static_cast<size_t>(right - left + 1);
      for (size_t i = 0; i < width; ++i) {
        VisitBucket(grid, grid.buckets[(first + i) & (grid.buckets.size() - 1)],
                    query, visit);
      }
    }
  }
}

}  // namespace preprocd
