#include "daemon/direct/frame_codec.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/wire_format_lite.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"

namespace preprocd {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using preproc::v1::ClientFrame;
using preproc::v1::ServerFrame;

// Texts of an error reply: what a person still reads, far below a frame.
constexpr size_t kMaxErrorTextBytes = 4096;

absl::Status CheckReplySize(size_t size, absl::string_view field,
                            absl::string_view advice) {
  if (size <= static_cast<size_t>(kMaxFrameBytes)) return absl::OkStatus();
  ErrorDetail detail;
  detail.reason = ErrorReason::kTooLarge;
  detail.field = std::string(field);
  detail.got = absl::StrCat(size);
  detail.limit = absl::StrCat(kMaxFrameBytes);
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat(field, ": a reply of ", size, " bytes > ",
                                kMaxFrameBytes, "; ", advice));
}

// Cuts at a character, so that the text stays UTF-8.
std::string CutText(absl::string_view text) {
  if (text.size() <= kMaxErrorTextBytes) return std::string(text);
  size_t end = kMaxErrorTextBytes;
  while (end > 0 && (static_cast<uint8_t>(text[end]) & 0xC0) == 0x80) --end;
  return absl::StrCat(text.substr(0, end), "...");
}

}  // namespace

absl::Status ParseFrame(std::span<const std::byte> bytes, ClientFrame* frame) {
  // Protobuf would write a line of its own for every string that is not UTF-8,
  // without a bound.
  [[maybe_unused]] static auto* const silenced =
      google::protobuf::SetLogHandler(nullptr);
  if (!frame->ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InvalidField(ErrorReason::kFrameInvalid, "frame",
                        absl::StrCat("frame: ", bytes.size(),
                                     " bytes that are not a ClientFrame"));
  }
  return absl::OkStatus();
}

absl::Status CheckFrame(const ClientFrame& frame) {
  if (frame.request_id() == 0) {
    return InvalidField("request_id", "request_id 0 < 1");
  }
  if (frame.body_case() == ClientFrame::BODY_NOT_SET) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFrameInvalid;
    detail.field = "body";
    return MakeError(absl::StatusCode::kUnimplemented, std::move(detail),
                     "body is unset or newer than this daemon");
  }
  return absl::OkStatus();
}

absl::Status SerializeFrame(const ServerFrame& frame,
                            std::vector<std::byte>& out) {
  const size_t size = frame.ByteSizeLong();
  const absl::Status fits =
      CheckReplySize(size, "body", "ask for it over gRPC");
  if (!fits.ok()) return fits;
  out.resize(size);
  frame.SerializeWithCachedSizesToArray(reinterpret_cast<uint8_t*>(out.data()));
  return absl::OkStatus();
}

absl::Status SerializeReply(uint64_t request_id, int field_number,
                            const google::protobuf::MessageLite& body,
                            std::vector<std::byte>& out) {
  const size_t body_size = body.ByteSizeLong();
  const size_t size =
      WireFormatLite::TagSize(ServerFrame::kRequestIdFieldNumber,
                              WireFormatLite::TYPE_UINT64) +
      WireFormatLite::UInt64Size(request_id) +
      WireFormatLite::TagSize(field_number, WireFormatLite::TYPE_MESSAGE) +
      CodedOutputStream::VarintSize64(body_size) + body_size;
  const absl::Status fits = CheckReplySize(
      size, "destination.inline", "use a buffer as destination, or gRPC");
  if (!fits.ok()) return fits;
  out.resize(size);
  auto* end = reinterpret_cast<uint8_t*>(out.data());
  end = WireFormatLite::WriteUInt64ToArray(ServerFrame::kRequestIdFieldNumber,
                                           request_id, end);
  end = WireFormatLite::WriteTagToArray(
      field_number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, end);
  end = CodedOutputStream::WriteVarint32ToArray(
      static_cast<uint32_t>(body_size), end);
  body.SerializeWithCachedSizesToArray(end);
  return absl::OkStatus();
}

void MakeErrorFrame(const absl::Status& status, ServerFrame* frame) {
  preproc::v1::ErrorReply* error = frame->mutable_error();
  error->set_code(static_cast<int>(status.code()));
  error->set_message(CutText(status.message()));
  preproc::v1::ErrorDetail* detail = error->mutable_detail();
  FillErrorDetail(status, detail);
  detail->set_field(CutText(detail->field()));
  detail->set_got(CutText(detail->got()));
  detail->set_limit(CutText(detail->limit()));
}

}  // namespace preprocd
