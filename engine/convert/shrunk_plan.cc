#include "engine/convert/shrunk_plan.h"

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr int kMaxShrink = 8;

int CeilDiv(int value, int divisor) { return (value + divisor - 1) / divisor; }

// [begin, begin + extent) of an axis of `size`, on the smaller axis.
bool AxisDivides(int begin, int extent, int size, int shrink) {
  const bool ends = extent % shrink == 0 || begin + extent == size;
  return begin % shrink == 0 && ends;
}

bool Divides(const Rect& rect, const Size& size, int shrink) {
  return AxisDivides(rect.x, rect.width, size.width, shrink) &&
         AxisDivides(rect.y, rect.height, size.height, shrink);
}

Rect Shrunk(const Rect& rect, int shrink) {
  const int x = rect.x / shrink;
  const int y = rect.y / shrink;
  return {x, y, CeilDiv(rect.x + rect.width, shrink) - x,
          CeilDiv(rect.y + rect.height, shrink) - y};
}

bool CanShrink(const ConvertPlan& plan, int shrink) {
  const Rect& shown = plan.placement.shown;
  const Rect& to = plan.placement.destination;
  if (shown.width < shrink * to.width || shown.height < shrink * to.height) {
    return false;
  }
  if (!Divides(plan.source_rect, {plan.source.width, plan.source.height},
               shrink)) {
    return false;
  }
  // A part of what the rectangle holds may lie behind a ragged edge that the
  // orientation turned to the front.
  const bool whole =
      shown == Rect{0, 0, plan.oriented.width, plan.oriented.height};
  const bool ragged = plan.source_rect.width % shrink != 0 ||
                      plan.source_rect.height % shrink != 0;
  return whole || (!ragged && Divides(shown, plan.oriented, shrink));
}

}  // namespace

int LargestShrink(const ConvertPlan& plan) {
  int shrink = kMaxShrink;
  while (shrink > 1 && !CanShrink(plan, shrink)) shrink /= 2;
  return shrink;
}

absl::StatusOr<ConvertPlan> ShrunkPlan(const ConvertPlan& plan, int shrink,
                                       PixelFormat format) {
  PREPROCD_CHECK(shrink == 1 || CanShrink(plan, shrink));
  ConvertPlan small;
  ASSIGN_OR_RETURN(
      small.source,
      MakeImageDesc(format, DType::kU8, CeilDiv(plan.source.width, shrink),
                    CeilDiv(plan.source.height, shrink)));
  small.source.color = plan.source.color;
  small.destination = plan.destination;
  small.source_rect = Shrunk(plan.source_rect, shrink);
  small.orientation = plan.orientation;
  small.oriented = OrientedSize(plan.orientation, small.source_rect.size());
  small.fit = plan.fit;
  small.placement = plan.placement;
  small.placement.shown = Shrunk(plan.placement.shown, shrink);
  small.shown_stored = Shrunk(plan.shown_stored, shrink);
  small.filter = plan.filter;
  small.chroma = plan.chroma;
  small.precision = plan.precision;
  small.numerics = plan.numerics;
  small.normalize = plan.normalize;
  small.normalization = plan.normalization;
  small.quantization = plan.quantization;
  small.pad = plan.pad;
  small.has_padding = plan.has_padding;
  small.same_size =
      small.placement.shown.size() == small.placement.destination.size();
  small.backend = plan.backend;
  return small;
}

}  // namespace preprocd
