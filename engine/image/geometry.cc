#include "engine/image/geometry.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

// std::nearbyint depends on the thread's rounding mode; this does not.
double RoundHalfEven(double value) {
  const double floor = std::floor(value);
  const double rest = value - floor;
  if (rest < 0.5) return floor;
  if (rest > 0.5) return floor + 1;
  return std::fmod(floor, 2.0) == 0 ? floor : floor + 1;
}

int AtLeastOne(double side, int limit) {
  return std::clamp(static_cast<int>(side), 1, limit);
}

Size CenterSides(Size source, Size destination) {
  const double source_aspect =
      static_cast<double>(source.width) / source.height;
  const double destination_aspect =
      static_cast<double>(destination.width) / destination.height;
  // Divide by the quotient: dw * sh / sw differs in the last bit.
  if (source_aspect > destination_aspect) {
    return {destination.width,
            AtLeastOne(std::round(destination.width / source_aspect),
                       destination.height)};
  }
  return {AtLeastOne(std::round(destination.height * source_aspect),
                     destination.width),
          destination.height};
}

Rect Letterbox(Size source, Size destination, LetterboxRule rule) {
  if (rule == LetterboxRule::kUltralytics) {
    const double r =
        std::min(static_cast<double>(destination.width) / source.width,
                 static_cast<double>(destination.height) / source.height);
    const int width =
        AtLeastOne(RoundHalfEven(source.width * r), destination.width);
    const int height =
        AtLeastOne(RoundHalfEven(source.height * r), destination.height);
    const double x = RoundHalfEven((destination.width - width) / 2.0 - 0.1);
    const double y = RoundHalfEven((destination.height - height) / 2.0 - 0.1);
    return {std::max(0, static_cast<int>(x)), std::max(0, static_cast<int>(y)),
            width, height};
  }
  const Size sides = CenterSides(source, destination);
  if (rule == LetterboxRule::kTopLeft) {
    return {0, 0, sides.width, sides.height};
  }
  return {(destination.width - sides.width) / 2,
          (destination.height - sides.height) / 2, sides.width, sides.height};
}

// The largest centred rectangle of the destination's aspect.
Rect Cover(Size source, Size destination) {
  const Size sides = CenterSides(destination, source);
  return {(source.width - sides.width) / 2, (source.height - sides.height) / 2,
          sides.width, sides.height};
}

absl::Status CheckSize(Size size, absl::string_view field) {
  if (size.width <= 0 || size.height <= 0) {
    return InvalidField(
        ErrorReason::kGeometryInvalid, field,
        absl::StrCat(field, " ", size.width, "x", size.height, " is empty"));
  }
  return absl::OkStatus();
}

template <typename E>
struct NamedValue {
  absl::string_view name;
  E value;
};

constexpr std::array<NamedValue<Fit>, 4> kFits = {
    {{"stretch", Fit::kStretch},
     {"letterbox", Fit::kLetterbox},
     {"cover", Fit::kCover},
     {"place", Fit::kPlace}}};
constexpr std::array<NamedValue<LetterboxRule>, 3> kRules = {
    {{"center", LetterboxRule::kCenter},
     {"ultralytics", LetterboxRule::kUltralytics},
     {"topleft", LetterboxRule::kTopLeft}}};

template <typename E, size_t N>
std::optional<E> FindValue(const std::array<NamedValue<E>, N>& table,
                           absl::string_view name) {
  for (const NamedValue<E>& row : table) {
    if (row.name == name) return row.value;
  }
  return std::nullopt;
}

template <typename E, size_t N>
absl::string_view FindName(const std::array<NamedValue<E>, N>& table, E value) {
  for (const NamedValue<E>& row : table) {
    if (row.value == value) return row.name;
  }
  return "unspecified";
}

}  // namespace

absl::Status ValidateRectInside(const Rect& rect, Size bounds,
                                absl::string_view field) {
  // 64 bits: x + width of foreign numbers can exceed 31 bits.
  const int64_t right = int64_t{rect.x} + rect.width;
  const int64_t bottom = int64_t{rect.y} + rect.height;
  if (rect.width <= 0 || rect.height <= 0) {
    return InvalidField(
        ErrorReason::kGeometryInvalid, field,
        absl::StrCat(field, " ", rect.width, "x", rect.height, " is empty"));
  }
  if (rect.x < 0 || rect.y < 0 || right > bounds.width ||
      bottom > bounds.height) {
    return InvalidField(ErrorReason::kGeometryInvalid, field,
                        absl::StrCat(field, " [", rect.x, ",", right, ")x[",
                                     rect.y, ",", bottom, ") is not inside ",
                                     bounds.width, "x", bounds.height));
  }
  return absl::OkStatus();
}

AffineMap Invert(const AffineMap& map) {
  const double determinant = map.xx * map.yy - map.xy * map.yx;
  AffineMap inverse;
  inverse.xx = map.yy / determinant;
  inverse.xy = -map.xy / determinant;
  inverse.yx = -map.yx / determinant;
  inverse.yy = map.xx / determinant;
  inverse.x0 = -(inverse.xx * map.x0 + inverse.xy * map.y0);
  inverse.y0 = -(inverse.yx * map.x0 + inverse.yy * map.y0);
  return inverse;
}

absl::StatusOr<Placement> ComputePlacement(Size oriented_source,
                                           Size destination, Fit fit,
                                           LetterboxRule rule,
                                           const std::optional<Rect>& place) {
  RETURN_IF_ERROR(CheckSize(oriented_source, "source"));
  RETURN_IF_ERROR(CheckSize(destination, "destination"));
  Placement placement;
  placement.destination = {0, 0, destination.width, destination.height};
  placement.shown = {0, 0, oriented_source.width, oriented_source.height};
  switch (fit) {
    case Fit::kUnspecified:
    case Fit::kStretch:
      break;
    case Fit::kLetterbox:
      placement.destination = Letterbox(oriented_source, destination, rule);
      break;
    case Fit::kCover:
      placement.shown = Cover(oriented_source, destination);
      break;
    case Fit::kPlace:
      if (!place) {
        return InvalidField(ErrorReason::kGeometryInvalid, "place",
                            "place is required by fit place");
      }
      RETURN_IF_ERROR(ValidateRectInside(*place, destination, "place"));
      placement.destination = *place;
      break;
  }
  return placement;
}

std::optional<Fit> ParseFit(absl::string_view name) {
  return FindValue(kFits, name);
}
absl::string_view FitName(Fit fit) { return FindName(kFits, fit); }
std::optional<LetterboxRule> ParseLetterboxRule(absl::string_view name) {
  return FindValue(kRules, name);
}
absl::string_view LetterboxRuleName(LetterboxRule rule) {
  return FindName(kRules, rule);
}

}  // namespace preprocd
