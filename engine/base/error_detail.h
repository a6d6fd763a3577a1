// The machine-readable part of an error: which field, which value, which
// bound. It travels inside absl::Status as a payload, so that every layer
// returns plain absl::Status and the daemon turns it into
// preproc.v1.ErrorDetail without parsing text.
// Thread-safety: safe (values only).
#ifndef ENGINE_BASE_ERROR_DETAIL_H_
#define ENGINE_BASE_ERROR_DETAIL_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace preprocd {

// Numbers equal preproc.v1.ErrorReason (a static_assert in the daemon keeps
// them so). Append only.
enum class ErrorReason : int {
  kUnspecified = 0,
  kFieldInvalid = 1,       // a field is out of its documented range
  kGeometryInvalid = 2,    // a rectangle or size makes no sense
  kFormatPair = 3,         // this source cannot become this destination
  kImageFormat = 4,        // bytes are not an image format we know
  kImageTruncated = 5,     // the encoded image ends early
  kImageCorrupt = 6,       // the encoded image is damaged
  kImageUnsupported = 7,   // valid, but a flavour that is not decoded
  kTooLarge = 8,           // above a fixed limit (engine/base/limits.h)
  kQuota = 9,              // above this session's share right now
  kQueueFull = 10,         // the executor's queue is full right now
  kBufferUnknown = 11,     // no such buffer id in this session
  kBufferGeneration = 12,  // the id exists, with another generation
  kBufferTooSmall = 13,    // a plane ends outside the buffer
  kBufferKind = 14,        // the fd is neither a memfd nor a dma-buf
  kBufferSealed = 15,      // seals forbid the access that was asked for
  kBufferSparse = 16,      // the file's holes could cost more than its share
  kBufferOverlap = 17,     // source and destination overlap
  kBufferReadOnly = 18,    // registered or shared read-only
  kFdsLost = 19,           // control data truncated: limit or policy
  kFdCount = 20,           // fds received differ from fds declared
  kFrameInvalid = 21,      // a direct frame does not parse or is too large
  kSessionUnknown = 22,    // no such session token
  kSessionPeer = 23,       // token used by another peer
  kVersionMismatch = 24,   // no common protocol version
  kNotBuilt = 25,          // documented, but not in this build yet
  kNoBackend = 26,         // every backend declined; see the declines
  kBackendUnknown = 27,    // no backend of that name
  kBackendFailed = 28,     // a backend failed while running
  kDeadline = 29,          // expired before or during the work
  kCancelled = 30,         // cancelled by the client or its disconnect
  kDraining = 31,          // the daemon is stopping
  kNotPermitted = 32,      // peer or listener may not call this
  kInternal = 33,          // our invariant broke
  kDmaBuf = 34,            // a dma-buf operation failed in the kernel
};

// UPPER_SNAKE name as in the proto without its prefix, e.g. "IMAGE_TRUNCATED".
absl::string_view ErrorReasonName(ErrorReason reason);

struct ErrorDetail {
  ErrorReason reason = ErrorReason::kUnspecified;
  // Path of the request field, e.g. "source.planes[1].stride_bytes".
  std::string field;
  // The value received and the bound it broke, as text; empty when not one.
  std::string got;
  std::string limit;
  // Backend that raised it; empty when none did.
  std::string backend;
  // How long to wait before a retry makes sense, milliseconds; 0 = no hint.
  int64_t retry_after_ms = 0;
};

// A status with the detail attached. `message` says what value, what bound.
absl::Status MakeError(absl::StatusCode code, ErrorDetail detail,
                       absl::string_view message);

// Shorthands for the common shapes.
absl::Status InvalidField(absl::string_view field, absl::string_view message);
absl::Status InvalidField(ErrorReason reason, absl::string_view field,
                          absl::string_view message);
absl::Status NotBuilt(absl::string_view what);

// The detail attached to `status`, if any.
std::optional<ErrorDetail> GetErrorDetail(const absl::Status& status);

// Returns `status` with `prefix` put before the field path of its detail
// ("source." + "width"); statuses without a detail are returned unchanged.
absl::Status PrefixField(absl::Status status, absl::string_view prefix);

}  // namespace preprocd

#endif  // ENGINE_BASE_ERROR_DETAIL_H_
