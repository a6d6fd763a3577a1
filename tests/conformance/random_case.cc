#include "tests/conformance/random_case.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace preprocd {
namespace {

class Input {
 public:
  explicit Input(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  // 0..count - 1.
  int Choose(int count) {
    uint16_t value = 0;
    const size_t size = std::min(sizeof(value), bytes_.size());
    memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value % count;
  }

 private:
  std::span<const uint8_t> bytes_;
};

PixelFormat ChooseFormat(Input& input) {
  const auto all = AllPixelFormats();
  return all[static_cast<size_t>(input.Choose(static_cast<int>(all.size())))]
      .format;
}

// A part of the picture, sometimes one pixel, sometimes all.
std::optional<Rect> ChooseRect(Input& input, Size size) {
  if (input.Choose(2) == 0) return std::nullopt;
  Rect r;
  r.x = input.Choose(size.width);
  r.y = input.Choose(size.height);
  r.width = 1 + input.Choose(size.width - r.x);
  r.height = 1 + input.Choose(size.height - r.y);
  return r;
}

void ChooseStage(Input& input, ConvertSpec& spec) {
  constexpr std::array<double, 4> kOffsets = {0, 123.675, 127.5, -3};
  constexpr std::array<double, 4> kMultipliers = {1.0 / 255, 1 / 58.395,
                                                  1 / 127.5, 0.25};
  const int stage = input.Choose(4);
  if (stage == 0) return;
  Normalization n;
  for (size_t c = 0; c < 4; ++c) {
    n.offset[c] = kOffsets[static_cast<size_t>(input.Choose(4))];
    n.multiplier[c] = kMultipliers[static_cast<size_t>(input.Choose(4))];
  }
  spec.normalization = n;
  if (stage == 1) spec.quantization = Quantization{31.75, input.Choose(9) - 4};
}

}  // namespace

BatteryCase CaseFromBytes(std::span<const uint8_t> bytes, int max_side) {
  constexpr std::array<DType, 7> kTypes = {
      DType::kU8,  DType::kI8,   DType::kU16, DType::kI16,
      DType::kF16, DType::kBf16, DType::kF32};
  Input input(bytes);
  BatteryCase c;
  c.source = ChooseFormat(input);
  c.destination = ChooseFormat(input);
  c.source_dtype = input.Choose(4) == 0 ? DType::kI8 : DType::kU8;
  c.dtype = kTypes[static_cast<size_t>(input.Choose(7))];
  c.source_size = {1 + input.Choose(max_side), 1 + input.Choose(max_side)};
  c.destination_size = {1 + input.Choose(max_side), 1 + input.Choose(max_side)};
  c.spec.filter = static_cast<Filter>(1 + input.Choose(7));
  c.spec.orientation = static_cast<Orientation>(1 + input.Choose(8));
  c.spec.fit = static_cast<Fit>(1 + input.Choose(4));
  c.spec.letterbox_rule = static_cast<LetterboxRule>(1 + input.Choose(3));
  c.spec.chroma = static_cast<ChromaUpsampling>(1 + input.Choose(2));
  c.spec.precision =
      input.Choose(4) == 0 ? Precision::kFull : Precision::kEightBit;
  c.source_color = {static_cast<MatrixCoefficients>(1 + input.Choose(3)),
                    static_cast<ColorRange>(1 + input.Choose(2))};
  c.seed = static_cast<uint32_t>(input.Choose(65536));
  c.spec.source_rect = ChooseRect(input, c.source_size);
  if (c.spec.fit == Fit::kPlace) {
    c.spec.place = ChooseRect(input, c.destination_size)
                       .value_or(Rect{0, 0, c.destination_size.width,
                                      c.destination_size.height});
  }
  ChooseStage(input, c.spec);
  // Most pictures in YUV are what exists: plain bytes.
  if (GetPixelFormatInfo(c.destination).family == ColorFamily::kYuv &&
      input.Choose(8) != 1) {
    c.dtype = DType::kU8;
    c.spec.normalization.reset();
    c.spec.quantization.reset();
  }
  return c;
}

}  // namespace preprocd
