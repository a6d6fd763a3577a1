#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/picture_resolver.h"
#include "daemon/service/reply_builder.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

struct ExplainedPicture {
  ExplainedSource source;
  ImageDesc raw;  // when not encoded
};

// The source by what is known of it, best first: the headers that the client
// states, the layout it states, the bytes themselves.
absl::StatusOr<ExplainedPicture> FindExplained(
    const BufferOwner& owner, const v1::ExplainRequest& request) {
  ExplainedPicture out;
  const v1::Source& source = request.convert().source();
  if (request.has_source_info()) {
    out.source.encoded = true;
    ASSIGN_OR_RETURN(out.source.info,
                     ParseImageInfo(request.source_info(), "source_info"));
    return out;
  }
  const bool has_bytes =
      source.has_inline_bytes() && !source.inline_bytes().empty();
  if (source.has_layout() && !has_bytes) {
    if (source.encoded()) {
      return BadValue(ErrorReason::kFieldInvalid, "source.encoded", "true",
                      "contradicts source.layout");
    }
    ASSIGN_OR_RETURN(out.raw,
                     ParseImageLayout(source.layout(), "source.layout"));
    return out;
  }
  SourcePicture picture;
  RETURN_IF_ERROR(FindSource(owner, source, picture));
  out.source.encoded = picture.encoded;
  out.raw = picture.desc;
  if (!picture.encoded) return out;
  absl::StatusOr<ImageInfo> info = PeekSource(picture);
  if (!info.ok()) return UnderField(std::move(info).status(), "source");
  out.source.info = *std::move(info);
  return out;
}

// A destination buffer need not exist when the layout is given.
absl::Status FindExplainedDestination(const BufferOwner& owner,
                                      const v1::Destination& destination,
                                      DestinationPicture& picture) {
  if (destination.has_buffer() && destination.has_layout()) {
    picture.given = false;
    return absl::OkStatus();
  }
  return FindDestination(owner, destination, /*optional=*/true, picture);
}

bool IsNoBackend(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail && detail->reason == ErrorReason::kNoBackend;
}

}  // namespace

absl::Status Service::ExplainConvert(const CallContext& call,
                                     const v1::ExplainRequest& request,
                                     v1::ExplainReply* reply) {
  const BufferOwner owner{*call.session, call.anonymous};
  const v1::ConvertRequest& convert = request.convert();
  ASSIGN_OR_RETURN(ConvertSpec spec,
                   ParseConvertSpec(convert.spec(), convert.options()));
  RETURN_IF_ERROR(
      ParseCallOptions(convert.options(), call.arrival_ns, call.deadline_ns)
          .status());
  ASSIGN_OR_RETURN(const ExplainedPicture picture,
                   FindExplained(owner, request));
  DestinationPicture destination;
  RETURN_IF_ERROR(
      FindExplainedDestination(owner, convert.destination(), destination));
  ASSIGN_OR_RETURN(const OutputSpec output,
                   DestinationOutput(convert.destination(), destination));
  ImageDesc source = picture.raw;
  if (picture.source.encoded) {
    if (WantsFileOrientation(convert.spec())) {
      spec.orientation = picture.source.info.orientation;
    }
    ASSIGN_OR_RETURN(
        source, Engine::DecodedDesc(picture.source.info,
                                    output.format == PixelFormat::kUnspecified
                                        ? PixelFormat::kRgb
                                        : output.format));
  } else if (WantsFileOrientation(convert.spec())) {
    return InvalidField("spec.orientation_from_file",
                        "spec.orientation_from_file true needs an encoded "
                        "source; raw pixels state no orientation");
  }
  ASSIGN_OR_RETURN(ImageDesc resolved,
                   ResolveDestination(source, output, spec));
  if (destination.given) {
    RETURN_IF_ERROR(CompleteDestination(convert.destination(), resolved,
                                        options_.max_inline_bytes,
                                        destination));
    resolved = destination.desc;
  } else {
    RETURN_IF_ERROR(ApplyPlanes(convert.destination().layout(),
                                "destination.layout", 1, resolved));
  }
  RETURN_IF_ERROR(CheckChannelCounts(convert.spec(), resolved.format));
  const bool jpeg = picture.source.encoded &&
                    picture.source.info.file_format == FileFormat::kJpeg;
  ASSIGN_OR_RETURN(ConvertPlan plan,
                   preprocd::PlanConvert(source, resolved, spec, jpeg));
  // A plan that every backend declines is an answer here, not an error.
  const absl::Status selected = SelectBackend(engine_.backends(), spec, plan);
  if (!selected.ok() && !IsNoBackend(selected)) return selected;
  FillExplain(plan, picture.source, reply);
  return absl::OkStatus();
}

absl::Status Service::Explain(const CallContext& call,
                              const v1::ExplainRequest& request,
                              v1::ExplainReply* reply) {
  absl::Status status;
  try {
    status = ExplainConvert(call, request, reply);
  } catch (const std::bad_alloc&) {
    status = absl::ResourceExhaustedError("not enough memory for this request");
  }
  return Count(Operation::kExplain, std::move(status));
}

}  // namespace preprocd
