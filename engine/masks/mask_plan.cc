#include "engine/masks/mask_plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status Refuse(ErrorReason reason, absl::string_view field,
                    absl::string_view got, absl::string_view bound) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = std::string(field);
  detail.got = std::string(got);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat(field, ": ", got, " ", bound));
}

bool IsInteger(DType dtype) {
  return dtype == DType::kI8 || dtype == DType::kI16;
}

uint64_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kI16:
      return 2;
    default:
      return 1;
  }
}

absl::Status CheckQuantization(DType dtype, const TensorQuantization& q,
                               int channels, absl::string_view field) {
  const size_t scales = q.scales.size();
  if (!IsInteger(dtype)) {
    if (scales == 0 && q.zero_points.empty()) return absl::OkStatus();
    return Refuse(ErrorReason::kFieldInvalid,
                  absl::StrCat(field, scales == 0 ? ".zero_points" : ".scales"),
                  absl::StrCat(scales == 0 ? q.zero_points.size() : scales),
                  "entries, but the elements are floating point");
  }
  if (scales != 1 && scales != static_cast<size_t>(channels)) {
    return Refuse(
        ErrorReason::kFieldInvalid, absl::StrCat(field, ".scales"),
        absl::StrCat(scales),
        absl::StrCat("entries, an integer tensor needs 1 or ", channels));
  }
  for (size_t i = 0; i < scales; ++i) {
    if (std::isfinite(q.scales[i]) && q.scales[i] > 0) continue;
    return Refuse(ErrorReason::kFieldInvalid,
                  absl::StrCat(field, ".scales[", i, "]"),
                  absl::StrCat(q.scales[i]), "is not a finite scale above 0");
  }
  if (!q.zero_points.empty() && q.zero_points.size() != scales) {
    return Refuse(ErrorReason::kFieldInvalid,
                  absl::StrCat(field, ".zero_points"),
                  absl::StrCat(q.zero_points.size()),
                  absl::StrCat("entries, but ", scales, " scales"));
  }
  const int32_t most = dtype == DType::kI8 ? 128 : 32768;
  for (size_t i = 0; i < q.zero_points.size(); ++i) {
    if (q.zero_points[i] >= -most && q.zero_points[i] < most) continue;
    return Refuse(ErrorReason::kFieldInvalid,
                  absl::StrCat(field, ".zero_points[", i, "]"),
                  absl::StrCat(q.zero_points[i]),
                  absl::StrCat("outside ", -most, "..", most - 1));
  }
  return absl::OkStatus();
}

absl::Status CheckPrototypes(const PrototypeTensor& p, bool semantic) {
  if (p.dtype != DType::kF32 && p.dtype != DType::kF16 &&
      p.dtype != DType::kI8) {
    return Refuse(ErrorReason::kFieldInvalid, "prototypes.dtype",
                  DTypeName(p.dtype), "is not f32, f16 or i8");
  }
  const auto axis = [](absl::string_view name, int value, int most) {
    if (value >= 1 && value <= most) return absl::OkStatus();
    return Refuse(
        value < 1 ? ErrorReason::kGeometryInvalid : ErrorReason::kTooLarge,
        "prototypes.shape", absl::StrCat(name, " ", value),
        absl::StrCat("outside 1..", most));
  };
  RETURN_IF_ERROR(axis("height", p.height, kMaxImageAxis));
  RETURN_IF_ERROR(axis("width", p.width, kMaxImageAxis));
  RETURN_IF_ERROR(
      axis("channels", p.channels, semantic ? kMaxClasses : kMaxPrototypes));
  return CheckQuantization(p.dtype, p.quantization, p.channels, "prototypes");
}

absl::Status CheckCoefficients(const PrototypeTensor& p,
                               const CoefficientTensor& c, size_t boxes) {
  if (boxes > static_cast<size_t>(kMaxMasks)) {
    return Refuse(ErrorReason::kTooLarge, "boxes", absl::StrCat(boxes),
                  absl::StrCat("boxes > ", kMaxMasks));
  }
  if (boxes != static_cast<size_t>(std::max(c.rows, 0))) {
    return Refuse(ErrorReason::kFieldInvalid, "boxes", absl::StrCat(boxes),
                  absl::StrCat("boxes, but ", c.rows, " rows of coefficients"));
  }
  if (boxes == 0) return absl::OkStatus();
  if (!IsInteger(c.dtype) && c.dtype != DType::kF32 && c.dtype != DType::kF16) {
    return Refuse(ErrorReason::kFieldInvalid, "coefficients.dtype",
                  DTypeName(c.dtype), "is not f32, f16, i8 or i16");
  }
  if (c.channels != p.channels) {
    return Refuse(ErrorReason::kGeometryInvalid, "coefficients.shape",
                  absl::StrCat(c.channels),
                  absl::StrCat("columns, but ", p.channels, " prototypes"));
  }
  return CheckQuantization(c.dtype, c.quantization, c.channels, "coefficients");
}

absl::Status CheckBoxes(std::span<const MaskBox> boxes) {
  for (size_t i = 0; i < boxes.size(); ++i) {
    const MaskBox& b = boxes[i];
    const struct {
      const char* name;
      float value;
    } corners[] = {{"x0", b.x0}, {"y0", b.y0}, {"x1", b.x1}, {"y1", b.y1}};
    for (const auto& corner : corners) {
      // Written so that NaN is refused too.
      if (corner.value >= 0 && corner.value <= 1) continue;
      return Refuse(ErrorReason::kFieldInvalid,
                    absl::StrCat("boxes[", i, "].", corner.name),
                    absl::StrCat(corner.value), "is not within 0..1");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSize(Size size, absl::string_view field) {
  if (size.width >= 1 && size.height >= 1 && size.width <= kMaxImageAxis &&
      size.height <= kMaxImageAxis) {
    return absl::OkStatus();
  }
  const bool large = size.width > kMaxImageAxis || size.height > kMaxImageAxis;
  return Refuse(large ? ErrorReason::kTooLarge : ErrorReason::kGeometryInvalid,
                field, absl::StrCat(size.width, "x", size.height),
                absl::StrCat("outside 1..", kMaxImageAxis));
}

absl::Status CheckSpec(const MaskSpec& spec) {
  if (spec.values > MaskValues::kContinuous) {
    return Refuse(ErrorReason::kFieldInvalid, "values",
                  absl::StrCat(static_cast<int>(spec.values)), "is not known");
  }
  if (spec.extent > MaskExtent::kUncropped) {
    return Refuse(ErrorReason::kFieldInvalid, "extent",
                  absl::StrCat(static_cast<int>(spec.extent)), "is not known");
  }
  const bool f32 =
      spec.dtype == DType::kF32 && spec.values == MaskValues::kContinuous;
  if ((spec.dtype != DType::kU8 && !f32) || (spec.semantic && f32)) {
    return Refuse(ErrorReason::kFieldInvalid, "dtype", DTypeName(spec.dtype),
                  "is not u8, or f32 for continuous values");
  }
  const bool scaled = spec.size != Size();
  if (scaled) RETURN_IF_ERROR(CheckSize(spec.size, "size"));
  if (!spec.content) return absl::OkStatus();
  if (!scaled) {
    return Refuse(ErrorReason::kFieldInvalid, "content", "a rectangle",
                  "needs size: masks on the prototype grid show the whole "
                  "model input");
  }
  RETURN_IF_ERROR(CheckSize(spec.input, "input"));
  return ValidateRectInside(*spec.content, spec.input, "content");
}

// The part of one axis that the output shows, normalised to the model input.
struct ContentSpan {
  double begin = 0;
  double length = 1;
};

ContentSpan SpanOf(int begin, int length, int whole) {
  return {static_cast<double>(begin) / whole,
          static_cast<double>(length) / whole};
}

void PlanAxis(int prototypes, int pixels, const ContentSpan& content,
              bool scaled, MaskAxis& axis) {
  const auto count = static_cast<size_t>(pixels);
  axis.tap.resize(count);
  axis.fraction.resize(count);
  axis.identity = !scaled;
  if (!scaled) {
    for (size_t i = 0; i < count; ++i) {
      axis.tap[i] = static_cast<int32_t>(i);
      axis.fraction[i] = 0;
    }
    return;
  }
  const double begin = content.begin * prototypes;
  const double length = content.length * prototypes;
  // Rounding of the products must not add a prototype pixel that the content
  // only touches.
  constexpr double kTouch = 1e-9;
  const double low =
      std::clamp(std::floor(begin + kTouch), 0.0, prototypes - 1.0);
  const double high =
      std::clamp(std::ceil(begin + length - kTouch) - 1, low, prototypes - 1.0);
  for (size_t i = 0; i < count; ++i) {
    const double at =
        begin + (static_cast<double>(i) + 0.5) * length / pixels - 0.5;
    const double clamped = std::clamp(at, low, high);
    const double tap = std::floor(clamped);
    axis.tap[i] = static_cast<int32_t>(tap);
    axis.fraction[i] = static_cast<float>(clamped - tap);
  }
}

// [*begin, *end) of one axis of a box.
void PlaceBox(double a, double b, int pixels, const ContentSpan& content,
              bool scaled, int* begin, int* length) {
  double low = std::min(a, b);
  double high = std::max(a, b);
  int first = 0;
  int last = 0;
  if (scaled) {
    const auto lift = [&content](double v) {
      return std::clamp((v - content.begin) / content.length, 0.0, 1.0);
    };
    low = lift(low) * pixels;
    high = lift(high) * pixels;
    first = static_cast<int>(std::floor(low + 0.5));
    last = static_cast<int>(std::floor(high + 0.5));
  } else {
    first = static_cast<int>(std::floor(low * pixels));
    last = static_cast<int>(std::ceil(high * pixels));
  }
  first = std::min(first, pixels - 1);
  last = std::clamp(last, first + 1, pixels);
  *begin = first;
  *length = last - first;
}

absl::Status CheckWork(const MaskPlan& plan) {
  int64_t pixels = 0;
  int64_t products = 0;
  // Every class is compared at every pixel.
  const int64_t passes = plan.semantic ? plan.channels : 1;
  const double x_scale =
      static_cast<double>(plan.prototype_size.width) / plan.size.width;
  const double y_scale =
      static_cast<double>(plan.prototype_size.height) / plan.size.height;
  for (const MaskPlacement& mask : plan.masks) {
    const Rect& area =
        plan.extent == MaskExtent::kUncropped ? mask.bounds : mask.box;
    pixels += int64_t{area.width} * area.height * passes;
    products += static_cast<int64_t>((area.width * x_scale + 3) *
                                     (area.height * y_scale + 3)) *
                plan.channels;
  }
  if (pixels <= kMaxMaskPixels && products <= kMaxMaskProducts) {
    return absl::OkStatus();
  }
  return Refuse(ErrorReason::kTooLarge, plan.semantic ? "size" : "boxes",
                absl::StrCat(pixels, " pixels, ", products, " products"),
                absl::StrCat("> ", kMaxMaskPixels, " or ", kMaxMaskProducts));
}

void PlaceMasks(std::span<const MaskBox> boxes, const ContentSpan& across,
                const ContentSpan& down, bool scaled, MaskPlan& plan) {
  const uint64_t element = ElementBytes(plan.dtype);
  const Rect whole = {0, 0, plan.size.width, plan.size.height};
  plan.masks.resize(plan.semantic ? 1 : boxes.size());
  plan.size_bytes = 0;
  for (size_t i = 0; i < plan.masks.size(); ++i) {
    MaskPlacement& mask = plan.masks[i];
    mask.box = whole;
    if (!plan.semantic) {
      const MaskBox& b = boxes[i];
      PlaceBox(b.x0, b.x1, plan.size.width, across, scaled, &mask.box.x,
               &mask.box.width);
      PlaceBox(b.y0, b.y1, plan.size.height, down, scaled, &mask.box.y,
               &mask.box.height);
    }
    mask.bounds = plan.extent == MaskExtent::kBox ? mask.box : whole;
    mask.offset_bytes = plan.size_bytes;
    // At most kMaxMasks * kMaxImageAxis^2 * 4, far below 64 bits.
    plan.size_bytes += static_cast<uint64_t>(mask.bounds.width) *
                       static_cast<uint64_t>(mask.bounds.height) * element;
  }
}

}  // namespace

uint64_t TensorBytes(const PrototypeTensor& tensor) {
  return ElementBytes(tensor.dtype) * static_cast<uint64_t>(tensor.height) *
         static_cast<uint64_t>(tensor.width) *
         static_cast<uint64_t>(tensor.channels);
}

uint64_t TensorBytes(const CoefficientTensor& tensor) {
  return ElementBytes(tensor.dtype) * static_cast<uint64_t>(tensor.rows) *
         static_cast<uint64_t>(tensor.channels);
}

absl::Status PlanMasks(const PrototypeTensor& prototypes,
                       const CoefficientTensor& coefficients,
                       std::span<const MaskBox> boxes, const MaskSpec& spec,
                       MaskPlan& plan) {
  RETURN_IF_ERROR(CheckPrototypes(prototypes, spec.semantic));
  RETURN_IF_ERROR(CheckSpec(spec));
  if (spec.semantic) {
    if (!boxes.empty() || coefficients.rows != 0) {
      return Refuse(
          ErrorReason::kFieldInvalid, boxes.empty() ? "coefficients" : "boxes",
          absl::StrCat(boxes.empty() ? coefficients.rows
                                     : static_cast<int>(boxes.size())),
          "entries, but semantic masks have none");
    }
  } else {
    RETURN_IF_ERROR(CheckCoefficients(prototypes, coefficients, boxes.size()));
    RETURN_IF_ERROR(CheckBoxes(boxes));
  }
  const bool scaled = spec.size != Size();
  plan.prototype_size = {prototypes.width, prototypes.height};
  plan.size = scaled ? spec.size : plan.prototype_size;
  plan.channels = prototypes.channels;
  plan.values = spec.values == MaskValues::kUnspecified ? MaskValues::kBinary
                                                        : spec.values;
  plan.extent =
      spec.extent == MaskExtent::kUnspecified ? MaskExtent::kBox : spec.extent;
  plan.dtype = spec.dtype;
  plan.semantic = spec.semantic;
  ContentSpan across;
  ContentSpan down;
  if (spec.content) {
    across = SpanOf(spec.content->x, spec.content->width, spec.input.width);
    down = SpanOf(spec.content->y, spec.content->height, spec.input.height);
  }
  PlanAxis(prototypes.width, plan.size.width, across, scaled, plan.x);
  PlanAxis(prototypes.height, plan.size.height, down, scaled, plan.y);
  PlaceMasks(boxes, across, down, scaled, plan);
  return CheckWork(plan);
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t biased = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | biased << 23 | mantissa << 13);
}

}  // namespace preprocd
