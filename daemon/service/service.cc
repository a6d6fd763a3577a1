#include "daemon/service/service.h"

#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/picture_resolver.h"
#include "daemon/service/reply_builder.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/work_item.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/detections/detection.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/image/tile_grid.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

#define PREPROCD_SAME(ENGINE, PROTO)                        \
  static_assert(static_cast<int>(ErrorReason::k##ENGINE) == \
                static_cast<int>(v1::ERROR_REASON_##PROTO))
PREPROCD_SAME(Unspecified, UNSPECIFIED);
PREPROCD_SAME(FieldInvalid, FIELD_INVALID);
PREPROCD_SAME(GeometryInvalid, GEOMETRY_INVALID);
PREPROCD_SAME(FormatPair, FORMAT_PAIR);
PREPROCD_SAME(ImageFormat, IMAGE_FORMAT);
PREPROCD_SAME(ImageTruncated, IMAGE_TRUNCATED);
PREPROCD_SAME(ImageCorrupt, IMAGE_CORRUPT);
PREPROCD_SAME(ImageUnsupported, IMAGE_UNSUPPORTED);
PREPROCD_SAME(TooLarge, TOO_LARGE);
PREPROCD_SAME(Quota, QUOTA);
PREPROCD_SAME(QueueFull, QUEUE_FULL);
PREPROCD_SAME(BufferUnknown, BUFFER_UNKNOWN);
PREPROCD_SAME(BufferGeneration, BUFFER_GENERATION);
PREPROCD_SAME(BufferTooSmall, BUFFER_TOO_SMALL);
PREPROCD_SAME(BufferKind, BUFFER_KIND);
PREPROCD_SAME(BufferSealed, BUFFER_SEALED);
PREPROCD_SAME(BufferSparse, BUFFER_SPARSE);
PREPROCD_SAME(BufferOverlap, BUFFER_OVERLAP);
PREPROCD_SAME(BufferReadOnly, BUFFER_READ_ONLY);
PREPROCD_SAME(FdsLost, FDS_LOST);
PREPROCD_SAME(FdCount, FD_COUNT);
PREPROCD_SAME(FrameInvalid, FRAME_INVALID);
PREPROCD_SAME(SessionUnknown, SESSION_UNKNOWN);
PREPROCD_SAME(SessionPeer, SESSION_PEER);
PREPROCD_SAME(VersionMismatch, VERSION_MISMATCH);
PREPROCD_SAME(NotBuilt, NOT_BUILT);
PREPROCD_SAME(NoBackend, NO_BACKEND);
PREPROCD_SAME(BackendUnknown, BACKEND_UNKNOWN);
PREPROCD_SAME(BackendFailed, BACKEND_FAILED);
PREPROCD_SAME(Deadline, DEADLINE);
PREPROCD_SAME(Cancelled, CANCELLED);
PREPROCD_SAME(Draining, DRAINING);
PREPROCD_SAME(NotPermitted, NOT_PERMITTED);
PREPROCD_SAME(Internal, INTERNAL);
PREPROCD_SAME(DmaBuf, DMA_BUF);
#undef PREPROCD_SAME
static_assert(static_cast<int>(ErrorReason::kDmaBuf) + 1 ==
              v1::ErrorReason_ARRAYSIZE);

// For statuses that a library made without a detail.
v1::ErrorReason ReasonOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return v1::ERROR_REASON_UNSPECIFIED;
    case absl::StatusCode::kCancelled:
      return v1::ERROR_REASON_CANCELLED;
    case absl::StatusCode::kDeadlineExceeded:
      return v1::ERROR_REASON_DEADLINE;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:
      return v1::ERROR_REASON_FIELD_INVALID;
    case absl::StatusCode::kResourceExhausted:
      return v1::ERROR_REASON_QUOTA;
    case absl::StatusCode::kPermissionDenied:
      return v1::ERROR_REASON_NOT_PERMITTED;
    case absl::StatusCode::kUnauthenticated:
      return v1::ERROR_REASON_SESSION_UNKNOWN;
    case absl::StatusCode::kUnimplemented:
      return v1::ERROR_REASON_NOT_BUILT;
    // Says nothing about why: a closed session, a lost device, a missing id.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kAborted:
      return v1::ERROR_REASON_UNSPECIFIED;
    default:
      return v1::ERROR_REASON_INTERNAL;
  }
}

constexpr char kNotInThisBuild[] = "not part of this build";

void AddOperation(absl::string_view name, bool available,
                  v1::CapabilitiesReply* reply) {
  v1::OperationCapability* operation = reply->add_operations();
  operation->set_operation(std::string(name));
  operation->set_available(available);
  if (!available) operation->set_reason(kNotInThisBuild);
}

void AddOperations(v1::CapabilitiesReply* reply) {
  for (const Operation operation :
       {Operation::kConvert, Operation::kDecode, Operation::kPeek,
        Operation::kEncode, Operation::kExplain, Operation::kCapabilities,
        Operation::kPlanTiles, Operation::kTile, Operation::kTileOne,
        Operation::kLiftBoxes, Operation::kMergeDetections,
        Operation::kMaterializeMasks, Operation::kDrawMasks,
        Operation::kSetPalette}) {
    AddOperation(OperationName(operation), true, reply);
  }
  for (const Operation operation : {Operation::kPrepare, Operation::kRun}) {
    AddOperation(OperationName(operation), false, reply);
  }
  AddOperation("stream", false, reply);
}

void AddCodecs(v1::CapabilitiesReply* reply) {
  v1::CodecCapability* jpeg = reply->add_codecs();
  jpeg->set_file_format("jpeg");
  jpeg->set_decode(true);
  jpeg->set_encode(true);
  for (const char* feature : {"baseline", "extended", "progressive",
                              "arithmetic", "scaled", "exif"}) {
    jpeg->add_features(feature);
  }
  v1::CodecCapability* png = reply->add_codecs();
  png->set_file_format("png");
  png->set_decode(true);
  png->set_encode(true);
  for (const char* feature : {"interlaced", "16-bit", "palette", "exif"}) {
    png->add_features(feature);
  }
}

absl::Status PeekFile(const BufferOwner& owner, const v1::PeekRequest& request,
                      v1::PeekReply* reply) {
  SourcePicture picture;
  RETURN_IF_ERROR(FindSource(owner, request.source(), picture));
  if (!picture.encoded) {
    return InvalidField("source",
                        "source is raw pixels, peek reads an encoded file; "
                        "set source.encoded when its buffer has a layout");
  }
  absl::StatusOr<ImageInfo> info = PeekSource(picture);
  if (!info.ok()) return UnderField(std::move(info).status(), "source");
  FillImageInfo(*info, reply->mutable_info());
  return absl::OkStatus();
}

}  // namespace

Service::Service(const ServiceOptions& options, Engine& engine,
                 SessionTable& sessions, Scheduler& scheduler, Metrics& metrics)
    : options_(options),
      engine_(engine),
      sessions_(sessions),
      scheduler_(scheduler),
      metrics_(metrics),
      started_ns_(MonotonicNs()),
      pool_(std::make_unique<WorkPool>()) {}

Service::~Service() = default;

absl::Status Service::Count(Operation operation, absl::Status status) {
  metrics_.CountRequest(operation, status.ok());
  return status;
}

absl::Status Service::Peek(const CallContext& call,
                           const v1::PeekRequest& request,
                           v1::PeekReply* reply) {
  absl::Status status;
  try {
    status = PeekFile({*call.session, call.anonymous}, request, reply);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("not enough memory for this request");
  }
  return Count(Operation::kPeek, std::move(status));
}

absl::Status Service::Capabilities(const CallContext&,
                                   const v1::CapabilitiesRequest&,
                                   v1::CapabilitiesReply* reply) {
  reply->set_version(options_.version);
  AddOperations(reply);
  int rank = 0;
  for (const preprocd::Capabilities* backend : engine_.backends()) {
    FillBackend(*backend, backend->rank < 0 ? 0 : ++rank,
                reply->add_backends());
  }
  AddCodecs(reply);
  for (const AllocatorStatus& allocator : ProbeAllocators()) {
    const int kind = static_cast<int>(allocator.kind);
    if (allocator.available && v1::AllocatorKind_IsValid(kind)) {
      reply->add_allocators(static_cast<v1::AllocatorKind>(kind));
    }
  }
  FillLimits(reply->mutable_limits());
  return Count(Operation::kCapabilities, absl::OkStatus());
}

absl::Status Service::NotBuiltYet(const CallContext&, Operation operation) {
  return Count(operation, NotBuilt(OperationName(operation)));
}

void Service::FillLimits(v1::Limits* limits) const {
  const SessionLimits session = sessions_.limits();
  limits->set_max_image_axis(kMaxImageAxis);
  limits->set_max_decoded_pixels(kMaxDecodedPixels);
  limits->set_max_encoded_bytes(kMaxEncodedBytes);
  limits->set_max_inline_bytes(options_.max_inline_bytes);
  limits->set_max_sessions(session.max_sessions);
  limits->set_max_buffers_per_session(session.max_buffers_per_session);
  limits->set_max_bytes_per_session(session.max_bytes_per_session);
  limits->set_max_in_flight_per_session(session.max_in_flight_per_session);
  limits->set_max_frame_bytes(kMaxFrameBytes);
  limits->set_max_fds_per_frame(kMaxFdsPerFrame);
  limits->set_max_batch(kMaxBatch);
  limits->set_max_rectangles(kMaxRectangles);
  limits->set_max_tiles(kMaxTiles);
  limits->set_max_tiles_per_call(kMaxTilesPerCall);
  limits->set_max_detections(static_cast<int>(kMaxDetections));
}

void FillErrorDetail(const absl::Status& status, v1::ErrorDetail* detail) {
  detail->Clear();
  const std::optional<ErrorDetail> known = GetErrorDetail(status);
  if (!known) {
    detail->set_reason(ReasonOf(status.code()));
    return;
  }
  const int reason = static_cast<int>(known->reason);
  detail->set_reason(v1::ErrorReason_IsValid(reason)
                         ? static_cast<v1::ErrorReason>(reason)
                         : v1::ERROR_REASON_INTERNAL);
  detail->set_field(known->field);
  detail->set_got(known->got);
  detail->set_limit(known->limit);
  detail->set_backend(known->backend);
  detail->set_retry_after_ms(known->retry_after_ms);
}

}  // namespace preprocd
