#include "daemon/service/reply_builder.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/image/color_encoding.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

#define PREPROCD_SAME(ENGINE, PROTO) \
  static_assert(static_cast<int>(ENGINE) == static_cast<int>(v1::PROTO))
PREPROCD_SAME(BufferKind::kUnspecified, BUFFER_KIND_UNSPECIFIED);
PREPROCD_SAME(BufferKind::kMemfd, BUFFER_KIND_MEMFD);
PREPROCD_SAME(BufferKind::kMemfdCopy, BUFFER_KIND_MEMFD_COPY);
PREPROCD_SAME(BufferKind::kDmaBuf, BUFFER_KIND_DMA_BUF);
#undef PREPROCD_SAME

// Engine enums have the proto's numbers (asserted in request_parser.cc).
template <typename P, typename E>
P ToProto(E value) {
  return static_cast<P>(static_cast<int>(value));
}

std::string Text(absl::string_view view) { return std::string(view); }

void FillRect(const Rect& rect, v1::Rect* out) {
  out->set_x(rect.x);
  out->set_y(rect.y);
  out->set_width(rect.width);
  out->set_height(rect.height);
}

void FillColor(const ColorEncoding& color, v1::ColorEncoding* out) {
  out->set_matrix(ToProto<v1::MatrixCoefficients>(color.matrix));
  out->set_range(ToProto<v1::ColorRange>(color.range));
}

// Bytes of a `size` part of a picture, without the gaps between rows.
uint64_t PixelBytes(const ImageDesc& desc, Size size) {
  uint64_t bytes = 0;
  const int planes = GetPixelFormatInfo(desc.format).plane_count;
  for (int i = 0; i < planes; ++i) {
    bytes += PlaneRowBytes(desc.format, desc.dtype, i, size.width) *
             static_cast<uint64_t>(PlaneRows(desc.format, i, size.height));
  }
  return bytes;
}

void FillNumbers(const ConvertPlan& plan, v1::ExplainReply* reply) {
  const PixelFormatInfo& source = GetPixelFormatInfo(plan.source.format);
  const PixelFormatInfo& destination =
      GetPixelFormatInfo(plan.destination.format);
  if (source.family == ColorFamily::kYuv &&
      destination.family != ColorFamily::kYuv) {
    const YuvToRgbCoefficients c = GetYuvToRgbCoefficients(plan.source.color);
    for (const double v : {c.y_offset, c.y_scale, c.vr, c.ug, c.vg, c.ub}) {
      reply->add_yuv_to_rgb(v);
    }
  }
  if (plan.normalize) {
    for (size_t i = 0; i < destination.channels; ++i) {
      reply->mutable_normalization()->add_offset(plan.normalization.offset[i]);
      reply->mutable_normalization()->add_multiplier(
          plan.normalization.multiplier[i]);
    }
  }
  if (plan.quantization) {
    reply->mutable_quantization()->set_multiplier(
        plan.quantization->multiplier);
    reply->mutable_quantization()->set_zero_point(
        plan.quantization->zero_point);
  }
}

std::string SizeText(Size size) {
  return absl::StrCat(size.width, "x", size.height);
}

std::string DescText(const ImageDesc& desc) {
  return absl::StrCat(PixelFormatName(desc.format), " ", DTypeName(desc.dtype),
                      " ", desc.width, "x", desc.height);
}

void AddGeometrySteps(const ConvertPlan& plan, v1::ExplainReply* reply) {
  const Rect& r = plan.source_rect;
  if (r.size() != Size{plan.source.width, plan.source.height}) {
    reply->add_steps(
        absl::StrCat("crop ", SizeText(r.size()), " at ", r.x, ",", r.y));
  }
  if (plan.orientation != Orientation::kNormal) {
    reply->add_steps(absl::StrCat("orient by EXIF ",
                                  static_cast<int>(plan.orientation), " to ",
                                  SizeText(plan.oriented)));
  }
  const Rect& shown = plan.placement.shown;
  if (shown.size() != plan.oriented) {
    reply->add_steps(absl::StrCat("cut to ", SizeText(shown.size()), " at ",
                                  shown.x, ",", shown.y));
  }
  const Rect& to = plan.placement.destination;
  if (!plan.same_size) {
    reply->add_steps(absl::StrCat("resize ", SizeText(shown.size()), " to ",
                                  SizeText(to.size()), " with ",
                                  FilterName(plan.filter)));
  }
  if (plan.has_padding) {
    reply->add_steps(absl::StrCat(
        "place at ", to.x, ",", to.y, " in ", plan.destination.width, "x",
        plan.destination.height, ", pad with ", plan.pad.r, ",", plan.pad.g,
        ",", plan.pad.b, ",", plan.pad.a));
  }
}

void AddValueSteps(const ConvertPlan& plan, v1::ExplainReply* reply) {
  const ColorFamily from = GetPixelFormatInfo(plan.source.format).family;
  const ColorFamily to = GetPixelFormatInfo(plan.destination.format).family;
  if (from == ColorFamily::kYuv && to != ColorFamily::kYuv) {
    reply->add_steps(
        absl::StrCat("convert BT.", MatrixName(plan.source.color.matrix), " ",
                     RangeName(plan.source.color.range), " YUV, chroma ",
                     ChromaUpsamplingName(plan.chroma), ", to ",
                     to == ColorFamily::kGrey ? "grey" : "rgb"));
  } else if (from != ColorFamily::kYuv && to == ColorFamily::kYuv) {
    reply->add_steps(absl::StrCat(
        "convert to BT.", MatrixName(plan.destination.color.matrix), " ",
        RangeName(plan.destination.color.range), " YUV"));
  } else if (from != to) {
    reply->add_steps(to == ColorFamily::kGrey ? "convert rgb to grey"
                                              : "convert grey to rgb");
  }
  if (plan.precision != Precision::kFull) {
    reply->add_steps("round to 8 bits");
  }
  if (plan.normalize) {
    reply->add_steps(
        absl::StrCat("normalise (v - ", plan.normalization.offset[0], ") * ",
                     plan.normalization.multiplier[0], " (first channel)"));
  }
  if (plan.quantization) {
    reply->add_steps(absl::StrCat("quantise by ", plan.quantization->multiplier,
                                  ", zero point ",
                                  plan.quantization->zero_point));
  }
  reply->add_steps(absl::StrCat("write ", DescText(plan.destination)));
}

}  // namespace

void FillLayout(const ImageDesc& desc, v1::ImageLayout* layout) {
  layout->set_format(ToProto<v1::PixelFormat>(desc.format));
  layout->set_dtype(ToProto<v1::DataType>(desc.dtype));
  layout->set_width(desc.width);
  layout->set_height(desc.height);
  if (desc.color != ColorEncoding()) {
    FillColor(desc.color, layout->mutable_color());
  }
  layout->clear_planes();
  const size_t count = GetPixelFormatInfo(desc.format).plane_count;
  for (size_t i = 0; i < count; ++i) {
    v1::Plane* plane = layout->add_planes();
    plane->set_fd_index(desc.planes[i].buffer_index);
    plane->set_offset_bytes(desc.planes[i].offset_bytes);
    plane->set_stride_bytes(desc.planes[i].stride_bytes);
  }
}

void FillPlacement(const ConvertPlan& plan, v1::Placement* placement) {
  FillRect(plan.placement.destination, placement->mutable_destination());
  FillRect(plan.shown_stored, placement->mutable_source());
  v1::AffineMap* map = placement->mutable_map();
  // Adding zero turns -0, which reads oddly in JSON, into 0.
  map->set_xx(plan.map.xx + 0.0);
  map->set_xy(plan.map.xy + 0.0);
  map->set_x0(plan.map.x0 + 0.0);
  map->set_yx(plan.map.yx + 0.0);
  map->set_yy(plan.map.yy + 0.0);
  map->set_y0(plan.map.y0 + 0.0);
}

void FillImageInfo(const ImageInfo& info, v1::ImageInfo* out) {
  out->set_file_format(Text(FileFormatName(info.file_format)));
  out->set_width(info.width);
  out->set_height(info.height);
  out->set_components(info.components);
  out->set_bit_depth(info.bit_depth);
  out->set_subsampling(info.subsampling);
  out->set_orientation(static_cast<int>(info.orientation));
  out->set_has_orientation(info.has_orientation);
  FillColor(info.color, out->mutable_color());
  out->set_native_format(ToProto<v1::PixelFormat>(info.native_format));
  out->set_process(info.process);
  out->set_color_space(info.color_space);
  out->set_has_alpha(info.has_alpha);
}

void FillReport(const WorkReport& work, const CallTimes& times,
                const ConvertPlan* plan, v1::Report* report) {
  if (plan != nullptr) {
    report->set_backend(work.failover.backend.empty() ? plan->backend
                                                      : work.failover.backend);
    for (const auto* declines : {&plan->declines, &work.failover.failures}) {
      for (const Decline& decline : *declines) {
        v1::Decline* out = report->add_declines();
        out->set_backend(decline.backend);
        out->set_reason(decline.reason);
      }
    }
  }
  v1::StageTimes* out = report->mutable_times();
  out->set_admit_ns(times.submitted_ns - times.arrival_ns);
  out->set_queue_ns(times.queue_ns);
  out->set_decode_ns(work.decode_ns);
  out->set_convert_ns(work.convert_ns);
  out->set_encode_ns(work.encode_ns);
  out->set_total_ns(times.finished_ns - times.arrival_ns);
  report->set_bytes_copied(work.bytes_copied);
  for (const std::string& warning : work.warnings) {
    report->add_warnings(warning);
  }
}

void FillDescription(const RegisteredBuffer& buffer,
                     v1::BufferDescription* out) {
  out->set_buffer_id(buffer.buffer_id);
  out->set_generation(buffer.generation);
  uint64_t size = 0;
  for (const std::shared_ptr<Buffer>& memory : buffer.memory) {
    out->add_kinds(ToProto<v1::BufferKind>(memory->kind()));
    size += memory->size_bytes();
  }
  out->set_size_bytes(size);
  out->set_access(ToProto<v1::BufferAccess>(buffer.access));
  if (buffer.desc) FillLayout(*buffer.desc, out->mutable_layout());
}

void FillExplain(const ConvertPlan& plan, const ExplainedSource& source,
                 v1::ExplainReply* reply) {
  reply->set_backend(plan.backend);
  int rank = 0;
  for (const BackendChoice& choice : plan.ranking) {
    v1::BackendChoice* out = reply->add_ranking();
    out->set_backend(choice.backend);
    out->set_accepts(choice.accepts);
    out->set_reason(choice.reason);
    out->set_rank(++rank);
  }
  FillLayout(plan.source, reply->mutable_source());
  FillLayout(plan.destination, reply->mutable_destination());
  FillPlacement(plan, reply->mutable_placement());
  reply->set_orientation(static_cast<int>(plan.orientation));
  reply->set_filter(ToProto<v1::Filter>(plan.filter));
  reply->set_chroma(ToProto<v1::ChromaUpsampling>(plan.chroma));
  FillNumbers(plan, reply);
  reply->set_bytes_read(PixelBytes(plan.source, plan.shown_stored.size()));
  reply->set_bytes_written(PixelBytes(
      plan.destination, {plan.destination.width, plan.destination.height}));
  if (source.encoded) {
    reply->set_scratch_bytes(
        PixelBytes(plan.source, {plan.source.width, plan.source.height}));
    reply->add_steps(absl::StrCat("decode ",
                                  FileFormatName(source.info.file_format),
                                  " to ", DescText(plan.source)));
  } else {
    reply->add_steps(absl::StrCat("read ", DescText(plan.source)));
  }
  AddGeometrySteps(plan, reply);
  AddValueSteps(plan, reply);
}

void FillBackend(const Capabilities& capabilities, int rank,
                 v1::BackendCapability* out) {
  out->set_name(Text(capabilities.name));
  out->set_available(capabilities.available);
  out->set_detail(capabilities.detail);
  out->set_rank(rank);
  for (int i = 1; i < kPixelFormatCount; ++i) {
    const auto format = static_cast<PixelFormat>(i);
    const auto proto = ToProto<v1::PixelFormat>(format);
    if (capabilities.sources.contains(format)) out->add_sources(proto);
    if (capabilities.destinations.contains(format)) {
      out->add_destinations(proto);
    }
  }
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const auto proto = ToProto<v1::DataType>(dtype);
    if (capabilities.source_dtypes.contains(dtype)) {
      out->add_source_dtypes(proto);
    }
    if (capabilities.destination_dtypes.contains(dtype)) {
      out->add_destination_dtypes(proto);
    }
  }
  for (int i = 1; i < v1::Filter_ARRAYSIZE; ++i) {
    if (capabilities.filters.contains(static_cast<Filter>(i))) {
      out->add_filters(static_cast<v1::Filter>(i));
    }
  }
  for (int i = 1; i < v1::Fit_ARRAYSIZE; ++i) {
    if (capabilities.fits.contains(static_cast<Fit>(i))) {
      out->add_fits(static_cast<v1::Fit>(i));
    }
  }
  for (int i = 1; i <= 8; ++i) {
    if (capabilities.orientations.contains(static_cast<Orientation>(i))) {
      out->add_orientations(i);
    }
  }
  out->set_max_axis(capabilities.max_axis);
}

}  // namespace preprocd
