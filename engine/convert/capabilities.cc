#include "engine/convert/capabilities.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace preprocd {

std::optional<std::string> WhyNot(const Capabilities& capabilities,
                                  const ConvertPlan& plan) {
  const Capabilities& c = capabilities;
  if (!c.available) return c.detail;
  if (!c.sources.contains(plan.source.format)) {
    return absl::StrCat("source ", PixelFormatName(plan.source.format),
                        " is not supported");
  }
  if (!c.source_dtypes.contains(plan.source.dtype)) {
    return absl::StrCat("source type ", DTypeName(plan.source.dtype),
                        " is not supported");
  }
  if (!c.destinations.contains(plan.destination.format)) {
    return absl::StrCat("destination ",
                        PixelFormatName(plan.destination.format),
                        " is not supported");
  }
  if (!c.destination_dtypes.contains(plan.destination.dtype)) {
    return absl::StrCat("destination type ", DTypeName(plan.destination.dtype),
                        " is not supported");
  }
  if (!plan.same_size && !c.filters.contains(plan.filter)) {
    return absl::StrCat("filter ", FilterName(plan.filter),
                        " is not supported");
  }
  if (!c.orientations.contains(plan.orientation)) {
    return absl::StrCat("orientation ", static_cast<int>(plan.orientation),
                        " is not supported");
  }
  if (!c.fits.contains(plan.fit)) {
    return absl::StrCat("fit ", FitName(plan.fit), " is not supported");
  }
  if (!c.precisions.contains(plan.precision)) {
    return absl::StrCat(
        "precision ", plan.precision == Precision::kFull ? "full" : "eight-bit",
        " is not supported");
  }
  if (!c.numerics.contains(plan.numerics)) {
    return absl::StrCat("numerics ",
                        plan.numerics == Numerics::kEv74 ? "ev74" : "default",
                        " is not supported");
  }
  const int axis = std::max({plan.source.width, plan.source.height,
                             plan.destination.width, plan.destination.height});
  if (axis > c.max_axis) {
    return absl::StrCat("axis ", axis, " > ", c.max_axis);
  }
  if (c.decline != nullptr) return c.decline(plan);
  return std::nullopt;
}

}  // namespace preprocd
