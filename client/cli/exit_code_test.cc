#include "client/cli/exit_code.h"

#include <gtest/gtest.h>

#include "engine/base/error_detail.h"

namespace preprocd::cli {
namespace {

absl::Status With(absl::StatusCode code, ErrorReason reason) {
  ErrorDetail detail;
  detail.reason = reason;
  return MakeError(code, detail, "source.layout.width 0 < 1");
}

TEST(ExitCode, EveryKindHasItsNumber) {
  EXPECT_EQ(ExitCodeOf(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeOf(UsageError("--size")), 2);
  EXPECT_EQ(ExitCodeOf(WithReason(absl::UnavailableError("no daemon"),
                                  kReasonNoDaemon)),
            3);
  EXPECT_EQ(ExitCodeOf(absl::InvalidArgumentError("x")), 4);
  EXPECT_EQ(ExitCodeOf(absl::NotFoundError("x")), 4);
  EXPECT_EQ(ExitCodeOf(absl::FailedPreconditionError("x")), 4);
  EXPECT_EQ(ExitCodeOf(absl::PermissionDeniedError("x")), 4);
  EXPECT_EQ(ExitCodeOf(absl::ResourceExhaustedError("x")), 5);
  EXPECT_EQ(ExitCodeOf(absl::UnavailableError("x")), 6);
  EXPECT_EQ(ExitCodeOf(absl::InternalError("x")), 1);
  EXPECT_EQ(ExitCodeOf(absl::DeadlineExceededError("x")), 1);
  EXPECT_EQ(ExitCodeOf(absl::CancelledError("x")), 1);
}

TEST(ExitCode, UnimplementedPictureIsRefusedButMissingFeatureIsNot) {
  const auto code = absl::StatusCode::kUnimplemented;
  EXPECT_EQ(ExitCodeOf(With(code, ErrorReason::kImageUnsupported)), 4);
  EXPECT_EQ(ExitCodeOf(With(code, ErrorReason::kNoBackend)), 4);
  EXPECT_EQ(ExitCodeOf(With(code, ErrorReason::kFormatPair)), 4);
  EXPECT_EQ(ExitCodeOf(NotBuilt("tile")), 1);
  EXPECT_EQ(ExitCodeOf(absl::UnimplementedError("unknown method")), 1);
}

TEST(ErrorToJson, CarriesCodeReasonMessageAndDetail) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kImageTruncated;
  detail.field = "source";
  detail.got = "100";
  detail.retry_after_ms = 5;
  const auto json = ErrorToJson(
      MakeError(absl::StatusCode::kInvalidArgument, detail, "ends early"));
  EXPECT_EQ(json.dump(),
            R"({"error":{"code":"INVALID_ARGUMENT","reason":"IMAGE_TRUNCATED",)"
            R"("message":"ends early","field":"source","got":"100",)"
            R"("retry_after_ms":5}})");
}

TEST(ErrorToJson, ErrorsOfThisSideHaveTheirReason) {
  EXPECT_EQ(ErrorToJson(UsageError("bad"))["error"]["reason"], "USAGE");
  EXPECT_EQ(ErrorToJson(absl::InternalError("bad"))["error"]["reason"],
            "UNSPECIFIED");
}

}  // namespace
}  // namespace preprocd::cli
