#include "engine/masks/mask_rows.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace preprocd {
namespace {

// More threads than this at once make their own scratch and drop it.
constexpr size_t kMaxKeptScratch = 64;

template <typename T>
T ReadElement(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

float ReadFloat(const CoefficientTensor& c, size_t index) {
  switch (c.dtype) {
    case DType::kF16:
      return HalfToFloat(ReadElement<uint16_t>(c.data, index));
    case DType::kI8:
      return ReadElement<int8_t>(c.data, index);
    case DType::kI16:
      return ReadElement<int16_t>(c.data, index);
    default:
      return ReadElement<float>(c.data, index);
  }
}

template <typename T>
T ChannelValue(std::span<const T> list, int channel, T otherwise) {
  if (list.empty()) return otherwise;
  return list[list.size() == 1 ? 0 : static_cast<size_t>(channel)];
}

template <typename T>
void Grow(std::vector<T>& memory, size_t size) {
  if (memory.size() < size) memory.resize(size);
}

}  // namespace

void MaskScratch::Reserve(const MaskPlan& plan) {
  const auto width = static_cast<size_t>(plan.size.width) + kMaskRowPadding;
  Grow(logits,
       static_cast<size_t>(plan.prototype_size.width) + kMaskRowPadding + 1);
  Grow(upper, width);
  Grow(lower, width);
}

void MaskWorkspace::Prepare(const MaskPlan& plan,
                            const PrototypeTensor& prototypes,
                            const CoefficientTensor& coefficients) {
  plan_ = &plan;
  prototypes_ = &prototypes;
  const auto channels = static_cast<size_t>(prototypes.channels);
  const auto rows = static_cast<size_t>(coefficients.rows);
  const TensorQuantization& p = prototypes.quantization;
  const TensorQuantization& c = coefficients.quantization;
  // Common positive scales stay outside the sum: products of integers are
  // exact, and a sign does not need them.
  const bool common = p.scales.size() <= 1 && c.scales.size() <= 1;
  float scale = 1;
  if (common && plan.values == MaskValues::kContinuous) {
    scale = ChannelValue(p.scales, 0, 1.0f) * ChannelValue(c.scales, 0, 1.0f);
  }
  values_.resize(rows * channels);
  masks_.resize(rows);
  for (size_t r = 0; r < rows; ++r) {
    double bias = 0;
    for (size_t k = 0; k < channels; ++k) {
      const int channel = static_cast<int>(k);
      float value = ReadFloat(coefficients, r * channels + k) -
                    static_cast<float>(ChannelValue(c.zero_points, channel, 0));
      if (!common) {
        value *= ChannelValue(c.scales, channel, 1.0f) *
                 ChannelValue(p.scales, channel, 1.0f);
      }
      values_[r * channels + k] = value;
      bias -=
          static_cast<double>(value) * ChannelValue(p.zero_points, channel, 0);
    }
    masks_[r] = {values_.data() + r * channels, static_cast<float>(bias),
                 scale};
  }
}

std::unique_ptr<MaskScratch> MaskWorkspace::TakeScratch() {
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<MaskScratch> scratch = std::move(free_.back());
      free_.pop_back();
      return scratch;
    }
  }
  return std::make_unique<MaskScratch>();
}

void MaskWorkspace::Return(std::unique_ptr<MaskScratch> scratch) {
  const std::lock_guard lock(mutex_);
  if (free_.size() < kMaxKeptScratch) free_.push_back(std::move(scratch));
}

MaskRows::MaskRows(const MaskWorkspace& workspace,
                   const FoldedCoefficients& mask, const Rect& area,
                   MaskScratch& scratch)
    : workspace_(workspace), mask_(mask), area_(area), scratch_(scratch) {
  const MaskPlan& plan = workspace.plan();
  scratch.Reserve(plan);
  upper_ = scratch.upper.data();
  lower_ = scratch.lower.data();
  const auto last = static_cast<size_t>(area.x + area.width - 1);
  first_ = plan.x.tap[static_cast<size_t>(area.x)];
  count_ = plan.x.tap[last] + (plan.x.fraction[last] > 0 ? 2 : 1) - first_;
}

void MaskRows::Compute(int prototype_row, float* out) {
  const MaskPlan& plan = workspace_.plan();
  const auto count = static_cast<size_t>(count_);
  const size_t first = static_cast<size_t>(prototype_row) *
                           static_cast<size_t>(plan.prototype_size.width) +
                       static_cast<size_t>(first_);
  if (plan.x.identity) {
    LogitRow(workspace_.prototypes(), mask_, first, count, out);
    return;
  }
  float* logits = scratch_.logits.data();
  LogitRow(workspace_.prototypes(), mask_, first, count, logits);
  logits[count] = logits[count - 1];
  const auto x = static_cast<size_t>(area_.x);
  ExpandRow(logits, plan.x.tap.data() + x, plan.x.fraction.data() + x, first_,
            static_cast<size_t>(area_.width), out);
}

MaskRows::Row MaskRows::At(int y) {
  const MaskAxis& axis = workspace_.plan().y;
  const int row = axis.tap[static_cast<size_t>(y)];
  const float fraction = axis.fraction[static_cast<size_t>(y)];
  if (row != upper_row_) {
    if (row == lower_row_) {
      std::swap(upper_, lower_);
      std::swap(upper_row_, lower_row_);
    } else {
      Compute(row, upper_);
      upper_row_ = row;
    }
  }
  if (fraction == 0) return {upper_, upper_, 0};
  if (lower_row_ != row + 1) {
    Compute(row + 1, lower_);
    lower_row_ = row + 1;
  }
  return {upper_, lower_, fraction};
}

}  // namespace preprocd
