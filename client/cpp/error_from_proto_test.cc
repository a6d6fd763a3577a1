#include "client/cpp/error_from_proto.h"

#include <gtest/gtest.h>

#include <string>

#include "engine/base/error_detail.h"

namespace preprocd::internal {
namespace {

preproc::v1::ErrorDetail TruncatedDetail() {
  preproc::v1::ErrorDetail detail;
  detail.set_reason(preproc::v1::ERROR_REASON_IMAGE_TRUNCATED);
  detail.set_field("source");
  detail.set_got("100");
  detail.set_limit("200");
  detail.set_backend("cpu");
  detail.set_retry_after_ms(7);
  return detail;
}

void ExpectTruncated(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "source ends early");
  const auto detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, ErrorReason::kImageTruncated);
  EXPECT_EQ(detail->field, "source");
  EXPECT_EQ(detail->got, "100");
  EXPECT_EQ(detail->limit, "200");
  EXPECT_EQ(detail->backend, "cpu");
  EXPECT_EQ(detail->retry_after_ms, 7);
}

TEST(ErrorFromProto, DirectReplyKeepsReasonAndField) {
  preproc::v1::ErrorReply reply;
  reply.set_code(3);
  reply.set_message("source ends early");
  *reply.mutable_detail() = TruncatedDetail();
  ExpectTruncated(StatusFromErrorReply(reply));
}

TEST(ErrorFromProto, GrpcTrailerGivesTheSameStatus) {
  preproc::v1::RpcStatus rpc;
  rpc.set_code(3);
  rpc.add_details()->PackFrom(TruncatedDetail());
  ExpectTruncated(
      StatusFromGrpc(3, "source ends early", rpc.SerializeAsString()));
}

TEST(ErrorFromProto, ForeignTrailerKeepsCodeAndMessage) {
  const absl::Status status = StatusFromGrpc(14, "gone", "\xff\xff not proto");
  EXPECT_EQ(status, absl::UnavailableError("gone"));
  EXPECT_FALSE(GetErrorDetail(status).has_value());
}

TEST(ErrorFromProto, ErrorCodeOutOfRangeNeverBecomesOk) {
  preproc::v1::ErrorReply reply;
  for (const int code : {0, -1, 17, 1000}) {
    reply.set_code(code);
    EXPECT_EQ(StatusFromErrorReply(reply).code(), absl::StatusCode::kUnknown)
        << code;
    EXPECT_EQ(StatusFromGrpc(code, "", "").code(), absl::StatusCode::kUnknown)
        << code;
  }
}

}  // namespace
}  // namespace preprocd::internal
