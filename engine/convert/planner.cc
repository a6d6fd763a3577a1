#include "engine/convert/planner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

struct IntegerRange {
  int min;
  int max;
};

std::optional<IntegerRange> RangeOf(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return IntegerRange{0, 255};
    case DType::kI8:
      return IntegerRange{-128, 127};
    case DType::kU16:
      return IntegerRange{0, 65535};
    case DType::kI16:
      return IntegerRange{-32768, 32767};
    default:
      return std::nullopt;
  }
}

// Enumerations may hold any number of their type: they come from callers.
template <typename E>
absl::Status CheckKnown(E value, E last, absl::string_view field) {
  const auto number = static_cast<int>(value);
  if (number <= static_cast<int>(last)) return absl::OkStatus();
  return InvalidField(field, absl::StrCat(field, " ", number, " is not known"));
}

// Format, dtype and axes; where the planes lie is proved when memory is known.
absl::Status CheckDesc(const ImageDesc& desc) {
  const auto tight =
      MakeImageDesc(desc.format, desc.dtype, desc.width, desc.height);
  RETURN_IF_ERROR(tight.status());
  RETURN_IF_ERROR(CheckKnown(desc.color.matrix, MatrixCoefficients::kBt2020,
                             "color.matrix"));
  return CheckKnown(desc.color.range, ColorRange::kFull, "color.range");
}

absl::Status CheckFactor(double value, absl::string_view field,
                         bool may_be_zero) {
  if (!std::isfinite(value)) {
    return InvalidField(field, absl::StrCat(field, " is not finite"));
  }
  if (!may_be_zero && value == 0) {
    return InvalidField(field, absl::StrCat(field, " is 0"));
  }
  return absl::OkStatus();
}

absl::Status CheckNormalization(const Normalization& normalization) {
  for (size_t i = 0; i < normalization.offset.size(); ++i) {
    RETURN_IF_ERROR(
        CheckFactor(normalization.offset[i],
                    absl::StrCat("spec.normalization.offset[", i, "]"), true));
    RETURN_IF_ERROR(CheckFactor(
        normalization.multiplier[i],
        absl::StrCat("spec.normalization.multiplier[", i, "]"), false));
  }
  return absl::OkStatus();
}

absl::Status PlanDTypeStage(const ConvertSpec& spec, ConvertPlan& plan) {
  const DType dtype = plan.destination.dtype;
  const std::optional<IntegerRange> range = RangeOf(dtype);
  if (spec.normalization) {
    RETURN_IF_ERROR(CheckNormalization(*spec.normalization));
  }
  if (spec.quantization) {
    if (!range) {
      return InvalidField(
          "spec.quantization",
          absl::StrCat("spec.quantization on type ", DTypeName(dtype),
                       ": only integer types are quantised"));
    }
    RETURN_IF_ERROR(CheckFactor(spec.quantization->multiplier,
                                "spec.quantization.multiplier", false));
    const int zero_point = spec.quantization->zero_point;
    if (zero_point < range->min || zero_point > range->max) {
      return InvalidField(
          "spec.quantization.zero_point",
          absl::StrCat("spec.quantization.zero_point ", zero_point,
                       " is not in [", range->min, ", ", range->max, "]"));
    }
  }
  plan.quantization = spec.quantization;
  if (!range) {
    plan.normalize = true;
    plan.normalization.multiplier.fill(1.0 / 255.0);
  }
  if (spec.normalization) {
    plan.normalize = true;
    plan.normalization = *spec.normalization;
  }
  // An integer that is normalised is rounded like a quantised one.
  if (range && plan.normalize && !plan.quantization) {
    plan.quantization = Quantization{};
  }
  if (plan.quantization) plan.normalize = true;
  return absl::OkStatus();
}

// Rectangle of stored pixels that `shown` (oriented pixels of the source
// rectangle) covers.
Rect ToStored(const Rect& shown, Orientation orientation, const Rect& source) {
  const OrientationMap map = GetOrientationMap(orientation, source.size());
  const int right = shown.x + shown.width - 1;
  const int bottom = shown.y + shown.height - 1;
  const int x0 = map.xx * shown.x + map.xy * shown.y + map.x0;
  const int y0 = map.yx * shown.x + map.yy * shown.y + map.y0;
  const int x1 = map.xx * right + map.xy * bottom + map.x0;
  const int y1 = map.yx * right + map.yy * bottom + map.y0;
  return {source.x + std::min(x0, x1), source.y + std::min(y0, y1),
          std::abs(x1 - x0) + 1, std::abs(y1 - y0) + 1};
}

// Stored pixels -> oriented pixels of the source rectangle -> destination.
AffineMap MakeMap(const ConvertPlan& plan) {
  const OrientationMap o =
      GetOrientationMap(plan.orientation, plan.source_rect.size());
  // Continuous coordinates: pixel i spans [i, i + 1), so a negative step
  // maps the edge, not the centre, to the far side.
  AffineMap stored_of_oriented;
  stored_of_oriented.xx = o.xx;
  stored_of_oriented.xy = o.xy;
  stored_of_oriented.x0 = plan.source_rect.x + o.x0 + (o.xx + o.xy < 0 ? 1 : 0);
  stored_of_oriented.yx = o.yx;
  stored_of_oriented.yy = o.yy;
  stored_of_oriented.y0 = plan.source_rect.y + o.y0 + (o.yx + o.yy < 0 ? 1 : 0);
  const AffineMap oriented = Invert(stored_of_oriented);
  const Rect& to = plan.placement.destination;
  const Rect& from = plan.placement.shown;
  const double sx = static_cast<double>(to.width) / from.width;
  const double sy = static_cast<double>(to.height) / from.height;
  AffineMap map;
  map.xx = oriented.xx * sx;
  map.xy = oriented.xy * sx;
  map.x0 = (oriented.x0 - from.x) * sx + to.x;
  map.yx = oriented.yx * sy;
  map.yy = oriented.yy * sy;
  map.y0 = (oriented.y0 - from.y) * sy + to.y;
  return map;
}

absl::Status CheckEnums(const ConvertSpec& spec) {
  const auto orientation = static_cast<int>(spec.orientation);
  if (orientation < 1 || orientation > 8) {
    return InvalidField(
        "spec.orientation",
        absl::StrCat("spec.orientation ", orientation, " is not in 1..8"));
  }
  RETURN_IF_ERROR(CheckKnown(spec.fit, Fit::kPlace, "spec.fit"));
  RETURN_IF_ERROR(CheckKnown(spec.letterbox_rule, LetterboxRule::kTopLeft,
                             "spec.letterbox_rule"));
  RETURN_IF_ERROR(CheckKnown(spec.filter, Filter::kLanczos3, "spec.filter"));
  RETURN_IF_ERROR(
      CheckKnown(spec.chroma, ChromaUpsampling::kFancy, "spec.chroma"));
  RETURN_IF_ERROR(
      CheckKnown(spec.precision, Precision::kFull, "spec.precision"));
  return CheckKnown(spec.numerics, Numerics::kEv74, "spec.numerics");
}

// Height x width x channel and channel x height x width exist for grey and
// RGB only; bgra has no planar twin.
absl::Status CheckLayout(TensorLayout layout, PixelFormat format) {
  if (layout == TensorLayout::kUnspecified) return absl::OkStatus();
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  const bool packed = info.plane_count == 1 && info.channels > 1;
  if (info.family != ColorFamily::kYuv &&
      !(layout == TensorLayout::kChw && packed)) {
    return absl::OkStatus();
  }
  return InvalidField(
      ErrorReason::kFormatPair, "destination.tensor_layout",
      absl::StrCat("destination.tensor_layout ", TensorLayoutName(layout),
                   " does not exist for format ", info.name));
}

template <typename E>
E OrDefault(E value, E fallback) {
  return value == E::kUnspecified ? fallback : value;
}

}  // namespace

absl::StatusOr<ImageDesc> ResolveDestination(const ImageDesc& source,
                                             const OutputSpec& output,
                                             const ConvertSpec& spec) {
  RETURN_IF_ERROR(CheckKnown(output.layout, TensorLayout::kTiledPad16,
                             "destination.tensor_layout"));
  if (output.layout == TensorLayout::kTiledCompact ||
      output.layout == TensorLayout::kTiledPad16) {
    return NotBuilt(absl::StrCat("destination.tensor_layout ",
                                 TensorLayoutName(output.layout)));
  }
  PixelFormat format = OrDefault(output.format, PixelFormat::kRgb);
  if (output.layout == TensorLayout::kChw) format = PlanarVariant(format);
  if (output.layout == TensorLayout::kHwc) format = PackedVariant(format);
  Size size = output.size;
  if (size == Size{}) {
    if (spec.fit == Fit::kPlace) {
      return InvalidField(ErrorReason::kGeometryInvalid, "destination.width",
                          "destination.width is required by fit place");
    }
    const Size stored = spec.source_rect ? spec.source_rect->size()
                                         : Size{source.width, source.height};
    size = OrientedSize(spec.orientation, stored);
  }
  absl::StatusOr<ImageDesc> desc = MakeImageDesc(
      format, OrDefault(output.dtype, DType::kU8), size.width, size.height);
  if (!desc.ok()) return PrefixField(desc.status(), "destination.");
  RETURN_IF_ERROR(CheckLayout(output.layout, format));
  desc->color = output.color;
  return desc;
}

absl::StatusOr<ConvertPlan> PlanConvert(const ImageDesc& source,
                                        const ImageDesc& destination,
                                        const ConvertSpec& spec,
                                        bool from_jpeg) {
  RETURN_IF_ERROR(PrefixField(CheckDesc(source), "source."));
  RETURN_IF_ERROR(PrefixField(CheckDesc(destination), "destination."));
  RETURN_IF_ERROR(CheckEnums(spec));
  if (source.dtype != DType::kU8 && source.dtype != DType::kI8) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFormatPair;
    detail.field = "source.dtype";
    detail.got = std::string(DTypeName(source.dtype));
    return MakeError(absl::StatusCode::kUnimplemented, detail,
                     absl::StrCat("source.dtype ", DTypeName(source.dtype),
                                  ": only u8 and i8 are read"));
  }
  if (spec.numerics == Numerics::kEv74) return NotBuilt("numerics ev74");
  ConvertPlan plan;
  plan.source = source;
  plan.destination = destination;
  plan.source.color = ResolveColorEncoding(source.color, source.height);
  plan.destination.color =
      ResolveColorEncoding(destination.color, destination.height);

  const Size stored = {source.width, source.height};
  plan.source_rect =
      spec.source_rect.value_or(Rect{0, 0, stored.width, stored.height});
  RETURN_IF_ERROR(
      ValidateRectInside(plan.source_rect, stored, "spec.source_rect"));
  plan.orientation = spec.orientation;
  plan.oriented = OrientedSize(spec.orientation, plan.source_rect.size());
  plan.fit = OrDefault(spec.fit, Fit::kStretch);
  absl::StatusOr<Placement> placement =
      ComputePlacement(plan.oriented, {destination.width, destination.height},
                       plan.fit, spec.letterbox_rule, spec.place);
  if (!placement.ok()) return PrefixField(placement.status(), "spec.");
  plan.placement = *placement;
  plan.shown_stored =
      ToStored(plan.placement.shown, plan.orientation, plan.source_rect);
  plan.map = MakeMap(plan);
  plan.has_padding = plan.placement.destination !=
                     Rect{0, 0, destination.width, destination.height};
  plan.same_size =
      plan.placement.destination.size() == plan.placement.shown.size();

  plan.filter = OrDefault(spec.filter, Filter::kBilinear);
  plan.chroma =
      OrDefault(spec.chroma, from_jpeg ? ChromaUpsampling::kFancy
                                       : ChromaUpsampling::kReplicate);
  plan.precision = OrDefault(spec.precision, Precision::kEightBit);
  plan.numerics = OrDefault(spec.numerics, Numerics::kDefault);
  plan.pad = spec.pad;
  RETURN_IF_ERROR(PlanDTypeStage(spec, plan));
  const bool yuv_destination =
      GetPixelFormatInfo(destination.format).family == ColorFamily::kYuv;
  if (yuv_destination && destination.dtype != DType::kU8) {
    return InvalidField(
        ErrorReason::kFormatPair, "destination.dtype",
        absl::StrCat("destination.dtype ", DTypeName(destination.dtype), ": ",
                     PixelFormatName(destination.format),
                     " is written as u8 only"));
  }
  return plan;
}

absl::Status SelectBackend(std::span<const Capabilities* const> backends,
                           const ConvertSpec& spec, ConvertPlan& plan) {
  std::vector<const Capabilities*> order;
  if (spec.backends.empty()) {
    for (const Capabilities* c : backends) {
      if (c->rank >= 0) order.push_back(c);
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const Capabilities* a, const Capabilities* b) {
                       return a->rank < b->rank;
                     });
  } else {
    for (const std::string& name : spec.backends) {
      const auto found = std::find_if(
          backends.begin(), backends.end(),
          [&name](const Capabilities* c) { return c->name == name; });
      if (found == backends.end()) {
        return InvalidField(ErrorReason::kBackendUnknown, "options.backends",
                            absl::StrCat("options.backends: no backend is "
                                         "called ",
                                         name));
      }
      order.push_back(*found);
    }
  }
  plan.backend.clear();
  plan.ranking.clear();
  plan.declines.clear();
  std::vector<std::string> reasons;
  for (const Capabilities* c : order) {
    const std::string name(c->name);
    const std::optional<std::string> why = WhyNot(*c, plan);
    plan.ranking.push_back({name, !why.has_value(), why.value_or("")});
    if (!why) {
      if (plan.backend.empty()) plan.backend = name;
      continue;
    }
    if (plan.backend.empty()) plan.declines.push_back({name, *why});
    reasons.push_back(absl::StrCat(name, ": ", *why));
  }
  if (!plan.backend.empty()) return absl::OkStatus();
  ErrorDetail detail;
  detail.reason = ErrorReason::kNoBackend;
  return MakeError(
      absl::StatusCode::kUnimplemented, detail,
      absl::StrCat(
          "no backend runs this: ",
          reasons.empty() ? "none is built in" : absl::StrJoin(reasons, "; ")));
}

std::array<double, kMaxChannels> PadValues(const ConvertPlan& plan) {
  const double r = plan.pad.r;
  const double g = plan.pad.g;
  const double b = plan.pad.b;
  switch (GetPixelFormatInfo(plan.destination.format).family) {
    case ColorFamily::kGrey: {
      const LumaWeights w = GetLumaWeights(MatrixCoefficients::kBt601);
      return {std::round(w.kr * r + w.kg() * g + w.kb * b), 0, 0, 0};
    }
    case ColorFamily::kYuv: {
      const RgbToYuvCoefficients k =
          GetRgbToYuvCoefficients(plan.destination.color);
      std::array<double, kMaxChannels> yuv = {};
      for (size_t i = 0; i < 3; ++i) {
        yuv[i] = std::clamp(std::round(k.matrix[i][0] * r + k.matrix[i][1] * g +
                                       k.matrix[i][2] * b + k.offset[i]),
                            0.0, 255.0);
      }
      return yuv;
    }
    case ColorFamily::kRgb:
      break;
  }
  return {r, g, b, static_cast<double>(plan.pad.a)};
}

}  // namespace preprocd
