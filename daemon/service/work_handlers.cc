#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/log.h"
#include "daemon/service/service.h"
#include "daemon/service/work_item.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

absl::Status DeadlinePassed() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kDeadline;
  return MakeError(absl::StatusCode::kDeadlineExceeded, std::move(detail),
                   "the deadline passed during the work");
}

// Pixels read plus written; for work that is not planned yet a guess from
// the encoded size (about one byte per pixel after compression by 8).
int64_t CostOf(const WorkItem& item) {
  int64_t pixels = 0;
  if (item.planned) {
    const ImageDesc& to = item.destination.desc;
    pixels = int64_t{item.source.desc.width} * item.source.desc.height +
             int64_t{item.info.width} * item.info.height +
             int64_t{to.width} * to.height * item.tile.batch.count +
             item.other_cost;
  } else {
    pixels = static_cast<int64_t>(item.source.size_bytes) * 8;
  }
  return std::max<int64_t>(pixels, 1);
}

// Pixels read plus written below which a convert takes about as long as
// handing it to another thread would (tens of microseconds).
constexpr int64_t kMaxCostHere = 32 * 1024;

bool IsMapped(const std::shared_ptr<const RegisteredBuffer>& registered) {
  if (registered == nullptr) return false;
  return std::all_of(registered->memory.begin(), registered->memory.end(),
                     [](const std::shared_ptr<Buffer>& memory) {
                       return memory->kind() == BufferKind::kMemfd;
                     });
}

// Raw pixels between mapped memfds on the CPU: nothing in it can block. A
// dma-buf may wait for a fence, a copied memfd for its bytes.
bool MayRunHere(const WorkItem& item, int64_t cost) {
  return cost <= kMaxCostHere && item.operation != Operation::kDrawMasks &&
         item.plan.has_value() && item.plan->backend == "cpu" &&
         !item.source.encoded && IsMapped(item.source.registered) &&
         IsMapped(item.destination.registered);
}

}  // namespace

const WorkSteps Service::kConvertSteps = {
    &Service::FindConvert, &Service::PlanConvert, &Service::RunConvert,
    &Service::ReplyConvert};
const WorkSteps Service::kDecodeSteps = {
    &Service::FindDecode, &Service::PlanDecode, &Service::RunDecode,
    &Service::ReplyDecode};
const WorkSteps Service::kEncodeSteps = {
    &Service::FindEncode, &Service::PlanEncode, &Service::RunEncode,
    &Service::ReplyEncode};

void Service::Convert(const CallContext& call,
                      const v1::ConvertRequest& request,
                      v1::ConvertReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kConvertSteps;
  item->call = call;
  item->operation = Operation::kConvert;
  item->done = std::move(done);
  item->convert_request = &request;
  item->convert_reply = reply;
  Begin(std::move(item), request.options());
}

void Service::Decode(const CallContext& call, const v1::DecodeRequest& request,
                     v1::DecodeReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kDecodeSteps;
  item->call = call;
  item->operation = Operation::kDecode;
  item->done = std::move(done);
  item->decode_request = &request;
  item->decode_reply = reply;
  Begin(std::move(item), request.options());
}

void Service::Encode(const CallContext& call, const v1::EncodeRequest& request,
                     v1::EncodeReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kEncodeSteps;
  item->call = call;
  item->operation = Operation::kEncode;
  item->done = std::move(done);
  item->encode_request = &request;
  item->encode_reply = reply;
  Begin(std::move(item), request.options());
}

void Service::Begin(std::unique_ptr<WorkItem> item,
                    const v1::CallOptions& options) {
  item->service = this;
  item->times.arrival_ns = item->call.arrival_ns;
  absl::Status status =
      WithoutExceptions([&] { return Admit(*item, options); });
  if (status.ok()) status = Submit(item);
  if (!status.ok()) Finish(std::move(item), std::move(status));
}

absl::Status Service::Admit(WorkItem& item, const v1::CallOptions& options) {
  if (draining()) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kDraining;
    return MakeError(absl::StatusCode::kUnavailable, std::move(detail),
                     "the daemon is stopping");
  }
  RETURN_IF_ERROR(item.call.session->BeginRequest());
  item.counted_in_flight = true;
  ASSIGN_OR_RETURN(item.bounds, ParseCallOptions(options, item.call.arrival_ns,
                                                 item.call.deadline_ns));
  RETURN_IF_ERROR((this->*item.steps->find)(item));
  if (!CheapToOpen(item.source)) return absl::OkStatus();
  RETURN_IF_ERROR((this->*item.steps->plan)(item));
  item.planned = true;
  return absl::OkStatus();
}

// Gives the item to the scheduler; keeps it when that refuses.
absl::Status Service::Submit(std::unique_ptr<WorkItem>& item) {
  Job job;
  job.session_id = item->call.session->id();
  job.request_id = item->call.request_id;
  job.priority = item->bounds.priority;
  job.deadline_ns = item->bounds.deadline_ns;
  job.cost = CostOf(*item);
  job.may_run_here = MayRunHere(*item, job.cost);
  // One pointer each, so that the closures need no memory of their own; the
  // scheduler calls `done` once for every job it accepted.
  WorkItem* raw = item.get();
  job.work = [raw](JobContext& context) {
    raw->times.queue_ns = context.queue_ns();
    return raw->service->RunItem(*raw);
  };
  job.done = [raw](absl::Status status) {
    raw->service->Finish(std::unique_ptr<WorkItem>(raw), std::move(status));
  };
  item->times.submitted_ns = MonotonicNs();
  item.release();
  absl::Status status = scheduler_.Submit(job);
  if (!status.ok()) item.reset(raw);
  return status;
}

absl::Status Service::RunItem(WorkItem& item) {
  return WithoutExceptions([&]() -> absl::Status {
    if (!item.planned) RETURN_IF_ERROR((this->*item.steps->plan)(item));
    return (this->*item.steps->run)(item);
  });
}

void Service::Finish(std::unique_ptr<WorkItem> item, absl::Status status) {
  item->times.finished_ns = MonotonicNs();
  if (status.ok() && item->bounds.deadline_ns != 0 &&
      item->times.finished_ns > item->bounds.deadline_ns) {
    status = DeadlinePassed();
  }
  if (status.ok()) {
    item->steps->reply(*item);
    CountStages(*item);
  } else if (status.code() == absl::StatusCode::kInternal) {
    Log(LogLevel::kError, "request.internal",
        {{"op", OperationName(item->operation)},
         {"session", item->call.session->id()},
         {"message", status.message()}});
  }
  metrics_.CountRequest(item->operation, status.ok());
  if (item->counted_in_flight) item->call.session->EndRequest(status.ok());
  Done done = std::move(item->done);
  // Before the reply: what it released can be seen by whoever gets it.
  pool_->Put(std::move(item));
  done(std::move(status));
}

void Service::CountStages(const WorkItem& item) {
  const struct {
    const char* stage;
    int64_t ns;
  } stages[] = {{"queue", item.times.queue_ns},
                {"decode", item.report.decode_ns},
                {"convert", item.report.convert_ns},
                {"encode", item.report.encode_ns}};
  for (const auto& stage : stages) {
    if (stage.ns > 0) {
      metrics_.AddStageNs(stage.stage, static_cast<double>(stage.ns));
    }
  }
  if (item.report.bytes_copied > 0) {
    metrics_.AddBytesCopied(static_cast<double>(item.report.bytes_copied));
  }
  if (!item.report.warnings.empty()) {
    metrics_.AddWarnings(static_cast<double>(item.report.warnings.size()));
  }
  const ConvertPlan* plan = item.plan ? &*item.plan : nullptr;
  if (item.tile.batch_planned) plan = &item.tile.plans[0];
  if (plan != nullptr) {
    for (const auto* declines :
         {&plan->declines, &item.report.failover.failures}) {
      for (const Decline& decline : *declines) {
        metrics_.AddDecline(decline.backend);
      }
    }
  }
}

absl::Status Service::FindConvert(WorkItem& item) {
  const v1::ConvertRequest& request = *item.convert_request;
  ASSIGN_OR_RETURN(item.spec,
                   ParseConvertSpec(request.spec(), request.options()));
  RETURN_IF_ERROR(FindSource(OwnerOf(item), request.source(), item.source));
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  ASSIGN_OR_RETURN(item.output,
                   DestinationOutput(request.destination(), item.destination));
  if (WantsFileOrientation(request.spec()) && !item.source.encoded) {
    return InvalidField("spec.orientation_from_file",
                        "spec.orientation_from_file true needs an encoded "
                        "source; raw pixels state no orientation");
  }
  item.decode.lenient = request.lenient();
  item.decode.fancy_chroma = item.spec.chroma != ChromaUpsampling::kReplicate;
  return absl::OkStatus();
}

absl::Status Service::PlanConvert(WorkItem& item) {
  const v1::ConvertRequest& request = *item.convert_request;
  ImageDesc source = item.source.desc;
  if (item.source.encoded) {
    RETURN_IF_ERROR(OpenAndPeek(item));
    if (WantsFileOrientation(request.spec())) {
      item.spec.orientation = item.info.orientation;
    }
    ASSIGN_OR_RETURN(
        source, Engine::DecodedDesc(
                    item.info, item.output.format == PixelFormat::kUnspecified
                                   ? PixelFormat::kRgb
                                   : item.output.format));
  }
  item.orientation = item.spec.orientation;
  ASSIGN_OR_RETURN(const ImageDesc resolved,
                   ResolveDestination(source, item.output, item.spec));
  RETURN_IF_ERROR(CompleteDestination(request.destination(), resolved,
                                      options_.max_inline_bytes,
                                      item.destination));
  RETURN_IF_ERROR(CheckChannelCounts(request.spec(), resolved.format));
  ASSIGN_OR_RETURN(item.plan, engine_.Plan(source, item.destination.desc,
                                           item.spec, IsJpeg(item)));
  return absl::OkStatus();
}

absl::Status Service::RunConvert(WorkItem& item) {
  RETURN_IF_ERROR(OpenDestination(item.destination, item.report));
  WorkReport part;
  if (item.source.encoded) {
    RETURN_IF_ERROR(engine_.DecodeAndConvert(
        item.source.bytes, item.decode, *item.plan, item.destination.buffers,
        part,
        item.convert_request->fast_scale() ? DecodeScaling::kFast
                                           : DecodeScaling::kFull));
  } else {
    RETURN_IF_ERROR(OpenRaw(item.source, item.report));
    RETURN_IF_ERROR(engine_.Convert(*item.plan, item.source.buffers,
                                    item.destination.buffers, part));
  }
  Merge(std::move(part), item.report);
  if (!item.destination.is_inline()) return absl::OkStatus();
  WorkReport taken;
  RETURN_IF_ERROR(TakeInline(engine_, item.destination,
                             options_.max_inline_bytes, item.scratch,
                             &item.inline_result, taken));
  Merge(std::move(taken), item.report);
  return absl::OkStatus();
}

void Service::ReplyConvert(WorkItem& item) {
  v1::ConvertReply& reply = *item.convert_reply;
  FillLayout(item.plan->destination, reply.mutable_layout());
  FillPlacement(*item.plan, reply.mutable_placement());
  FillReport(item.report, item.times, &*item.plan, reply.mutable_report());
  if (item.source.encoded) FillImageInfo(item.info, reply.mutable_info());
  reply.set_orientation_applied(static_cast<int>(item.orientation));
  reply.set_inline_bytes(std::move(item.inline_result));
}

absl::Status Service::FindDecode(WorkItem& item) {
  const v1::DecodeRequest& request = *item.decode_request;
  RETURN_IF_ERROR(FindSource(OwnerOf(item), request.source(), item.source));
  if (!item.source.encoded) {
    return InvalidField("source",
                        "source is raw pixels, decode reads an encoded file; "
                        "set source.encoded when its buffer has a layout");
  }
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  ASSIGN_OR_RETURN(item.output,
                   DestinationOutput(request.destination(), item.destination));
  ASSIGN_OR_RETURN(item.spec.chroma, ParseChroma(request.chroma(), "chroma"));
  item.spec.backends.assign(request.options().backends().begin(),
                            request.options().backends().end());
  item.decode.lenient = request.lenient();
  item.decode.fancy_chroma = item.spec.chroma != ChromaUpsampling::kReplicate;
  return absl::OkStatus();
}

absl::Status Service::PlanDecode(WorkItem& item) {
  const v1::DecodeRequest& request = *item.decode_request;
  RETURN_IF_ERROR(OpenAndPeek(item));
  const ImageInfo& info = item.info;
  if (request.apply_orientation()) item.orientation = info.orientation;
  item.spec.orientation = item.orientation;
  const bool turned = item.orientation != Orientation::kNormal;
  OutputSpec output = item.output;
  if (output.format == PixelFormat::kUnspecified) {
    output.format = info.native_format;
    if (turned &&
        GetPixelFormatInfo(info.native_format).family == ColorFamily::kYuv) {
      output.format = PixelFormat::kRgb;
      item.report.warnings.push_back(absl::StrCat(
          "the native format ", PixelFormatName(info.native_format),
          " is not turned upright: rgb was written"));
    }
  }
  const Size size = OrientedSize(item.orientation, {info.width, info.height});
  if (output.size != Size() && output.size != size) {
    return BadValue(ErrorReason::kGeometryInvalid, "destination.layout",
                    absl::StrCat(output.size.width, "x", output.size.height),
                    absl::StrCat("is not the picture's ", size.width, "x",
                                 size.height, "; decode does not resize"));
  }
  output.size = size;
  ASSIGN_OR_RETURN(const ImageDesc source,
                   Engine::DecodedDesc(info, output.format));
  ASSIGN_OR_RETURN(ImageDesc resolved,
                   ResolveDestination(source, output, item.spec));
  const bool yuv =
      GetPixelFormatInfo(resolved.format).family == ColorFamily::kYuv;
  const bool same_color =
      !yuv || output.color == ColorEncoding() || output.color == info.color;
  const bool direct = !turned && same_color && resolved.dtype == DType::kU8 &&
                      CanDecodeTo(info, resolved.format);
  if (direct && yuv) resolved.color = info.color;
  RETURN_IF_ERROR(CompleteDestination(request.destination(), resolved,
                                      options_.max_inline_bytes,
                                      item.destination));
  if (direct) return absl::OkStatus();
  ASSIGN_OR_RETURN(item.plan, engine_.Plan(source, item.destination.desc,
                                           item.spec, IsJpeg(item)));
  return absl::OkStatus();
}

absl::Status Service::RunDecode(WorkItem& item) {
  RETURN_IF_ERROR(OpenDestination(item.destination, item.report));
  WorkReport part;
  if (item.plan) {
    RETURN_IF_ERROR(engine_.DecodeAndConvert(item.source.bytes, item.decode,
                                             *item.plan,
                                             item.destination.buffers, part));
  } else {
    RETURN_IF_ERROR(engine_
                        .Decode(item.source.bytes, item.decode,
                                item.destination.desc, item.destination.buffers,
                                part)
                        .status());
  }
  Merge(std::move(part), item.report);
  if (!item.destination.is_inline()) return absl::OkStatus();
  WorkReport taken;
  RETURN_IF_ERROR(TakeInline(engine_, item.destination,
                             options_.max_inline_bytes, item.scratch,
                             &item.inline_result, taken));
  Merge(std::move(taken), item.report);
  return absl::OkStatus();
}

void Service::ReplyDecode(WorkItem& item) {
  v1::DecodeReply& reply = *item.decode_reply;
  FillImageInfo(item.info, reply.mutable_info());
  FillLayout(item.plan ? item.plan->destination : item.destination.desc,
             reply.mutable_layout());
  FillReport(item.report, item.times, item.plan ? &*item.plan : nullptr,
             reply.mutable_report());
  reply.set_orientation_applied(static_cast<int>(item.orientation));
  reply.set_inline_bytes(std::move(item.inline_result));
}

absl::Status Service::FindEncode(WorkItem& item) {
  const v1::EncodeRequest& request = *item.encode_request;
  ASSIGN_OR_RETURN(item.encode, ParseEncodeOptions(request));
  RETURN_IF_ERROR(FindSource(OwnerOf(item), request.source(), item.source));
  if (item.source.encoded) {
    return InvalidField("source.layout",
                        "source.layout is missing: encode reads raw pixels");
  }
  RETURN_IF_ERROR(CheckEncodable(item.encode.format, item.source.desc.format,
                                 item.source.desc.dtype,
                                 "source.layout.format"));
  const v1::Destination& to = request.destination();
  if (to.has_layout() || to.tensor_layout() != v1::TENSOR_LAYOUT_UNSPECIFIED) {
    return InvalidField("destination.layout",
                        "destination.layout describes pixels, but the result "
                        "is a file");
  }
  RETURN_IF_ERROR(
      FindDestination(OwnerOf(item), to, /*optional=*/false, item.destination));
  if (!item.destination.is_inline()) {
    ASSIGN_OR_RETURN(item.file_span, FindFileSpan(to, item.destination));
    return absl::OkStatus();
  }
  const v1::InlineEncoding own = item.encode.format == FileFormat::kPng
                                     ? v1::INLINE_ENCODING_PNG
                                     : v1::INLINE_ENCODING_JPEG;
  if (item.destination.inline_encoding != v1::INLINE_ENCODING_RAW &&
      item.destination.inline_encoding != own) {
    return InvalidField("destination.inline",
                        "destination.inline contradicts format");
  }
  return absl::OkStatus();
}

absl::Status Service::PlanEncode(WorkItem&) { return absl::OkStatus(); }

absl::Status Service::RunEncode(WorkItem& item) {
  RETURN_IF_ERROR(OpenRaw(item.source, item.report));
  WorkReport part;
  if (item.encode.format == FileFormat::kPng) {
    RETURN_IF_ERROR(engine_.EncodePngFile(item.source.desc, item.source.buffers,
                                          item.encode.png, item.scratch, part));
  } else {
    RETURN_IF_ERROR(
        engine_.EncodeJpegFile(item.source.desc, item.source.buffers,
                               item.encode.jpeg, item.scratch, part));
  }
  Merge(std::move(part), item.report);
  if (!item.destination.is_inline()) {
    return WriteFile(item.scratch, item.file_span, item.destination,
                     item.report);
  }
  if (item.scratch.size() > static_cast<uint64_t>(options_.max_inline_bytes)) {
    return BadValue(
        ErrorReason::kTooLarge, "destination.inline",
        absl::StrCat(item.scratch.size()),
        absl::StrCat("bytes of encoded result > ", options_.max_inline_bytes));
  }
  item.inline_result.assign(reinterpret_cast<const char*>(item.scratch.data()),
                            item.scratch.size());
  item.report.bytes_copied += item.scratch.size();
  return absl::OkStatus();
}

void Service::ReplyEncode(WorkItem& item) {
  v1::EncodeReply& reply = *item.encode_reply;
  reply.set_size_bytes(item.scratch.size());
  FillReport(item.report, item.times, nullptr, reply.mutable_report());
  reply.set_inline_bytes(std::move(item.inline_result));
}

}  // namespace preprocd
