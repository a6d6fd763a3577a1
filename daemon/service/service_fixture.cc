#include "daemon/service/service_fixture.h"

#include <unistd.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/codec/image_encoder.h"

namespace preprocd {

namespace v1 = preproc::v1;

UniqueFd MemfdWith(const std::string& bytes, Seals seals) {
  absl::StatusOr<UniqueFd> fd = CreateMemfd("service-test", bytes.size());
  EXPECT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(pwrite(fd->get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  if (seals == Seals::kSize) {
    EXPECT_TRUE(SealSize(fd->get()).ok());
  }
  if (seals == Seals::kAll) {
    EXPECT_TRUE(SealImmutable(fd->get()).ok());
  }
  return *std::move(fd);
}

UniqueFd MemfdOfSize(size_t size, Seals seals) {
  return MemfdWith(std::string(size, '\x55'), seals);
}

std::string ReadMemfd(int fd, size_t size) {
  std::string bytes(size, '\0');
  EXPECT_EQ(pread(fd, bytes.data(), size, 0), static_cast<ssize_t>(size));
  return bytes;
}

std::string GradientRgb(int width, int height) {
  std::string pixels;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      pixels.push_back(static_cast<char>(x * 255 / std::max(1, width - 1)));
      pixels.push_back(static_cast<char>(y * 255 / std::max(1, height - 1)));
      pixels.push_back(static_cast<char>(96));
    }
  }
  return pixels;
}

std::string GradientJpeg(int width, int height, int orientation) {
  const std::string pixels = GradientRgb(width, height);
  const auto desc = MakeImageDesc(PixelFormat::kRgb, DType::kU8, width, height);
  EXPECT_TRUE(desc.ok()) << desc.status();
  const std::span<const std::byte> memory[] = {
      std::as_bytes(std::span<const char>(pixels.data(), pixels.size()))};
  const auto view = MakeConstImageView(*desc, memory);
  EXPECT_TRUE(view.ok()) << view.status();
  std::vector<std::byte> file;
  const absl::Status status = EncodeJpeg(*view, JpegEncodeOptions(), file);
  EXPECT_TRUE(status.ok()) << status;
  std::string jpeg(reinterpret_cast<const char*>(file.data()), file.size());
  if (orientation == 1) return jpeg;
  // APP1: length 34, "Exif\0\0", a little-endian TIFF with one entry 0x0112.
  std::string exif(
      "\xFF\xE1\x00\x22"
      "Exif\0\0"
      "II*\0\x08\0\0\0"
      "\x01\0"
      "\x12\x01\x03\0\x01\0\0\0",
      28);
  exif += static_cast<char>(orientation);
  exif += std::string(3, '\0');
  exif += std::string(4, '\0');
  return jpeg.insert(2, exif);
}

v1::ImageLayout MakeLayout(v1::PixelFormat format, int width, int height) {
  v1::ImageLayout layout;
  layout.set_format(format);
  layout.set_width(width);
  layout.set_height(height);
  return layout;
}

void ExpectError(const absl::Status& status, absl::StatusCode code,
                 ErrorReason reason, const std::string& field) {
  EXPECT_EQ(status.code(), code) << status;
  v1::ErrorDetail detail;
  FillErrorDetail(status, &detail);
  EXPECT_EQ(static_cast<ErrorReason>(detail.reason()), reason)
      << v1::ErrorReason_Name(detail.reason()) << ": " << status;
  if (!field.empty()) {
    EXPECT_EQ(detail.field(), field) << status;
  }
}

ServiceTest::ServiceTest(const SessionLimits& limits)
    : engine_([] {
        EngineOptions options;
        options.row_threads = 1;
        absl::StatusOr<std::unique_ptr<Engine>> engine =
            Engine::Create(options);
        EXPECT_TRUE(engine.ok()) << engine.status();
        return *std::move(engine);
      }()),
      sessions_(limits, metrics_),
      scheduler_(
          [] {
            SchedulerOptions options;
            options.cpu_threads = 1;
            return options;
          }(),
          metrics_),
      service_({"1.2.3-test", "/run/test", kMaxInlineBytes}, *engine_,
               sessions_, scheduler_, metrics_) {
  const PeerCredentials peer = {getpid(), getuid(), getgid()};
  session_ = *sessions_.Open("test", peer);
  other_session_ = *sessions_.Open("other", peer);
}

ServiceTest::~ServiceTest() {
  // Every path of every test must give its slot back.
  EXPECT_TRUE(scheduler_.WaitIdle(10'000));
  EXPECT_EQ(session_->facts().in_flight, 0);
}

CallContext ServiceTest::CallOf(const std::shared_ptr<Session>& session) {
  CallContext call;
  call.session = session;
  call.arrival_ns = MonotonicNs();
  return call;
}

CallContext ServiceTest::AnonymousCall() {
  CallContext call =
      CallOf(sessions_.Anonymous({getpid(), getuid(), getgid()}));
  call.anonymous = true;
  return call;
}

absl::Status ServiceTest::ConvertAs(const CallContext& call,
                                    const v1::ConvertRequest& request,
                                    v1::ConvertReply* reply) {
  absl::Status result;
  Gate done;
  service_.Convert(call, request, reply, [&](absl::Status status) {
    result = std::move(status);
    done.Open();
  });
  done.Wait();
  return result;
}

absl::Status ServiceTest::Convert(const v1::ConvertRequest& request,
                                  v1::ConvertReply* reply) {
  return ConvertAs(Call(), request, reply);
}

absl::Status ServiceTest::Decode(const v1::DecodeRequest& request,
                                 v1::DecodeReply* reply) {
  absl::Status result;
  Gate done;
  service_.Decode(Call(), request, reply, [&](absl::Status status) {
    result = std::move(status);
    done.Open();
  });
  done.Wait();
  return result;
}

absl::Status ServiceTest::Encode(const v1::EncodeRequest& request,
                                 v1::EncodeReply* reply) {
  absl::Status result;
  Gate done;
  service_.Encode(Call(), request, reply, [&](absl::Status status) {
    result = std::move(status);
    done.Open();
  });
  done.Wait();
  return result;
}

absl::Status ServiceTest::Register(uint64_t id, UniqueFd fd,
                                   v1::BufferAccess access,
                                   const v1::ImageLayout* layout) {
  v1::RegisterBufferRequest request;
  request.set_buffer_id(id);
  request.set_generation(1);
  request.set_access(access);
  request.set_fd_count(1);
  if (layout != nullptr) *request.mutable_layout() = *layout;
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(fd));
  v1::RegisterBufferReply reply;
  return service_.RegisterBuffer(Call(), request, std::move(fds), &reply);
}

int ServiceTest::RegisterKept(uint64_t id, UniqueFd fd, v1::BufferAccess access,
                              const v1::ImageLayout* layout) {
  absl::StatusOr<UniqueFd> copy = fd.Duplicate();
  EXPECT_TRUE(copy.ok()) << copy.status();
  kept_.push_back(*std::move(copy));
  const absl::Status status = Register(id, std::move(fd), access, layout);
  EXPECT_TRUE(status.ok()) << status;
  return kept_.back().get();
}

BusyExecutor::BusyExecutor(Scheduler& scheduler) {
  Job job;
  job.session_id = ~uint64_t{0};
  job.work = [this](JobContext&) {
    started_.Open();
    release_.Wait();
    return absl::OkStatus();
  };
  job.done = [this](absl::Status) { done_.Open(); };
  EXPECT_TRUE(scheduler.Submit(job).ok());
  started_.Wait();
}

void BusyExecutor::Release() {
  if (released_) return;
  released_ = true;
  release_.Open();
  done_.Wait();
}

v1::Source BufferSource(uint64_t id) {
  v1::Source source;
  source.mutable_buffer()->set_buffer_id(id);
  source.mutable_buffer()->set_generation(1);
  return source;
}

v1::Source InlineSource(const std::string& bytes) {
  v1::Source source;
  source.set_inline_bytes(bytes);
  return source;
}

v1::Destination BufferDestination(uint64_t id) {
  v1::Destination destination;
  destination.mutable_buffer()->set_buffer_id(id);
  destination.mutable_buffer()->set_generation(1);
  return destination;
}

v1::Destination InlineDestination() {
  v1::Destination destination;
  destination.set_inline_(v1::INLINE_ENCODING_RAW);
  return destination;
}

v1::ConvertRequest ResizeRequest(v1::Source source, v1::Destination destination,
                                 int width, int height) {
  v1::ConvertRequest request;
  *request.mutable_source() = std::move(source);
  *request.mutable_destination() = std::move(destination);
  *request.mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, width, height);
  return request;
}

}  // namespace preprocd
