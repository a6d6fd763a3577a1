#include "engine/backends/cpu/row_writer.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/backends/cpu/element_types.h"

namespace preprocd {
namespace {

constexpr float kOpaque = 255;

float Clamp8(float v) { return std::min(std::max(v, 0.0f), 255.0f); }

bool IsYuv(const PixelFormatInfo& info) {
  return info.family == ColorFamily::kYuv;
}

std::byte ToByte(float v) {
  return static_cast<std::byte>(static_cast<uint8_t>(RoundHalfUp(Clamp8(v))));
}

// The dtype stage of one channel of one row: values (rounded to 8 bits unless
// precision is full) to elements.
struct Stage {
  bool normalize = false;
  double offset = 0;
  double multiplier = 1;
  double quant = 1;
  double zero_point = 0;
  bool biased = false;  // i8 and i16 colour channels
};

// Double, in the reference's order of operations: a rounded factor moves ties
// by a step, and a client's factor can be outside a float's range.
double Normalized(const Stage& stage, float v) {
  return (double{v} - stage.offset) * stage.multiplier;
}

template <typename T>
void Quantize(const Stage& stage, const float* in, size_t count, T* out) {
  constexpr double kLow = std::numeric_limits<T>::min();
  constexpr double kHigh = std::numeric_limits<T>::max();
  for (size_t i = 0; i < count; ++i) {
    const double q = std::nearbyint(Normalized(stage, in[i]) * stage.quant) +
                     stage.zero_point;
    out[i] = static_cast<T>(std::clamp(q, kLow, kHigh));
  }
}

void Elements(const Stage& stage, const float* in, size_t count, uint8_t* out) {
  if (stage.normalize) {
    Quantize(stage, in, count, out);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(RoundHalfUp(in[i]));
  }
}

void Elements(const Stage& stage, const float* in, size_t count, int8_t* out) {
  if (stage.normalize) {
    Quantize(stage, in, count, out);
    return;
  }
  const int flip = stage.biased ? 0x80 : 0;
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<int8_t>(static_cast<int>(RoundHalfUp(in[i])) ^ flip);
  }
}

void Elements(const Stage& stage, const float* in, size_t count,
              uint16_t* out) {
  if (stage.normalize) {
    Quantize(stage, in, count, out);
    return;
  }
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint16_t>(RoundHalfUp(in[i] * 257.0f));
  }
}

void Elements(const Stage& stage, const float* in, size_t count, int16_t* out) {
  if (stage.normalize) {
    Quantize(stage, in, count, out);
    return;
  }
  const int flip = stage.biased ? 0x8000 : 0;
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<int16_t>(
        static_cast<int>(RoundHalfUp(in[i] * 257.0f)) ^ flip);
  }
}

// Tags for the two 16-bit float types, which share a C++ type.
struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};

void Elements(const Stage& stage, const float* in, size_t count, float* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<float>(Normalized(stage, in[i]));
  }
}

void Elements(const Stage& stage, const float* in, size_t count, Half* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i].bits = FloatToHalf(static_cast<float>(Normalized(stage, in[i])));
  }
}

void Elements(const Stage& stage, const float* in, size_t count, Bfloat* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i].bits = FloatToBfloat16(static_cast<float>(Normalized(stage, in[i])));
  }
}

}  // namespace

RowColor::RowColor(const ConvertPlan& plan)
    : from_(GetPixelFormatInfo(plan.source.format)),
      to_(GetPixelFormatInfo(plan.destination.format)),
      same_yuv_(IsYuv(from_) && IsYuv(to_) &&
                plan.source.color == plan.destination.color) {
  if (IsYuv(from_)) {
    yuv_to_rgb_ = GetYuvToRgbCoefficients(plan.source.color);
  }
  if (IsYuv(to_)) {
    rgb_to_yuv_ = GetRgbToYuvCoefficients(plan.destination.color);
  }
}

void RowColor::Apply(const std::array<float*, kMaxChannels>& rows,
                     int width) const {
  const auto n = static_cast<size_t>(width);
  if (to_.family == ColorFamily::kGrey) {
    float* y = rows[0];
    if (from_.family == ColorFamily::kRgb) {
      const LumaWeights w = GetLumaWeights(MatrixCoefficients::kBt601);
      const auto kr = static_cast<float>(w.kr);
      const auto kg = static_cast<float>(w.kg());
      const auto kb = static_cast<float>(w.kb);
      const float* g = rows[1];
      const float* b = rows[2];
      for (size_t i = 0; i < n; ++i) y[i] = kr * y[i] + kg * g[i] + kb * b[i];
    } else if (IsYuv(from_)) {
      const auto offset = static_cast<float>(yuv_to_rgb_.y_offset);
      const auto scale = static_cast<float>(yuv_to_rgb_.y_scale);
      for (size_t i = 0; i < n; ++i) y[i] = (y[i] - offset) * scale;
    }
    return;
  }
  if (same_yuv_) return;
  if (IsYuv(from_)) YuvToRgb(rows, width);
  if (from_.family == ColorFamily::kGrey) {
    memcpy(rows[1], rows[0], n * sizeof(float));
    memcpy(rows[2], rows[0], n * sizeof(float));
  }
  if (IsYuv(to_)) {
    RgbToYuv(rows, width);
    return;
  }
  if (to_.has_alpha && !from_.has_alpha) std::fill_n(rows[3], n, kOpaque);
}

void RowColor::YuvToRgb(const std::array<float*, kMaxChannels>& rows,
                        int width) const {
  const auto offset = static_cast<float>(yuv_to_rgb_.y_offset);
  const auto scale = static_cast<float>(yuv_to_rgb_.y_scale);
  const auto vr = static_cast<float>(yuv_to_rgb_.vr);
  const auto ug = static_cast<float>(yuv_to_rgb_.ug);
  const auto vg = static_cast<float>(yuv_to_rgb_.vg);
  const auto ub = static_cast<float>(yuv_to_rgb_.ub);
  float* __restrict r = rows[0];
  float* __restrict g = rows[1];
  float* __restrict b = rows[2];
  for (int i = 0; i < width; ++i) {
    const float l = (r[i] - offset) * scale;
    const float u = g[i] - 128.0f;
    const float v = b[i] - 128.0f;
    r[i] = l + vr * v;
    g[i] = l - ug * u - vg * v;
    b[i] = l + ub * u;
  }
}

void RowColor::RgbToYuv(const std::array<float*, kMaxChannels>& rows,
                        int width) const {
  std::array<std::array<float, 4>, 3> k = {};
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      k[i][j] = static_cast<float>(rgb_to_yuv_.matrix[i][j]);
    }
    k[i][3] = static_cast<float>(rgb_to_yuv_.offset[i]);
  }
  for (int i = 0; i < width; ++i) {
    const float r = Clamp8(rows[0][i]);
    const float g = Clamp8(rows[1][i]);
    const float b = Clamp8(rows[2][i]);
    for (size_t c = 0; c < 3; ++c) {
      rows[c][i] = k[c][0] * r + k[c][1] * g + k[c][2] * b + k[c][3];
    }
  }
}

RowWriter::RowWriter(const ConvertPlan& plan, const ImageView& destination)
    : plan_(plan),
      destination_(destination),
      to_(GetPixelFormatInfo(plan.destination.format)),
      width_(static_cast<size_t>(plan.destination.width)) {}

template <typename T>
void RowWriter::StoreRow(int y, size_t channel, int position,
                         const T* elements) const {
  if (to_.family == ColorFamily::kGrey || to_.is_planar_rgb()) {
    const int plane = to_.family == ColorFamily::kGrey ? 0 : position;
    memcpy(destination_.row(plane, y), elements, width_ * sizeof(T));
    return;
  }
  static_cast<void>(channel);
  auto* out = reinterpret_cast<T*>(destination_.row(0, y)) + position;
  const size_t step = to_.channels;
  if (step == 3) {
    for (size_t x = 0; x < width_; ++x) out[x * 3] = elements[x];
  } else {
    for (size_t x = 0; x < width_; ++x) out[x * 4] = elements[x];
  }
}

template <typename T>
void RowWriter::WriteAs(int y, const std::array<float*, kMaxChannels>& rows,
                        BandScratch& scratch) const {
  const size_t bytes = width_ * sizeof(T);
  if (scratch.packed.size() < bytes) scratch.packed.resize(bytes);
  auto* elements = reinterpret_cast<T*>(scratch.packed.data());
  const bool grey = to_.family == ColorFamily::kGrey;
  const bool integer = !IsFloat(plan_.destination.dtype);
  for (size_t c = 0; c < (grey ? 1U : 4U); ++c) {
    const int position = grey ? 0 : to_.channel_order[c];
    if (position < 0) continue;
    const bool alpha = c == 3;
    Stage stage;
    stage.normalize = plan_.normalize && !(alpha && integer);
    stage.offset = plan_.normalization.offset[c];
    stage.multiplier = plan_.normalization.multiplier[c];
    if (plan_.quantization) {
      stage.quant = plan_.quantization->multiplier;
      stage.zero_point = plan_.quantization->zero_point;
    }
    stage.biased = !alpha;
    Elements(stage, rows[c], width_, elements);
    StoreRow(y, c, position, elements);
  }
}

void RowWriter::Write(int y, const std::array<float*, kMaxChannels>& rows,
                      BandScratch& scratch) const {
  const size_t channels = to_.family == ColorFamily::kGrey ? 1 : 4;
  for (size_t c = 0; c < channels; ++c) {
    if (c == 3 && !to_.has_alpha) break;
    float* row = rows[c];
    if (plan_.precision == Precision::kFull) {
      for (size_t x = 0; x < width_; ++x) row[x] = Clamp8(row[x]);
    } else {
      for (size_t x = 0; x < width_; ++x) row[x] = RoundHalfUp(Clamp8(row[x]));
    }
  }
  switch (plan_.destination.dtype) {
    case DType::kU8:
      return WriteAs<uint8_t>(y, rows, scratch);
    case DType::kI8:
      return WriteAs<int8_t>(y, rows, scratch);
    case DType::kU16:
      return WriteAs<uint16_t>(y, rows, scratch);
    case DType::kI16:
      return WriteAs<int16_t>(y, rows, scratch);
    case DType::kF16:
      return WriteAs<Half>(y, rows, scratch);
    case DType::kBf16:
      return WriteAs<Bfloat>(y, rows, scratch);
    case DType::kF32:
    case DType::kUnspecified:
      return WriteAs<float>(y, rows, scratch);
  }
}

void RowWriter::WriteLuma(int y, const float* luma) const {
  std::byte* out = destination_.row(0, y);
  const PixelFormat format = plan_.destination.format;
  if (to_.plane_count > 1) {
    for (size_t x = 0; x < width_; ++x) out[x] = ToByte(luma[x]);
    return;
  }
  const size_t offset = format == PixelFormat::kYuyv ? 0 : 1;
  for (size_t x = 0; x < width_; ++x) out[x * 2 + offset] = ToByte(luma[x]);
  // An odd width's last pair has a second luma: repeat the last one.
  if (width_ % 2 == 1) out[width_ * 2 + offset] = ToByte(luma[width_ - 1]);
}

void RowWriter::WriteChroma(int chroma_y, const float* u, const float* v,
                            int rows_summed) const {
  const size_t block = size_t{1} << to_.chroma_x_shift;
  const size_t count = (width_ + block - 1) / block;
  std::byte* u_out = nullptr;
  std::byte* v_out = nullptr;
  size_t step = 0;
  switch (plan_.destination.format) {
    case PixelFormat::kI420:
      u_out = destination_.row(1, chroma_y);
      v_out = destination_.row(2, chroma_y);
      step = 1;
      break;
    case PixelFormat::kYuyv:
      u_out = destination_.row(0, chroma_y) + 1;
      v_out = u_out + 2;
      step = 4;
      break;
    case PixelFormat::kUyvy:
      u_out = destination_.row(0, chroma_y);
      v_out = u_out + 2;
      step = 4;
      break;
    case PixelFormat::kVyuy:
      v_out = destination_.row(0, chroma_y);
      u_out = v_out + 2;
      step = 4;
      break;
    case PixelFormat::kNv21:
      v_out = destination_.row(1, chroma_y);
      u_out = v_out + 1;
      step = 2;
      break;
    default:
      u_out = destination_.row(1, chroma_y);
      v_out = u_out + 1;
      step = 2;
      break;
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t begin = i * block;
    const size_t end = std::min(width_, begin + block);
    float u_sum = 0;
    float v_sum = 0;
    for (size_t x = begin; x < end; ++x) {
      u_sum += u[x];
      v_sum += v[x];
    }
    const auto samples =
        static_cast<float>(static_cast<int>(end - begin) * rows_summed);
    u_out[i * step] = ToByte(u_sum / samples);
    v_out[i * step] = ToByte(v_sum / samples);
  }
}

}  // namespace preprocd
