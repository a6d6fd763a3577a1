#include "engine/backends/cpu/element_table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/backends/cpu/element_types.h"
#include "engine/backends/cpu/vector_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/element_table.cc"
// clang-format off
#include "hwy/foreach_target.h"  // must come before highway.h
#include "hwy/highway.h"
#include "engine/backends/cpu/vector_blocks-inl.h"
// clang-format on

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
namespace preprocd::HWY_NAMESPACE {
namespace {
void AffineRowT(DType, const ElementTable::Affine&, const uint8_t*, size_t,
                std::byte*) {
  NoVectorKernels();
}
void InterleaveT(const std::byte* const*, int, size_t, size_t, std::byte*) {
  NoVectorKernels();
}
}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
#else

HWY_BEFORE_NAMESPACE();
namespace preprocd::HWY_NAMESPACE {
namespace {

#if HWY_ARCH_X86
using Floats = hn::ScalableTag<float>;
#else
using Floats = hn::FixedTag<float, 4>;
#endif
using FloatVec = hn::Vec<Floats>;
constexpr size_t kFloatLanes = hn::MaxLanes(Floats());

struct AffineVectors {
  FloatVec offset, offset_rest, factor, factor_rest;
};

HWY_INLINE FloatVec Values(const uint8_t* in) {
  const Floats df;
  const hn::Rebind<int32_t, Floats> di;
  const hn::Rebind<uint8_t, Floats> d8;
  return hn::ConvertTo(df, hn::PromoteTo(di, hn::LoadU(d8, in)));
}

// (v - offset) * factor in float pairs: the first product's rounding is what
// the second term is too small to disturb.
HWY_INLINE FloatVec Apply(const AffineVectors& k, FloatVec v) {
  const auto t = hn::Sub(v, k.offset);
  const auto rest = hn::MulSub(t, k.factor_rest, k.offset_rest);
  return hn::MulAdd(t, k.factor, rest);
}

struct ToF32 {
  HWY_INLINE void Store(FloatVec v, size_t i, std::byte* out) const {
    hn::StoreU(v, Floats(), reinterpret_cast<float*>(out) + i);
  }
};

struct ToF16 {
  HWY_INLINE void Store(FloatVec v, size_t i, std::byte* out) const {
    const hn::Rebind<hwy::float16_t, Floats> d;
    const hn::Rebind<uint16_t, Floats> d16;
    hn::StoreU(hn::BitCast(d16, hn::DemoteTo(d, v)), d16,
               reinterpret_cast<uint16_t*>(out) + i);
  }
};

struct ToBf16 {
  HWY_INLINE void Store(FloatVec v, size_t i, std::byte* out) const {
    const hn::RebindToUnsigned<Floats> d32;
    const hn::Rebind<uint16_t, Floats> d16;
    const auto bits = hn::BitCast(d32, v);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7fff)));
    hn::StoreU(hn::TruncateTo(d16, hn::ShiftRight<16>(rounded)), d16,
               reinterpret_cast<uint16_t*>(out) + i);
  }
};

template <size_t kBytes, class Sink>
void AffineAll(const ElementTable::Affine& k, const uint8_t* in, size_t size,
               std::byte* out, Sink sink) {
  const Floats d;
  const AffineVectors vectors = {
      hn::Set(d, k.offset), hn::Set(d, k.offset_rest * k.factor),
      hn::Set(d, k.factor), hn::Set(d, k.factor_rest)};
  size_t i = 0;
  for (; i + kFloatLanes <= size; i += kFloatLanes) {
    sink.Store(Apply(vectors, Values(in + i)), i, out);
  }
  if (i == size) return;
  uint8_t rest_in[kFloatLanes] = {};
  alignas(64) std::byte rest_out[kFloatLanes * kBytes];
  memcpy(rest_in, in + i, size - i);
  sink.Store(Apply(vectors, Values(rest_in)), 0, rest_out);
  memcpy(out + i * kBytes, rest_out, (size - i) * kBytes);
}

void AffineRowT(DType dtype, const ElementTable::Affine& k, const uint8_t* in,
                size_t size, std::byte* out) {
  switch (dtype) {
    case DType::kF16:
      return AffineAll<2>(k, in, size, out, ToF16());
    case DType::kBf16:
      return AffineAll<2>(k, in, size, out, ToBf16());
    default:
      return AffineAll<4>(k, in, size, out, ToF32());
  }
}

template <class T>
void InterleaveAll(const std::byte* const* rows, int channels, size_t size,
                   std::byte* out) {
#if HWY_ARCH_X86
  const hn::ScalableTag<T> d;
#else
  const hn::FixedTag<T, 16 / sizeof(T)> d;
#endif
  const T* in[4] = {};
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    in[c] = reinterpret_cast<const T*>(rows[c]);
  }
  T* to = reinterpret_cast<T*>(out);
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto a = hn::LoadU(d, in[0] + i);
    const auto b = hn::LoadU(d, in[1] + i);
    const auto c = hn::LoadU(d, in[2] + i);
    if (channels == 3) {
      hn::StoreInterleaved3(a, b, c, d, to + 3 * i);
    } else {
      hn::StoreInterleaved4(a, b, c, hn::LoadU(d, in[3] + i), d, to + 4 * i);
    }
  }
  const auto step = static_cast<size_t>(channels);
  for (; i < size; ++i) {
    for (size_t c = 0; c < step; ++c) to[i * step + c] = in[c][i];
  }
}

void InterleaveT(const std::byte* const* rows, int channels,
                 size_t element_bytes, size_t size, std::byte* out) {
  element_bytes == 2 ? InterleaveAll<uint16_t>(rows, channels, size, out)
                     : InterleaveAll<uint32_t>(rows, channels, size, out);
}

}  // namespace
}  // namespace preprocd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // fallback targets

#if HWY_ONCE
namespace preprocd {
namespace {

HWY_EXPORT(AffineRowT);
HWY_EXPORT(InterleaveT);

constexpr size_t kValues = 256;

template <typename T>
uint32_t QuantizedBits(double n, const Quantization& q) {
  const double value = std::clamp<double>(
      std::nearbyint(n * q.multiplier) + q.zero_point,
      std::numeric_limits<T>::min(), std::numeric_limits<T>::max());
  return static_cast<std::make_unsigned_t<T>>(static_cast<T>(value));
}

// Elements of a plain integer destination; alpha is never biased.
uint32_t PlainBits(DType dtype, bool alpha, uint32_t v) {
  switch (dtype) {
    case DType::kI8:
      return alpha ? v : v ^ 0x80U;
    case DType::kU16:
      return v * 257;
    case DType::kI16:
      return alpha ? v * 257 : v * 257 ^ 0x8000U;
    default:
      return v;
  }
}

uint32_t NormalizedBits(DType dtype, double n,
                        const std::optional<Quantization>& quantization) {
  const Quantization q = quantization.value_or(Quantization{});
  switch (dtype) {
    case DType::kU8:
      return QuantizedBits<uint8_t>(n, q);
    case DType::kI8:
      return QuantizedBits<int8_t>(n, q);
    case DType::kU16:
      return QuantizedBits<uint16_t>(n, q);
    case DType::kI16:
      return QuantizedBits<int16_t>(n, q);
    case DType::kF16:
      return FloatToHalf(static_cast<float>(n));
    case DType::kBf16:
      return FloatToBfloat16(static_cast<float>(n));
    case DType::kF32:
    case DType::kUnspecified:
      break;
  }
  return std::bit_cast<uint32_t>(static_cast<float>(n));
}

template <typename T>
void LookUp(const std::array<uint32_t, kValues>& bits, const uint8_t* values,
            size_t size, std::byte* out) {
  auto* to = reinterpret_cast<T*>(out);
  for (size_t i = 0; i < size; ++i) to[i] = static_cast<T>(bits[values[i]]);
}

}  // namespace

ElementStage ElementStageOf(const ConvertPlan& plan) {
  ElementStage stage;
  stage.dtype = plan.destination.dtype;
  stage.normalize = plan.normalize;
  if (plan.normalize) {
    stage.normalization = plan.normalization;
    stage.quantization = plan.quantization;
  }
  return stage;
}

ElementTable::ElementTable(const ElementStage& stage)
    : request(stage),
      element_bytes_(static_cast<size_t>(DTypeSize(stage.dtype))) {
  plain_ = !stage.normalize && element_bytes_ == 1;
  flip_ = plain_ && stage.dtype == DType::kI8 ? 0x80 : 0;
  for (size_t c = 0; c < kMaxChannels; ++c) Fill(c);
}

void ElementTable::Fill(size_t c) {
  const bool alpha = c == 3;
  const bool is_float = IsFloat(request.dtype);
  const bool normalize = request.normalize && (is_float || !alpha);
  const double offset = request.normalization.offset[c];
  const double multiplier = request.normalization.multiplier[c];
  for (uint32_t v = 0; v < kValues; ++v) {
    const double n = (double(v) - offset) * multiplier;
    bits_[c][v] = normalize
                      ? NormalizedBits(request.dtype, n, request.quantization)
                      : PlainBits(request.dtype, alpha, v);
  }
  if (!is_float || !VectorKernelsRun()) return;
  Affine& k = affine_[c];
  k.offset = static_cast<float>(offset);
  k.offset_rest = static_cast<float>(offset - double{k.offset});
  k.factor = static_cast<float>(multiplier);
  k.factor_rest = static_cast<float>(multiplier - double{k.factor});
  vectors_agree_[c] = VectorsAgree(c);
}

bool ElementTable::VectorsAgree(size_t c) const {
  std::array<uint8_t, kValues> values = {};
  for (size_t v = 0; v < kValues; ++v) values[v] = static_cast<uint8_t>(v);
  alignas(64) std::array<std::byte, kValues* 4> expected = {};
  alignas(64) std::array<std::byte, kValues* 4> got = {};
  if (element_bytes_ == 4) {
    LookUp<uint32_t>(bits_[c], values.data(), kValues, expected.data());
  } else {
    LookUp<uint16_t>(bits_[c], values.data(), kValues, expected.data());
  }
  HWY_DYNAMIC_DISPATCH(AffineRowT)
  (request.dtype, affine_[c], values.data(), kValues, got.data());
  return memcmp(expected.data(), got.data(), kValues * element_bytes_) == 0;
}

void ElementTable::Row(size_t c, const uint8_t* values, size_t size,
                       std::byte* out) const {
  if (vectors_agree_[c]) {
    HWY_DYNAMIC_DISPATCH(AffineRowT)
    (request.dtype, affine_[c], values, size, out);
    return;
  }
  switch (element_bytes_) {
    case 1:
      return LookUp<uint8_t>(bits_[c], values, size, out);
    case 2:
      return LookUp<uint16_t>(bits_[c], values, size, out);
    default:
      return LookUp<uint32_t>(bits_[c], values, size, out);
  }
}

void InterleaveElements(const std::array<const std::byte*, kMaxChannels>& rows,
                        int channels, size_t element_bytes, size_t size,
                        std::byte* out) {
  HWY_DYNAMIC_DISPATCH(InterleaveT)
  (rows.data(), channels, element_bytes, size, out);
}

}  // namespace preprocd
#endif  // HWY_ONCE
