// Arbitrary packets into the parser of the direct transport: every input is
// a request or a refusal with a reason, and the refusal always fits a frame.
#include <cstddef>
#include <cstdint>
#include <span>

#include "daemon/direct/exchange.h"
#include "daemon/direct/frame_codec.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const exchange = new preprocd::Exchange;
  exchange->Begin();
  const std::span<const uint8_t> bytes(data, size);
  absl::Status status =
      preprocd::ParseFrame(std::as_bytes(bytes), exchange->request);
  if (status.ok()) status = preprocd::CheckFrame(*exchange->request);
  if (status.ok()) {
    PREPROCD_CHECK(exchange->request->request_id() != 0);
    return 0;
  }
  PREPROCD_CHECK(preprocd::GetErrorDetail(status).has_value());
  exchange->frame.set_request_id(exchange->request->request_id());
  preprocd::MakeErrorFrame(status, &exchange->frame);
  PREPROCD_CHECK(preprocd::SerializeFrame(exchange->frame, exchange->out).ok());
  PREPROCD_CHECK(exchange->frame.error().detail().reason() != 0);
  return 0;
}
