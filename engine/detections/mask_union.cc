#include "engine/detections/mask_union.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

// Pixels [begin, end) of the frame, counted column after column over columns
// of `height` pixels.
struct Run {
  int64_t begin = 0;
  int64_t end = 0;
};

constexpr uint8_t kLeastInside = 128;

int64_t PixelsOf(const Rect& rect) { return int64_t{rect.width} * rect.height; }

// Turns runs over one rectangle's columns into runs over another's.
class RunPlacer {
 public:
  // `from` lies inside `to`.
  RunPlacer(const Rect& from, const Rect& to, std::vector<Run>& out)
      : from_height_(from.height),
        to_height_(to.height),
        shift_(int64_t{from.x - to.x} * to.height + (from.y - to.y)),
        out_(out) {}

  void Add(int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t column = begin / from_height_;
      const int64_t stop = std::min(end, (column + 1) * from_height_);
      const int64_t moved = shift_ + column * (to_height_ - from_height_);
      Append(begin + moved, stop + moved);
      begin = stop;
    }
  }

 private:
  void Append(int64_t begin, int64_t end) {
    if (!out_.empty() && out_.back().end == begin) {
      out_.back().end = end;
    } else {
      out_.push_back({begin, end});
    }
  }

  const int64_t from_height_;
  const int64_t to_height_;
  const int64_t shift_;
  std::vector<Run>& out_;
};

void PlaceCounts(std::span<const uint32_t> counts, RunPlacer& placer) {
  int64_t at = 0;
  bool inside = false;
  for (const uint32_t count : counts) {
    if (inside) placer.Add(at, at + count);
    at += count;
    inside = !inside;
  }
}

void PlaceDense(const MaskPiece& piece, RunPlacer& placer) {
  const int width = piece.bounds.width;
  const int height = piece.bounds.height;
  for (int x = 0; x < width; ++x) {
    const int64_t column = int64_t{x} * height;
    int begin = -1;
    for (int y = 0; y <= height; ++y) {
      const bool inside =
          y < height &&
          piece.dense[static_cast<size_t>(y) * static_cast<size_t>(width) +
                      static_cast<size_t>(x)] >= kLeastInside;
      if (inside && begin < 0) begin = y;
      if (!inside && begin >= 0) {
        placer.Add(column + begin, column + y);
        begin = -1;
      }
    }
  }
}

Rect Enclosing(const Rect& a, const Rect& b) {
  const int x0 = std::min(a.x, b.x);
  const int y0 = std::min(a.y, b.y);
  return {x0, y0, std::max(a.x + a.width, b.x + b.width) - x0,
          std::max(a.y + a.height, b.y + b.height) - y0};
}

// Sorted or not, overlapping or not -> COCO counts over `pixels` pixels.
std::vector<uint32_t> CountsOf(std::vector<Run>& runs, int64_t pixels) {
  std::sort(runs.begin(), runs.end(),
            [](const Run& a, const Run& b) { return a.begin < b.begin; });
  std::vector<uint32_t> counts;
  int64_t at = 0;  // end of what is counted
  for (size_t i = 0; i < runs.size();) {
    int64_t end = runs[i].end;
    const int64_t begin = runs[i].begin;
    for (++i; i < runs.size() && runs[i].begin <= end; ++i) {
      end = std::max(end, runs[i].end);
    }
    counts.push_back(static_cast<uint32_t>(begin - at));
    counts.push_back(static_cast<uint32_t>(end - begin));
    at = end;
  }
  if (at < pixels || counts.empty()) {
    counts.push_back(static_cast<uint32_t>(pixels - at));
  }
  return counts;
}

absl::Status BadPiece(size_t index, const char* name, uint64_t got,
                      uint64_t want, const char* unit) {
  const std::string field = absl::StrCat("masks[", index, "].", name);
  return InvalidField(
      field, absl::StrCat(field, " ", got, " ", unit, ", bounds have ", want));
}

}  // namespace

absl::Status CheckMaskPiece(const MaskPiece& piece, size_t index, Size frame,
                            uint64_t& runs) {
  RETURN_IF_ERROR(ValidateRectInside(
      piece.bounds, frame, absl::StrCat("masks[", index, "].bounds")));
  const auto pixels = static_cast<uint64_t>(PixelsOf(piece.bounds));
  if (!piece.dense.empty()) {
    if (!piece.rle_counts.empty()) {
      const std::string field = absl::StrCat("masks[", index, "].dense");
      return InvalidField(field,
                          absl::StrCat(field, " and rle_counts are both set"));
    }
    if (piece.dense.size() != pixels) {
      return BadPiece(index, "dense", piece.dense.size(), pixels, "bytes");
    }
    // Every second pixel of a column may begin a run.
    runs += pixels / 2;
  } else {
    uint64_t sum = 0;
    for (const uint32_t count : piece.rle_counts) sum += count;
    if (sum != pixels) {
      return BadPiece(index, "rle_counts", sum, pixels, "pixels in all");
    }
    runs += piece.rle_counts.size();
  }
  runs += static_cast<uint64_t>(piece.bounds.width);
  if (runs > kMaxMaskRuns) {
    return InvalidField(ErrorReason::kTooLarge, "masks",
                        absl::StrCat("masks: more than ", kMaxMaskRuns,
                                     " runs and columns in all"));
  }
  return absl::OkStatus();
}

UnitedMask UniteMasks(std::span<const MaskPiece> pieces,
                      std::span<const int32_t> members) {
  PREPROCD_CHECK(!members.empty());
  UnitedMask united;
  united.bounds = pieces[static_cast<size_t>(members[0])].bounds;
  for (const int32_t member : members) {
    united.bounds =
        Enclosing(united.bounds, pieces[static_cast<size_t>(member)].bounds);
  }
  std::vector<Run> runs;
  for (const int32_t member : members) {
    const MaskPiece& piece = pieces[static_cast<size_t>(member)];
    RunPlacer placer(piece.bounds, united.bounds, runs);
    if (piece.dense.empty()) {
      PlaceCounts(piece.rle_counts, placer);
    } else {
      PlaceDense(piece, placer);
    }
  }
  united.rle_counts = CountsOf(runs, PixelsOf(united.bounds));
  return united;
}

UnitedMask OverFrame(const UnitedMask& mask, Size frame) {
  UnitedMask out;
  out.bounds = {0, 0, frame.width, frame.height};
  std::vector<Run> runs;
  RunPlacer placer(mask.bounds, out.bounds, runs);
  PlaceCounts(mask.rle_counts, placer);
  out.rle_counts = CountsOf(runs, PixelsOf(out.bounds));
  return out;
}

}  // namespace preprocd
