#include "daemon/service/request_parser.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

// The parsers below cast numbers; this is what makes that right.
#define PREPROCD_SAME(ENGINE, PROTO) \
  static_assert(static_cast<int>(ENGINE) == static_cast<int>(v1::PROTO))
PREPROCD_SAME(PixelFormat::kUnspecified, PIXEL_FORMAT_UNSPECIFIED);
PREPROCD_SAME(PixelFormat::kGrey, PIXEL_FORMAT_GREY);
PREPROCD_SAME(PixelFormat::kRgb, PIXEL_FORMAT_RGB);
PREPROCD_SAME(PixelFormat::kRgba, PIXEL_FORMAT_RGBA);
PREPROCD_SAME(PixelFormat::kBgr, PIXEL_FORMAT_BGR);
PREPROCD_SAME(PixelFormat::kBgra, PIXEL_FORMAT_BGRA);
PREPROCD_SAME(PixelFormat::kPlanarRgb, PIXEL_FORMAT_PLANAR_RGB);
PREPROCD_SAME(PixelFormat::kPlanarBgr, PIXEL_FORMAT_PLANAR_BGR);
PREPROCD_SAME(PixelFormat::kPlanarRgba, PIXEL_FORMAT_PLANAR_RGBA);
PREPROCD_SAME(PixelFormat::kNv12, PIXEL_FORMAT_NV12);
PREPROCD_SAME(PixelFormat::kNv21, PIXEL_FORMAT_NV21);
PREPROCD_SAME(PixelFormat::kNv16, PIXEL_FORMAT_NV16);
PREPROCD_SAME(PixelFormat::kNv24, PIXEL_FORMAT_NV24);
PREPROCD_SAME(PixelFormat::kI420, PIXEL_FORMAT_I420);
PREPROCD_SAME(PixelFormat::kYuyv, PIXEL_FORMAT_YUYV);
PREPROCD_SAME(PixelFormat::kUyvy, PIXEL_FORMAT_UYVY);
PREPROCD_SAME(PixelFormat::kVyuy, PIXEL_FORMAT_VYUY);
static_assert(kPixelFormatCount == v1::PixelFormat_ARRAYSIZE);
PREPROCD_SAME(DType::kUnspecified, DATA_TYPE_UNSPECIFIED);
PREPROCD_SAME(DType::kU8, DATA_TYPE_U8);
PREPROCD_SAME(DType::kI8, DATA_TYPE_I8);
PREPROCD_SAME(DType::kU16, DATA_TYPE_U16);
PREPROCD_SAME(DType::kI16, DATA_TYPE_I16);
PREPROCD_SAME(DType::kF16, DATA_TYPE_F16);
PREPROCD_SAME(DType::kBf16, DATA_TYPE_BF16);
PREPROCD_SAME(DType::kF32, DATA_TYPE_F32);
static_assert(kDTypeCount == v1::DataType_ARRAYSIZE);
PREPROCD_SAME(Filter::kUnspecified, FILTER_UNSPECIFIED);
PREPROCD_SAME(Filter::kNearest, FILTER_NEAREST);
PREPROCD_SAME(Filter::kBilinear, FILTER_BILINEAR);
PREPROCD_SAME(Filter::kBilinearAa, FILTER_BILINEAR_AA);
PREPROCD_SAME(Filter::kArea, FILTER_AREA);
PREPROCD_SAME(Filter::kBicubic, FILTER_BICUBIC);
PREPROCD_SAME(Filter::kBicubicAa, FILTER_BICUBIC_AA);
PREPROCD_SAME(Filter::kLanczos3, FILTER_LANCZOS3);
PREPROCD_SAME(Fit::kUnspecified, FIT_UNSPECIFIED);
PREPROCD_SAME(Fit::kStretch, FIT_STRETCH);
PREPROCD_SAME(Fit::kLetterbox, FIT_LETTERBOX);
PREPROCD_SAME(Fit::kCover, FIT_COVER);
PREPROCD_SAME(Fit::kPlace, FIT_PLACE);
PREPROCD_SAME(LetterboxRule::kUnspecified, LETTERBOX_RULE_UNSPECIFIED);
PREPROCD_SAME(LetterboxRule::kCenter, LETTERBOX_RULE_CENTER);
PREPROCD_SAME(LetterboxRule::kUltralytics, LETTERBOX_RULE_ULTRALYTICS);
PREPROCD_SAME(LetterboxRule::kTopLeft, LETTERBOX_RULE_TOP_LEFT);
PREPROCD_SAME(ChromaUpsampling::kUnspecified, CHROMA_UPSAMPLING_UNSPECIFIED);
PREPROCD_SAME(ChromaUpsampling::kReplicate, CHROMA_UPSAMPLING_REPLICATE);
PREPROCD_SAME(ChromaUpsampling::kFancy, CHROMA_UPSAMPLING_FANCY);
PREPROCD_SAME(Precision::kUnspecified, PRECISION_UNSPECIFIED);
PREPROCD_SAME(Precision::kEightBit, PRECISION_EIGHT_BIT);
PREPROCD_SAME(Precision::kFull, PRECISION_FULL);
PREPROCD_SAME(Numerics::kUnspecified, NUMERICS_UNSPECIFIED);
PREPROCD_SAME(Numerics::kDefault, NUMERICS_DEFAULT);
PREPROCD_SAME(Numerics::kEv74, NUMERICS_EV74);
PREPROCD_SAME(TensorLayout::kUnspecified, TENSOR_LAYOUT_UNSPECIFIED);
PREPROCD_SAME(TensorLayout::kHwc, TENSOR_LAYOUT_HWC);
PREPROCD_SAME(TensorLayout::kChw, TENSOR_LAYOUT_CHW);
PREPROCD_SAME(TensorLayout::kTiledCompact, TENSOR_LAYOUT_TILED_COMPACT);
PREPROCD_SAME(TensorLayout::kTiledPad16, TENSOR_LAYOUT_TILED_PAD16);
PREPROCD_SAME(MatrixCoefficients::kUnspecified,
              MATRIX_COEFFICIENTS_UNSPECIFIED);
PREPROCD_SAME(MatrixCoefficients::kBt601, MATRIX_COEFFICIENTS_BT601);
PREPROCD_SAME(MatrixCoefficients::kBt709, MATRIX_COEFFICIENTS_BT709);
PREPROCD_SAME(MatrixCoefficients::kBt2020, MATRIX_COEFFICIENTS_BT2020);
PREPROCD_SAME(ColorRange::kUnspecified, COLOR_RANGE_UNSPECIFIED);
PREPROCD_SAME(ColorRange::kLimited, COLOR_RANGE_LIMITED);
PREPROCD_SAME(ColorRange::kFull, COLOR_RANGE_FULL);
PREPROCD_SAME(Access::kRead, BUFFER_ACCESS_READ);
PREPROCD_SAME(Access::kWrite, BUFFER_ACCESS_WRITE);
PREPROCD_SAME(Access::kReadWrite, BUFFER_ACCESS_READ_WRITE);
PREPROCD_SAME(AllocatorKind::kUnspecified, ALLOCATOR_KIND_UNSPECIFIED);
PREPROCD_SAME(AllocatorKind::kMemfd, ALLOCATOR_KIND_MEMFD);
PREPROCD_SAME(AllocatorKind::kUdmabuf, ALLOCATOR_KIND_UDMABUF);
PREPROCD_SAME(AllocatorKind::kDmaHeap, ALLOCATOR_KIND_DMA_HEAP);
#undef PREPROCD_SAME

template <typename E, typename P>
absl::StatusOr<E> ParseEnum(P value, bool (*is_valid)(int),
                            absl::string_view field) {
  if (!is_valid(static_cast<int>(value))) {
    return BadValue(ErrorReason::kFieldInvalid, field,
                    absl::StrCat(static_cast<int>(value)),
                    "is not a number of this enumeration");
  }
  return static_cast<E>(static_cast<int>(value));
}

absl::Status CheckAxis(int value, absl::string_view field) {
  if (value < 1) {
    return BadValue(ErrorReason::kGeometryInvalid, field, absl::StrCat(value),
                    "< 1");
  }
  if (value > kMaxImageAxis) {
    return BadValue(ErrorReason::kTooLarge, field, absl::StrCat(value),
                    absl::StrCat("> ", kMaxImageAxis));
  }
  return absl::OkStatus();
}

absl::StatusOr<ColorEncoding> ParseColor(const v1::ColorEncoding& color,
                                         absl::string_view field) {
  ColorEncoding encoding;
  ASSIGN_OR_RETURN(encoding.matrix,
                   (ParseEnum<MatrixCoefficients>(
                       color.matrix(), &v1::MatrixCoefficients_IsValid,
                       absl::StrCat(field, ".color.matrix"))));
  ASSIGN_OR_RETURN(encoding.range, (ParseEnum<ColorRange>(
                                       color.range(), &v1::ColorRange_IsValid,
                                       absl::StrCat(field, ".color.range"))));
  return encoding;
}

absl::Status CheckModifier(const v1::ImageLayout& layout,
                           absl::string_view field) {
  if (layout.modifier() == 0) return absl::OkStatus();
  ErrorDetail detail;
  detail.reason = ErrorReason::kNotBuilt;
  detail.field = absl::StrCat(field, ".modifier");
  detail.got = absl::StrCat("0x", absl::Hex(layout.modifier()));
  detail.limit = "0 (linear)";
  return MakeError(
      absl::StatusCode::kUnimplemented, detail,
      absl::StrCat(detail.field, " ", detail.got,
                   " is honoured only by device backends, and this build has "
                   "none; 0 is linear"));
}

absl::StatusOr<DType> ParseDataType(v1::DataType type,
                                    absl::string_view field) {
  return ParseEnum<DType>(type, &v1::DataType_IsValid,
                          absl::StrCat(field, ".dtype"));
}

absl::StatusOr<PixelFormat> ParseFormat(v1::PixelFormat format,
                                        absl::string_view field) {
  return ParseEnum<PixelFormat>(format, &v1::PixelFormat_IsValid,
                                absl::StrCat(field, ".format"));
}

Rect ToRect(const v1::Rect& rect) {
  return {rect.x(), rect.y(), rect.width(), rect.height()};
}

absl::StatusOr<PadColor> ParsePad(const v1::Color& color) {
  const struct {
    const char* name;
    uint32_t value;
  } channels[] = {
      {"r", color.r()}, {"g", color.g()}, {"b", color.b()}, {"a", color.a()}};
  for (const auto& channel : channels) {
    if (channel.value > 255) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat("spec.pad.", channel.name),
                      absl::StrCat(channel.value), "> 255");
    }
  }
  PadColor pad;
  pad.r = static_cast<uint8_t>(color.r());
  pad.g = static_cast<uint8_t>(color.g());
  pad.b = static_cast<uint8_t>(color.b());
  pad.a = static_cast<uint8_t>(color.a());
  return pad;
}

using DoubleList = google::protobuf::RepeatedField<double>;

// One entry for all channels or one per channel; none leaves the default.
absl::Status ParseChannelList(const DoubleList& list, absl::string_view name,
                              bool zero_allowed,
                              std::array<double, kMaxChannels>& values) {
  const std::string field = absl::StrCat("spec.normalization.", name);
  if (list.size() == 2 || list.size() > kMaxChannels) {
    return BadValue(ErrorReason::kFieldInvalid, field,
                    absl::StrCat(list.size()),
                    "entries; 1 or one per channel are allowed");
  }
  for (int i = 0; i < list.size(); ++i) {
    if (!std::isfinite(list[i])) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat(field, "[", i, "]"), absl::StrCat(list[i]),
                      "is not finite");
    }
    if (!zero_allowed && list[i] == 0) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat(field, "[", i, "]"), "0", "is not allowed");
    }
  }
  if (list.size() == 1) values.fill(list[0]);
  for (int i = 0; list.size() > 1 && i < list.size(); ++i) {
    values[static_cast<size_t>(i)] = list[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Normalization> ParseNormalization(const v1::Normalization& in) {
  Normalization out;
  RETURN_IF_ERROR(ParseChannelList(in.offset(), "offset", true, out.offset));
  RETURN_IF_ERROR(
      ParseChannelList(in.multiplier(), "multiplier", false, out.multiplier));
  return out;
}

absl::StatusOr<Quantization> ParseQuantization(const v1::Quantization& in) {
  if (!std::isfinite(in.multiplier()) || in.multiplier() == 0) {
    return BadValue(ErrorReason::kFieldInvalid, "spec.quantization.multiplier",
                    absl::StrCat(in.multiplier()),
                    in.multiplier() == 0 ? "is not allowed" : "is not finite");
  }
  return Quantization{in.multiplier(), in.zero_point()};
}

// W3C trace context, version-independent part: 2-32-16-2 lower-case hex.
bool IsTraceparent(absl::string_view text) {
  if (text.size() != 55) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 2 || i == 35 || i == 52;
    const bool hex = (text[i] >= '0' && text[i] <= '9') ||
                     (text[i] >= 'a' && text[i] <= 'f');
    if (dash ? text[i] != '-' : !hex) return false;
  }
  return true;
}

}  // namespace

absl::Status BadValue(ErrorReason reason, absl::string_view field,
                      absl::string_view got, absl::string_view bound) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.field = std::string(field);
  detail.got = std::string(got);
  detail.limit = std::string(bound);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat(field, " ", got, " ", bound));
}

absl::Status UnderField(absl::Status status, absl::string_view prefix) {
  if (status.ok()) return status;
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail) return status;
  const std::string inner = absl::StrCat(prefix, ".");
  if (detail->field == prefix || absl::StartsWith(detail->field, inner)) {
    return status;
  }
  if (!detail->field.empty()) return PrefixField(std::move(status), inner);
  detail->field = std::string(prefix);
  return MakeError(status.code(), *std::move(detail),
                   absl::StrCat(prefix, ": ", status.message()));
}

absl::Status ApplyPlanes(const v1::ImageLayout& layout, absl::string_view field,
                         uint64_t stride_alignment, ImageDesc& desc) {
  if (layout.planes().empty()) return absl::OkStatus();
  const int count = GetPixelFormatInfo(desc.format).plane_count;
  if (layout.planes_size() != count) {
    return BadValue(
        ErrorReason::kFieldInvalid, absl::StrCat(field, ".planes"),
        absl::StrCat(layout.planes_size()),
        absl::StrCat("entries, but ", PixelFormatName(desc.format), " has ",
                     count, count == 1 ? " plane" : " planes"));
  }
  for (int i = 0; i < count; ++i) {
    const v1::Plane& in = layout.planes(i);
    if (in.fd_index() >= kMaxPlanes) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat(field, ".planes[", i, "].fd_index"),
                      absl::StrCat(in.fd_index()),
                      absl::StrCat("> ", kMaxPlanes - 1));
    }
    PlaneDesc& out = desc.planes[static_cast<size_t>(i)];
    out.buffer_index = in.fd_index();
    out.offset_bytes = in.offset_bytes();
    out.stride_bytes = in.stride_bytes();
    if (out.stride_bytes == 0) {
      const uint64_t row =
          PlaneRowBytes(desc.format, desc.dtype, i, desc.width);
      out.stride_bytes = CheckedAlignUp(row, stride_alignment).value_or(row);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ImageDesc> ParseImageLayout(const v1::ImageLayout& layout,
                                           absl::string_view field,
                                           uint64_t stride_alignment) {
  ASSIGN_OR_RETURN(const PixelFormat format,
                   ParseFormat(layout.format(), field));
  if (format == PixelFormat::kUnspecified) {
    return BadValue(ErrorReason::kFieldInvalid, absl::StrCat(field, ".format"),
                    "unspecified", "is not allowed here");
  }
  ASSIGN_OR_RETURN(DType dtype, ParseDataType(layout.dtype(), field));
  if (dtype == DType::kUnspecified) dtype = DType::kU8;
  RETURN_IF_ERROR(CheckAxis(layout.width(), absl::StrCat(field, ".width")));
  RETURN_IF_ERROR(CheckAxis(layout.height(), absl::StrCat(field, ".height")));
  RETURN_IF_ERROR(CheckModifier(layout, field));
  absl::StatusOr<ImageDesc> desc = MakeImageDesc(
      format, dtype, layout.width(), layout.height(), stride_alignment);
  if (!desc.ok()) return UnderField(std::move(desc).status(), field);
  ASSIGN_OR_RETURN(desc->color, ParseColor(layout.color(), field));
  RETURN_IF_ERROR(ApplyPlanes(layout, field, stride_alignment, *desc));
  return desc;
}

absl::StatusOr<OutputSpec> ParseOutputSpec(const v1::Destination& destination) {
  constexpr absl::string_view kField = "destination.layout";
  const v1::ImageLayout& layout = destination.layout();
  OutputSpec output;
  ASSIGN_OR_RETURN(output.format, ParseFormat(layout.format(), kField));
  ASSIGN_OR_RETURN(output.dtype, ParseDataType(layout.dtype(), kField));
  ASSIGN_OR_RETURN(output.color, ParseColor(layout.color(), kField));
  RETURN_IF_ERROR(CheckModifier(layout, kField));
  ASSIGN_OR_RETURN(output.layout,
                   (ParseEnum<TensorLayout>(destination.tensor_layout(),
                                            &v1::TensorLayout_IsValid,
                                            "destination.tensor_layout")));
  const bool tiled = output.layout == TensorLayout::kTiledCompact ||
                     output.layout == TensorLayout::kTiledPad16;
  if (destination.has_tensor_tile() && !tiled) {
    return BadValue(ErrorReason::kFieldInvalid, "destination.tensor_tile",
                    absl::StrCat(destination.tensor_tile().width(), "x",
                                 destination.tensor_tile().height()),
                    "is only for the tiled tensor layouts");
  }
  if (tiled && destination.has_tensor_tile()) {
    RETURN_IF_ERROR(CheckAxis(destination.tensor_tile().width(),
                              "destination.tensor_tile.width"));
    RETURN_IF_ERROR(CheckAxis(destination.tensor_tile().height(),
                              "destination.tensor_tile.height"));
  }
  if (layout.width() != 0 || layout.height() != 0) {
    RETURN_IF_ERROR(CheckAxis(layout.width(), "destination.layout.width"));
    RETURN_IF_ERROR(CheckAxis(layout.height(), "destination.layout.height"));
    output.size = {layout.width(), layout.height()};
  }
  return output;
}

absl::StatusOr<ConvertSpec> ParseConvertSpec(const v1::ConvertSpec& in,
                                             const v1::CallOptions& options) {
  ConvertSpec out;
  if (in.has_source_rect()) out.source_rect = ToRect(in.source_rect());
  if (in.orientation() != 0) {
    const std::optional<Orientation> orientation =
        OrientationFromExif(in.orientation());
    if (!orientation) {
      return BadValue(ErrorReason::kFieldInvalid, "spec.orientation",
                      absl::StrCat(in.orientation()), "is not in 0..8");
    }
    out.orientation = *orientation;
  }
  ASSIGN_OR_RETURN(out.fit,
                   (ParseEnum<Fit>(in.fit(), &v1::Fit_IsValid, "spec.fit")));
  ASSIGN_OR_RETURN(
      out.letterbox_rule,
      (ParseEnum<LetterboxRule>(in.letterbox_rule(), &v1::LetterboxRule_IsValid,
                                "spec.letterbox_rule")));
  if (in.has_place()) out.place = ToRect(in.place());
  if (in.has_pad()) {
    ASSIGN_OR_RETURN(out.pad, ParsePad(in.pad()));
  }
  ASSIGN_OR_RETURN(
      out.filter,
      (ParseEnum<Filter>(in.filter(), &v1::Filter_IsValid, "spec.filter")));
  if (in.has_normalization()) {
    ASSIGN_OR_RETURN(out.normalization, ParseNormalization(in.normalization()));
  }
  if (in.has_quantization()) {
    ASSIGN_OR_RETURN(out.quantization, ParseQuantization(in.quantization()));
  }
  ASSIGN_OR_RETURN(out.chroma, ParseChroma(in.chroma(), "spec.chroma"));
  ASSIGN_OR_RETURN(out.precision,
                   (ParseEnum<Precision>(in.precision(), &v1::Precision_IsValid,
                                         "spec.precision")));
  ASSIGN_OR_RETURN(out.numerics,
                   (ParseEnum<Numerics>(in.numerics(), &v1::Numerics_IsValid,
                                        "spec.numerics")));
  out.backends.assign(options.backends().begin(), options.backends().end());
  return out;
}

absl::Status CheckChannelCounts(const v1::ConvertSpec& spec,
                                PixelFormat destination) {
  const int channels = GetPixelFormatInfo(destination).channels;
  const struct {
    const char* name;
    int count;
  } lists[] = {{"offset", spec.normalization().offset_size()},
               {"multiplier", spec.normalization().multiplier_size()}};
  for (const auto& list : lists) {
    if (list.count > 1 && list.count != channels) {
      return BadValue(
          ErrorReason::kFieldInvalid,
          absl::StrCat("spec.normalization.", list.name),
          absl::StrCat(list.count),
          absl::StrCat("entries, but ", PixelFormatName(destination), " has ",
                       channels, channels == 1 ? " channel" : " channels"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CallBounds> ParseCallOptions(const v1::CallOptions& options,
                                            int64_t arrival_ns,
                                            int64_t transport_deadline_ns) {
  CallBounds bounds;
  bounds.deadline_ns = transport_deadline_ns;
  if (options.deadline_us() < 0) {
    return BadValue(ErrorReason::kFieldInvalid, "options.deadline_us",
                    absl::StrCat(options.deadline_us()), "< 0");
  }
  if (options.deadline_us() > 0) {
    // A bound beyond the clock's range is no bound.
    const int64_t most =
        (std::numeric_limits<int64_t>::max() - arrival_ns) / 1000;
    if (options.deadline_us() <= most) {
      const int64_t deadline = arrival_ns + options.deadline_us() * 1000;
      bounds.deadline_ns = transport_deadline_ns == 0
                               ? deadline
                               : std::min(deadline, transport_deadline_ns);
    }
  }
  switch (options.priority()) {
    case -1:
      bounds.priority = Priority::kBackground;
      break;
    case 0:
      bounds.priority = Priority::kNormal;
      break;
    case 1:
      bounds.priority = Priority::kHigh;
      break;
    default:
      return BadValue(ErrorReason::kFieldInvalid, "options.priority",
                      absl::StrCat(options.priority()), "is not in -1..1");
  }
  if (options.backends_size() > kMaxBackendNames) {
    return BadValue(ErrorReason::kTooLarge, "options.backends",
                    absl::StrCat(options.backends_size()),
                    absl::StrCat("entries > ", kMaxBackendNames));
  }
  if (!options.traceparent().empty() && !IsTraceparent(options.traceparent())) {
    return BadValue(ErrorReason::kFieldInvalid, "options.traceparent",
                    absl::StrCat(options.traceparent().size(), " bytes"),
                    "are not a W3C traceparent");
  }
  return bounds;
}

absl::StatusOr<ImageInfo> ParseImageInfo(const v1::ImageInfo& in,
                                         absl::string_view field) {
  ImageInfo out;
  if (in.file_format() == "png") {
    out.file_format = FileFormat::kPng;
  } else if (in.file_format() != "jpeg" && !in.file_format().empty()) {
    return BadValue(ErrorReason::kFieldInvalid,
                    absl::StrCat(field, ".file_format"), in.file_format(),
                    "is neither jpeg nor png");
  }
  RETURN_IF_ERROR(CheckAxis(in.width(), absl::StrCat(field, ".width")));
  RETURN_IF_ERROR(CheckAxis(in.height(), absl::StrCat(field, ".height")));
  const int64_t pixels = int64_t{in.width()} * in.height();
  if (pixels > kMaxDecodedPixels) {
    return BadValue(ErrorReason::kTooLarge, field, absl::StrCat(pixels),
                    absl::StrCat("pixels > ", kMaxDecodedPixels));
  }
  out.width = in.width();
  out.height = in.height();
  if (in.orientation() != 0) {
    const std::optional<Orientation> orientation =
        OrientationFromExif(in.orientation());
    if (!orientation) {
      return BadValue(ErrorReason::kFieldInvalid,
                      absl::StrCat(field, ".orientation"),
                      absl::StrCat(in.orientation()), "is not in 0..8");
    }
    out.orientation = *orientation;
    out.has_orientation = true;
  }
  if (in.components() < 0 || in.components() > 4) {
    return BadValue(ErrorReason::kFieldInvalid,
                    absl::StrCat(field, ".components"),
                    absl::StrCat(in.components()), "is not in 0..4");
  }
  if (in.bit_depth() < 0 || in.bit_depth() > 16) {
    return BadValue(ErrorReason::kFieldInvalid,
                    absl::StrCat(field, ".bit_depth"),
                    absl::StrCat(in.bit_depth()), "is not in 0..16");
  }
  out.components = in.components() == 0 ? 3 : in.components();
  out.bit_depth = in.bit_depth() == 0 ? 8 : in.bit_depth();
  ASSIGN_OR_RETURN(
      out.native_format,
      (ParseEnum<PixelFormat>(in.native_format(), &v1::PixelFormat_IsValid,
                              absl::StrCat(field, ".native_format"))));
  if (out.native_format == PixelFormat::kUnspecified) {
    out.native_format = PixelFormat::kRgb;
  }
  ASSIGN_OR_RETURN(out.color, ParseColor(in.color(), field));
  if (out.file_format == FileFormat::kJpeg) {
    out.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  }
  out.has_alpha = in.has_alpha();
  return out;
}

absl::StatusOr<Access> ParseAccess(v1::BufferAccess access,
                                   absl::string_view field) {
  if (access == v1::BUFFER_ACCESS_UNSPECIFIED) return Access::kReadWrite;
  return ParseEnum<Access>(access, &v1::BufferAccess_IsValid, field);
}

absl::StatusOr<AllocatorKind> ParseAllocatorKind(v1::AllocatorKind kind,
                                                 absl::string_view field) {
  ASSIGN_OR_RETURN(
      const AllocatorKind parsed,
      (ParseEnum<AllocatorKind>(kind, &v1::AllocatorKind_IsValid, field)));
  return parsed == AllocatorKind::kUnspecified ? AllocatorKind::kMemfd : parsed;
}

absl::StatusOr<ChromaUpsampling> ParseChroma(v1::ChromaUpsampling chroma,
                                             absl::string_view field) {
  return ParseEnum<ChromaUpsampling>(chroma, &v1::ChromaUpsampling_IsValid,
                                     field);
}

absl::StatusOr<EncodeOptions> ParseEncodeOptions(
    const v1::EncodeRequest& request) {
  EncodeOptions out;
  if (!v1::FileFormat_IsValid(request.format())) {
    return BadValue(ErrorReason::kFieldInvalid, "format",
                    absl::StrCat(static_cast<int>(request.format())),
                    "is not a number of this enumeration");
  }
  if (request.format() == v1::FILE_FORMAT_PNG) out.format = FileFormat::kPng;
  if (request.quality() < 0 || request.quality() > 100) {
    return BadValue(ErrorReason::kFieldInvalid, "quality",
                    absl::StrCat(request.quality()), "is not in 0..100");
  }
  if (request.quality() != 0) out.jpeg.quality = request.quality();
  const std::string& subsampling = request.subsampling();
  if (subsampling == "4:4:4") {
    out.jpeg.subsampling = JpegSubsampling::k444;
  } else if (subsampling == "4:2:2") {
    out.jpeg.subsampling = JpegSubsampling::k422;
  } else if (!subsampling.empty() && subsampling != "4:2:0") {
    return BadValue(ErrorReason::kFieldInvalid, "subsampling",
                    absl::string_view(subsampling).substr(0, 32),
                    "is not 4:2:0, 4:2:2 or 4:4:4");
  }
  if (request.compression() < 0 || request.compression() > 9) {
    return BadValue(ErrorReason::kFieldInvalid, "compression",
                    absl::StrCat(request.compression()), "is not in 0..9");
  }
  if (request.compression() != 0) out.png.compression = request.compression();
  return out;
}

absl::Status CheckEncodable(FileFormat file, PixelFormat format, DType dtype,
                            absl::string_view field) {
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  const bool packed_rgb =
      info.family == ColorFamily::kRgb && info.plane_count == 1;
  bool possible = info.family == ColorFamily::kGrey || packed_rgb;
  if (file == FileFormat::kJpeg) {
    possible =
        (possible || format == PixelFormat::kNv12) && dtype == DType::kU8;
  } else {
    possible = (possible || info.is_planar_rgb()) &&
               (dtype == DType::kU8 || dtype == DType::kU16);
  }
  if (possible) return absl::OkStatus();
  return BadValue(
      ErrorReason::kFormatPair, field,
      absl::StrCat(PixelFormatName(format), " ", DTypeName(dtype)),
      absl::StrCat("pixels are not written as ", FileFormatName(file)));
}

}  // namespace preprocd
