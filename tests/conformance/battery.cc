#include "tests/conformance/battery.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>

#include "absl/strings/str_cat.h"
#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"
#include "tests/support/tolerance.h"

namespace preprocd {
namespace {

constexpr std::byte kGuard{0xa5};
constexpr uint64_t kGuardBytes = 64;

// A picture: every plane behind guard bytes, strides padded,
// everything filled with the guard value; the planes in one buffer or, as
// multi-planar cameras deliver them, in one each.
struct Picture {
  ImageDesc desc;
  std::vector<std::shared_ptr<Buffer>> memory;

  int planes() const { return GetPixelFormatInfo(desc.format).plane_count; }
  uint64_t row_bytes(int plane) const {
    return PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
  }
  int rows(int plane) const {
    return PlaneRows(desc.format, plane, desc.height);
  }
  PictureBuffers buffers() const {
    PictureBuffers result;
    for (const std::shared_ptr<Buffer>& buffer : memory) {
      result.buffers[static_cast<size_t>(result.count++)] = buffer.get();
    }
    return result;
  }
  std::span<std::byte> bytes(size_t buffer) const {
    return memory[buffer]->Map(Access::kReadWrite)->bytes();
  }
};

Picture MakePicture(PixelFormat format, DType dtype, Size size,
                    uint64_t padding, bool split, AllocatorKind memory) {
  Picture picture;
  picture.desc = *MakeImageDesc(format, dtype, size.width, size.height);
  const auto element = static_cast<uint64_t>(DTypeSize(dtype));
  std::vector<uint64_t> sizes = {kGuardBytes};
  for (int i = 0; i < picture.planes(); ++i) {
    if (split && i > 0) sizes.push_back(kGuardBytes);
    PlaneDesc& plane = picture.desc.planes[static_cast<size_t>(i)];
    plane.buffer_index = static_cast<uint32_t>(sizes.size() - 1);
    plane.stride_bytes += padding * element;
    plane.offset_bytes = sizes.back();
    sizes.back() +=
        plane.stride_bytes * static_cast<uint64_t>(picture.rows(i)) +
        kGuardBytes;
  }
  for (const uint64_t bytes : sizes) {
    picture.memory.push_back(*AllocateBuffer(memory, bytes, "battery"));
    std::ranges::fill(picture.bytes(picture.memory.size() - 1), kGuard);
  }
  return picture;
}

void FillPicture(const Picture& picture, uint32_t seed) {
  std::minstd_rand random(seed + 1);
  const uint32_t kind = seed % 4;
  for (int p = 0; p < picture.planes(); ++p) {
    const PlaneDesc& plane = picture.desc.planes[static_cast<size_t>(p)];
    const std::span<std::byte> bytes = picture.bytes(plane.buffer_index);
    for (int y = 0; y < picture.rows(p); ++y) {
      std::byte* row = bytes.data() + plane.offset_bytes +
                       static_cast<uint64_t>(y) * plane.stride_bytes;
      for (uint64_t x = 0; x < picture.row_bytes(p); ++x) {
        const auto noise = static_cast<uint8_t>(random() >> 7);
        // Noise, extremes, ramp, noise: extremes catch missing clamps.
        uint8_t value = noise;
        if (kind == 1) value = (noise & 1) != 0 ? 255 : 0;
        if (kind == 2) {
          value = static_cast<uint8_t>(x * 5 + 3 * static_cast<uint64_t>(y));
        }
        row[x] = std::byte{value};
      }
    }
  }
}

// True for every byte of a buffer that belongs to a row of a plane.
std::vector<bool> PixelBytes(const Picture& picture, size_t buffer) {
  std::vector<bool> inside(picture.memory[buffer]->size_bytes(), false);
  for (int p = 0; p < picture.planes(); ++p) {
    const PlaneDesc& plane = picture.desc.planes[static_cast<size_t>(p)];
    if (plane.buffer_index != buffer) continue;
    for (int y = 0; y < picture.rows(p); ++y) {
      const uint64_t begin =
          plane.offset_bytes + static_cast<uint64_t>(y) * plane.stride_bytes;
      std::fill_n(inside.begin() + static_cast<ptrdiff_t>(begin),
                  picture.row_bytes(p), true);
    }
  }
  return inside;
}

double HalfToDouble(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int mantissa = bits & 1023;
  const double magnitude = exponent == 0
                               ? std::ldexp(mantissa, -24)
                               : std::ldexp(1024 + mantissa, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

// Element as a number; bit patterns of integers keep their order.
double ElementAt(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return static_cast<uint8_t>(*at);
    case DType::kI8:
      return static_cast<int8_t>(static_cast<uint8_t>(*at));
    case DType::kF32: {
      float value = 0;
      memcpy(&value, at, sizeof(value));
      return value;
    }
    default:
      break;
  }
  uint16_t bits = 0;
  memcpy(&bits, at, sizeof(bits));
  switch (dtype) {
    case DType::kU16:
      return bits;
    case DType::kI16:
      return static_cast<int16_t>(bits);
    case DType::kF16:
      return HalfToDouble(bits);
    default: {
      const uint32_t wide = uint32_t{bits} << 16;
      float value = 0;
      memcpy(&value, &wide, sizeof(value));
      return value;
    }
  }
}

// What one step of 1/255 becomes after the dtype stage, plus the type's own
// rounding.
double ElementTolerance(const ConvertPlan& plan, double steps, double value) {
  const DType dtype = plan.destination.dtype;
  const bool wide = dtype == DType::kU16 || dtype == DType::kI16;
  // Without normalisation, and for the alpha of every integer destination.
  const double plain = wide ? 257 : 1;
  double factor = plain;
  if (plan.normalize) {
    factor = 0;
    for (const double m : plan.normalization.multiplier) {
      factor = std::max(factor, std::abs(m));
    }
    if (plan.quantization) {
      factor *= std::max(1.0, std::abs(plan.quantization->multiplier));
    }
    if (!IsFloat(dtype)) factor = std::max(factor, plain);
  }
  double rounding = 0;
  switch (dtype) {
    case DType::kF32:
      // A last bit; none where the operation is exact.
      if (steps != 0) rounding = std::abs(value) * 1e-6;
      break;
    case DType::kF16:
      // A last bit: the reference rounds once, a float pipeline twice.
      rounding = std::abs(value) * 0x1p-10 + 0x1p-24;
      break;
    case DType::kBf16:
      rounding = std::abs(value) * 0x1p-7;
      break;
    default:
      // A small difference can cross the tie between two integers.
      if (steps != 0 &&
          (plan.quantization || plan.precision == Precision::kFull)) {
        rounding = 1;
      }
      break;
  }
  return steps * factor + rounding;
}

// True for every byte of a buffer that belongs to an alpha element.
std::vector<bool> AlphaBytes(const Picture& picture, size_t buffer) {
  std::vector<bool> alpha(picture.memory[buffer]->size_bytes(), false);
  const PixelFormatInfo& info = GetPixelFormatInfo(picture.desc.format);
  if (!info.has_alpha) return alpha;
  const auto element = static_cast<uint64_t>(DTypeSize(picture.desc.dtype));
  const auto position = static_cast<uint64_t>(info.channel_order[3]);
  const bool planar = info.is_planar_rgb();
  const uint64_t plane_index = planar ? position : 0;
  const PlaneDesc& plane = picture.desc.planes[plane_index];
  if (plane.buffer_index != buffer) return alpha;
  const uint64_t step = planar ? element : element * info.channels;
  for (int y = 0; y < picture.desc.height; ++y) {
    uint64_t at = plane.offset_bytes +
                  static_cast<uint64_t>(y) * plane.stride_bytes +
                  (planar ? 0 : position * element);
    for (int x = 0; x < picture.desc.width; ++x, at += step) {
      std::fill_n(alpha.begin() + static_cast<ptrdiff_t>(at), element, true);
    }
  }
  return alpha;
}

// Alpha's bits are unsigned in signed destinations, too: there 127 and 128
// are neighbours.
double Distance(double x, double y, DType dtype, bool alpha) {
  const double distance = std::abs(x - y);
  if (alpha && dtype == DType::kI8) return std::min(distance, 256 - distance);
  if (alpha && dtype == DType::kI16) {
    return std::min(distance, 65536 - distance);
  }
  return distance;
}

OperationClass ClassOf(const ConvertPlan& plan) {
  const auto& from = GetPixelFormatInfo(plan.source.format);
  const auto& to = GetPixelFormatInfo(plan.destination.format);
  if (plan.precision == Precision::kFull) return OperationClass::kFraction;
  // Grey to rgb only repeats a value.
  const bool same =
      (from.family == to.family && from.family != ColorFamily::kYuv) ||
      (from.family == ColorFamily::kGrey && to.family == ColorFamily::kRgb);
  if (!same) return OperationClass::kFiltered;
  if (plan.same_size) return OperationClass::kCopy;
  return plan.filter == Filter::kNearest ? OperationClass::kNearest
                                         : OperationClass::kFiltered;
}

std::optional<std::string> Compare(const ConvertPlan& plan, double steps,
                                   const Picture& got,
                                   const Picture& expected) {
  const auto element = static_cast<size_t>(DTypeSize(plan.destination.dtype));
  for (size_t buffer = 0; buffer < got.memory.size(); ++buffer) {
    const std::vector<bool> inside = PixelBytes(got, buffer);
    const std::vector<bool> alpha = AlphaBytes(got, buffer);
    const std::span<std::byte> a = got.bytes(buffer);
    const std::span<std::byte> b = expected.bytes(buffer);
    for (size_t i = 0; i < a.size(); ++i) {
      if (!inside[i] && a[i] != kGuard) {
        return absl::StrCat("byte ", i, " of buffer ", buffer,
                            " outside every row was written");
      }
    }
    // Rows begin at element boundaries: offsets and strides are multiples.
    for (size_t i = 0; i + element <= a.size(); i += element) {
      if (!inside[i]) continue;
      const double x = ElementAt(a.data() + i, plan.destination.dtype);
      const double y = ElementAt(b.data() + i, plan.destination.dtype);
      const double tolerance =
          ElementTolerance(plan, steps, std::max(std::abs(x), std::abs(y)));
      if (!(Distance(x, y, plan.destination.dtype, alpha[i]) <= tolerance)) {
        return absl::StrCat("element at byte ", i, " of buffer ", buffer,
                            ": got ", x, ", reference ", y);
      }
    }
  }
  return std::nullopt;
}

std::optional<std::string> RunCase(Converter& backend, Converter& reference,
                                   RowPool& pool, const BatteryCase& c,
                                   AllocatorKind memory, bool* declined) {
  // Two bits that follow no loop of the case list.
  const uint32_t split = c.seed * 2654435761U >> 30;
  Picture source = MakePicture(c.source, c.source_dtype, c.source_size, 5,
                               (split & 1) != 0, memory);
  source.desc.color = c.source_color;
  FillPicture(source, c.seed);
  Picture got = MakePicture(c.destination, c.dtype, c.destination_size, 3,
                            (split & 2) != 0, memory);
  Picture expected = MakePicture(c.destination, c.dtype, c.destination_size, 3,
                                 (split & 2) != 0, memory);
  absl::StatusOr<ConvertPlan> plan =
      PlanConvert(source.desc, got.desc, c.spec, false);
  if (!plan.ok()) {
    // The planner itself refuses what makes no sense, with a reason.
    *declined = true;
    return plan.status().message().empty()
               ? std::optional<std::string>("refused without a reason")
               : std::nullopt;
  }
  const std::optional<std::string> why = WhyNot(backend.capabilities(), *plan);
  if (why) {
    *declined = true;
    if (why->empty()) return "declined without a reason";
    return std::nullopt;
  }
  if (c.must_decline) return "accepted what it cannot do";
  const auto ran =
      backend.Convert(*plan, source.buffers(), got.buffers(), pool);
  if (!ran.ok()) return std::string(ran.status().message());
  const auto oracle =
      reference.Convert(*plan, source.buffers(), expected.buffers(), pool);
  if (!oracle.ok()) return std::string(oracle.status().message());
  const std::optional<double> steps =
      ToleranceOf(backend.capabilities().name, ClassOf(*plan));
  if (!steps) return "no row in the tolerance table";
  return Compare(*plan, *steps, got, expected);
}

std::vector<Filter> Filters() {
  return {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa,
          Filter::kArea,    Filter::kBicubic,  Filter::kBicubicAa,
          Filter::kLanczos3};
}

std::vector<DType> DTypes() {
  return {DType::kU8,  DType::kI8,   DType::kU16, DType::kI16,
          DType::kF16, DType::kBf16, DType::kF32};
}

// Sizes: shrink by an odd ratio, enlarge, same size, one pixel.
constexpr std::array<std::pair<Size, Size>, 4> kSizes = {{
    {{37, 29}, {17, 11}},
    {{13, 9}, {31, 22}},
    {{21, 15}, {21, 15}},
    {{1, 1}, {5, 3}},
}};

class CaseList {
 public:
  void Add(BatteryCase c) {
    c.seed = static_cast<uint32_t>(cases_.size());
    cases_.push_back(std::move(c));
  }
  std::vector<BatteryCase> Take() { return std::move(cases_); }

 private:
  std::vector<BatteryCase> cases_;
};

void AddFormatPairs(CaseList& list) {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    for (const PixelFormatInfo& to : AllPixelFormats()) {
      for (const auto& [source, destination] : kSizes) {
        for (const Filter filter : {Filter::kNearest, Filter::kBilinear}) {
          BatteryCase c;
          c.source = from.format;
          c.destination = to.format;
          c.source_size = source;
          c.destination_size = destination;
          c.spec.filter = filter;
          c.spec.fit = Fit::kLetterbox;
          list.Add(c);
        }
      }
    }
  }
}

// The dtype stages worth telling apart; 0 leaves the defaults.
constexpr int kStages = 5;
void SetStage(int stage, ConvertSpec& spec) {
  if (stage == 0) return;
  Normalization n;
  n.offset = {123.675, 116.28, 103.53, 0};
  n.multiplier = {1 / 58.395, 1 / 57.12, 1 / 57.375, 1.0 / 255};
  if (stage == 2) spec.quantization = Quantization{48.5, 3};
  if (stage == 3) {
    // Every odd value lies on a tie.
    n.offset.fill(0);
    n.multiplier.fill(1.0 / 255);
    spec.quantization = Quantization{127.5, 0};
  }
  if (stage == 4) {
    // Factors that no float holds.
    n.offset.fill(1e300);
    n.multiplier.fill(1e-300);
  }
  spec.normalization = n;
}

void AddTypes(CaseList& list) {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    for (const PixelFormat to :
         {PixelFormat::kGrey, PixelFormat::kRgb, PixelFormat::kBgra,
          PixelFormat::kPlanarRgb, PixelFormat::kPlanarBgr,
          PixelFormat::kPlanarRgba}) {
      for (const DType dtype : DTypes()) {
        for (const DType source_dtype : {DType::kU8, DType::kI8}) {
          for (int stage = 0; stage < kStages; ++stage) {
            BatteryCase c;
            c.source = from.format;
            c.destination = to;
            c.source_dtype = source_dtype;
            c.dtype = dtype;
            c.source_size = kSizes[0].first;
            c.destination_size = kSizes[0].second;
            c.spec.fit = Fit::kLetterbox;
            SetStage(stage, c.spec);
            c.must_decline = c.spec.quantization && IsFloat(dtype);
            list.Add(c);
            c.spec.filter = Filter::kNearest;
            list.Add(c);
          }
        }
      }
    }
  }
}

// Pictures in YUV are u8 codes: no other type and no dtype stage.
void AddYuvRefusals(CaseList& list) {
  for (const PixelFormatInfo& to : AllPixelFormats()) {
    if (to.family != ColorFamily::kYuv) continue;
    for (const DType dtype : DTypes()) {
      for (const int stage : {0, 1, 2}) {
        if (dtype == DType::kU8 && stage == 0) continue;
        BatteryCase c;
        c.destination = to.format;
        c.dtype = dtype;
        c.source_size = kSizes[0].first;
        c.destination_size = kSizes[0].second;
        SetStage(stage, c.spec);
        c.must_decline = true;
        list.Add(c);
      }
    }
  }
}

void AddFiltersAndOrientations(CaseList& list) {
  for (const PixelFormat from :
       {PixelFormat::kGrey, PixelFormat::kRgb, PixelFormat::kNv12,
        PixelFormat::kI420, PixelFormat::kYuyv, PixelFormat::kPlanarRgba}) {
    for (const Filter filter : Filters()) {
      for (int orientation = 1; orientation <= 8; ++orientation) {
        for (const Fit fit :
             {Fit::kStretch, Fit::kLetterbox, Fit::kCover, Fit::kPlace}) {
          for (const auto& [source, destination] : kSizes) {
            BatteryCase c;
            c.source = from;
            c.destination = orientation % 2 == 0 ? PixelFormat::kRgb
                                                 : PixelFormat::kPlanarRgb;
            c.source_size = source;
            c.destination_size = destination;
            c.spec.filter = filter;
            c.spec.orientation = static_cast<Orientation>(orientation);
            c.spec.fit = fit;
            c.spec.letterbox_rule = orientation < 4
                                        ? LetterboxRule::kUltralytics
                                        : LetterboxRule::kTopLeft;
            if (fit == Fit::kPlace) {
              c.spec.place =
                  Rect{1, 1, destination.width - 2, destination.height - 2};
            }
            if (source.width > 8) {
              c.spec.source_rect =
                  Rect{3, 1, source.width - 5, source.height - 4};
            }
            list.Add(c);
          }
        }
      }
    }
  }
}

void AddColour(CaseList& list) {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    if (from.family != ColorFamily::kYuv) continue;
    for (const auto matrix :
         {MatrixCoefficients::kBt601, MatrixCoefficients::kBt709,
          MatrixCoefficients::kBt2020}) {
      for (const ColorRange range : {ColorRange::kLimited, ColorRange::kFull}) {
        for (const auto chroma :
             {ChromaUpsampling::kReplicate, ChromaUpsampling::kFancy}) {
          for (const Precision precision :
               {Precision::kEightBit, Precision::kFull}) {
            for (const PixelFormat to :
                 {PixelFormat::kRgb, PixelFormat::kGrey, PixelFormat::kNv12}) {
              BatteryCase c;
              c.source = from.format;
              c.destination = to;
              c.dtype =
                  to != PixelFormat::kNv12 && precision == Precision::kFull
                      ? DType::kF32
                      : DType::kU8;
              c.source_size = kSizes[0].first;
              c.destination_size = kSizes[0].second;
              c.source_color = {matrix, range};
              c.spec.chroma = chroma;
              c.spec.precision = precision;
              list.Add(c);
            }
          }
        }
      }
    }
  }
}

void AddFullPrecision(CaseList& list) {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    for (const PixelFormat to : {PixelFormat::kGrey, PixelFormat::kPlanarRgb}) {
      for (const DType dtype : DTypes()) {
        for (const Filter filter : Filters()) {
          BatteryCase c;
          c.source = from.format;
          c.destination = to;
          c.dtype = dtype;
          c.source_size = kSizes[0].first;
          c.destination_size = kSizes[0].second;
          c.spec.filter = filter;
          c.spec.precision = Precision::kFull;
          list.Add(c);
        }
      }
    }
  }
}

}  // namespace

std::string BatteryCase::Name() const {
  return absl::StrCat(
      PixelFormatName(source), "/", DTypeName(source_dtype), " ",
      source_size.width, "x", source_size.height, " -> ",
      PixelFormatName(destination), "/", DTypeName(dtype), " ",
      destination_size.width, "x", destination_size.height, " filter ",
      FilterName(spec.filter), " fit ", FitName(spec.fit), " orientation ",
      static_cast<int>(spec.orientation), " color ",
      MatrixName(source_color.matrix), " ", RangeName(source_color.range),
      " chroma ", ChromaUpsamplingName(spec.chroma), " norm ",
      spec.normalization.has_value(), " quant ", spec.quantization.has_value(),
      " precision ", static_cast<int>(spec.precision), " seed ", seed);
}

std::vector<BatteryCase> AllCases() {
  CaseList list;
  AddFormatPairs(list);
  AddTypes(list);
  AddYuvRefusals(list);
  AddFiltersAndOrientations(list);
  AddColour(list);
  AddFullPrecision(list);
  return list.Take();
}

BatteryResult RunBattery(Converter& backend, Converter& reference,
                         const std::vector<BatteryCase>& cases,
                         size_t max_failures, AllocatorKind memory) {
  BatteryResult result;
  RowPool pool(2);
  for (const BatteryCase& c : cases) {
    bool declined = false;
    const std::optional<std::string> failure =
        RunCase(backend, reference, pool, c, memory, &declined);
    if (failure) {
      result.failures.push_back(absl::StrCat(c.Name(), ": ", *failure));
      if (result.failures.size() >= max_failures) break;
    } else if (declined) {
      ++result.declined;
    } else {
      ++result.proven;
    }
  }
  return result;
}

}  // namespace preprocd
