// Arbitrary descriptions, specs and capabilities into the planner: every
// input is answered with a plan whose geometry is consistent, or a status with
// a reason. New fields are appended to the input's layout, so that old seeds
// keep their meaning (an input that ends early is continued with zeros).
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

// Takes values from the input until it is empty, then zeros.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  template <typename T>
  T Take() {
    T value = {};
    const size_t count = sizeof(T) < size_ ? sizeof(T) : size_;
    memcpy(&value, data_, count);
    data_ += count;
    size_ -= count;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

ImageDesc TakeDesc(Input& input) {
  ImageDesc desc;
  desc.format = static_cast<PixelFormat>(input.Take<uint8_t>() % 20);
  desc.dtype = static_cast<DType>(input.Take<uint8_t>() % 9);
  desc.width = input.Take<int16_t>();
  desc.height = input.Take<int16_t>();
  return desc;
}

Rect TakeRect(Input& input) {
  return {input.Take<int32_t>(), input.Take<int32_t>(), input.Take<int32_t>(),
          input.Take<int32_t>()};
}

ConvertSpec TakeSpec(Input& input) {
  ConvertSpec spec;
  const auto flags = input.Take<uint8_t>();
  if ((flags & 1) != 0) spec.source_rect = TakeRect(input);
  if ((flags & 2) != 0) spec.place = TakeRect(input);
  spec.orientation = static_cast<Orientation>(input.Take<uint8_t>() % 10);
  spec.fit = static_cast<Fit>(input.Take<uint8_t>() % 6);
  spec.letterbox_rule = static_cast<LetterboxRule>(input.Take<uint8_t>() % 4);
  spec.filter = static_cast<Filter>(input.Take<uint8_t>() % 9);
  if ((flags & 4) != 0) {
    spec.normalization.emplace();
    spec.normalization->offset[0] = input.Take<double>();
    spec.normalization->multiplier[0] = input.Take<double>();
  }
  if ((flags & 8) != 0) {
    spec.quantization = {input.Take<double>(), input.Take<int32_t>()};
  }
  return spec;
}

ColorEncoding TakeColor(Input& input) {
  return {static_cast<MatrixCoefficients>(input.Take<uint8_t>() % 5),
          static_cast<ColorRange>(input.Take<uint8_t>() % 4)};
}

OutputSpec TakeOutput(Input& input) {
  OutputSpec output;
  output.format = static_cast<PixelFormat>(input.Take<uint8_t>() % 20);
  output.dtype = static_cast<DType>(input.Take<uint8_t>() % 9);
  output.layout = static_cast<TensorLayout>(input.Take<uint8_t>() % 6);
  output.size = {input.Take<int32_t>(), input.Take<int32_t>()};
  return output;
}

template <typename E>
EnumSet<E> TakeSet(Input& input, int count) {
  const auto bits = input.Take<uint32_t>();
  EnumSet<E> set;
  for (int i = 0; i < count; ++i) {
    if ((bits >> i & 1) != 0) set.insert(static_cast<E>(i));
  }
  return set;
}

Capabilities TakeCapabilities(Input& input, absl::string_view name) {
  Capabilities c;
  c.name = name;
  c.rank = input.Take<int8_t>();
  const auto flags = input.Take<uint8_t>();
  c.available = (flags & 1) == 0;
  c.detail = "absent";
  c.sources = TakeSet<PixelFormat>(input, kPixelFormatCount);
  c.source_dtypes = TakeSet<DType>(input, kDTypeCount);
  c.destinations = TakeSet<PixelFormat>(input, kPixelFormatCount);
  c.destination_dtypes = TakeSet<DType>(input, kDTypeCount);
  c.filters = TakeSet<Filter>(input, 8);
  c.orientations = TakeSet<Orientation>(input, 9);
  c.fits = TakeSet<Fit>(input, 5);
  c.precisions = TakeSet<Precision>(input, 3);
  c.numerics = TakeSet<Numerics>(input, 3);
  c.max_axis = input.Take<uint16_t>();
  return c;
}

void CheckReason(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  PREPROCD_CHECK(detail.has_value());
  PREPROCD_CHECK(detail->reason != ErrorReason::kUnspecified);
  PREPROCD_CHECK(!status.message().empty());
}

// Corners of what is shown land on corners of the placement.
void CheckMap(const ConvertPlan& plan) {
  const AffineMap& m = plan.map;
  const Rect& from = plan.shown_stored;
  const Rect& to = plan.placement.destination;
  for (const int x : {from.x, from.x + from.width}) {
    for (const int y : {from.y, from.y + from.height}) {
      const double u = m.xx * x + m.xy * y + m.x0;
      const double v = m.yx * x + m.yy * y + m.y0;
      PREPROCD_CHECK(std::abs(u - to.x) < 1e-6 ||
                     std::abs(u - (to.x + to.width)) < 1e-6);
      PREPROCD_CHECK(std::abs(v - to.y) < 1e-6 ||
                     std::abs(v - (to.y + to.height)) < 1e-6);
    }
  }
}

void CheckDTypeStage(const ConvertPlan& plan) {
  const bool is_float = IsFloat(plan.destination.dtype);
  PREPROCD_CHECK(!is_float || (plan.normalize && !plan.quantization));
  PREPROCD_CHECK(is_float || plan.normalize == plan.quantization.has_value());
  if (!plan.normalize) return;
  for (size_t i = 0; i < plan.normalization.offset.size(); ++i) {
    PREPROCD_CHECK(std::isfinite(plan.normalization.offset[i]));
    PREPROCD_CHECK(std::isfinite(plan.normalization.multiplier[i]));
    PREPROCD_CHECK(plan.normalization.multiplier[i] != 0);
  }
}

void CheckPlan(const ConvertPlan& plan) {
  const Size destination = {plan.destination.width, plan.destination.height};
  PREPROCD_CHECK(
      ValidateRectInside(plan.placement.destination, destination, "d").ok());
  PREPROCD_CHECK(
      ValidateRectInside(plan.placement.shown, plan.oriented, "s").ok());
  PREPROCD_CHECK(ValidateRectInside(plan.shown_stored,
                                    {plan.source.width, plan.source.height},
                                    "stored")
                     .ok());
  const AffineMap& m = plan.map;
  for (const double v : {m.xx, m.xy, m.x0, m.yx, m.yy, m.y0}) {
    PREPROCD_CHECK(std::isfinite(v));
  }
  CheckMap(plan);
  CheckDTypeStage(plan);
  for (const double v : PadValues(plan)) {
    PREPROCD_CHECK(v >= 0 && v <= 255);
  }
}

void CheckSelection(Input& input, ConvertSpec spec, ConvertPlan plan) {
  const Capabilities first = TakeCapabilities(input, "first");
  const Capabilities second = TakeCapabilities(input, "second");
  const auto names = input.Take<uint8_t>();
  if ((names & 1) != 0) spec.backends.push_back("second");
  if ((names & 2) != 0) spec.backends.push_back("first");
  if ((names & 4) != 0) spec.backends.push_back("nobody");
  const Capabilities* const all[] = {&first, &second};
  const absl::Status status = SelectBackend(all, spec, plan);
  if (!status.ok()) {
    CheckReason(status);
    PREPROCD_CHECK(plan.backend.empty());
    return;
  }
  const Capabilities& chosen = plan.backend == "first" ? first : second;
  PREPROCD_CHECK(plan.backend == chosen.name);
  PREPROCD_CHECK(!WhyNot(chosen, plan).has_value());
  PREPROCD_CHECK(chosen.rank >= 0 || !spec.backends.empty());
  for (const Decline& decline : plan.declines) {
    PREPROCD_CHECK(!decline.reason.empty());
  }
}

}  // namespace
}  // namespace preprocd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preprocd;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  ImageDesc source = TakeDesc(input);
  ImageDesc destination = TakeDesc(input);
  ConvertSpec spec = TakeSpec(input);
  source.color = TakeColor(input);
  destination.color = TakeColor(input);
  spec.chroma = static_cast<ChromaUpsampling>(input.Take<uint8_t>() % 4);
  spec.precision = static_cast<Precision>(input.Take<uint8_t>() % 4);
  spec.numerics = static_cast<Numerics>(input.Take<uint8_t>() % 4);
  const bool from_jpeg = (input.Take<uint8_t>() & 1) != 0;
  const OutputSpec output = TakeOutput(input);

  const auto resolved = ResolveDestination(source, output, spec);
  if (resolved.ok()) {
    PREPROCD_CHECK(RequiredBytes(*resolved) > 0);
  } else {
    CheckReason(resolved.status());
  }
  const auto plan = PlanConvert(source, destination, spec, from_jpeg);
  if (plan.ok()) {
    CheckPlan(*plan);
    CheckSelection(input, spec, *plan);
  } else {
    CheckReason(plan.status());
  }
  return 0;
}
