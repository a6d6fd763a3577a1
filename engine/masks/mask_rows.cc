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

// Columns whose packed prototypes stay in the first-level cache.
constexpr int kSweptColumns = 256;

// Prototype pixels that an area of the output reads.
Rect TapArea(const MaskPlan& plan, const Rect& area) {
  const auto span = [](const MaskAxis& axis, int begin, int length, int* first,
                       int* count) {
    const auto last = static_cast<size_t>(begin + length - 1);
    *first = axis.tap[static_cast<size_t>(begin)];
    *count = axis.tap[last] + (axis.fraction[last] > 0 ? 2 : 1) - *first;
  };
  Rect taps;
  span(plan.x, area.x, area.width, &taps.x, &taps.width);
  span(plan.y, area.y, area.height, &taps.y, &taps.height);
  return taps;
}

// Vectors written past a row's end reach no other plane.
size_t PlaneFloats(const LogitPlane& plane) {
  return plane.stride * static_cast<size_t>(plane.area.height) +
         kMaskRowPadding;
}

// Row y of every plane that has it.
void SweepRow(const PrototypeTensor& prototypes,
              std::span<const FoldedCoefficients> masks, int y,
              std::span<const LogitPlane> planes, MaskScratch& scratch) {
  const auto has_row = [y](const Rect& area) {
    return y >= area.y && y < area.y + area.height;
  };
  int left = prototypes.width;
  int right = 0;
  for (const LogitPlane& plane : planes) {
    if (!has_row(plane.area)) continue;
    left = std::min(left, plane.area.x);
    right = std::max(right, plane.area.x + plane.area.width);
  }
  for (int x = left; x < right; x += kSweptColumns) {
    const int columns = std::min(kSweptColumns, right - x);
    // A whole number of vectors, but no power of two: the rows of all
    // prototypes would share few cache sets.
    const size_t stride = (static_cast<size_t>(columns) + 15) / 16 * 16 + 16;
    Grow(scratch.packed,
         stride * static_cast<size_t>(prototypes.channels) + kMaskRowPadding);
    PackPrototypes(
        prototypes,
        static_cast<size_t>(y) * static_cast<size_t>(prototypes.width) +
            static_cast<size_t>(x),
        static_cast<size_t>(columns), stride, scratch.packed.data());
    for (size_t i = 0; i < planes.size(); ++i) {
      const LogitPlane& plane = planes[i];
      const int begin = std::max(x, plane.area.x);
      const int end = std::min(x + columns, plane.area.x + plane.area.width);
      if (!has_row(plane.area) || begin >= end) continue;
      float* row =
          plane.logits + static_cast<size_t>(y - plane.area.y) * plane.stride;
      MultiplyRow(scratch.packed.data() + (begin - x), stride,
                  static_cast<size_t>(end - begin), prototypes.channels,
                  masks[i], row + (begin - plane.area.x));
      if (end == plane.area.x + plane.area.width) {
        row[plane.area.width] = row[plane.area.width - 1];
      }
    }
  }
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

size_t MaskWorkspace::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  size_t floats = values_.capacity() + logits_.capacity();
  for (const std::unique_ptr<MaskScratch>& scratch : free_) {
    floats += scratch->packed.capacity() + scratch->block.capacity() +
              scratch->swept.capacity() + scratch->logits.capacity() +
              scratch->upper.capacity() + scratch->lower.capacity();
  }
  return floats * sizeof(float);
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

int RowsBetween(const MaskAxis& axis, int y, int end) {
  const int32_t tap = axis.tap[static_cast<size_t>(y)];
  int next = y + 1;
  while (next < end && axis.tap[static_cast<size_t>(next)] == tap &&
         axis.fraction[static_cast<size_t>(next)] != 0) {
    ++next;
  }
  return next - y;
}

Rect ComputedArea(const MaskPlan& plan, size_t i) {
  const MaskPlacement& mask = plan.masks[i];
  return plan.extent == MaskExtent::kUncropped ? mask.bounds : mask.box;
}

bool LayOutPlanes(const MaskPlan& plan, int begin, int end, size_t most,
                  std::vector<float>& memory, std::vector<LogitPlane>& planes) {
  planes.clear();
  size_t floats = 0;
  for (int i = begin; i < end; ++i) {
    const Rect area = TapArea(plan, ComputedArea(plan, static_cast<size_t>(i)));
    planes.push_back({area, nullptr, static_cast<size_t>(area.width) + 1});
    floats += PlaneFloats(planes.back());
  }
  if (floats > most) return false;
  Grow(memory, floats);
  float* to = memory.data();
  for (LogitPlane& plane : planes) {
    plane.logits = to;
    to += PlaneFloats(plane);
  }
  return true;
}

void SweepLogits(const MaskWorkspace& workspace, int begin,
                 std::span<const LogitPlane> planes, MaskScratch& scratch) {
  int top = workspace.prototypes().height;
  int bottom = 0;
  for (const LogitPlane& plane : planes) {
    top = std::min(top, plane.area.y);
    bottom = std::max(bottom, plane.area.y + plane.area.height);
  }
  const std::span masks =
      std::span(workspace.masks()).subspan(static_cast<size_t>(begin));
  for (int y = top; y < bottom; ++y) {
    SweepRow(workspace.prototypes(), masks, y, planes, scratch);
  }
}

MaskRows::MaskRows(const MaskWorkspace& workspace, size_t mask,
                   const Rect& area, const LogitPlane* plane,
                   MaskScratch& scratch)
    : workspace_(workspace),
      mask_(workspace.masks()[mask]),
      area_(area),
      plane_(plane != nullptr && plane->logits != nullptr ? plane : nullptr),
      scratch_(scratch) {
  const MaskPlan& plan = workspace.plan();
  scratch.Reserve(plan);
  upper_memory_ = scratch.upper.data();
  lower_memory_ = scratch.lower.data();
  const Rect taps = TapArea(plan, area);
  first_ = taps.x;
  count_ = taps.width;
}

const float* MaskRows::Compute(int prototype_row, float* out) {
  const MaskPlan& plan = workspace_.plan();
  const auto count = static_cast<size_t>(count_);
  const float* logits = nullptr;
  if (plane_ != nullptr) {
    logits =
        plane_->logits +
        static_cast<size_t>(prototype_row - plane_->area.y) * plane_->stride +
        (first_ - plane_->area.x);
  } else {
    float* own = plan.x.identity ? out : scratch_.logits.data();
    const size_t first = static_cast<size_t>(prototype_row) *
                             static_cast<size_t>(plan.prototype_size.width) +
                         static_cast<size_t>(first_);
    LogitRow(workspace_.prototypes(), mask_, first, count, own);
    own[count] = own[count - 1];
    logits = own;
  }
  if (plan.x.identity) return logits;
  const auto x = static_cast<size_t>(area_.x);
  ExpandRow(logits, plan.x.tap.data() + x, plan.x.fraction.data() + x, first_,
            static_cast<size_t>(area_.width), out);
  return out;
}

MaskRows::Row MaskRows::At(int y) {
  const MaskAxis& axis = workspace_.plan().y;
  const int row = axis.tap[static_cast<size_t>(y)];
  const float fraction = axis.fraction[static_cast<size_t>(y)];
  if (row != upper_row_) {
    if (row == lower_row_) {
      std::swap(upper_, lower_);
      std::swap(upper_memory_, lower_memory_);
      std::swap(upper_row_, lower_row_);
    } else {
      upper_ = Compute(row, upper_memory_);
      upper_row_ = row;
    }
  }
  if (fraction == 0) return {upper_, upper_, 0};
  if (lower_row_ != row + 1) {
    lower_ = Compute(row + 1, lower_memory_);
    lower_row_ = row + 1;
  }
  return {upper_, lower_, fraction};
}

}  // namespace preprocd
