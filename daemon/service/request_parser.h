// Request messages -> the engine's values. Everything a client can write in a
// message is checked here or in the planner; nothing is clamped or guessed.
// Thread-safety: safe (no state). Pure: no buffer, session or clock is used.
// Limits: kMaxImageAxis, kMaxPlanes, kMaxBackendNames.
// Errors: kInvalidArgument with the field's path, e.g.
// "spec.normalization.multiplier[1]"; the message begins with the same path
// and says value and bound.
#ifndef DAEMON_SERVICE_REQUEST_PARSER_H_
#define DAEMON_SERVICE_REQUEST_PARSER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "daemon/scheduler/scheduler.h"
#include "engine/base/error_detail.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/image_encoder.h"
#include "engine/convert/convert_spec.h"
#include "engine/image/image_desc.h"
#include "engine/memory/allocator.h"
#include "engine/memory/buffer.h"
#include "preproc/v1/buffers.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// Names in CallOptions.backends; more is TOO_LARGE.
inline constexpr int kMaxBackendNames = 16;

// kInvalidArgument for one value of one field: "FIELD GOT BOUND".
absl::Status BadValue(ErrorReason reason, absl::string_view field,
                      absl::string_view got, absl::string_view bound);

// `status` with its detail's field put under `prefix` ("source.buffer"); a
// detail without a field gets `prefix` itself. Unchanged without a detail or
// when the field is there already.
absl::Status UnderField(absl::Status status, absl::string_view prefix);

// A complete layout: format and size required, planes as ApplyPlanes.
// Errors: FIELD_INVALID, GEOMETRY_INVALID (size < 1), TOO_LARGE (axis),
// kUnimplemented NOT_BUILT (modifier other than 0).
absl::StatusOr<ImageDesc> ParseImageLayout(
    const preproc::v1::ImageLayout& layout, absl::string_view field,
    uint64_t stride_alignment = 1);

// Puts the planes of `layout` into `desc`, whose format, dtype and size are
// known: none = `desc` keeps its own; otherwise exactly the format's number.
// Stride 0 = row bytes rounded up to `stride_alignment`. Offsets and strides
// are not compared with any buffer here (ValidateImageDesc does).
absl::Status ApplyPlanes(const preproc::v1::ImageLayout& layout,
                         absl::string_view field, uint64_t stride_alignment,
                         ImageDesc& desc);

// What the result shall be; `destination.layout` may leave out everything.
// Format unspecified stays kUnspecified. Planes are not looked at.
absl::StatusOr<OutputSpec> ParseOutputSpec(
    const preproc::v1::Destination& destination);

// `orientation` is the spec's own, or normal: "orientation_from_file" is
// resolved by WantsFileOrientation once the file's headers are known.
absl::StatusOr<ConvertSpec> ParseConvertSpec(
    const preproc::v1::ConvertSpec& spec,
    const preproc::v1::CallOptions& options);

// True when the file's own orientation is to be applied.
inline bool WantsFileOrientation(const preproc::v1::ConvertSpec& spec) {
  return spec.orientation_from_file() && spec.orientation() == 0;
}

// Per-channel lists must have 1 entry or one per channel of `destination`.
absl::Status CheckChannelCounts(const preproc::v1::ConvertSpec& spec,
                                PixelFormat destination);

struct CallBounds {
  Priority priority = Priority::kNormal;
  int64_t deadline_ns = 0;  // monotonic; 0 = none
};
// The earlier of the transport's deadline and the options' (counted from
// `arrival_ns`).
absl::StatusOr<CallBounds> ParseCallOptions(
    const preproc::v1::CallOptions& options, int64_t arrival_ns,
    int64_t transport_deadline_ns);

// What a client says a file's headers would say (Explain).
absl::StatusOr<ImageInfo> ParseImageInfo(const preproc::v1::ImageInfo& info,
                                         absl::string_view field);

absl::StatusOr<Access> ParseAccess(preproc::v1::BufferAccess access,
                                   absl::string_view field);
absl::StatusOr<AllocatorKind> ParseAllocatorKind(
    preproc::v1::AllocatorKind kind, absl::string_view field);
absl::StatusOr<ChromaUpsampling> ParseChroma(
    preproc::v1::ChromaUpsampling chroma, absl::string_view field);

struct EncodeOptions {
  FileFormat format = FileFormat::kJpeg;
  JpegEncodeOptions jpeg;
  PngEncodeOptions png;
};
absl::StatusOr<EncodeOptions> ParseEncodeOptions(
    const preproc::v1::EncodeRequest& request);

// Whether the encoder of `file` takes pictures of this kind, said before any
// pixel is touched. Errors: FORMAT_PAIR with `field`.
absl::Status CheckEncodable(FileFormat file, PixelFormat format, DType dtype,
                            absl::string_view field);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_REQUEST_PARSER_H_
