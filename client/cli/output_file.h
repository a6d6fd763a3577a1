// Results as files: .npy .raw .ppm .pgm written here, .png and .jpg through
// the daemon's encoder. A file appears whole or not at all.
// Thread-safety: safe (no state).
#ifndef CLIENT_CLI_OUTPUT_FILE_H_
#define CLIENT_CLI_OUTPUT_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "preprocd/client.h"

namespace preprocd::cli {

enum class OutputKind : uint8_t { kNpy, kRaw, kPpm, kPgm, kPng, kJpeg };

// By extension, in either case.
// Errors: reason USAGE for any other extension
absl::StatusOr<OutputKind> OutputKindOf(const std::string& path);

// Whether a result of this type and layout can be such a file at all, before
// anything is computed. Unspecified values stand for rgb and u8.
// Errors: reason USAGE
absl::Status CheckOutput(OutputKind kind, v1::DataType dtype,
                         const v1::Destination& destination);

// Reads a file of at most kMaxBytesPerSession (engine/base/limits.h).
// Errors: reason FILE with kNotFound, kPermissionDenied or kInvalidArgument
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes `path` by way of a temporary file beside it.
// Errors: reason FILE with kInternal
absl::Status WriteFile(const std::string& path, const std::string& header,
                       std::span<const std::byte> bytes);

// A finished result.
struct ResultPicture {
  v1::ImageLayout layout;  // complete, as in the reply
  v1::TensorLayout tensor_layout = v1::TENSOR_LAYOUT_UNSPECIFIED;
  std::span<const std::byte> bytes;  // the memory that `layout` describes
  v1::Source source;                 // the same, for the encoder
};

// Writes `picture`; `quality` is that of a JPEG, 0 = 90.
// Errors: as Session::Encode, reason FILE, or reason USAGE when the picture
// does not fit the kind of file
absl::Status WriteResult(Session& session, const std::string& path,
                         OutputKind kind, const ResultPicture& picture,
                         int quality);

// Room that an encoded file of this picture can need, bytes.
uint64_t EncodedBound(const v1::ImageLayout& layout);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_OUTPUT_FILE_H_
