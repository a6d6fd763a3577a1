#include "engine/backends/reference/reference_converter.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

using Values = std::array<double, kMaxChannels>;

constexpr double kOpaque = 255;

double RoundHalfAway(double v) {
  return v < 0 ? -std::floor(0.5 - v) : std::floor(v + 0.5);
}

double RoundHalfEven(double v) {
  const double floor = std::floor(v);
  const double rest = v - floor;
  if (rest != 0.5) return std::floor(v + 0.5);
  return std::fmod(floor, 2.0) == 0 ? floor : floor + 1;
}

double Clamp8(double v) { return std::clamp(v, 0.0, 255.0); }

// Round to nearest even to a float with `mantissa_bits` stored bits and the
// given exponent range, as its bit pattern. Overflow gives infinity.
uint16_t PackFloat16(double value, int mantissa_bits, int min_exponent,
                     int max_exponent) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  const int exponent_shift = mantissa_bits;
  const int bias = 1 - min_exponent;
  const auto infinity =
      static_cast<uint16_t>((max_exponent + bias + 1) << exponent_shift);
  if (std::isinf(value)) return static_cast<uint16_t>(sign | infinity);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  // frexp gives [0.5, 1); the formats count from [1, 2).
  exponent = std::max(exponent - 1, min_exponent);
  const double step = std::ldexp(1.0, exponent - mantissa_bits);
  // Adding the integer mantissa carries into the exponent by itself.
  const auto mantissa = static_cast<int64_t>(RoundHalfEven(magnitude / step));
  const int64_t implicit = int64_t{1} << mantissa_bits;
  int64_t bits = mantissa;
  if (mantissa >= implicit) {
    bits = (int64_t{exponent} + bias) * implicit + (mantissa - implicit);
  }
  return static_cast<uint16_t>(sign |
                               std::min<int64_t>(bits, int64_t{infinity}));
}

uint16_t ToHalf(double value) {
  return PackFloat16(value, /*mantissa_bits=*/10, /*min_exponent=*/-14,
                     /*max_exponent=*/15);
}

uint16_t ToBfloat(double value) {
  return PackFloat16(value, /*mantissa_bits=*/7, /*min_exponent=*/-126,
                     /*max_exponent=*/127);
}

// Reads stored samples. Chroma outside the source rectangle is never used.
class Picture {
 public:
  Picture(const ConvertPlan& plan, const ConstImageView& view)
      : plan_(plan), view_(view), info_(GetPixelFormatInfo(view.desc.format)) {}

  // R G B A, or Y, or Y U V at stored pixel (x, y) of the whole picture.
  Values At(int x, int y) const {
    switch (info_.family) {
      case ColorFamily::kGrey:
        return {Byte(0, x, y), 0, 0, 0};
      case ColorFamily::kRgb:
        return RgbAt(x, y);
      case ColorFamily::kYuv:
        break;
    }
    return {LumaAt(x, y), ChromaAt(x, y, 0), ChromaAt(x, y, 1), 0};
  }

 private:
  double Byte(int plane, int byte_x, int y, bool alpha = false) const {
    auto value = static_cast<uint8_t>(view_.row(plane, y)[byte_x]);
    // i8 pictures hold v - 128; alpha is never biased.
    if (view_.desc.dtype == DType::kI8 && !alpha) value ^= 0x80;
    return value;
  }

  Values RgbAt(int x, int y) const {
    Values values = {0, 0, 0, kOpaque};
    for (size_t c = 0; c < 4; ++c) {
      const int position = info_.channel_order[c];
      if (position < 0) continue;
      values[c] = info_.is_planar_rgb()
                      ? Byte(position, x, y, c == 3)
                      : Byte(0, x * info_.channels + position, y, c == 3);
    }
    return values;
  }

  double LumaAt(int x, int y) const {
    switch (view_.desc.format) {
      case PixelFormat::kYuyv:
        return Byte(0, x * 2, y);
      case PixelFormat::kUyvy:
      case PixelFormat::kVyuy:
        return Byte(0, x * 2 + 1, y);
      default:
        return Byte(0, x, y);
    }
  }

  // Stored chroma sample; `which` 0 is U, 1 is V.
  double StoredChroma(int cx, int cy, int which) const {
    switch (view_.desc.format) {
      case PixelFormat::kNv21:
        return Byte(1, cx * 2 + (1 - which), cy);
      case PixelFormat::kI420:
        return Byte(1 + which, cx, cy);
      case PixelFormat::kYuyv:
        return Byte(0, cx * 4 + (which == 0 ? 1 : 3), cy);
      case PixelFormat::kUyvy:
        return Byte(0, cx * 4 + (which == 0 ? 0 : 2), cy);
      case PixelFormat::kVyuy:
        return Byte(0, cx * 4 + (which == 0 ? 2 : 0), cy);
      default:
        return Byte(1, cx * 2 + which, cy);
    }
  }

  // Section 5, YUV: chroma at the luma tap, replicated or triangle-weighted.
  double ChromaAt(int x, int y, int which) const {
    const int sx = info_.chroma_x_shift;
    const int sy = info_.chroma_y_shift;
    const Rect& r = plan_.source_rect;
    const int width = (view_.desc.width + (1 << sx) - 1) >> sx;
    const int height = (view_.desc.height + (1 << sy) - 1) >> sy;
    const bool fancy = plan_.chroma == ChromaUpsampling::kFancy;
    const ChromaTaps tx =
        fancy ? FancyChroma(x, sx, width) : ReplicateChroma(x, sx);
    const ChromaTaps ty =
        fancy ? FancyChroma(y, sy, height) : ReplicateChroma(y, sy);
    const auto inside_x = [&](int i) {
      return std::clamp(i, r.x >> sx, (r.x + r.width - 1) >> sx);
    };
    const auto inside_y = [&](int i) {
      return std::clamp(i, r.y >> sy, (r.y + r.height - 1) >> sy);
    };
    double sum = 0;
    for (const auto& [iy, wy] :
         {std::pair{ty.index0, ty.weight0}, std::pair{ty.index1, ty.weight1}}) {
      for (const auto& [ix, wx] : {std::pair{tx.index0, tx.weight0},
                                   std::pair{tx.index1, tx.weight1}}) {
        if (wx * wy == 0) continue;
        sum += wx * wy * StoredChroma(inside_x(ix), inside_y(iy), which);
      }
    }
    return sum;
  }

  const ConvertPlan& plan_;
  const ConstImageView& view_;
  const PixelFormatInfo& info_;
};

class Reference {
 public:
  Reference(const ConvertPlan& plan, const ConstImageView& source,
            const ImageView& destination)
      : plan_(plan),
        picture_(plan, source),
        destination_(destination),
        from_(GetPixelFormatInfo(plan.source.format)),
        to_(GetPixelFormatInfo(plan.destination.format)),
        orientation_(
            GetOrientationMap(plan.orientation, plan.source_rect.size())),
        taps_x_(ComputeTaps(plan.filter, plan.placement.shown.width,
                            plan.placement.destination.width,
                            AreaBlends(plan.placement.shown.size(),
                                       plan.placement.destination.size()))),
        taps_y_(ComputeTaps(plan.filter, plan.placement.shown.height,
                            plan.placement.destination.height,
                            AreaBlends(plan.placement.shown.size(),
                                       plan.placement.destination.size()))),
        pad_(PadValues(plan)) {}

  void Run() {
    if (to_.family == ColorFamily::kYuv) {
      RunYuv();
      return;
    }
    for (int y = 0; y < plan_.destination.height; ++y) {
      for (int x = 0; x < plan_.destination.width; ++x) {
        Write(x, y, Colour(x, y));
      }
    }
  }

 private:
  // Steps source rectangle -> orientation: upright pixel (x, y) of the
  // oriented source rectangle.
  Values Oriented(int x, int y) const {
    const OrientationMap& o = orientation_;
    return picture_.At(plan_.source_rect.x + o.xx * x + o.xy * y + o.x0,
                       plan_.source_rect.y + o.yx * x + o.yy * y + o.y0);
  }

  // Steps fit -> filter, along the row.
  Values FilteredAlong(int px, int row) const {
    const bool rounds = plan_.precision != Precision::kFull &&
                        RoundsBetweenAxes(plan_.filter, from_.family) &&
                        taps_x_.count > 1;
    Values sum = {};
    for (int i = 0; i < taps_x_.count; ++i) {
      double w = taps_x_.weights[static_cast<size_t>(px * taps_x_.count + i)];
      if (rounds) w = WeightBetweenAxes(w);
      if (w == 0) continue;
      const Values v = Oriented(
          plan_.placement.shown.x + taps_x_.first[static_cast<size_t>(px)] + i,
          plan_.placement.shown.y + row);
      for (size_t c = 0; c < v.size(); ++c) sum[c] += w * v[c];
    }
    if (!rounds) return sum;
    // Exact: products of bytes and 22-bit fractions.
    for (double& c : sum) c = Clamp8(std::floor(c + 0.5));
    return sum;
  }

  // Steps fit -> filter.
  Values Filtered(int px, int py) const {
    Values sum = {};
    for (int j = 0; j < taps_y_.count; ++j) {
      const double w =
          taps_y_.weights[static_cast<size_t>(py * taps_y_.count + j)];
      if (w == 0) continue;
      const Values v =
          FilteredAlong(px, taps_y_.first[static_cast<size_t>(py)] + j);
      for (size_t c = 0; c < v.size(); ++c) sum[c] += w * v[c];
    }
    // Colour is defined on 0..255; lobes overshoot.
    for (double& c : sum) c = Clamp8(c);
    return sum;
  }

  Values ToRgb(const Values& v) const {
    switch (from_.family) {
      case ColorFamily::kRgb:
        return v;
      case ColorFamily::kGrey:
        return {v[0], v[0], v[0], kOpaque};
      case ColorFamily::kYuv:
        break;
    }
    const YuvToRgbCoefficients k = GetYuvToRgbCoefficients(plan_.source.color);
    const double l = (v[0] - k.y_offset) * k.y_scale;
    const double u = v[1] - 128;
    const double w = v[2] - 128;
    return {l + k.vr * w, l - k.ug * u - k.vg * w, l + k.ub * u, kOpaque};
  }

  // Step colour: values of the destination's family, not yet rounded.
  Values ColourOf(const Values& v) const {
    switch (to_.family) {
      case ColorFamily::kRgb: {
        Values rgb = ToRgb(v);
        if (!from_.has_alpha) rgb[3] = kOpaque;
        return rgb;
      }
      case ColorFamily::kGrey:
        if (from_.family == ColorFamily::kGrey) return v;
        if (from_.family == ColorFamily::kYuv) {
          const YuvToRgbCoefficients k =
              GetYuvToRgbCoefficients(plan_.source.color);
          return {(v[0] - k.y_offset) * k.y_scale, 0, 0, 0};
        } else {
          const LumaWeights w = GetLumaWeights(MatrixCoefficients::kBt601);
          return {w.kr * v[0] + w.kg() * v[1] + w.kb * v[2], 0, 0, 0};
        }
      case ColorFamily::kYuv:
        break;
    }
    if (from_.family == ColorFamily::kYuv &&
        plan_.source.color == plan_.destination.color) {
      return v;
    }
    Values rgb = ToRgb(v);
    for (double& c : rgb) c = Clamp8(c);
    const RgbToYuvCoefficients k =
        GetRgbToYuvCoefficients(plan_.destination.color);
    Values yuv = {};
    for (size_t i = 0; i < 3; ++i) {
      yuv[i] = k.matrix[i][0] * rgb[0] + k.matrix[i][1] * rgb[1] +
               k.matrix[i][2] * rgb[2] + k.offset[i];
    }
    return yuv;
  }

  Values Unrounded(int x, int y) const {
    const Rect& r = plan_.placement.destination;
    if (x < r.x || y < r.y || x >= r.x + r.width || y >= r.y + r.height) {
      return pad_;
    }
    return ColourOf(Filtered(x - r.x, y - r.y));
  }

  // Section 5, eight bits first.
  Values Colour(int x, int y) const {
    Values v = Unrounded(x, y);
    for (double& c : v) {
      c = Clamp8(c);
      if (plan_.precision == Precision::kEightBit) c = RoundHalfAway(c);
    }
    return v;
  }

  // Step dtype: the element's bits, in the low bytes.
  uint32_t Element(double v, size_t channel) const {
    const DType dtype = plan_.destination.dtype;
    const bool alpha = to_.family == ColorFamily::kRgb && channel == 3;
    const bool integer = !IsFloat(dtype);
    if (plan_.normalize && !(alpha && integer)) {
      const double n = (v - plan_.normalization.offset[channel]) *
                       plan_.normalization.multiplier[channel];
      if (dtype == DType::kF16) return ToHalf(n);
      if (dtype == DType::kBf16) return ToBfloat(n);
      if (dtype == DType::kF32) {
        const auto f = static_cast<float>(n);
        uint32_t bits = 0;
        memcpy(&bits, &f, sizeof(bits));
        return bits;
      }
      const Quantization& q = *plan_.quantization;
      return Quantized(RoundHalfEven(n * q.multiplier) + q.zero_point);
    }
    switch (dtype) {
      case DType::kI8:
        // Alpha is never biased: its byte is the plain one.
        return static_cast<uint32_t>(RoundHalfAway(v)) ^ (alpha ? 0U : 0x80U);
      case DType::kU16:
        return static_cast<uint32_t>(RoundHalfAway(v * 257));
      case DType::kI16:
        return static_cast<uint32_t>(RoundHalfAway(v * 257)) ^
               (alpha ? 0U : 0x8000U);
      default:
        return static_cast<uint32_t>(RoundHalfAway(v));
    }
  }

  uint32_t Quantized(double q) const {
    double low = 0;
    double high = 255;
    switch (plan_.destination.dtype) {
      case DType::kI8:
        low = -128;
        high = 127;
        break;
      case DType::kU16:
        high = 65535;
        break;
      case DType::kI16:
        low = -32768;
        high = 32767;
        break;
      default:
        break;
    }
    return static_cast<uint32_t>(
        static_cast<int32_t>(std::clamp(q, low, high)));
  }

  // Step layout.
  void Write(int x, int y, const Values& v) {
    const auto size = static_cast<size_t>(DTypeSize(plan_.destination.dtype));
    if (to_.family == ColorFamily::kGrey) {
      Store(destination_.row(0, y) + static_cast<size_t>(x) * size,
            Element(v[0], 0), size);
      return;
    }
    for (size_t c = 0; c < 4; ++c) {
      const int position = to_.channel_order[c];
      if (position < 0) continue;
      std::byte* at =
          to_.is_planar_rgb()
              ? destination_.row(position, y) + static_cast<size_t>(x) * size
              : destination_.row(0, y) +
                    static_cast<size_t>(x * to_.channels + position) * size;
      Store(at, Element(v[c], c), size);
    }
  }

  static void Store(std::byte* at, uint32_t bits, size_t size) {
    memcpy(at, &bits, size);  // little-endian hosts only, as DRM formats are
  }

  // Luma per pixel; chroma is the mean over the pixels that share it.
  void RunYuv() {
    const int width = plan_.destination.width;
    const int height = plan_.destination.height;
    const int bx = 1 << to_.chroma_x_shift;
    const int by = 1 << to_.chroma_y_shift;
    for (int y0 = 0; y0 < height; y0 += by) {
      for (int x0 = 0; x0 < width; x0 += bx) {
        double u = 0;
        double v = 0;
        int count = 0;
        for (int y = y0; y < std::min(height, y0 + by); ++y) {
          for (int x = x0; x < std::min(width, x0 + bx); ++x) {
            const Values value = Unrounded(x, y);
            WriteLuma(x, y, RoundHalfAway(Clamp8(value[0])));
            u += value[1];
            v += value[2];
            ++count;
          }
        }
        WriteChroma(x0 / bx, y0 / by, RoundHalfAway(Clamp8(u / count)),
                    RoundHalfAway(Clamp8(v / count)));
      }
    }
  }

  static std::byte ToByte(double v) {
    return static_cast<std::byte>(static_cast<uint8_t>(v));
  }

  void WriteLuma(int x, int y, double value) {
    switch (plan_.destination.format) {
      case PixelFormat::kYuyv:
        destination_.row(0, y)[x * 2] = ToByte(value);
        // An odd width's last pair has a second luma: repeat the first.
        if (x + 1 == plan_.destination.width && x % 2 == 0) {
          destination_.row(0, y)[x * 2 + 2] = ToByte(value);
        }
        return;
      case PixelFormat::kUyvy:
      case PixelFormat::kVyuy:
        destination_.row(0, y)[x * 2 + 1] = ToByte(value);
        if (x + 1 == plan_.destination.width && x % 2 == 0) {
          destination_.row(0, y)[x * 2 + 3] = ToByte(value);
        }
        return;
      default:
        destination_.row(0, y)[x] = ToByte(value);
    }
  }

  void WriteChroma(int cx, int cy, double u, double v) {
    switch (plan_.destination.format) {
      case PixelFormat::kNv21:
        destination_.row(1, cy)[cx * 2] = ToByte(v);
        destination_.row(1, cy)[cx * 2 + 1] = ToByte(u);
        return;
      case PixelFormat::kI420:
        destination_.row(1, cy)[cx] = ToByte(u);
        destination_.row(2, cy)[cx] = ToByte(v);
        return;
      case PixelFormat::kYuyv:
        destination_.row(0, cy)[cx * 4 + 1] = ToByte(u);
        destination_.row(0, cy)[cx * 4 + 3] = ToByte(v);
        return;
      case PixelFormat::kUyvy:
        destination_.row(0, cy)[cx * 4] = ToByte(u);
        destination_.row(0, cy)[cx * 4 + 2] = ToByte(v);
        return;
      case PixelFormat::kVyuy:
        destination_.row(0, cy)[cx * 4] = ToByte(v);
        destination_.row(0, cy)[cx * 4 + 2] = ToByte(u);
        return;
      default:
        destination_.row(1, cy)[cx * 2] = ToByte(u);
        destination_.row(1, cy)[cx * 2 + 1] = ToByte(v);
    }
  }

  const ConvertPlan& plan_;
  const Picture picture_;
  const ImageView& destination_;
  const PixelFormatInfo& from_;
  const PixelFormatInfo& to_;
  const OrientationMap orientation_;
  const AxisTaps taps_x_;
  const AxisTaps taps_y_;
  const Values pad_;
};

// What the sets cannot say; see Capabilities::decline.
std::optional<std::string> Decline(const ConvertPlan& plan) {
  const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
  if (to.family == ColorFamily::kYuv && plan.normalize) {
    return absl::StrCat("destination ", to.name,
                        " takes no normalisation or quantisation");
  }
  return std::nullopt;
}

Capabilities MakeCapabilities() {
  using enum PixelFormat;
  Capabilities c;
  c.name = "reference";
  c.rank = -1;
  c.detail = "double precision oracle, only when named";
  c.sources = {kGrey,      kRgb,        kRgba, kBgr,  kBgra, kPlanarRgb,
               kPlanarBgr, kPlanarRgba, kNv12, kNv21, kNv16, kNv24,
               kI420,      kYuyv,       kUyvy, kVyuy};
  c.destinations = c.sources;
  c.source_dtypes = {DType::kU8, DType::kI8};
  c.destination_dtypes = {DType::kU8,  DType::kI8,   DType::kU16, DType::kI16,
                          DType::kF16, DType::kBf16, DType::kF32};
  c.filters = {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa,
               Filter::kArea,    Filter::kBicubic,  Filter::kBicubicAa,
               Filter::kLanczos3};
  c.orientations = {
      Orientation::kNormal,          Orientation::kMirror,
      Orientation::kRotate180,       Orientation::kMirrorRotate180,
      Orientation::kMirrorRotate270, Orientation::kRotate90,
      Orientation::kMirrorRotate90,  Orientation::kRotate270};
  c.fits = {Fit::kStretch, Fit::kLetterbox, Fit::kCover, Fit::kPlace};
  c.precisions = {Precision::kEightBit, Precision::kFull};
  c.numerics = {Numerics::kDefault};
  c.decline = Decline;
  return c;
}

class ReferenceConverter : public Converter {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }

  absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   RowPool&) override {
    MappedSource from;
    RETURN_IF_ERROR(from.Map(plan.source, source));
    MappedDestination to;
    RETURN_IF_ERROR(to.Map(plan.destination, destination));
    Reference(plan, from.view(), to.view()).Run();
    RETURN_IF_ERROR(to.Finish());
    return from.bytes_copied() + to.bytes_copied();
  }

 private:
  const Capabilities capabilities_ = MakeCapabilities();
};

}  // namespace

std::unique_ptr<Converter> MakeReferenceConverter() {
  return std::make_unique<ReferenceConverter>();
}

}  // namespace preprocd
