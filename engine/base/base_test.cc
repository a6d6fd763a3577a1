#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace preprocd {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesOnceAndMoves) {
  const int raw = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(raw, 0);
  UniqueFd first(raw);
  UniqueFd second = std::move(first);
  EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move)
  EXPECT_EQ(second.get(), raw);
  second.reset();
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, DuplicateIsIndependentAndCloseOnExec) {
  UniqueFd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
  absl::StatusOr<UniqueFd> copy = fd.Duplicate();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_NE(copy->get(), fd.get());
  EXPECT_EQ(fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  fd.reset();
  EXPECT_TRUE(IsOpen(copy->get()));
  EXPECT_EQ(UniqueFd().Duplicate().status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(CheckedMathTest, OverflowIsNothing) {
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(CheckedAdd(max, 0), max);
  EXPECT_EQ(CheckedAdd(max, 1), std::nullopt);
  EXPECT_EQ(CheckedMul(1ULL << 32, 1ULL << 32), std::nullopt);
  EXPECT_EQ(CheckedMulAdd(1ULL << 31, 1ULL << 32, 7), (1ULL << 63) + 7);
  EXPECT_EQ(CheckedMulAdd(max, 1, 1), std::nullopt);
  EXPECT_EQ(CheckedAlignUp(65, 64), 128u);
  EXPECT_EQ(CheckedAlignUp(max, 64), std::nullopt);
  EXPECT_EQ((CheckedCast<int32_t>(int64_t{1} << 31)), std::nullopt);
  EXPECT_EQ((CheckedCast<uint32_t>(-1)), std::nullopt);
  EXPECT_EQ(CeilDiv(5, 2), 3);
  EXPECT_EQ(CeilDiv(4, 2), 2);
}

TEST(ErrorDetailTest, RoundTripsThroughStatus) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferTooSmall;
  detail.field = "planes[1].stride_bytes";
  detail.got = "100";
  detail.limit = "640";
  detail.backend = "gl";
  detail.retry_after_ms = 12;
  const absl::Status status =
      MakeError(absl::StatusCode::kInvalidArgument, detail,
                "planes[1].stride_bytes 100 < 640");
  const std::optional<ErrorDetail> read = GetErrorDetail(status);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->reason, ErrorReason::kBufferTooSmall);
  EXPECT_EQ(read->field, detail.field);
  EXPECT_EQ(read->got, "100");
  EXPECT_EQ(read->limit, "640");
  EXPECT_EQ(read->backend, "gl");
  EXPECT_EQ(read->retry_after_ms, 12);

  const absl::Status prefixed = PrefixField(status, "source.");
  EXPECT_EQ(GetErrorDetail(prefixed)->field, "source.planes[1].stride_bytes");
  EXPECT_EQ(prefixed.message(), "source.planes[1].stride_bytes 100 < 640");
}

TEST(ErrorDetailTest, PlainStatusHasNone) {
  EXPECT_EQ(GetErrorDetail(absl::InternalError("x")), std::nullopt);
  EXPECT_EQ(GetErrorDetail(absl::OkStatus()), std::nullopt);
}

TEST(ErrorDetailTest, ForeignBytesCannotShiftThePayload) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kFieldInvalid;
  detail.field = std::string("a\0b", 3);
  const auto read = GetErrorDetail(
      MakeError(absl::StatusCode::kInvalidArgument, detail, "m"));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->field, "a b");
}

absl::StatusOr<int> HalfOfEven(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

absl::StatusOr<int> QuarterOf(int value) {
  ASSIGN_OR_RETURN(const int half, HalfOfEven(value));
  ASSIGN_OR_RETURN(const int quarter, HalfOfEven(half));
  return quarter;
}

TEST(StatusMacrosTest, AssignOrReturn) {
  EXPECT_EQ(*QuarterOf(8), 2);
  EXPECT_EQ(QuarterOf(6).status().message(), "odd");
}

TEST(ErrorReasonTest, NamesCoverEveryReason) {
  EXPECT_EQ(ErrorReasonName(ErrorReason::kImageTruncated), "IMAGE_TRUNCATED");
  EXPECT_EQ(ErrorReasonName(ErrorReason::kDmaBuf), "DMA_BUF");
  EXPECT_EQ(ErrorReasonName(static_cast<ErrorReason>(9999)), "UNSPECIFIED");
}

}  // namespace
}  // namespace preprocd
