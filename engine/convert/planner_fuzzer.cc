// Arbitrary descriptions and specs into the planner: every input is answered
// with a plan whose geometry is consistent, or a status with a reason.
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
  for (const double v : PadValues(plan)) {
    PREPROCD_CHECK(v >= 0 && v <= 255);
  }
}

}  // namespace
}  // namespace preprocd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preprocd;  // NOLINT(google-build-using-namespace)
  Input input(data, size);
  const ImageDesc source = TakeDesc(input);
  const ImageDesc destination = TakeDesc(input);
  const ConvertSpec spec = TakeSpec(input);
  const auto plan = PlanConvert(source, destination, spec, false);
  if (plan.ok()) {
    CheckPlan(*plan);
  } else {
    PREPROCD_CHECK(GetErrorDetail(plan.status()).has_value());
  }
  return 0;
}
