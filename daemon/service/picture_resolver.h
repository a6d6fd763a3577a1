// Source and Destination messages -> memory the engine may use: registered
// buffers of the caller's session, or bytes inside the message.
// Owns: a reference to each registered buffer, private copies and mappings;
// inline bytes stay in the request, which must outlive the picture.
// Thread-safety: compatible (one request's pictures, one thread at a time).
// Life cycle: Find (calling thread: names, rights, sizes; nothing is read)
//   -> Open (mapped or copied) -> work -> Reset.
// Limits: kMaxEncodedBytes, kMaxInlinePictureBytes, ServiceOptions.
#ifndef DAEMON_SERVICE_PICTURE_RESOLVER_H_
#define DAEMON_SERVICE_PICTURE_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/sessions/session.h"
#include "engine/engine.h"
#include "engine/image/batch_layout.h"
#include "engine/memory/buffer.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// Pixels that may be rendered for an inline PNG or JPEG; more is TOO_LARGE.
inline constexpr uint64_t kMaxInlinePictureBytes = 64ull << 20;
// Encoded bytes that may be copied on the thread that reads requests; larger
// ones are copied by the job (about 25 us at 10 GB/s).
inline constexpr uint64_t kMaxCopyAtAdmission = 256u << 10;

// Who names buffers.
struct BufferOwner {
  const Session& session;
  // A call without a session token: every buffer is refused.
  bool anonymous = false;
};

// The buffer that `ref` names, which the caller may read. `field` is the
// reference's path. Errors: kUnauthenticated SESSION_UNKNOWN, kNotFound
// BUFFER_UNKNOWN, kFailedPrecondition BUFFER_GENERATION, NOT_PERMITTED.
absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> FindReadable(
    const BufferOwner& owner, const preproc::v1::BufferRef& ref,
    absl::string_view field);

// The plain bytes that `ref` names inside memory[0] of `registered`.
// Errors: kInvalidArgument BUFFER_TOO_SMALL
absl::Status FindRange(const preproc::v1::BufferRef& ref,
                       const RegisteredBuffer& registered,
                       absl::string_view field, uint64_t* offset,
                       uint64_t* size);

// Says in `report` when memory of `registered` has to be copied.
void WarnAboutCopies(const RegisteredBuffer& registered, WorkReport& report);

struct SourcePicture {
  bool encoded = false;
  ImageDesc desc;  // raw pixels only; validated against the memory
  // Null when the bytes are inline.
  std::shared_ptr<const RegisteredBuffer> registered;
  const std::string* inline_bytes = nullptr;
  // Encoded bytes: their place in registered->memory[0].
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;

  // After Open: encoded bytes nobody can change, or the raw picture.
  EncodedBytes bytes;
  PictureBuffers buffers;

  // Keep last, in this order: what `bytes` and `buffers` point into.
  std::shared_ptr<Buffer> heap;
  std::vector<std::byte> copy;
  Mapping mapping;

  void Reset();
};

// Errors: kInvalidArgument    FIELD_INVALID, BUFFER_TOO_SMALL, TOO_LARGE, and
//                             those of ParseImageLayout
//         kUnauthenticated    SESSION_UNKNOWN  a buffer without a token
//         kNotFound           BUFFER_UNKNOWN
//         kFailedPrecondition BUFFER_GENERATION; NOT_PERMITTED (write-only)
absl::Status FindSource(const BufferOwner& owner,
                        const preproc::v1::Source& source,
                        SourcePicture& picture);

// True when opening the source costs no more than admission may spend.
bool CheapToOpen(const SourcePicture& picture);

// Makes `bytes` of an encoded source. In place when nobody can change the
// memory, else from a private copy, counted and warned about in `report`.
absl::Status OpenEncoded(SourcePicture& picture, WorkReport& report);
// Makes `buffers` of a raw source. Inline pixels are copied to the heap.
absl::Status OpenRaw(SourcePicture& picture, WorkReport& report);

// The headers of an encoded source, reading as little as they need.
absl::StatusOr<ImageInfo> PeekSource(const SourcePicture& picture);

struct DestinationPicture {
  bool given = false;  // the message says where
  std::shared_ptr<const RegisteredBuffer> registered;
  preproc::v1::InlineEncoding inline_encoding =
      preproc::v1::INLINE_ENCODING_RAW;
  ImageDesc desc;  // after Complete; of a batch the first picture
  // Inline results: bytes to render; 0 = those of desc.
  uint64_t size_bytes = 0;

  // After Open.
  PictureBuffers buffers;
  std::shared_ptr<Buffer> heap;  // inline results

  bool is_inline() const { return registered == nullptr; }
  void Reset();
};

// Errors: as FindSource, kFailedPrecondition BUFFER_READ_ONLY. A message that
// says no place is refused unless `optional` (Explain).
absl::Status FindDestination(const BufferOwner& owner,
                             const preproc::v1::Destination& destination,
                             bool optional, DestinationPicture& picture);

// The output that is asked for: the request's layout or, without one, the
// registered layout.
absl::StatusOr<OutputSpec> DestinationOutput(
    const preproc::v1::Destination& destination,
    const DestinationPicture& picture);

// Fills picture.desc from a resolved tight description: the request's or the
// registered planes, proved to fit the memory or the inline bound.
absl::Status CompleteDestination(const preproc::v1::Destination& destination,
                                 const ImageDesc& resolved,
                                 int64_t max_inline_bytes,
                                 DestinationPicture& picture);

// The same for `count` pictures like `resolved`, one after the other as
// engine/image/batch_layout.h says; `stride_bytes` 0 = without a gap. An
// inline PNG or JPEG is one tall picture. A registered layout, when the
// message has none, is taken for that of the whole batch.
absl::StatusOr<BatchLayout> CompleteBatch(
    const preproc::v1::Destination& destination, const ImageDesc& resolved,
    int count, uint64_t stride_bytes, int64_t max_inline_bytes,
    DestinationPicture& picture);

// Makes `buffers`; warns about registered memory that has to be copied.
absl::Status OpenDestination(DestinationPicture& picture, WorkReport& report);

// After the work: the inline result, as the request wants it encoded.
// `scratch` is reused memory for the encoders.
absl::Status TakeInline(Engine& engine, const DestinationPicture& picture,
                        int64_t max_inline_bytes,
                        std::vector<std::byte>& scratch, std::string* out,
                        WorkReport& report);

// Room for an encoded file in a registered destination.
struct FileSpan {
  uint64_t offset_bytes = 0;
  uint64_t capacity_bytes = 0;
};
absl::StatusOr<FileSpan> FindFileSpan(
    const preproc::v1::Destination& destination,
    const DestinationPicture& picture);
// Errors: kInvalidArgument BUFFER_TOO_SMALL; those of Buffer::Map.
absl::Status WriteFile(EncodedBytes file, const FileSpan& span,
                       DestinationPicture& picture, WorkReport& report);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_PICTURE_RESOLVER_H_
