#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "daemon/service/mask_request.h"
#include "daemon/service/service.h"
#include "daemon/service/work_item.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/masks/contours.h"
#include "engine/masks/materialize.h"
#include "engine/masks/run_length.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

constexpr char kBackend[] = "cpu";

// "source..." of a detail is "background..." here.
absl::Status AsBackground(absl::Status status) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || !absl::StartsWith(detail->field, "source")) return status;
  detail->field = absl::StrCat("background", detail->field.substr(6));
  return MakeError(status.code(), *std::move(detail),
                   absl::StrCat("background: ", status.message()));
}

// Masks are computed by one backend, which a request may name.
absl::Status CheckBackends(const v1::CallOptions& options,
                           const Engine& engine) {
  if (options.backends().empty()) return absl::OkStatus();
  for (const std::string& name : options.backends()) {
    if (name == kBackend) return absl::OkStatus();
    const auto known = [&name](const Capabilities* c) {
      return c->name == name;
    };
    if (!std::any_of(engine.backends().begin(), engine.backends().end(),
                     known)) {
      return BadValue(ErrorReason::kBackendUnknown, "options.backends", name,
                      "is no backend");
    }
  }
  ErrorDetail detail;
  detail.reason = ErrorReason::kNoBackend;
  detail.field = "options.backends";
  return MakeError(absl::StatusCode::kUnimplemented, std::move(detail),
                   "options.backends: only cpu computes masks");
}

int64_t PixelsOf(const MaskPlan& plan) {
  int64_t pixels = 0;
  for (const MaskPlacement& mask : plan.masks) {
    pixels += int64_t{mask.bounds.width} * mask.bounds.height;
  }
  return pixels;
}

bool IsDense(const v1::MaterializeMasksRequest& request) {
  return request.output() == v1::MASK_OUTPUT_UNSPECIFIED ||
         request.output() == v1::MASK_OUTPUT_DENSE;
}

void FillRect(const Rect& rect, v1::Rect* out) {
  out->set_x(rect.x);
  out->set_y(rect.y);
  out->set_width(rect.width);
  out->set_height(rect.height);
}

// Whether [offset, offset + size) of `registered` shares bytes with `tensor`.
bool Overlaps(const RegisteredBuffer& registered, const FileSpan& span,
              uint64_t size, const TensorMemory& tensor) {
  if (tensor.registered == nullptr || size == 0) return false;
  if (!(tensor.registered->memory[0]->identity() ==
        registered.memory[0]->identity())) {
    return false;
  }
  return span.offset_bytes < tensor.offset_bytes + tensor.size_bytes &&
         tensor.offset_bytes < span.offset_bytes + size;
}

absl::Status Overlapping(absl::string_view what) {
  return InvalidField(ErrorReason::kBufferOverlap, "destination",
                      absl::StrCat("destination: shares bytes with ", what));
}

// Whether a tensor's bytes lie among the destination picture's.
bool Overlaps(const DestinationPicture& picture, const TensorMemory& tensor) {
  if (tensor.registered == nullptr || picture.registered == nullptr) {
    return false;
  }
  const ImageDesc& desc = picture.desc;
  const int planes = GetPixelFormatInfo(desc.format).plane_count;
  for (int i = 0; i < planes; ++i) {
    const PlaneDesc& plane = desc.planes[static_cast<size_t>(i)];
    if (plane.buffer_index >= picture.registered->memory.size()) continue;
    const Buffer& memory = *picture.registered->memory[plane.buffer_index];
    if (!(memory.identity() == tensor.registered->memory[0]->identity())) {
      continue;
    }
    if (plane.offset_bytes < tensor.offset_bytes + tensor.size_bytes &&
        tensor.offset_bytes < RequiredBytes(desc, plane.buffer_index)) {
      return true;
    }
  }
  return false;
}

// Whether `a`'s rows can be copied into `b`.
bool SamePixels(const ImageDesc& a, const ImageDesc& b) {
  const bool yuv = GetPixelFormatInfo(b.format).family == ColorFamily::kYuv;
  return a.format == b.format && a.dtype == b.dtype && a.width == b.width &&
         a.height == b.height && (!yuv || a.color == b.color);
}

// Room, alignment and overlap of dense masks in a registered buffer.
absl::Status CheckDensePlace(const WorkItem& item, uint64_t size_bytes) {
  const MaskWork& work = *item.masks;
  const FileSpan& span = item.file_span;
  if (size_bytes > span.capacity_bytes) {
    return BadValue(ErrorReason::kBufferTooSmall, "destination.buffer",
                    absl::StrCat(span.capacity_bytes),
                    absl::StrCat("bytes of room < ", size_bytes, " of masks"));
  }
  if (work.plan.dtype == DType::kF32 && span.offset_bytes % 4 != 0) {
    return BadValue(ErrorReason::kFieldInvalid,
                    "destination.buffer.offset_bytes",
                    absl::StrCat(span.offset_bytes),
                    "is no multiple of 4, the element's size");
  }
  const RegisteredBuffer& registered = *item.destination.registered;
  if (Overlaps(registered, span, size_bytes, work.prototype_bytes)) {
    return Overlapping("prototypes");
  }
  if (Overlaps(registered, span, size_bytes, work.coefficient_bytes)) {
    return Overlapping("coefficients");
  }
  return absl::OkStatus();
}

// Maps the tensors and folds the coefficients.
absl::Status OpenMasks(MaskWork& work, WorkReport& report) {
  RETURN_IF_ERROR(work.prototype_bytes.Open("prototypes", report));
  work.prototypes.data = work.prototype_bytes.data;
  if (work.coefficients.rows > 0) {
    RETURN_IF_ERROR(work.coefficient_bytes.Open("coefficients", report));
    work.coefficients.data = work.coefficient_bytes.data;
  }
  work.workspace.Prepare(work.plan, work.prototypes, work.coefficients);
  return absl::OkStatus();
}

// Run lengths or outlines of every mask; the reply's size is bounded while it
// grows.
absl::Status FillForms(MaskWork& work, int64_t most_bytes) {
  const v1::MaskOutput output = work.materialize_request->output();
  v1::MaterializeMasksReply& reply = *work.materialize_reply;
  int64_t bytes = 0;
  std::vector<uint32_t> counts;
  MaskRings rings;
  const auto visit = [&](int, const Rect& bounds, const uint8_t* pixels) {
    v1::Mask* mask = reply.add_masks();
    FillRect(bounds, mask->mutable_bounds());
    if (bytes > most_bytes) return;
    if (output == v1::MASK_OUTPUT_POLYGONS) {
      TraceContours(pixels, bounds, rings);
      mask->mutable_polygon()->Add(rings.corners.begin(), rings.corners.end());
      mask->mutable_ring_sizes()->Add(rings.ring_sizes.begin(),
                                      rings.ring_sizes.end());
      bytes += static_cast<int64_t>(
          4 * (rings.corners.size() + rings.ring_sizes.size()));
      return;
    }
    RunLengths(pixels, bounds, work.plan.size, counts);
    if (output == v1::MASK_OUTPUT_RLE) {
      mask->mutable_rle_counts()->Add(counts.begin(), counts.end());
      bytes += static_cast<int64_t>(4 * counts.size());
    } else {
      mask->set_rle_text(CompressRunLengths(counts));
      bytes += static_cast<int64_t>(mask->rle_text().size());
    }
  };
  VisitMasks(work.workspace, visit);
  if (bytes <= most_bytes) return absl::OkStatus();
  reply.clear_masks();
  return BadValue(
      ErrorReason::kTooLarge, "output", absl::StrCat(bytes),
      absl::StrCat("bytes of reply > ", most_bytes, "; ask for dense masks"));
}

absl::Status ChangePalette(const CallContext& call,
                           const v1::SetPaletteRequest& request,
                           v1::SetPaletteReply* reply) {
  if (call.anonymous) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kSessionUnknown;
    return MakeError(absl::StatusCode::kUnauthenticated, std::move(detail),
                     "a palette belongs to a session, but the call carries no "
                     "session token (metadata preproc-session-bin)");
  }
  std::vector<MaskColor> colors;
  RETURN_IF_ERROR(ParseColors(request.colors(), "colors", colors));
  auto palette = std::make_shared<std::vector<std::array<uint8_t, 4>>>();
  for (const MaskColor& c : colors) palette->push_back({c.r, c.g, c.b, c.a});
  const std::span<const MaskColor> in_force =
      colors.empty() ? DefaultPalette() : std::span<const MaskColor>(colors);
  for (const MaskColor& c : in_force) {
    v1::Color* out = reply->add_colors();
    out->set_r(c.r);
    out->set_g(c.g);
    out->set_b(c.b);
    out->set_a(c.a);
  }
  call.session->set_palette(colors.empty() ? nullptr : std::move(palette));
  return absl::OkStatus();
}

}  // namespace

const WorkSteps Service::kMaterializeSteps = {
    &Service::FindMaterialize, &Service::PlanMaterialize,
    &Service::RunMaterialize, &Service::ReplyMaterialize};
const WorkSteps Service::kDrawSteps = {&Service::FindDraw, &Service::PlanDraw,
                                       &Service::RunDraw, &Service::ReplyDraw};

void Service::MaterializeMasks(const CallContext& call,
                               const v1::MaterializeMasksRequest& request,
                               v1::MaterializeMasksReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  if (item->masks == nullptr) item->masks = std::make_unique<MaskWork>();
  item->steps = &kMaterializeSteps;
  item->call = call;
  item->operation = Operation::kMaterializeMasks;
  item->done = std::move(done);
  item->masks->materialize_request = &request;
  item->masks->materialize_reply = reply;
  Begin(std::move(item), request.options());
}

void Service::DrawMasks(const CallContext& call,
                        const v1::DrawMasksRequest& request,
                        v1::DrawMasksReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  if (item->masks == nullptr) item->masks = std::make_unique<MaskWork>();
  item->steps = &kDrawSteps;
  item->call = call;
  item->operation = Operation::kDrawMasks;
  item->done = std::move(done);
  item->masks->draw_request = &request;
  item->masks->draw_reply = reply;
  Begin(std::move(item), request.options());
}

absl::Status Service::SetPalette(const CallContext& call,
                                 const v1::SetPaletteRequest& request,
                                 v1::SetPaletteReply* reply) {
  return Count(Operation::kSetPalette, ChangePalette(call, request, reply));
}

absl::Status Service::FindMaterialize(WorkItem& item) {
  MaskWork& work = *item.masks;
  const v1::MaterializeMasksRequest& request = *work.materialize_request;
  RETURN_IF_ERROR(CheckBackends(request.options(), engine_));
  RETURN_IF_ERROR(CheckMaskOutput(request));
  RETURN_IF_ERROR(ParseMasks(OwnerOf(item), request, work));
  item.other_cost = PixelsOf(work.plan);
  if (!IsDense(request)) return absl::OkStatus();
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  if (item.destination.is_inline()) {
    const auto most = static_cast<uint64_t>(options_.max_inline_bytes);
    if (work.has_masks && work.plan.size_bytes > most) {
      return BadValue(ErrorReason::kTooLarge, "destination.inline",
                      absl::StrCat(work.plan.size_bytes),
                      absl::StrCat("bytes of masks > ", most));
    }
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(item.file_span,
                   FindFileSpan(request.destination(), item.destination));
  return work.has_masks ? CheckDensePlace(item, work.plan.size_bytes)
                        : absl::OkStatus();
}

absl::Status Service::PlanMaterialize(WorkItem&) { return absl::OkStatus(); }

absl::Status Service::RunMaterialize(WorkItem& item) {
  MaskWork& work = *item.masks;
  if (!work.has_masks) return absl::OkStatus();
  RETURN_IF_ERROR(OpenMasks(work, item.report));
  if (!IsDense(*work.materialize_request)) {
    return FillForms(work, options_.max_inline_bytes);
  }
  WorkReport part;
  if (item.destination.is_inline()) {
    item.inline_result.resize(work.plan.size_bytes);
    RETURN_IF_ERROR(engine_.Materialize(
        work.workspace,
        std::as_writable_bytes(std::span<char>(item.inline_result)), part));
    Merge(std::move(part), item.report);
    item.report.bytes_copied += work.plan.size_bytes;
    return absl::OkStatus();
  }
  const RegisteredBuffer& registered = *item.destination.registered;
  WarnAboutCopies(registered, item.report);
  Buffer& buffer = *registered.memory[0];
  // Bytes around the masks must survive the write-back of a copied buffer.
  absl::StatusOr<Mapping> mapping =
      buffer.Map(buffer.copies() ? Access::kReadWrite : Access::kWrite);
  if (!mapping.ok()) {
    return UnderField(std::move(mapping).status(), "destination.buffer");
  }
  const std::span<std::byte> all = mapping->bytes();
  absl::Status status;
  if (item.file_span.offset_bytes > all.size()) {
    status = BadValue(ErrorReason::kBufferTooSmall, "destination.buffer",
                      absl::StrCat(all.size()), "bytes are left; it shrank");
  } else {
    status = engine_.Materialize(
        work.workspace, all.subspan(item.file_span.offset_bytes), part);
  }
  if (!status.ok()) {
    mapping->Abandon();
    return status;
  }
  RETURN_IF_ERROR(mapping->Finish());
  part.bytes_copied += mapping->bytes_copied();
  Merge(std::move(part), item.report);
  return absl::OkStatus();
}

void Service::ReplyMaterialize(WorkItem& item) {
  MaskWork& work = *item.masks;
  v1::MaterializeMasksReply& reply = *work.materialize_reply;
  FillReport(item.report, item.times, nullptr, reply.mutable_report());
  reply.mutable_report()->set_backend(kBackend);
  if (!work.has_masks) return;
  reply.mutable_size()->set_width(work.plan.size.width);
  reply.mutable_size()->set_height(work.plan.size.height);
  if (!IsDense(*work.materialize_request)) return;
  for (const MaskPlacement& placed : work.plan.masks) {
    v1::Mask* mask = reply.add_masks();
    FillRect(placed.bounds, mask->mutable_bounds());
    mask->set_offset_bytes(placed.offset_bytes);
  }
  reply.set_size_bytes(work.plan.size_bytes);
  reply.set_inline_bytes(std::move(item.inline_result));
}

absl::Status Service::FindDraw(WorkItem& item) {
  MaskWork& work = *item.masks;
  const v1::DrawMasksRequest& request = *work.draw_request;
  const v1::MaterializeMasksRequest& masks = request.masks();
  RETURN_IF_ERROR(CheckBackends(request.options(), engine_));
  if (request.has_masks() && request.has_dense()) {
    return InvalidField("dense", "dense: masks are given too");
  }
  if (request.keep_destination() && request.has_background()) {
    return InvalidField("keep_destination",
                        "keep_destination: a background is given too");
  }
  if (masks.has_destination() || masks.has_size() ||
      masks.output() != v1::MASK_OUTPUT_UNSPECIFIED ||
      masks.values() != v1::MASK_VALUES_UNSPECIFIED ||
      masks.extent() != v1::MASK_EXTENT_UNSPECIFIED ||
      masks.dtype() != v1::DATA_TYPE_UNSPECIFIED) {
    return InvalidField("masks",
                        "masks: size, destination, output, values, extent and "
                        "dtype follow from the drawing");
  }
  RETURN_IF_ERROR(ParseDrawStyle(request, item.call.session->palette(), work));
  if (request.has_dense()) {
    RETURN_IF_ERROR(ParseDense(OwnerOf(item), request.dense(), work));
  } else {
    RETURN_IF_ERROR(
        PrefixField(ParseMasks(OwnerOf(item), masks, work), "masks."));
  }
  if (request.has_background()) {
    RETURN_IF_ERROR(AsBackground(
        FindSource(OwnerOf(item), request.background(), item.source)));
  }
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  if (request.keep_destination() && item.destination.is_inline()) {
    return InvalidField("keep_destination",
                        "keep_destination: an inline result holds nothing");
  }
  ASSIGN_OR_RETURN(item.output,
                   DestinationOutput(request.destination(), item.destination));
  return absl::OkStatus();
}

absl::Status Service::PlanDraw(WorkItem& item) {
  MaskWork& work = *item.masks;
  const v1::DrawMasksRequest& request = *work.draw_request;
  const bool over_picture = request.has_background();
  ImageDesc source = item.source.desc;
  if (over_picture && item.source.encoded) {
    RETURN_IF_ERROR(OpenAndPeek(item));
    ASSIGN_OR_RETURN(source,
                     Engine::DecodedDesc(item.info, item.output.format));
  }
  if (!over_picture) {
    if (item.output.size == Size()) {
      return InvalidField("destination.layout",
                          "destination.layout: without a background the size "
                          "must be given");
    }
    const PixelFormat format = item.output.format == PixelFormat::kUnspecified
                                   ? PixelFormat::kRgb
                                   : item.output.format;
    absl::StatusOr<ImageDesc> blank = MakeImageDesc(
        format, DType::kU8, item.output.size.width, item.output.size.height);
    if (!blank.ok()) {
      return PrefixField(std::move(blank).status(), "destination.layout.");
    }
    source = *blank;
    source.color = item.output.color;
  }
  ASSIGN_OR_RETURN(const ImageDesc resolved,
                   ResolveDestination(source, item.output, item.spec));
  RETURN_IF_ERROR(CompleteDestination(request.destination(), resolved,
                                      options_.max_inline_bytes,
                                      item.destination));
  const ImageDesc& to = item.destination.desc;
  RETURN_IF_ERROR(CheckDraw(to, nullptr, work.style, work.objects));
  const int64_t covered = CoveredPixels(work.dense, work.dense_grid, to);
  if (covered > kMaxMaskPixels) {
    return BadValue(ErrorReason::kTooLarge, "dense.masks",
                    absl::StrCat(covered),
                    absl::StrCat("pixels > ", kMaxMaskPixels));
  }
  item.other_cost = covered;
  for (const TensorMemory* tensor :
       {&work.prototype_bytes, &work.coefficient_bytes, &work.dense_bytes}) {
    if (Overlaps(item.destination, *tensor)) return Overlapping("a tensor");
  }
  if (over_picture) {
    const bool same = !item.source.encoded && SamePixels(source, to);
    work.backdrop = same ? Backdrop::kPicture : Backdrop::kKeep;
    work.convert_background = !same;
    if (!same) {
      ASSIGN_OR_RETURN(item.plan,
                       engine_.Plan(source, to, item.spec, IsJpeg(item)));
    }
  } else if (request.keep_destination()) {
    work.backdrop = Backdrop::kKeep;
  }
  if (!work.has_masks) return absl::OkStatus();
  work.spec.size = {to.width, to.height};
  RETURN_IF_ERROR(PrefixField(PlanMasks(work.prototypes, work.coefficients,
                                        work.boxes, work.spec, work.plan),
                              "masks."));
  item.other_cost = PixelsOf(work.plan);
  return absl::OkStatus();
}

absl::Status Service::RunDraw(WorkItem& item) {
  MaskWork& work = *item.masks;
  DrawnMasks drawn;
  if (work.has_masks) {
    RETURN_IF_ERROR(PrefixField(OpenMasks(work, item.report), "masks."));
    drawn.workspace = &work.workspace;
    if (work.plan.semantic) {
      work.class_map.resize(work.plan.size_bytes);
      drawn.class_map = work.class_map;
    }
  } else if (!work.dense.empty()) {
    RETURN_IF_ERROR(work.dense_bytes.Open("dense.pixels", item.report));
    PointDense(work.draw_request->dense(), work);
    drawn.dense = work.dense;
    drawn.dense_grid = work.dense_grid;
  }
  drawn.objects = work.objects;
  if (item.source.registered != nullptr ||
      item.source.inline_bytes != nullptr) {
    if (!item.source.encoded)
      RETURN_IF_ERROR(OpenRaw(item.source, item.report));
  }
  RETURN_IF_ERROR(OpenDestination(item.destination, item.report));
  WorkReport part;
  const PictureBuffers& to = item.destination.buffers;
  if (work.convert_background && item.source.encoded) {
    RETURN_IF_ERROR(AsBackground(engine_.DecodeAndConvert(
        item.source.bytes, item.decode, *item.plan, to, part)));
  } else if (work.convert_background) {
    RETURN_IF_ERROR(AsBackground(
        engine_.Convert(*item.plan, item.source.buffers, to, part)));
  }
  RETURN_IF_ERROR(engine_.Draw(drawn, work.style, work.backdrop,
                               item.source.desc, item.source.buffers,
                               item.destination.desc, to, part));
  Merge(std::move(part), item.report);
  if (!item.destination.is_inline()) return absl::OkStatus();
  WorkReport taken;
  RETURN_IF_ERROR(TakeInline(engine_, item.destination,
                             options_.max_inline_bytes, item.scratch,
                             &item.inline_result, taken));
  Merge(std::move(taken), item.report);
  return absl::OkStatus();
}

void Service::ReplyDraw(WorkItem& item) {
  v1::DrawMasksReply& reply = *item.masks->draw_reply;
  FillReport(item.report, item.times, item.plan ? &*item.plan : nullptr,
             reply.mutable_report());
  reply.mutable_report()->set_backend(kBackend);
  FillLayout(item.destination.desc, reply.mutable_layout());
  reply.set_inline_bytes(std::move(item.inline_result));
}

}  // namespace preprocd
