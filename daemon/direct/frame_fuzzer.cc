// Arbitrary packets into the parser of the direct transport: every input is
// answered with a frame or a status that has a reason.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/direct/frame_codec.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const frame = new preproc::v1::ClientFrame;
  static auto* const reply = new preproc::v1::ServerFrame;
  static auto* const out = new std::vector<std::byte>;
  frame->Clear();
  reply->Clear();
  const std::span<const uint8_t> bytes(data, size);
  absl::Status status = preprocd::ParseFrame(std::as_bytes(bytes), frame);
  if (status.ok()) status = preprocd::CheckFrame(*frame);
  if (status.ok()) {
    PREPROCD_CHECK(frame->request_id() != 0);
    return 0;
  }
  PREPROCD_CHECK(preprocd::GetErrorDetail(status).has_value());
  reply->set_request_id(frame->request_id());
  preprocd::MakeErrorFrame(status, reply);
  PREPROCD_CHECK(preprocd::SerializeFrame(*reply, *out).ok());
  PREPROCD_CHECK(reply->error().detail().reason() != 0);
  return 0;
}
