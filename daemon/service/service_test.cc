#include "daemon/service/service.h"

#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/process_facts.h"
#include "daemon/service/picture_resolver.h"
#include "daemon/service/service_fixture.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using absl::StatusCode;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr size_t kOutputBytes = 32 * 24 * 3;

class ConvertTest : public ServiceTest {
 protected:
  // The same convert with inline bytes in and out.
  std::string Expected(const std::string& jpeg, int width, int height) {
    v1::ConvertReply reply;
    const absl::Status status = Convert(
        ResizeRequest(InlineSource(jpeg), InlineDestination(), width, height),
        &reply);
    EXPECT_TRUE(status.ok()) << status;
    return reply.inline_bytes();
  }
};

TEST_F(ConvertTest, SealedMemfdsInAndOutCopyNothing) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(
      Register(1, MemfdWith(jpeg, Seals::kAll), v1::BUFFER_ACCESS_READ).ok());
  const int out = RegisterKept(2, MemfdOfSize(kOutputBytes, Seals::kSize));
  v1::ConvertReply reply;
  ASSERT_TRUE(
      Convert(ResizeRequest(BufferSource(1), BufferDestination(2), 32, 24),
              &reply)
          .ok());
  EXPECT_EQ(reply.report().bytes_copied(), 0u);
  EXPECT_THAT(reply.report().warnings(), IsEmpty());
  EXPECT_FALSE(reply.report().backend().empty());
  EXPECT_EQ(reply.info().file_format(), "jpeg");
  EXPECT_EQ(reply.info().width(), 64);
  EXPECT_EQ(reply.orientation_applied(), 1);
  EXPECT_EQ(reply.layout().planes(0).stride_bytes(), 96u);
  EXPECT_EQ(reply.placement().source().width(), 64);
  EXPECT_DOUBLE_EQ(reply.placement().map().xx(), 0.5);
  EXPECT_TRUE(reply.inline_bytes().empty());
  EXPECT_EQ(ReadMemfd(out, kOutputBytes), Expected(jpeg, 32, 24));
}

TEST_F(ConvertTest, ReportsEveryStage) {
  v1::ConvertReply reply;
  ASSERT_TRUE(Convert(ResizeRequest(InlineSource(GradientJpeg(64, 48)),
                                    InlineDestination(), 32, 24),
                      &reply)
                  .ok());
  const v1::StageTimes& times = reply.report().times();
  EXPECT_GT(times.admit_ns(), 0);
  EXPECT_GT(times.decode_ns(), 0);
  EXPECT_GT(times.convert_ns(), 0);
  EXPECT_GE(times.total_ns(), times.admit_ns() + times.queue_ns() +
                                  times.decode_ns() + times.convert_ns());
}

TEST_F(ConvertTest, SourceWithoutWriteSealIsCopiedBeforeItIsParsed) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(Register(1, MemfdWith(jpeg, Seals::kSize)).ok());
  v1::ConvertReply reply;
  ASSERT_TRUE(
      Convert(ResizeRequest(BufferSource(1), InlineDestination(), 32, 24),
              &reply)
          .ok());
  EXPECT_EQ(reply.report().bytes_copied(), jpeg.size() + kOutputBytes);
  EXPECT_THAT(reply.report().warnings(),
              ElementsAre("encoded bytes were copied: the memory lacks the "
                          "write seal"));
  EXPECT_EQ(reply.inline_bytes(), Expected(jpeg, 32, 24));
}

TEST_F(ConvertTest, FastScaleTellsWhatWasDecoded) {
  const std::string jpeg = GradientJpeg(64, 48);
  v1::ConvertRequest request =
      ResizeRequest(InlineSource(jpeg), InlineDestination(), 32, 24);
  request.set_fast_scale(true);
  v1::ConvertReply reply;
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_THAT(reply.report().warnings(),
              ElementsAre("fast_scale: decoded at 1/2 of its size"));
  // A permission is not an order.
  v1::ConvertRequest slight =
      ResizeRequest(InlineSource(jpeg), InlineDestination(), 33, 24);
  slight.set_fast_scale(true);
  v1::ConvertReply full;
  ASSERT_TRUE(Convert(slight, &full).ok());
  EXPECT_THAT(full.report().warnings(),
              ElementsAre("fast_scale: decoded at full size"));
}

TEST_F(ConvertTest, UnsealedMemfdsWorkByCopyWithWarnings) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(Register(1, MemfdWith(jpeg, Seals::kNone)).ok());
  const int out = RegisterKept(2, MemfdOfSize(kOutputBytes, Seals::kNone));
  v1::ConvertReply reply;
  ASSERT_TRUE(
      Convert(ResizeRequest(BufferSource(1), BufferDestination(2), 32, 24),
              &reply)
          .ok());
  EXPECT_GE(reply.report().bytes_copied(), jpeg.size() + kOutputBytes);
  EXPECT_THAT(
      reply.report().warnings(),
      ElementsAre(
          "buffer 1 lacks the shrink and grow seals or has huge pages: copied",
          "buffer 2 lacks the shrink and grow seals or has huge pages: "
          "copied"));
  EXPECT_EQ(ReadMemfd(out, kOutputBytes), Expected(jpeg, 32, 24));
}

// Sources that are dear to open are opened by the job instead.
TEST_F(ConvertTest, LargeUnsealedSourceGivesTheSamePixels) {
  const std::string jpeg = GradientJpeg(64, 48);
  std::string padded = jpeg;
  padded.resize(kMaxCopyAtAdmission + 4096);
  for (const Seals seals : {Seals::kNone, Seals::kSize, Seals::kAll}) {
    const uint64_t id = 10 + static_cast<uint64_t>(seals);
    ASSERT_TRUE(
        Register(id, MemfdWith(padded, seals), v1::BUFFER_ACCESS_READ).ok());
    v1::ConvertReply reply;
    const absl::Status status = Convert(
        ResizeRequest(BufferSource(id), InlineDestination(), 32, 24), &reply);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(reply.inline_bytes(), Expected(jpeg, 32, 24));
  }
}

TEST_F(ConvertTest, EncodedBytesMayBePartOfABuffer) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(
      Register(1, MemfdWith(std::string(100, 'x') + jpeg + "tail", Seals::kAll),
               v1::BUFFER_ACCESS_READ)
          .ok());
  v1::ConvertRequest request =
      ResizeRequest(BufferSource(1), InlineDestination(), 32, 24);
  request.mutable_source()->mutable_buffer()->set_offset_bytes(100);
  request.mutable_source()->mutable_buffer()->set_size_bytes(jpeg.size());
  v1::ConvertReply reply;
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.inline_bytes(), Expected(jpeg, 32, 24));

  request.mutable_source()->mutable_buffer()->set_offset_bytes(
      std::numeric_limits<uint64_t>::max());
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kBufferTooSmall, "source.buffer.offset_bytes");
  request.mutable_source()->mutable_buffer()->set_offset_bytes(100);
  request.mutable_source()->mutable_buffer()->set_size_bytes(
      std::numeric_limits<uint64_t>::max());
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kBufferTooSmall, "source.buffer.size_bytes");
}

TEST_F(ConvertTest, InlineRawPixelsPassThrough) {
  const std::string pixels = GradientRgb(5, 3);
  v1::Source source = InlineSource(pixels);
  *source.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 5, 3);
  v1::ConvertReply reply;
  ASSERT_TRUE(
      Convert(ResizeRequest(source, InlineDestination(), 5, 3), &reply).ok());
  EXPECT_EQ(reply.inline_bytes(), pixels);
  EXPECT_EQ(reply.report().bytes_copied(), 2 * pixels.size());
  EXPECT_FALSE(reply.has_info());
}

TEST_F(ConvertTest, RegisteredLayoutsAreTheDefaults) {
  const v1::ImageLayout in = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 4);
  v1::ImageLayout out = MakeLayout(v1::PIXEL_FORMAT_BGR, 4, 2);
  out.add_planes()->set_stride_bytes(16);
  const std::string pixels = GradientRgb(8, 4);
  ASSERT_TRUE(
      Register(1, MemfdWith(pixels, Seals::kSize), v1::BUFFER_ACCESS_READ, &in)
          .ok());
  const int fd = RegisterKept(2, MemfdOfSize(28, Seals::kSize),
                              v1::BUFFER_ACCESS_WRITE, &out);
  v1::ConvertRequest request;
  *request.mutable_source() = BufferSource(1);
  *request.mutable_destination() = BufferDestination(2);
  v1::ConvertReply reply;
  const absl::Status status = Convert(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reply.layout().format(), v1::PIXEL_FORMAT_BGR);
  EXPECT_EQ(reply.layout().width(), 4);
  EXPECT_EQ(reply.layout().planes(0).stride_bytes(), 16u);
  // Bytes between the rows are nobody's business.
  EXPECT_EQ(ReadMemfd(fd, 28).substr(12, 4), std::string(4, '\x55'));
}

TEST_F(ConvertTest, PngResultIsAFile) {
  v1::ConvertRequest request = ResizeRequest(InlineSource(GradientJpeg(64, 48)),
                                             InlineDestination(), 32, 24);
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_PNG);
  v1::ConvertReply reply;
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.inline_bytes().substr(0, 4), "\x89PNG");
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_JPEG);
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.inline_bytes().substr(0, 2), "\xFF\xD8");
  request.mutable_destination()->mutable_layout()->set_dtype(v1::DATA_TYPE_F32);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFormatPair, "destination.inline");
}

TEST_F(ConvertTest, OrientationOfTheFileIsAppliedWhenAskedFor) {
  v1::ConvertRequest request;
  *request.mutable_source() = InlineSource(GradientJpeg(64, 48, 6));
  *request.mutable_destination() = InlineDestination();
  v1::ConvertReply reply;
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.layout().width(), 64);
  EXPECT_EQ(reply.orientation_applied(), 1);
  request.mutable_spec()->set_orientation_from_file(true);
  reply.Clear();
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.layout().width(), 48);
  EXPECT_EQ(reply.layout().height(), 64);
  EXPECT_EQ(reply.orientation_applied(), 6);
  // The spec's own number wins over the file's.
  request.mutable_spec()->set_orientation(3);
  ASSERT_TRUE(Convert(request, &reply).ok());
  EXPECT_EQ(reply.layout().width(), 64);
  EXPECT_EQ(reply.orientation_applied(), 3);
  v1::Source raw = InlineSource(GradientRgb(4, 4));
  *raw.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 4, 4);
  *request.mutable_source() = raw;
  request.mutable_spec()->set_orientation(0);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "spec.orientation_from_file");
}

TEST_F(ConvertTest, BadImagesAreToldApart) {
  const std::string jpeg = GradientJpeg(64, 48);
  const auto convert = [&](const std::string& bytes) {
    v1::ConvertReply reply;
    return Convert(
        ResizeRequest(InlineSource(bytes), InlineDestination(), 32, 24),
        &reply);
  };
  ExpectError(convert(""), StatusCode::kInvalidArgument,
              ErrorReason::kImageFormat, "source");
  ExpectError(convert("this is not an image at all"),
              StatusCode::kInvalidArgument, ErrorReason::kImageFormat,
              "source");
  ExpectError(convert(jpeg.substr(0, 40)), StatusCode::kInvalidArgument,
              ErrorReason::kImageTruncated, "source");
  ExpectError(convert(jpeg.substr(0, jpeg.size() / 2)),
              StatusCode::kInvalidArgument, ErrorReason::kImageTruncated);
}

TEST_F(ConvertTest, LenientGivesWhatCouldBeReadWithAWarning) {
  const std::string jpeg = GradientJpeg(64, 48);
  v1::ConvertRequest request =
      ResizeRequest(InlineSource(jpeg.substr(0, jpeg.size() - 60)),
                    InlineDestination(), 32, 24);
  request.set_lenient(true);
  v1::ConvertReply reply;
  const absl::Status status = Convert(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_FALSE(reply.report().warnings().empty());
}

TEST_F(ConvertTest, BadGeometryIsRefusedBeforeAnythingIsWritten) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(
      Register(1, MemfdWith(jpeg, Seals::kAll), v1::BUFFER_ACCESS_READ).ok());
  const int out = RegisterKept(2, MemfdOfSize(kOutputBytes, Seals::kSize));
  v1::ConvertReply reply;
  const v1::ConvertRequest good =
      ResizeRequest(BufferSource(1), BufferDestination(2), 32, 24);
  v1::ConvertRequest request = good;
  v1::Rect* rect = request.mutable_spec()->mutable_source_rect();
  rect->set_x(std::numeric_limits<int>::max());
  rect->set_width(std::numeric_limits<int>::max());
  rect->set_height(1);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kGeometryInvalid, "spec.source_rect");
  request = good;
  request.mutable_spec()->set_fit(v1::FIT_PLACE);
  request.mutable_spec()->mutable_place()->set_width(33);
  request.mutable_spec()->mutable_place()->set_height(24);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kGeometryInvalid);
  request = good;
  request.mutable_destination()->mutable_layout()->set_height(0);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kGeometryInvalid, "destination.layout.height");
  request.mutable_destination()->mutable_layout()->set_height(16385);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kTooLarge, "destination.layout.height");
  request = good;
  request.mutable_options()->add_backends("abacus");
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kBackendUnknown);
  request = good;
  for (int i = 0; i < 4; ++i) {
    request.mutable_spec()->mutable_normalization()->add_offset(1);
  }
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "spec.normalization.offset");
  EXPECT_EQ(ReadMemfd(out, kOutputBytes), std::string(kOutputBytes, '\x55'));
  EXPECT_TRUE(Convert(good, &reply).ok());
}

TEST_F(ConvertTest, LayoutsThatDoNotFitTheMemoryAreRefused) {
  ASSERT_TRUE(Register(1, MemfdWith(GradientRgb(8, 4), Seals::kSize)).ok());
  ASSERT_TRUE(Register(2, MemfdOfSize(96, Seals::kSize)).ok());
  v1::ConvertReply reply;
  v1::Source source = BufferSource(1);
  *source.mutable_layout() = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 5);
  ExpectError(Convert(ResizeRequest(source, InlineDestination(), 8, 4), &reply),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  source.mutable_layout()->set_height(4);
  source.mutable_layout()->add_planes()->set_stride_bytes(
      std::numeric_limits<uint64_t>::max() / 2);
  ExpectError(Convert(ResizeRequest(source, InlineDestination(), 8, 4), &reply),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  source.mutable_layout()->mutable_planes(0)->set_stride_bytes(24);
  source.mutable_layout()->mutable_planes(0)->set_offset_bytes(1);
  ExpectError(Convert(ResizeRequest(source, InlineDestination(), 8, 4), &reply),
              StatusCode::kInvalidArgument, ErrorReason::kBufferTooSmall);
  source.mutable_layout()->mutable_planes(0)->set_offset_bytes(0);
  source.mutable_layout()->mutable_planes(0)->set_fd_index(1);
  ExpectError(Convert(ResizeRequest(source, InlineDestination(), 8, 4), &reply),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid);
  source.mutable_layout()->mutable_planes(0)->set_fd_index(0);
  v1::ConvertRequest request =
      ResizeRequest(source, BufferDestination(2), 9, 4);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kBufferTooSmall);
  request.mutable_destination()->mutable_layout()->set_width(8);
  EXPECT_TRUE(Convert(request, &reply).ok());
  request.mutable_source()->mutable_buffer()->set_offset_bytes(4);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source.buffer.offset_bytes");
}

TEST_F(ConvertTest, OverlapOfSourceAndDestinationIsRefused) {
  const v1::ImageLayout layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 4);
  ASSERT_TRUE(Register(1, MemfdWith(GradientRgb(8, 4), Seals::kSize),
                       v1::BUFFER_ACCESS_READ_WRITE, &layout)
                  .ok());
  v1::ConvertReply reply;
  ExpectError(
      Convert(ResizeRequest(BufferSource(1), BufferDestination(1), 4, 4),
              &reply),
      StatusCode::kInvalidArgument, ErrorReason::kBufferOverlap);
}

TEST_F(ConvertTest, BuffersAreFoundOnlyInTheCallersSession) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(
      Register(1, MemfdWith(jpeg, Seals::kAll), v1::BUFFER_ACCESS_READ).ok());
  v1::ConvertRequest request =
      ResizeRequest(BufferSource(2), InlineDestination(), 32, 24);
  v1::ConvertReply reply;
  ExpectError(Convert(request, &reply), StatusCode::kNotFound,
              ErrorReason::kBufferUnknown);
  request.mutable_source()->mutable_buffer()->set_buffer_id(1);
  ExpectError(ConvertAs(CallOf(other_session_), request, &reply),
              StatusCode::kNotFound, ErrorReason::kBufferUnknown);
  ExpectError(ConvertAs(AnonymousCall(), request, &reply),
              StatusCode::kUnauthenticated, ErrorReason::kSessionUnknown,
              "source.buffer");
  request.mutable_source()->mutable_buffer()->set_generation(2);
  ExpectError(Convert(request, &reply), StatusCode::kFailedPrecondition,
              ErrorReason::kBufferGeneration);
}

TEST_F(ConvertTest, AccessRightsAreKept) {
  const v1::ImageLayout layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 4);
  ASSERT_TRUE(Register(1, MemfdWith(GradientRgb(8, 4), Seals::kSize),
                       v1::BUFFER_ACCESS_READ, &layout)
                  .ok());
  ASSERT_TRUE(Register(2, MemfdWith(GradientRgb(8, 4), Seals::kSize),
                       v1::BUFFER_ACCESS_WRITE, &layout)
                  .ok());
  v1::ConvertReply reply;
  ExpectError(
      Convert(ResizeRequest(BufferSource(1), BufferDestination(1), 8, 4),
              &reply),
      StatusCode::kFailedPrecondition, ErrorReason::kBufferReadOnly,
      "destination.buffer.buffer_id");
  ExpectError(Convert(ResizeRequest(BufferSource(2), InlineDestination(), 8, 4),
                      &reply),
              StatusCode::kFailedPrecondition, ErrorReason::kNotPermitted,
              "source.buffer.buffer_id");
  EXPECT_TRUE(
      Convert(ResizeRequest(BufferSource(1), BufferDestination(2), 8, 4),
              &reply)
          .ok());
}

TEST_F(ConvertTest, IncompleteRequestsAreRefused) {
  v1::ConvertRequest request;
  v1::ConvertReply reply;
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source");
  *request.mutable_source() = InlineSource(GradientJpeg(8, 8));
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "destination");
  *request.mutable_destination() = InlineDestination();
  EXPECT_TRUE(Convert(request, &reply).ok());
  request.mutable_source()->set_encoded(true);
  EXPECT_TRUE(Convert(request, &reply).ok());
  *request.mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 8, 8);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source.encoded");
  request.mutable_source()->set_encoded(false);
  request.mutable_source()->mutable_layout()->set_modifier(1);
  ExpectError(Convert(request, &reply), StatusCode::kUnimplemented,
              ErrorReason::kNotBuilt, "source.layout.modifier");
}

TEST_F(ConvertTest, InlineResultsAreBounded) {
  v1::ConvertRequest request = ResizeRequest(InlineSource(GradientJpeg(8, 8)),
                                             InlineDestination(), 1200, 1200);
  v1::ConvertReply reply;
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kTooLarge, "destination.layout");
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_PNG);
  EXPECT_TRUE(Convert(request, &reply).ok());
  request.mutable_destination()->mutable_layout()->set_width(16384);
  request.mutable_destination()->mutable_layout()->set_height(16384);
  ExpectError(Convert(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kTooLarge, "destination.layout");
}

TEST_F(ConvertTest, CancelledAndExpiredJobsAreNotStarted) {
  const v1::ConvertRequest request = ResizeRequest(
      InlineSource(GradientJpeg(8, 8)), InlineDestination(), 4, 4);
  BusyExecutor busy(scheduler_);
  v1::ConvertReply reply;
  absl::Status result;
  Gate done;
  CallContext call = Call();
  call.request_id = 77;
  service_.Convert(call, request, &reply, [&](absl::Status status) {
    result = std::move(status);
    done.Open();
  });
  EXPECT_FALSE(done.is_open());
  EXPECT_EQ(session_->facts().in_flight, 1);
  scheduler_.CancelRequest(session_->id(), 77);
  done.Wait();
  ExpectError(result, StatusCode::kCancelled, ErrorReason::kCancelled);
  busy.Release();
  call = Call();
  call.deadline_ns = call.arrival_ns - 1;
  ExpectError(ConvertAs(call, request, &reply), StatusCode::kDeadlineExceeded,
              ErrorReason::kDeadline);
}

TEST_F(ConvertTest, DrainingAndClosedSessionsAreUnavailable) {
  const v1::ConvertRequest request = ResizeRequest(
      InlineSource(GradientJpeg(8, 8)), InlineDestination(), 4, 4);
  v1::ConvertReply reply;
  sessions_.Close(other_session_);
  EXPECT_EQ(ConvertAs(CallOf(other_session_), request, &reply).code(),
            StatusCode::kUnavailable);
  service_.BeginDrain();
  ExpectError(Convert(request, &reply), StatusCode::kUnavailable,
              ErrorReason::kDraining);
}

// A job keeps what it uses although the client takes it back meanwhile.
TEST_F(ConvertTest, BuffersOutliveTheirRegistrationWhileAJobNeedsThem) {
  const std::string jpeg = GradientJpeg(64, 48);
  ASSERT_TRUE(
      Register(1, MemfdWith(jpeg, Seals::kAll), v1::BUFFER_ACCESS_READ).ok());
  const int out = RegisterKept(2, MemfdOfSize(kOutputBytes, Seals::kSize));
  const v1::ConvertRequest request =
      ResizeRequest(BufferSource(1), BufferDestination(2), 32, 24);
  v1::ConvertReply reply;
  absl::Status result;
  Gate done;
  {
    BusyExecutor busy(scheduler_);
    service_.Convert(Call(), request, &reply, [&](absl::Status status) {
      result = std::move(status);
      done.Open();
    });
    ASSERT_TRUE(session_->Unregister(1, 1).ok());
    ASSERT_TRUE(session_->Unregister(2, 1).ok());
  }
  done.Wait();
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_EQ(ReadMemfd(out, kOutputBytes), Expected(jpeg, 32, 24));
}

TEST_F(ConvertTest, ManyRequestsLeaveNoDescriptorBehind) {
  const std::string jpeg = GradientJpeg(64, 48);
  const int before = ReadProcessFacts().open_fds;
  for (uint64_t id = 1; id <= 20; ++id) {
    ASSERT_TRUE(Register(id, MemfdWith(jpeg, Seals::kNone)).ok());
    v1::ConvertReply reply;
    ASSERT_TRUE(
        Convert(ResizeRequest(BufferSource(id), InlineDestination(), 32, 24),
                &reply)
            .ok());
    ASSERT_TRUE(session_->Unregister(id, 1).ok());
  }
  EXPECT_EQ(ReadProcessFacts().open_fds, before);
}

SessionLimits OneInFlight() {
  SessionLimits limits;
  limits.max_in_flight_per_session = 1;
  return limits;
}

class OneInFlightTest : public ServiceTest {
 protected:
  OneInFlightTest() : ServiceTest(OneInFlight()) {}
};

TEST_F(OneInFlightTest, TheSecondRequestIsToldToWait) {
  const v1::ConvertRequest request = ResizeRequest(
      InlineSource(GradientJpeg(8, 8)), InlineDestination(), 4, 4);
  v1::ConvertReply first_reply;
  v1::ConvertReply second_reply;
  Gate done;
  {
    BusyExecutor busy(scheduler_);
    service_.Convert(Call(), request, &first_reply,
                     [&](const absl::Status& status) {
                       EXPECT_TRUE(status.ok()) << status;
                       done.Open();
                     });
    const absl::Status second = Convert(request, &second_reply);
    ExpectError(second, StatusCode::kResourceExhausted, ErrorReason::kQuota);
    EXPECT_GT(GetErrorDetail(second)->retry_after_ms, 0);
  }
  done.Wait();
  EXPECT_TRUE(Convert(request, &second_reply).ok());
  EXPECT_EQ(session_->facts().requests_ok, 2u);
}

class DecodeTest : public ServiceTest {};

TEST_F(DecodeTest, NativeFormatIsTheFilesOwn) {
  v1::DecodeRequest request;
  *request.mutable_source() = InlineSource(GradientJpeg(64, 48));
  *request.mutable_destination() = InlineDestination();
  v1::DecodeReply reply;
  const absl::Status status = Decode(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reply.layout().format(), v1::PIXEL_FORMAT_NV12);
  EXPECT_EQ(reply.layout().color().range(), v1::COLOR_RANGE_FULL);
  EXPECT_EQ(reply.inline_bytes().size(), 64u * 48 * 3 / 2);
  EXPECT_EQ(reply.info().subsampling(), "4:2:0");
  EXPECT_EQ(reply.report().backend(), "");
}

TEST_F(DecodeTest, RgbIntoABuffer) {
  v1::DecodeRequest request;
  *request.mutable_source() = InlineSource(GradientJpeg(64, 48));
  *request.mutable_destination() = BufferDestination(1);
  const v1::ImageLayout layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 64, 48);
  const int fd = RegisterKept(1, MemfdOfSize(64 * 48 * 3, Seals::kSize),
                              v1::BUFFER_ACCESS_WRITE, &layout);
  v1::DecodeReply reply;
  ASSERT_TRUE(Decode(request, &reply).ok());
  const std::string pixels = ReadMemfd(fd, 64 * 48 * 3);
  // The left top corner of the gradient is 0, 0, 96.
  EXPECT_NEAR(static_cast<unsigned char>(pixels[0]), 0, 8);
  EXPECT_NEAR(static_cast<unsigned char>(pixels[2]), 96, 8);
}

TEST_F(DecodeTest, OrientationIsAppliedOrOnlyReported) {
  v1::DecodeRequest request;
  *request.mutable_source() = InlineSource(GradientJpeg(64, 48, 8));
  *request.mutable_destination() = InlineDestination();
  request.mutable_destination()->mutable_layout()->set_format(
      v1::PIXEL_FORMAT_RGB);
  v1::DecodeReply reply;
  ASSERT_TRUE(Decode(request, &reply).ok());
  EXPECT_EQ(reply.layout().width(), 64);
  EXPECT_EQ(reply.info().orientation(), 8);
  EXPECT_EQ(reply.orientation_applied(), 1);
  const std::string stored = reply.inline_bytes();
  request.set_apply_orientation(true);
  reply.Clear();
  ASSERT_TRUE(Decode(request, &reply).ok());
  EXPECT_EQ(reply.layout().width(), 48);
  EXPECT_EQ(reply.layout().height(), 64);
  EXPECT_EQ(reply.orientation_applied(), 8);
  // Turned by 270 degrees: the stored right top is the upright left top.
  EXPECT_EQ(reply.inline_bytes().substr(0, 3), stored.substr(63 * 3, 3));
  // Native pixels of a turned picture become rgb, with a warning.
  request.mutable_destination()->clear_layout();
  reply.Clear();
  ASSERT_TRUE(Decode(request, &reply).ok());
  EXPECT_EQ(reply.layout().format(), v1::PIXEL_FORMAT_RGB);
  ASSERT_EQ(reply.report().warnings_size(), 1);
  EXPECT_THAT(reply.report().warnings(0), HasSubstr("nv12"));
}

TEST_F(DecodeTest, ResizingAndRawSourcesAreRefused) {
  v1::DecodeRequest request;
  *request.mutable_source() = InlineSource(GradientJpeg(64, 48));
  *request.mutable_destination() = InlineDestination();
  *request.mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 32, 24);
  v1::DecodeReply reply;
  ExpectError(Decode(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kGeometryInvalid, "destination.layout");
  *request.mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 2, 2);
  ExpectError(Decode(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source");
}

class EncodeTest : public ServiceTest {
 protected:
  EncodeTest() {
    *request_.mutable_source() = InlineSource(GradientRgb(16, 16));
    *request_.mutable_source()->mutable_layout() =
        MakeLayout(v1::PIXEL_FORMAT_RGB, 16, 16);
    *request_.mutable_destination() = InlineDestination();
  }
  v1::EncodeRequest request_;
  v1::EncodeReply reply_;
};

TEST_F(EncodeTest, FilesComeBackInline) {
  ASSERT_TRUE(Encode(request_, &reply_).ok());
  EXPECT_EQ(reply_.inline_bytes().substr(0, 2), "\xFF\xD8");
  EXPECT_EQ(reply_.size_bytes(), reply_.inline_bytes().size());
  request_.set_format(v1::FILE_FORMAT_PNG);
  ASSERT_TRUE(Encode(request_, &reply_).ok());
  EXPECT_EQ(reply_.inline_bytes().substr(0, 4), "\x89PNG");
}

TEST_F(EncodeTest, BuffersBoundTheFile) {
  ASSERT_TRUE(Encode(request_, &reply_).ok());
  const std::string expected = reply_.inline_bytes();
  for (const Seals seals : {Seals::kSize, Seals::kNone}) {
    const uint64_t id = 1 + static_cast<uint64_t>(seals);
    const size_t size = expected.size() + 20;
    const int fd = RegisterKept(id, MemfdOfSize(size, seals));
    *request_.mutable_destination() = BufferDestination(id);
    request_.mutable_destination()->mutable_buffer()->set_offset_bytes(10);
    reply_.Clear();
    ASSERT_TRUE(Encode(request_, &reply_).ok());
    EXPECT_EQ(reply_.size_bytes(), expected.size());
    EXPECT_TRUE(reply_.inline_bytes().empty());
    EXPECT_EQ(ReadMemfd(fd, size),
              std::string(10, '\x55') + expected + std::string(10, '\x55'));
    request_.mutable_destination()->mutable_buffer()->set_size_bytes(
        expected.size() - 1);
    ExpectError(Encode(request_, &reply_), StatusCode::kInvalidArgument,
                ErrorReason::kBufferTooSmall, "destination.buffer");
  }
}

TEST_F(EncodeTest, WrongPicturesAndDestinationsAreRefused) {
  request_.mutable_destination()->set_inline_(v1::INLINE_ENCODING_PNG);
  ExpectError(Encode(request_, &reply_), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "destination.inline");
  *request_.mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 2, 2);
  ExpectError(Encode(request_, &reply_), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "destination.layout");
  request_.mutable_source()->mutable_layout()->set_dtype(v1::DATA_TYPE_F32);
  ExpectError(Encode(request_, &reply_), StatusCode::kInvalidArgument,
              ErrorReason::kBufferTooSmall);
  request_.mutable_source()->clear_layout();
  ExpectError(Encode(request_, &reply_), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "source.layout");
}

}  // namespace
}  // namespace preprocd
