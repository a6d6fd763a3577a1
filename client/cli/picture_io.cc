#include "client/cli/picture_io.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

// Refused here, because the gRPC library would answer with a size of its own
// and a code that says "try later".
absl::Status CheckInline(uint64_t size_bytes, absl::string_view field) {
  if (size_bytes <= static_cast<uint64_t>(kMaxInlineBytes)) {
    return absl::OkStatus();
  }
  ErrorDetail detail;
  detail.reason = ErrorReason::kTooLarge;
  detail.field = std::string(field);
  detail.got = absl::StrCat(size_bytes);
  detail.limit = absl::StrCat(kMaxInlineBytes);
  return MakeError(
      absl::StatusCode::kInvalidArgument, std::move(detail),
      absl::StrCat(field, " ", size_bytes, " bytes > ", kMaxInlineBytes,
                   "; larger data need the direct socket (--runtime-dir)"));
}

}  // namespace

absl::StatusOr<SourcePicture> SourcePicture::Create(
    Session& session, std::string bytes,
    const std::optional<v1::ImageLayout>& layout) {
  SourcePicture picture;
  picture.size_bytes_ = bytes.size();
  if (layout) *picture.source_.mutable_layout() = *layout;
  // An empty file has no memory to seal; the daemon answers for it.
  if (session.has_direct() && !bytes.empty()) {
    ASSIGN_OR_RETURN(picture.buffer_,
                     session.CreateBufferFromBytes(
                         std::as_bytes(std::span(bytes.data(), bytes.size()))));
    *picture.source_.mutable_buffer() = picture.buffer_.ref();
  } else {
    RETURN_IF_ERROR(CheckInline(bytes.size(), "source.inline_bytes"));
    picture.source_.set_inline_bytes(std::move(bytes));
  }
  return picture;
}

absl::StatusOr<ResultPlace> ResultPlace::Create(Session& session,
                                                uint64_t size_bytes) {
  ResultPlace place;
  if (session.has_direct()) {
    ASSIGN_OR_RETURN(place.buffer_, session.CreateBuffer(size_bytes));
  }
  return place;
}

void ResultPlace::FillLocation(v1::Destination& destination) const {
  if (buffer_) {
    *destination.mutable_buffer() = buffer_->ref();
  } else {
    destination.set_inline_(v1::INLINE_ENCODING_RAW);
  }
}

std::span<const std::byte> ResultPlace::bytes(
    const std::string& inline_bytes) const {
  if (buffer_) return std::as_const(*buffer_).bytes();
  return std::as_bytes(std::span(inline_bytes.data(), inline_bytes.size()));
}

void ResultPlace::FillSource(v1::Source& source,
                             const std::string& inline_bytes) const {
  if (buffer_) {
    *source.mutable_buffer() = buffer_->ref();
  } else {
    source.set_inline_bytes(inline_bytes);
  }
}

}  // namespace preprocd::cli
