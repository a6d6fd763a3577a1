#include "daemon/service/picture_resolver.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/request_parser.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

constexpr char kUnsealedEncoded[] =
    "encoded bytes were copied: the memory lacks the write seal";
// Most files say all about themselves in this many bytes.
constexpr uint64_t kFirstPeekBytes = 64u << 10;

using BufferSizes = std::array<uint64_t, kMaxPlanes>;

std::span<const uint64_t> SizesOf(const RegisteredBuffer& buffer,
                                  BufferSizes& sizes) {
  const size_t count = std::min(buffer.memory.size(), sizes.size());
  for (size_t i = 0; i < count; ++i) sizes[i] = buffer.memory[i]->size_bytes();
  return std::span<const uint64_t>(sizes.data(), count);
}

bool Allows(Access access, Access wanted) {
  return (static_cast<int>(access) & static_cast<int>(wanted)) != 0;
}

void PointAt(const RegisteredBuffer& registered, PictureBuffers& buffers) {
  buffers.count = 0;
  for (const std::shared_ptr<Buffer>& memory : registered.memory) {
    buffers.buffers[static_cast<size_t>(buffers.count++)] = memory.get();
  }
}

void PointAt(Buffer& buffer, PictureBuffers& buffers) {
  buffers.buffers[0] = &buffer;
  buffers.count = 1;
}

absl::Status NeedsSession(absl::string_view field) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kSessionUnknown;
  detail.field = std::string(field);
  return MakeError(
      absl::StatusCode::kUnauthenticated, std::move(detail),
      absl::StrCat(field,
                   " names a buffer, but the call carries no session token "
                   "(metadata preproc-session-bin)"));
}

absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> FindBuffer(
    const BufferOwner& owner, const v1::BufferRef& ref,
    absl::string_view field) {
  if (owner.anonymous) return NeedsSession(field);
  auto found = owner.session.Find(ref.buffer_id(), ref.generation());
  if (!found.ok()) return UnderField(std::move(found).status(), field);
  return found;
}

absl::Status RefuseRange(const v1::BufferRef& ref, absl::string_view field) {
  if (ref.offset_bytes() == 0 && ref.size_bytes() == 0) {
    return absl::OkStatus();
  }
  const bool offset = ref.offset_bytes() != 0;
  return BadValue(
      ErrorReason::kFieldInvalid,
      absl::StrCat(field, offset ? ".offset_bytes" : ".size_bytes"),
      absl::StrCat(offset ? ref.offset_bytes() : ref.size_bytes()),
      "is for encoded bytes; the planes of a layout say where pixels are");
}

absl::Status FindEncodedSize(uint64_t size, absl::string_view field) {
  if (size <= static_cast<uint64_t>(kMaxEncodedBytes)) return absl::OkStatus();
  return BadValue(ErrorReason::kTooLarge, field, absl::StrCat(size),
                  absl::StrCat("bytes > ", kMaxEncodedBytes));
}

absl::Status FindSourceBuffer(const BufferOwner& owner,
                              const v1::Source& source,
                              SourcePicture& picture) {
  const v1::BufferRef& ref = source.buffer();
  ASSIGN_OR_RETURN(picture.registered,
                   FindReadable(owner, ref, "source.buffer"));
  const RegisteredBuffer& registered = *picture.registered;
  picture.encoded =
      source.encoded() || (!source.has_layout() && !registered.desc);
  if (picture.encoded) {
    RETURN_IF_ERROR(FindRange(ref, registered, "source.buffer",
                              &picture.offset_bytes, &picture.size_bytes));
    return FindEncodedSize(picture.size_bytes, "source.buffer.size_bytes");
  }
  RETURN_IF_ERROR(RefuseRange(ref, "source.buffer"));
  if (source.has_layout()) {
    ASSIGN_OR_RETURN(picture.desc,
                     ParseImageLayout(source.layout(), "source.layout"));
  } else {
    picture.desc = *registered.desc;
  }
  BufferSizes sizes;
  return UnderField(ValidateImageDesc(picture.desc, SizesOf(registered, sizes)),
                    "source.layout");
}

absl::Status FindInlineSource(const v1::Source& source,
                              SourcePicture& picture) {
  picture.inline_bytes = &source.inline_bytes();
  picture.encoded = !source.has_layout();
  const uint64_t size = picture.inline_bytes->size();
  if (picture.encoded) {
    picture.size_bytes = size;
    return FindEncodedSize(size, "source.inline_bytes");
  }
  ASSIGN_OR_RETURN(picture.desc,
                   ParseImageLayout(source.layout(), "source.layout"));
  return UnderField(ValidateImageDesc(picture.desc, {&size, 1}),
                    "source.layout");
}

absl::StatusOr<std::span<const std::byte>> RangeOf(const Mapping& mapping,
                                                   uint64_t offset,
                                                   uint64_t size) {
  const std::span<const std::byte> all = mapping.bytes();
  if (offset > all.size() || size > all.size() - offset) {
    return BadValue(ErrorReason::kBufferTooSmall, "source.buffer.size_bytes",
                    absl::StrCat(size),
                    absl::StrCat("> what is left of ", all.size(), " bytes"));
  }
  return all.subspan(offset, size);
}

// The first `count` bytes of a source that its owner can still change.
absl::Status CopyPrefix(const SourcePicture& picture, uint64_t count,
                        std::vector<std::byte>& out) {
  Buffer& buffer = *picture.registered->memory[0];
  out.resize(count);
  if (!buffer.copies()) {
    ASSIGN_OR_RETURN(Mapping mapping, buffer.Map(Access::kRead));
    ASSIGN_OR_RETURN(const auto bytes,
                     RangeOf(mapping, picture.offset_bytes, count));
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return absl::OkStatus();
  }
  // Mapping an unsealed memfd reads all of it; headers need the beginning.
  size_t done = 0;
  while (done < out.size()) {
    const ssize_t got = pread(buffer.fd(), out.data() + done, out.size() - done,
                              static_cast<off_t>(picture.offset_bytes + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return BadValue(ErrorReason::kBufferTooSmall, "source.buffer",
                      absl::StrCat(done), "bytes could be read; it shrank");
    }
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

uint64_t ResultBytes(const DestinationPicture& picture) {
  return picture.size_bytes != 0 ? picture.size_bytes
                                 : RequiredBytes(picture.desc);
}

EncodedBytes InlineSpan(const std::string& bytes) {
  return std::as_bytes(std::span<const char>(bytes.data(), bytes.size()));
}

}  // namespace

void WarnAboutCopies(const RegisteredBuffer& registered, WorkReport& report) {
  for (const std::shared_ptr<Buffer>& memory : registered.memory) {
    if (!memory->copies()) continue;
    report.warnings.push_back(absl::StrCat(
        "buffer ", registered.buffer_id,
        " lacks the shrink and grow seals or has huge pages: copied"));
    return;
  }
}

absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> FindReadable(
    const BufferOwner& owner, const v1::BufferRef& ref,
    absl::string_view field) {
  ASSIGN_OR_RETURN(auto found, FindBuffer(owner, ref, field));
  if (Allows(found->access, Access::kRead)) return found;
  ErrorDetail detail;
  detail.reason = ErrorReason::kNotPermitted;
  detail.field = absl::StrCat(field, ".buffer_id");
  const std::string message = absl::StrCat(detail.field, " ", ref.buffer_id(),
                                           " was registered for writing only");
  return MakeError(absl::StatusCode::kFailedPrecondition, std::move(detail),
                   message);
}

absl::Status FindRange(const v1::BufferRef& ref,
                       const RegisteredBuffer& registered,
                       absl::string_view field, uint64_t* offset,
                       uint64_t* size) {
  const uint64_t total = registered.memory[0]->size_bytes();
  if (ref.offset_bytes() > total) {
    return BadValue(ErrorReason::kBufferTooSmall,
                    absl::StrCat(field, ".offset_bytes"),
                    absl::StrCat(ref.offset_bytes()),
                    absl::StrCat("> ", total, ", the buffer's size"));
  }
  const uint64_t rest = total - ref.offset_bytes();
  if (ref.size_bytes() > rest) {
    return BadValue(
        ErrorReason::kBufferTooSmall, absl::StrCat(field, ".size_bytes"),
        absl::StrCat(ref.size_bytes()),
        absl::StrCat("> ", rest, ", what the buffer holds from offset ",
                     ref.offset_bytes()));
  }
  *offset = ref.offset_bytes();
  *size = ref.size_bytes() == 0 ? rest : ref.size_bytes();
  return absl::OkStatus();
}

void SourcePicture::Reset() {
  mapping = Mapping();
  copy.clear();
  heap.reset();
  buffers = PictureBuffers();
  bytes = {};
  registered.reset();
  inline_bytes = nullptr;
  encoded = false;
  desc = ImageDesc();
  offset_bytes = 0;
  size_bytes = 0;
}

absl::Status FindSource(const BufferOwner& owner, const v1::Source& source,
                        SourcePicture& picture) {
  if (source.encoded() && source.has_layout()) {
    return BadValue(ErrorReason::kFieldInvalid, "source.encoded", "true",
                    "contradicts source.layout");
  }
  switch (source.location_case()) {
    case v1::Source::kBuffer:
      return FindSourceBuffer(owner, source, picture);
    case v1::Source::kInlineBytes:
      return FindInlineSource(source, picture);
    case v1::Source::LOCATION_NOT_SET:
      break;
  }
  return InvalidField("source", "source names neither a buffer nor bytes");
}

bool CheapToOpen(const SourcePicture& picture) {
  if (!picture.encoded || picture.registered == nullptr) return true;
  const Buffer& buffer = *picture.registered->memory[0];
  if (buffer.immutable()) return true;
  // A dma-buf may make the reader wait for a device.
  if (buffer.kind() == BufferKind::kDmaBuf) return false;
  const uint64_t copied =
      buffer.copies() ? buffer.size_bytes() : picture.size_bytes;
  return copied <= kMaxCopyAtAdmission;
}

absl::Status OpenEncoded(SourcePicture& picture, WorkReport& report) {
  if (picture.inline_bytes != nullptr) {
    picture.bytes = InlineSpan(*picture.inline_bytes);
    report.bytes_copied += picture.bytes.size();
    return absl::OkStatus();
  }
  Buffer& buffer = *picture.registered->memory[0];
  absl::StatusOr<Mapping> mapping = buffer.Map(Access::kRead);
  if (!mapping.ok()) {
    return UnderField(std::move(mapping).status(), "source.buffer");
  }
  ASSIGN_OR_RETURN(const std::span<const std::byte> bytes,
                   RangeOf(*mapping, picture.offset_bytes, picture.size_bytes));
  if (buffer.copies()) {
    WarnAboutCopies(*picture.registered, report);
    report.bytes_copied += mapping->bytes_copied();
  }
  if (buffer.copies() || buffer.immutable()) {
    picture.mapping = *std::move(mapping);
    picture.bytes = bytes;
    return absl::OkStatus();
  }
  picture.copy.assign(bytes.begin(), bytes.end());
  picture.bytes = picture.copy;
  report.bytes_copied += bytes.size();
  report.warnings.push_back(kUnsealedEncoded);
  return absl::OkStatus();
}

absl::Status OpenRaw(SourcePicture& picture, WorkReport& report) {
  if (picture.registered != nullptr) {
    WarnAboutCopies(*picture.registered, report);
    PointAt(*picture.registered, picture.buffers);
    return absl::OkStatus();
  }
  const EncodedBytes bytes = InlineSpan(*picture.inline_bytes);
  ASSIGN_OR_RETURN(picture.heap, AllocateBuffer(AllocatorKind::kHeap,
                                                bytes.size(), "inline source"));
  ASSIGN_OR_RETURN(Mapping mapping, picture.heap->Map(Access::kWrite));
  std::copy(bytes.begin(), bytes.end(), mapping.bytes().begin());
  RETURN_IF_ERROR(mapping.Finish());
  report.bytes_copied += bytes.size();
  PointAt(*picture.heap, picture.buffers);
  return absl::OkStatus();
}

absl::StatusOr<ImageInfo> PeekSource(const SourcePicture& picture) {
  if (picture.inline_bytes != nullptr) {
    return PeekImage(InlineSpan(*picture.inline_bytes));
  }
  Buffer& buffer = *picture.registered->memory[0];
  if (buffer.immutable()) {
    ASSIGN_OR_RETURN(Mapping mapping, buffer.Map(Access::kRead));
    ASSIGN_OR_RETURN(const auto bytes, RangeOf(mapping, picture.offset_bytes,
                                               picture.size_bytes));
    return PeekImage(bytes);
  }
  std::vector<std::byte> prefix;
  for (uint64_t wanted = kFirstPeekBytes;; wanted *= 4) {
    const uint64_t count = std::min(wanted, picture.size_bytes);
    RETURN_IF_ERROR(CopyPrefix(picture, count, prefix));
    absl::StatusOr<ImageInfo> info = PeekImage(prefix);
    if (info.ok() || count == picture.size_bytes) return info;
    const std::optional<ErrorDetail> detail = GetErrorDetail(info.status());
    if (!detail || detail->reason != ErrorReason::kImageTruncated) return info;
  }
}

void DestinationPicture::Reset() {
  buffers = PictureBuffers();
  heap.reset();
  registered.reset();
  given = false;
  size_bytes = 0;
  inline_encoding = v1::INLINE_ENCODING_RAW;
}

absl::Status FindDestination(const BufferOwner& owner,
                             const v1::Destination& destination, bool optional,
                             DestinationPicture& picture) {
  picture.given = true;
  switch (destination.location_case()) {
    case v1::Destination::kBuffer: {
      const v1::BufferRef& ref = destination.buffer();
      ASSIGN_OR_RETURN(picture.registered,
                       FindBuffer(owner, ref, "destination.buffer"));
      if (!Allows(picture.registered->access, Access::kWrite)) {
        ErrorDetail detail;
        detail.reason = ErrorReason::kBufferReadOnly;
        detail.field = "destination.buffer.buffer_id";
        return MakeError(
            absl::StatusCode::kFailedPrecondition, std::move(detail),
            absl::StrCat("destination.buffer.buffer_id ", ref.buffer_id(),
                         " was registered or shared for reading only"));
      }
      return absl::OkStatus();
    }
    case v1::Destination::kInline:
      if (!v1::InlineEncoding_IsValid(destination.inline_())) {
        return BadValue(ErrorReason::kFieldInvalid, "destination.inline",
                        absl::StrCat(static_cast<int>(destination.inline_())),
                        "is not a number of this enumeration");
      }
      if (destination.inline_() != v1::INLINE_ENCODING_UNSPECIFIED) {
        picture.inline_encoding = destination.inline_();
      }
      return absl::OkStatus();
    case v1::Destination::LOCATION_NOT_SET:
      break;
  }
  picture.given = false;
  if (optional) return absl::OkStatus();
  return InvalidField("destination",
                      "destination names neither a buffer nor inline");
}

absl::StatusOr<OutputSpec> DestinationOutput(
    const v1::Destination& destination, const DestinationPicture& picture) {
  ASSIGN_OR_RETURN(OutputSpec output, ParseOutputSpec(destination));
  if (!destination.has_layout() && picture.registered != nullptr &&
      picture.registered->desc) {
    const ImageDesc& desc = *picture.registered->desc;
    output.format = desc.format;
    output.dtype = desc.dtype;
    output.size = {desc.width, desc.height};
    output.color = desc.color;
  }
  return output;
}

absl::Status CompleteDestination(const v1::Destination& destination,
                                 const ImageDesc& resolved,
                                 int64_t max_inline_bytes,
                                 DestinationPicture& picture) {
  constexpr absl::string_view kField = "destination.layout";
  picture.desc = resolved;
  if (picture.registered == nullptr) {
    if (!destination.layout().planes().empty()) {
      return BadValue(ErrorReason::kFieldInvalid, "destination.layout.planes",
                      absl::StrCat(destination.layout().planes_size()),
                      "entries, but inline results are tight");
    }
    const uint64_t bytes = RequiredBytes(resolved);
    if (!picture.given) return absl::OkStatus();
    const bool raw = picture.inline_encoding == v1::INLINE_ENCODING_RAW;
    const uint64_t most =
        raw ? static_cast<uint64_t>(max_inline_bytes) : kMaxInlinePictureBytes;
    if (bytes > most) {
      return BadValue(ErrorReason::kTooLarge, kField, absl::StrCat(bytes),
                      absl::StrCat("bytes of inline pixels > ", most));
    }
    if (raw) return absl::OkStatus();
    return CheckEncodable(
        picture.inline_encoding == v1::INLINE_ENCODING_PNG ? FileFormat::kPng
                                                           : FileFormat::kJpeg,
        resolved.format, resolved.dtype, "destination.inline");
  }
  RETURN_IF_ERROR(RefuseRange(destination.buffer(), "destination.buffer"));
  if (destination.has_layout()) {
    RETURN_IF_ERROR(ApplyPlanes(destination.layout(), kField, 1, picture.desc));
  } else if (picture.registered->desc) {
    if (picture.registered->desc->format != resolved.format) {
      return BadValue(
          ErrorReason::kFieldInvalid, "destination.tensor_layout",
          PixelFormatName(resolved.format),
          absl::StrCat("is not the registered format ",
                       PixelFormatName(picture.registered->desc->format),
                       "; give destination.layout"));
    }
    picture.desc.planes = picture.registered->desc->planes;
  }
  BufferSizes sizes;
  return UnderField(
      ValidateImageDesc(picture.desc, SizesOf(*picture.registered, sizes)),
      kField);
}

namespace {

// Planes of the first picture from the registered layout of the whole batch:
// with one plane it is the tall picture's; several must be without gaps,
// because a tall picture has the first planes of all elements together.
absl::Status ApplyRegisteredBatch(const ImageDesc& registered,
                                  ImageDesc& first) {
  if (GetPixelFormatInfo(first.format).plane_count == 1) {
    first.planes = registered.planes;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ImageDesc tight,
                   MakeImageDesc(registered.format, registered.dtype,
                                 registered.width, registered.height));
  if (tight.planes == registered.planes) return absl::OkStatus();
  return InvalidField("destination.layout",
                      "destination.layout is required: the registered planes "
                      "have gaps and do not say where a batch's pictures are");
}

absl::Status CheckInlineBatch(const DestinationPicture& picture,
                              const BatchLayout& batch,
                              int64_t max_inline_bytes) {
  const bool raw = picture.inline_encoding == v1::INLINE_ENCODING_RAW;
  const uint64_t most =
      raw ? static_cast<uint64_t>(max_inline_bytes) : kMaxInlinePictureBytes;
  const uint64_t bytes = RequiredBytes(batch);
  if (bytes > most) {
    return BadValue(
        ErrorReason::kTooLarge, "destination.inline", absl::StrCat(bytes),
        absl::StrCat("bytes of ", batch.count, " inline pictures > ", most));
  }
  return absl::OkStatus();
}

absl::StatusOr<BatchLayout> CompleteInlineBatch(
    const v1::Destination& destination, BatchLayout batch,
    int64_t max_inline_bytes, DestinationPicture& picture) {
  if (!destination.layout().planes().empty()) {
    return BadValue(ErrorReason::kFieldInvalid, "destination.layout.planes",
                    absl::StrCat(destination.layout().planes_size()),
                    "entries, but inline results are tight");
  }
  RETURN_IF_ERROR(CheckInlineBatch(picture, batch, max_inline_bytes));
  picture.desc = batch.first;
  picture.size_bytes = RequiredBytes(batch);
  if (picture.inline_encoding == v1::INLINE_ENCODING_RAW) return batch;
  const ImageDesc& first = batch.first;
  if (GetPixelFormatInfo(first.format).plane_count != 1) {
    return BadValue(ErrorReason::kFormatPair, "destination.inline",
                    PixelFormatName(first.format),
                    "batches have several planes and are no picture");
  }
  absl::StatusOr<ImageDesc> tall = MakeImageDesc(
      first.format, first.dtype, first.width, first.height * batch.count);
  if (!tall.ok()) return UnderField(tall.status(), "destination.layout");
  RETURN_IF_ERROR(CheckEncodable(
      picture.inline_encoding == v1::INLINE_ENCODING_PNG ? FileFormat::kPng
                                                         : FileFormat::kJpeg,
      first.format, first.dtype, "destination.inline"));
  picture.desc = *tall;
  return batch;
}

}  // namespace

absl::StatusOr<BatchLayout> CompleteBatch(const v1::Destination& destination,
                                          const ImageDesc& resolved, int count,
                                          uint64_t stride_bytes,
                                          int64_t max_inline_bytes,
                                          DestinationPicture& picture) {
  constexpr absl::string_view kField = "destination.layout";
  BatchLayout batch = {resolved, count, TightBatchStride(resolved)};
  if (picture.registered == nullptr) {
    if (stride_bytes != 0 && stride_bytes != batch.stride_bytes) {
      return BadValue(ErrorReason::kFieldInvalid, "element_stride_bytes",
                      absl::StrCat(stride_bytes),
                      "is for buffers; inline results are tight");
    }
    return CompleteInlineBatch(destination, batch, max_inline_bytes, picture);
  }
  RETURN_IF_ERROR(RefuseRange(destination.buffer(), "destination.buffer"));
  if (destination.has_layout()) {
    RETURN_IF_ERROR(ApplyPlanes(destination.layout(), kField, 1, batch.first));
  } else if (picture.registered->desc) {
    if (picture.registered->desc->format != resolved.format) {
      return BadValue(
          ErrorReason::kFieldInvalid, "destination.tensor_layout",
          PixelFormatName(resolved.format),
          absl::StrCat("is not the registered format ",
                       PixelFormatName(picture.registered->desc->format),
                       "; give destination.layout"));
    }
    RETURN_IF_ERROR(
        ApplyRegisteredBatch(*picture.registered->desc, batch.first));
  }
  BufferSizes memory;
  const std::span<const uint64_t> sizes = SizesOf(*picture.registered, memory);
  // The strides and offsets of the first are known to be sane before sums are
  // made of them.
  RETURN_IF_ERROR(UnderField(ValidateImageDesc(batch.first, sizes), kField));
  batch.stride_bytes =
      stride_bytes != 0 ? stride_bytes : TightBatchStride(batch.first);
  absl::Status status = ValidateBatch(batch, sizes);
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (detail && detail->field == "stride_bytes") {
    status = PrefixField(std::move(status), "element_");
  } else if (detail && detail->field.empty()) {
    status = UnderField(std::move(status), "destination.buffer");
  } else {
    status = UnderField(std::move(status), kField);
  }
  RETURN_IF_ERROR(status);
  picture.desc = batch.first;
  return batch;
}

absl::Status OpenDestination(DestinationPicture& picture, WorkReport& report) {
  if (picture.registered != nullptr) {
    WarnAboutCopies(*picture.registered, report);
    PointAt(*picture.registered, picture.buffers);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(picture.heap,
                   AllocateBuffer(AllocatorKind::kHeap, ResultBytes(picture),
                                  "inline result"));
  PointAt(*picture.heap, picture.buffers);
  return absl::OkStatus();
}

absl::Status TakeInline(Engine& engine, const DestinationPicture& picture,
                        int64_t max_inline_bytes,
                        std::vector<std::byte>& scratch, std::string* out,
                        WorkReport& report) {
  std::span<const std::byte> bytes;
  Mapping mapping;
  if (picture.inline_encoding == v1::INLINE_ENCODING_RAW) {
    ASSIGN_OR_RETURN(mapping, picture.heap->Map(Access::kRead));
    bytes = mapping.bytes().subspan(0, ResultBytes(picture));
  } else if (picture.inline_encoding == v1::INLINE_ENCODING_PNG) {
    RETURN_IF_ERROR(engine.EncodePngFile(picture.desc, picture.buffers,
                                         PngEncodeOptions(), scratch, report));
    bytes = scratch;
  } else {
    RETURN_IF_ERROR(engine.EncodeJpegFile(
        picture.desc, picture.buffers, JpegEncodeOptions(), scratch, report));
    bytes = scratch;
  }
  if (bytes.size() > static_cast<uint64_t>(max_inline_bytes)) {
    return BadValue(
        ErrorReason::kTooLarge, "destination.inline",
        absl::StrCat(bytes.size()),
        absl::StrCat("bytes of encoded result > ", max_inline_bytes));
  }
  out->assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  report.bytes_copied += bytes.size();
  return absl::OkStatus();
}

absl::StatusOr<FileSpan> FindFileSpan(const v1::Destination& destination,
                                      const DestinationPicture& picture) {
  FileSpan span;
  RETURN_IF_ERROR(FindRange(destination.buffer(), *picture.registered,
                            "destination.buffer", &span.offset_bytes,
                            &span.capacity_bytes));
  return span;
}

absl::Status WriteFile(EncodedBytes file, const FileSpan& span,
                       DestinationPicture& picture, WorkReport& report) {
  if (file.size() > span.capacity_bytes) {
    return BadValue(
        ErrorReason::kBufferTooSmall, "destination.buffer",
        absl::StrCat(span.capacity_bytes),
        absl::StrCat("bytes of room < ", file.size(), " of the encoded file"));
  }
  Buffer& buffer = *picture.registered->memory[0];
  WarnAboutCopies(*picture.registered, report);
  // Bytes around the file must survive the write-back of a copied buffer.
  absl::StatusOr<Mapping> mapping =
      buffer.Map(buffer.copies() ? Access::kReadWrite : Access::kWrite);
  if (!mapping.ok()) {
    return UnderField(std::move(mapping).status(), "destination.buffer");
  }
  if (span.offset_bytes > mapping->bytes().size() ||
      file.size() > mapping->bytes().size() - span.offset_bytes) {
    mapping->Abandon();
    return BadValue(ErrorReason::kBufferTooSmall, "destination.buffer",
                    absl::StrCat(mapping->bytes().size()),
                    "bytes are left; it shrank");
  }
  std::copy(file.begin(), file.end(),
            mapping->bytes().subspan(span.offset_bytes).begin());
  RETURN_IF_ERROR(mapping->Finish());
  report.bytes_copied += file.size() + mapping->bytes_copied();
  return absl::OkStatus();
}

}  // namespace preprocd
