#include "engine/backends/cpu/tile_strips.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "engine/backends/cpu/row_arena.h"

namespace preprocd {
namespace {

constexpr int kMinStripRows = 16;

bool SameButPlace(const ConvertPlan& a, const ConvertPlan& b) {
  return a.destination.format == b.destination.format &&
         a.destination.dtype == b.destination.dtype &&
         a.precision == b.precision && a.chroma == b.chroma &&
         a.normalize == b.normalize && a.normalization == b.normalization &&
         a.quantization == b.quantization;
}

bool IsPlainCrop(const ConvertPlan& plan) {
  const PixelFormatInfo& from = GetPixelFormatInfo(plan.source.format);
  const bool subsampled = from.chroma_x_shift + from.chroma_y_shift > 0;
  return plan.same_size && !plan.has_padding &&
         plan.orientation == Orientation::kNormal &&
         plan.precision != Precision::kFull &&
         plan.shown_stored.size() == plan.source_rect.size() &&
         // Interpolated chroma is clamped at the rectangle's edges.
         !(subsampled && plan.chroma == ChromaUpsampling::kFancy) &&
         GetPixelFormatInfo(plan.destination.format).family !=
             ColorFamily::kYuv;
}

Rect Union(std::span<const ConvertPlan> plans) {
  Rect u = plans[0].source_rect;
  int right = u.x + u.width;
  int bottom = u.y + u.height;
  for (const ConvertPlan& plan : plans) {
    const Rect& r = plan.source_rect;
    u.x = std::min(u.x, r.x);
    u.y = std::min(u.y, r.y);
    right = std::max(right, r.x + r.width);
    bottom = std::max(bottom, r.y + r.height);
  }
  u.width = right - u.x;
  u.height = bottom - u.y;
  return u;
}

// The plan of all rows as one picture.
ConvertPlan FramePlan(const ConvertPlan& tile, const Rect& frame) {
  ConvertPlan plan = tile;
  plan.source_rect = frame;
  plan.shown_stored = frame;
  plan.oriented = frame.size();
  plan.placement.destination = {0, 0, frame.width, frame.height};
  plan.placement.shown = plan.placement.destination;
  plan.destination.width = frame.width;
  plan.destination.height = frame.height;
  return plan;
}

RowArena& StripArena() {
  thread_local RowArena arena;
  return arena;
}

// A destination whose rows all lie in the same strip of memory.
ImageView StripView(const ConvertPlan& frame, RowArena& arena) {
  ImageView view;
  view.desc = frame.destination;
  const PixelFormatInfo& to = GetPixelFormatInfo(frame.destination.format);
  for (int p = 0; p < to.plane_count; ++p) {
    const auto plane = static_cast<size_t>(p);
    view.desc.planes[plane].stride_bytes = 0;
    view.planes[plane] = arena.Take<std::byte>(static_cast<size_t>(
        PlaneRowBytes(frame.destination.format, frame.destination.dtype, p,
                      frame.destination.width)));
  }
  return view;
}

class Strips {
 public:
  Strips(std::span<const ConvertPlan> plans, std::span<const ImageView> tiles,
         const Rect& frame, PictureFinished finished)
      : plans_(plans),
        tiles_(tiles),
        frame_(frame),
        finished_(finished),
        rows_left_(std::make_unique<std::atomic<int>[]>(plans.size())) {
    const ImageDesc& to = plans[0].destination;
    const PixelFormatInfo& info = GetPixelFormatInfo(to.format);
    planes_ = info.plane_count;
    pixel_bytes_ =
        static_cast<size_t>(PlaneRowBytes(to.format, to.dtype, 0, 1));
    for (size_t i = 0; i < plans.size(); ++i) {
      rows_left_[i] = plans[i].source_rect.height;
    }
  }

  // Copies pixels [x0, x1) of the frame's row `y` from the strip to the tiles
  // that show them.
  void Deliver(int y, int x0, int x1, const ImageView& strip) const {
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Rect& r = plans_[i].source_rect;
      const int row = y + frame_.y - r.y;
      if (row < 0 || row >= r.height) continue;
      const int left = r.x - frame_.x;
      const int begin = std::max(x0, left);
      const int end = std::min(x1, left + r.width);
      if (begin >= end) continue;
      const size_t bytes = static_cast<size_t>(end - begin) * pixel_bytes_;
      const size_t from = static_cast<size_t>(begin) * pixel_bytes_;
      const size_t to = static_cast<size_t>(begin - left) * pixel_bytes_;
      for (int p = 0; p < planes_; ++p) {
        memcpy(tiles_[i].row(p, row) + to,
               strip.planes[static_cast<size_t>(p)] + from, bytes);
      }
      if (end < left + r.width) continue;
      // The last of all threads sees the others' rows.
      if (rows_left_[i].fetch_sub(1, std::memory_order_acq_rel) == 1) {
        finished_(i);
      }
    }
  }

  // False for rows between tiles.
  bool Wanted(int y) const {
    return std::any_of(plans_.begin(), plans_.end(),
                       [y, this](const ConvertPlan& plan) {
                         const int row = y + frame_.y - plan.source_rect.y;
                         return row >= 0 && row < plan.source_rect.height;
                       });
  }

 private:
  const std::span<const ConvertPlan> plans_;
  const std::span<const ImageView> tiles_;
  const Rect frame_;
  const PictureFinished finished_;
  int planes_ = 1;
  size_t pixel_bytes_ = 1;
  const std::unique_ptr<std::atomic<int>[]> rows_left_;
};

}  // namespace

bool CanShareStrips(std::span<const ConvertPlan> plans) {
  if (plans.size() < 2) return false;
  return std::all_of(plans.begin(), plans.end(), [&](const ConvertPlan& plan) {
    return IsPlainCrop(plan) && SameButPlace(plan, plans[0]);
  });
}

bool RenderStrips(std::span<const ConvertPlan> plans,
                  const ConstImageView& source,
                  std::span<const ImageView> tiles, FixedTables& tables,
                  RowPool& pool, PictureFinished finished) {
  const Rect frame = Union(plans);
  const ConvertPlan plan = FramePlan(plans[0], frame);
  // A picture that no strip exists for yet tells whether the plan is one for
  // fixed point at all.
  const ImageView nowhere = {plan.destination, {}};
  if (!FixedRenderer::Make(plan, source, nowhere, tables)) return false;
  const Strips strips(plans, tiles, frame, finished);
  pool.ParallelRows(frame.height, kMinStripRows, [&](int begin, int end) {
    RowArena& arena = StripArena();
    arena.Reset();
    const ImageView strip = StripView(plan, arena);
    const std::optional<FixedRenderer> renderer =
        FixedRenderer::Make(plan, source, strip, tables);
    renderer->RenderEach(
        begin, end, [&](int y) { return strips.Wanted(y); },
        [&](int y, int x0, int x1) { strips.Deliver(y, x0, x1, strip); });
  });
  return true;
}

}  // namespace preprocd
