// The operations that are answered on the calling thread: buffers, headers,
// plans, capabilities, admin.
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/log.h"
#include "daemon/metrics/process_facts.h"
#include "daemon/service/reply_builder.h"
#include "daemon/service/service_fixture.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using absl::StatusCode;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class BuffersTest : public ServiceTest {
 protected:
  absl::Status RegisterMany(uint32_t declared, size_t sent) {
    v1::RegisterBufferRequest request;
    request.set_buffer_id(9);
    request.set_fd_count(declared);
    std::vector<UniqueFd> fds;
    for (size_t i = 0; i < sent; ++i) {
      fds.push_back(MemfdOfSize(64, Seals::kSize));
    }
    v1::RegisterBufferReply reply;
    return service_.RegisterBuffer(Call(), request, std::move(fds), &reply);
  }
  v1::ListBuffersReply List() {
    v1::ListBuffersReply reply;
    EXPECT_TRUE(
        service_.ListBuffers(Call(), v1::ListBuffersRequest(), &reply).ok());
    return reply;
  }
};

TEST_F(BuffersTest, RegisteredBuffersAreDescribed) {
  v1::RegisterBufferRequest request;
  request.set_buffer_id(3);
  request.set_generation(4);
  request.set_access(v1::BUFFER_ACCESS_WRITE);
  request.set_fd_count(2);
  *request.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_NV12, 8, 4);
  request.mutable_layout()->add_planes();
  request.mutable_layout()->add_planes()->set_fd_index(1);
  std::vector<UniqueFd> fds;
  fds.push_back(MemfdOfSize(32, Seals::kSize));
  fds.push_back(MemfdOfSize(16, Seals::kNone));
  v1::RegisterBufferReply reply;
  ASSERT_TRUE(
      service_.RegisterBuffer(Call(), request, std::move(fds), &reply).ok());
  EXPECT_THAT(reply.kinds(),
              ElementsAre(v1::BUFFER_KIND_MEMFD, v1::BUFFER_KIND_MEMFD_COPY));
  EXPECT_THAT(reply.sizes_bytes(), ElementsAre(32, 16));
  ASSERT_EQ(reply.warnings_size(), 1);
  EXPECT_THAT(reply.warnings(0), HasSubstr("fds[1]"));
  const v1::ListBuffersReply list = List();
  ASSERT_EQ(list.buffers_size(), 1);
  EXPECT_EQ(list.buffers(0).buffer_id(), 3u);
  EXPECT_EQ(list.buffers(0).generation(), 4u);
  EXPECT_EQ(list.buffers(0).size_bytes(), 48u);
  EXPECT_EQ(list.buffers(0).access(), v1::BUFFER_ACCESS_WRITE);
  EXPECT_EQ(list.buffers(0).layout().planes(1).fd_index(), 1u);
  EXPECT_EQ(list.buffers(0).layout().planes(1).stride_bytes(), 8u);
}

TEST_F(BuffersTest, DescriptorCountsMustAgree) {
  ExpectError(RegisterMany(2, 1), StatusCode::kInvalidArgument,
              ErrorReason::kFdCount, "fd_count");
  ExpectError(RegisterMany(1, 2), StatusCode::kInvalidArgument,
              ErrorReason::kFdCount, "fd_count");
  ExpectError(RegisterMany(0, 0), StatusCode::kInvalidArgument,
              ErrorReason::kFdCount, "fd_count");
  ExpectError(RegisterMany(5, 5), StatusCode::kInvalidArgument,
              ErrorReason::kFdCount, "fd_count");
}

TEST_F(BuffersTest, RefusedRegistrationsLeaveNothingBehind) {
  const int before = ReadProcessFacts().open_fds;
  v1::ImageLayout layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 4);
  const auto attempt = [&](UniqueFd fd) {
    return Register(1, std::move(fd), v1::BUFFER_ACCESS_READ_WRITE, &layout);
  };
  ExpectError(attempt(MemfdOfSize(95, Seals::kSize)),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  layout.add_planes()->set_stride_bytes(std::numeric_limits<uint64_t>::max());
  ExpectError(attempt(MemfdOfSize(96, Seals::kSize)),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  layout.mutable_planes(0)->set_stride_bytes(0);
  layout.mutable_planes(0)->set_offset_bytes(
      std::numeric_limits<uint64_t>::max());
  ExpectError(attempt(MemfdOfSize(96, Seals::kSize)),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  layout.mutable_planes(0)->set_offset_bytes(0);
  layout.mutable_planes(0)->set_fd_index(1);
  ExpectError(attempt(MemfdOfSize(96, Seals::kSize)),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid);
  ExpectError(Register(0, MemfdOfSize(96, Seals::kSize)),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "buffer_id");
  ExpectError(Register(1, MemfdOfSize(96, Seals::kSize),
                       static_cast<v1::BufferAccess>(4)),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "access");
  ExpectError(Register(1, MemfdOfSize(96, Seals::kAll)),
              StatusCode::kFailedPrecondition, ErrorReason::kBufferSealed);
  EXPECT_EQ(List().buffers_size(), 0);
  EXPECT_EQ(session_->facts().bytes, 0);
  EXPECT_EQ(ReadProcessFacts().open_fds, before);
}

TEST_F(BuffersTest, UnregisterForgetsAndChecksTheGeneration) {
  ASSERT_TRUE(Register(1, MemfdOfSize(96, Seals::kSize)).ok());
  v1::UnregisterBufferRequest request;
  v1::UnregisterBufferReply reply;
  request.set_buffer_id(1);
  request.set_generation(2);
  ExpectError(service_.UnregisterBuffer(Call(), request, &reply),
              StatusCode::kFailedPrecondition, ErrorReason::kBufferGeneration);
  request.set_generation(1);
  EXPECT_TRUE(service_.UnregisterBuffer(Call(), request, &reply).ok());
  ExpectError(service_.UnregisterBuffer(Call(), request, &reply),
              StatusCode::kNotFound, ErrorReason::kBufferUnknown);
}

TEST_F(BuffersTest, AllocatedMemfdIsTightSharedAndWritable) {
  v1::AllocateBufferRequest request;
  request.set_buffer_id(1);
  *request.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 5, 3);
  v1::AllocateBufferReply reply;
  std::vector<UniqueFd> fds;
  ASSERT_TRUE(service_.AllocateBuffer(Call(), request, &reply, &fds).ok());
  EXPECT_EQ(reply.kind(), v1::BUFFER_KIND_MEMFD);
  EXPECT_GE(reply.size_bytes(), 45u);
  EXPECT_EQ(reply.layout().planes(0).stride_bytes(), 15u);
  ASSERT_EQ(fds.size(), 1u);
  v1::Source source = InlineSource(GradientRgb(5, 3));
  *source.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 5, 3);
  v1::ConvertRequest convert;
  *convert.mutable_source() = source;
  convert.mutable_destination()->mutable_buffer()->set_buffer_id(1);
  v1::ConvertReply converted;
  ASSERT_TRUE(Convert(convert, &converted).ok());
  EXPECT_EQ(ReadMemfd(fds[0].get(), 45), GradientRgb(5, 3));
}

TEST_F(BuffersTest, AllocationsAreBoundedBeforeTheyAreMade) {
  v1::AllocateBufferRequest request;
  v1::AllocateBufferReply reply;
  std::vector<UniqueFd> fds;
  const auto allocate = [&] {
    return service_.AllocateBuffer(Call(), request, &reply, &fds);
  };
  request.set_buffer_id(1);
  ExpectError(allocate(), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "size_bytes");
  request.set_size_bytes(static_cast<uint64_t>(kMaxBytesPerSession) + 1);
  ExpectError(allocate(), StatusCode::kResourceExhausted, ErrorReason::kQuota,
              "size_bytes");
  request.set_size_bytes(44);
  *request.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 5, 3);
  ExpectError(allocate(), StatusCode::kInvalidArgument,
              ErrorReason::kBufferTooSmall);
  request.set_size_bytes(45);
  request.set_allocator(static_cast<v1::AllocatorKind>(4));
  ExpectError(allocate(), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "allocator");
  request.set_allocator(v1::ALLOCATOR_KIND_MEMFD);
  ASSERT_TRUE(allocate().ok());
  EXPECT_EQ(allocate().code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(fds.size(), 1u);
}

TEST_F(BuffersTest, SharesWorkForOneOtherSessionUntilRevoked) {
  const std::string pixels = GradientRgb(8, 4);
  const v1::ImageLayout layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 4);
  ASSERT_TRUE(Register(1, MemfdWith(pixels, Seals::kSize),
                       v1::BUFFER_ACCESS_READ_WRITE, &layout)
                  .ok());
  v1::ShareBufferRequest share;
  share.set_buffer_id(1);
  share.set_generation(1);
  share.set_access(v1::BUFFER_ACCESS_READ);
  v1::ShareBufferReply shared;
  ASSERT_TRUE(service_.ShareBuffer(Call(), share, &shared).ok());
  ASSERT_EQ(shared.share_token().size(), 16u);
  v1::AcceptShareRequest accept;
  accept.set_share_token(shared.share_token());
  accept.set_buffer_id(50);
  accept.set_generation(1);
  v1::AcceptShareReply accepted;
  const CallContext other = CallOf(other_session_);
  ASSERT_TRUE(service_.AcceptShare(other, accept, &accepted).ok());
  EXPECT_EQ(accepted.buffer().buffer_id(), 50u);
  EXPECT_EQ(accepted.buffer().access(), v1::BUFFER_ACCESS_READ);
  EXPECT_EQ(accepted.buffer().layout().width(), 8);
  v1::ConvertReply reply;
  v1::ConvertRequest request =
      ResizeRequest(BufferSource(50), InlineDestination(), 8, 4);
  ASSERT_TRUE(ConvertAs(other, request, &reply).ok());
  EXPECT_EQ(reply.inline_bytes(), pixels);
  *request.mutable_destination() = BufferDestination(50);
  ExpectError(ConvertAs(other, request, &reply),
              StatusCode::kFailedPrecondition, ErrorReason::kBufferReadOnly);
  v1::RevokeShareRequest revoke;
  revoke.set_share_token(shared.share_token());
  v1::RevokeShareReply revoked;
  ASSERT_TRUE(service_.RevokeShare(Call(), revoke, &revoked).ok());
  *request.mutable_destination() = InlineDestination();
  ExpectError(ConvertAs(other, request, &reply), StatusCode::kNotFound,
              ErrorReason::kBufferUnknown);
  share.set_access(static_cast<v1::BufferAccess>(9));
  ExpectError(service_.ShareBuffer(Call(), share, &shared),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "access");
}

TEST_F(BuffersTest, CallsWithoutASessionOwnNothing) {
  v1::ListBuffersReply list;
  ExpectError(
      service_.ListBuffers(AnonymousCall(), v1::ListBuffersRequest(), &list),
      StatusCode::kUnauthenticated, ErrorReason::kSessionUnknown);
  v1::RegisterBufferRequest request;
  request.set_buffer_id(1);
  request.set_fd_count(1);
  std::vector<UniqueFd> fds;
  fds.push_back(MemfdOfSize(64, Seals::kSize));
  v1::RegisterBufferReply reply;
  ExpectError(
      service_.RegisterBuffer(AnonymousCall(), request, std::move(fds), &reply),
      StatusCode::kUnauthenticated, ErrorReason::kSessionUnknown);
}

class PeekTest : public ServiceTest {};

TEST_F(PeekTest, HeadersAreReadWhateverTheSeals) {
  std::string jpeg = GradientJpeg(64, 48, 6);
  // A comment that pushes the frame header past the first bytes read.
  std::string comment("\xFF\xFE\xFF\xFF", 4);
  comment += std::string(65533, 'c');
  jpeg.insert(2, comment);
  uint64_t id = 0;
  for (const Seals seals : {Seals::kNone, Seals::kSize, Seals::kAll}) {
    ASSERT_TRUE(
        Register(++id, MemfdWith(jpeg, seals), v1::BUFFER_ACCESS_READ).ok());
    v1::PeekRequest request;
    *request.mutable_source() = BufferSource(id);
    v1::PeekReply reply;
    const absl::Status status = service_.Peek(Call(), request, &reply);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(reply.info().width(), 64);
    EXPECT_EQ(reply.info().orientation(), 6);
    EXPECT_EQ(reply.info().native_format(), v1::PIXEL_FORMAT_NV12);
  }
}

TEST_F(PeekTest, WhatIsNoImageIsRefused) {
  v1::PeekRequest request;
  *request.mutable_source() = InlineSource("BM");
  v1::PeekReply reply;
  ExpectError(service_.Peek(Call(), request, &reply),
              StatusCode::kInvalidArgument, ErrorReason::kImageFormat,
              "source");
  ASSERT_TRUE(
      Register(1, MemfdWith(GradientJpeg(64, 48).substr(0, 30), Seals::kNone))
          .ok());
  *request.mutable_source() = BufferSource(1);
  ExpectError(service_.Peek(Call(), request, &reply),
              StatusCode::kInvalidArgument, ErrorReason::kImageTruncated,
              "source");
  *request.mutable_source() = InlineSource("0123456789ab");
  *request.mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 2, 2);
  ExpectError(service_.Peek(Call(), request, &reply),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "source");
}

class ExplainTest : public ServiceTest {
 protected:
  absl::Status Explain(const v1::ExplainRequest& request) {
    reply_.Clear();
    return service_.Explain(Call(), request, &reply_);
  }
  v1::ExplainReply reply_;
};

TEST_F(ExplainTest, SourcesThatAreNotAtHandAreDescribed) {
  v1::ExplainRequest request;
  request.mutable_source_info()->set_width(1920);
  request.mutable_source_info()->set_height(1080);
  request.mutable_convert()->mutable_spec()->set_fit(v1::FIT_LETTERBOX);
  *request.mutable_convert()->mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 640, 640);
  const absl::Status status = Explain(request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(reply_.backend().empty());
  EXPECT_EQ(reply_.placement().destination().y(), 140);
  EXPECT_EQ(reply_.placement().destination().height(), 360);
  EXPECT_EQ(reply_.bytes_written(), 640u * 640 * 3);
  EXPECT_EQ(reply_.scratch_bytes(), 1920u * 1080 * 3);
  EXPECT_EQ(reply_.chroma(), v1::CHROMA_UPSAMPLING_FANCY);
  ASSERT_GE(reply_.ranking_size(), 1);
  EXPECT_EQ(reply_.ranking(0).rank(), 1);
  ASSERT_GE(reply_.steps_size(), 3);
  EXPECT_THAT(reply_.steps(0), HasSubstr("decode jpeg"));
}

TEST_F(ExplainTest, BuffersNeedNotExistWhenLayoutsAreGiven) {
  v1::ExplainRequest request;
  v1::ConvertRequest* convert = request.mutable_convert();
  *convert->mutable_source() = BufferSource(77);
  *convert->mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_NV12, 64, 48);
  *convert->mutable_destination() = BufferDestination(78);
  *convert->mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 32, 24);
  convert->mutable_destination()->mutable_layout()->set_dtype(
      v1::DATA_TYPE_F32);
  const absl::Status status = Explain(request);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(reply_.yuv_to_rgb_size(), 6);
  // BT.601 limited: y_scale 255 / 219.
  EXPECT_NEAR(reply_.yuv_to_rgb(1), 255.0 / 219.0, 1e-12);
  EXPECT_EQ(reply_.normalization().offset_size(), 3);
  EXPECT_DOUBLE_EQ(reply_.normalization().multiplier(0), 1.0 / 255.0);
  EXPECT_EQ(reply_.bytes_read(), 64u * 48 * 3 / 2);
  EXPECT_EQ(reply_.scratch_bytes(), 0u);
  convert->mutable_source()->clear_layout();
  ExpectError(Explain(request), StatusCode::kNotFound,
              ErrorReason::kBufferUnknown);
}

TEST_F(ExplainTest, EncodedBytesAreOnlyPeekedAt) {
  v1::ExplainRequest request;
  // Headers only: nothing that could be decoded.
  const std::string jpeg = GradientJpeg(64, 48, 6);
  *request.mutable_convert()->mutable_source() = InlineSource(jpeg);
  request.mutable_convert()->mutable_spec()->set_orientation_from_file(true);
  const absl::Status status = Explain(request);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reply_.orientation(), 6);
  EXPECT_EQ(reply_.destination().width(), 48);
  EXPECT_EQ(reply_.source().width(), 64);
}

TEST(FillExplainTest, SaysWhyNoBackendWouldRunIt) {
  const auto desc = MakeImageDesc(PixelFormat::kRgb, DType::kU8, 8, 8);
  ASSERT_TRUE(desc.ok());
  auto plan = PlanConvert(*desc, *desc, ConvertSpec(), /*from_jpeg=*/false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  Capabilities incapable;
  incapable.name = "nothing";
  incapable.rank = 1;
  const Capabilities* const backends[] = {&incapable};
  ExpectError(SelectBackend(backends, ConvertSpec(), *plan),
              StatusCode::kUnimplemented, ErrorReason::kNoBackend);
  v1::ExplainReply reply;
  FillExplain(*plan, ExplainedSource(), &reply);
  EXPECT_EQ(reply.backend(), "");
  ASSERT_EQ(reply.ranking_size(), 1);
  EXPECT_EQ(reply.ranking(0).backend(), "nothing");
  EXPECT_FALSE(reply.ranking(0).accepts());
  EXPECT_FALSE(reply.ranking(0).reason().empty());
}

TEST_F(ExplainTest, BadRequestsAreRefusedAsAConvertWouldBe) {
  v1::ExplainRequest request;
  ExpectError(Explain(request), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source");
  request.mutable_source_info()->set_width(10);
  request.mutable_source_info()->set_height(10);
  request.mutable_convert()->mutable_spec()->mutable_source_rect()->set_width(
      11);
  request.mutable_convert()->mutable_spec()->mutable_source_rect()->set_height(
      1);
  ExpectError(Explain(request), StatusCode::kInvalidArgument,
              ErrorReason::kGeometryInvalid, "spec.source_rect");
  request.mutable_convert()->clear_spec();
  request.mutable_convert()->mutable_options()->set_priority(7);
  ExpectError(Explain(request), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "options.priority");
}

class FactsTest : public ServiceTest {};

TEST_F(FactsTest, CapabilitiesSayWhatIsBuilt) {
  v1::CapabilitiesReply reply;
  ASSERT_TRUE(
      service_.Capabilities(Call(), v1::CapabilitiesRequest(), &reply).ok());
  EXPECT_EQ(reply.version(), "1.2.3-test");
  std::vector<std::string> available;
  std::vector<std::string> missing;
  for (const v1::OperationCapability& operation : reply.operations()) {
    EXPECT_EQ(operation.available(), operation.reason().empty());
    (operation.available() ? available : missing)
        .push_back(operation.operation());
  }
  EXPECT_THAT(available, testing::IsSupersetOf(
                             {"convert", "decode", "peek", "encode", "explain",
                              "capabilities", "plan_tiles", "tile", "tile_one",
                              "lift_boxes", "merge_detections",
                              "materialize_masks", "draw_masks"}));
  EXPECT_THAT(missing, Contains("stream"));
  ASSERT_GE(reply.backends_size(), 2);
  EXPECT_GT(reply.backends(0).rank(), 0);
  EXPECT_GT(reply.backends(0).sources_size(), 0);
  EXPECT_THAT(reply.allocators(), Contains(v1::ALLOCATOR_KIND_MEMFD));
  EXPECT_EQ(reply.limits().max_inline_bytes(), kMaxInlineBytes);
}

TEST_F(FactsTest, MissingOperationsNeverSucceed) {
  ExpectError(service_.NotBuiltYet(Call(), Operation::kPrepare),
              StatusCode::kUnimplemented, ErrorReason::kNotBuilt);
  bool counted = false;
  for (const MetricValue& value : metrics_.Collect()) {
    if (value.value > 0 && value.name.find("prepare") != std::string::npos) {
      counted = true;
    }
  }
  EXPECT_TRUE(counted);
}

TEST_F(FactsTest, StatusAndSessions) {
  v1::StatusReply status;
  ASSERT_TRUE(service_.Status(v1::StatusRequest(), &status).ok());
  EXPECT_EQ(status.state(), "serving");
  EXPECT_EQ(status.sessions(), 2);
  EXPECT_EQ(status.runtime_dir(), "/run/test");
  EXPECT_GT(status.resident_bytes(), 0);
  EXPECT_GT(status.open_fds(), 0);
  EXPECT_GE(status.threads(), 2);
  service_.BeginDrain();
  ASSERT_TRUE(service_.Status(v1::StatusRequest(), &status).ok());
  EXPECT_EQ(status.state(), "draining");
  ASSERT_TRUE(Register(1, MemfdOfSize(64, Seals::kSize)).ok());
  v1::ListSessionsReply sessions;
  ASSERT_TRUE(service_.ListSessions(v1::ListSessionsRequest(), &sessions).ok());
  ASSERT_EQ(sessions.sessions_size(), 2);
  EXPECT_EQ(sessions.sessions(0).client_name(), "test");
  EXPECT_EQ(sessions.sessions(0).buffers(), 1);
  EXPECT_GE(sessions.sessions(0).bytes(), 64);
  v1::StatsReply stats;
  ASSERT_TRUE(service_.Stats(v1::StatsRequest(), &stats).ok());
  EXPECT_GT(stats.entries_size(), 0);
  for (int i = 1; i < stats.entries_size(); ++i) {
    EXPECT_LE(stats.entries(i - 1).name(), stats.entries(i).name());
  }
}

TEST_F(FactsTest, LimitsChangeOnlyInsideTheirBounds) {
  v1::SetLimitsRequest request;
  v1::SetLimitsReply reply;
  request.set_max_sessions(4097);
  ExpectError(service_.SetLimits(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "max_sessions");
  request.set_max_sessions(3);
  request.set_max_bytes_per_session(-1);
  ExpectError(service_.SetLimits(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "max_bytes_per_session");
  EXPECT_EQ(sessions_.limits().max_sessions, kMaxSessions);
  request.set_max_bytes_per_session(0);
  ASSERT_TRUE(service_.SetLimits(request, &reply).ok());
  EXPECT_EQ(reply.max_sessions(), 3);
  EXPECT_EQ(reply.max_bytes_per_session(), kMaxBytesPerSession);
  EXPECT_EQ(sessions_.limits().max_sessions, 3);
}

TEST_F(FactsTest, LogLevelsAreNamed) {
  v1::SetLogLevelRequest request;
  v1::SetLogLevelReply reply;
  request.set_level("loud");
  EXPECT_EQ(service_.SetLogLevel(request, &reply).code(),
            StatusCode::kInvalidArgument);
  const std::string before(LogLevelName());
  request.set_level("error");
  ASSERT_TRUE(service_.SetLogLevel(request, &reply).ok());
  EXPECT_EQ(reply.previous(), before);
  request.set_level(before);
  ASSERT_TRUE(service_.SetLogLevel(request, &reply).ok());
  EXPECT_EQ(reply.previous(), "error");
}

TEST(ErrorDetailTest, StatusesWithoutDetailGetTheReasonOfTheirCode) {
  const auto reason = [](absl::StatusCode code) {
    v1::ErrorDetail detail;
    detail.set_field("stale");
    FillErrorDetail(absl::Status(code, "text"), &detail);
    EXPECT_EQ(detail.field(), "");
    return detail.reason();
  };
  EXPECT_EQ(reason(StatusCode::kCancelled), v1::ERROR_REASON_CANCELLED);
  EXPECT_EQ(reason(StatusCode::kDeadlineExceeded), v1::ERROR_REASON_DEADLINE);
  EXPECT_EQ(reason(StatusCode::kInternal), v1::ERROR_REASON_INTERNAL);
  EXPECT_EQ(reason(StatusCode::kUnknown), v1::ERROR_REASON_INTERNAL);
  EXPECT_EQ(reason(StatusCode::kResourceExhausted), v1::ERROR_REASON_QUOTA);
  ErrorDetail full;
  full.reason = ErrorReason::kQueueFull;
  full.field = "f";
  full.got = "2";
  full.limit = "1";
  full.backend = "cpu";
  full.retry_after_ms = 5;
  v1::ErrorDetail detail;
  FillErrorDetail(MakeError(StatusCode::kResourceExhausted, full, "m"),
                  &detail);
  EXPECT_EQ(detail.reason(), v1::ERROR_REASON_QUEUE_FULL);
  EXPECT_EQ(detail.field(), "f");
  EXPECT_EQ(detail.got(), "2");
  EXPECT_EQ(detail.limit(), "1");
  EXPECT_EQ(detail.backend(), "cpu");
  EXPECT_EQ(detail.retry_after_ms(), 5);
}

}  // namespace
}  // namespace preprocd
