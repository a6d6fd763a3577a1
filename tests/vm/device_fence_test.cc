// Work that devices have not finished yet: fences on dma-bufs, and frames that
// a capture device writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "preprocd/admin.h"
#include "tests/vm/device_fixture.h"
#include "tests/vm/device_memory.h"

namespace preprocd {
namespace {

using ::testing::HasSubstr;

constexpr int kWidth = 32;
constexpr int kHeight = 16;
constexpr uint64_t kBytes = 4096;

v1::ImageLayout Grey() {
  return Picture(v1::PIXEL_FORMAT_GREY, kWidth, kHeight, {{0, 0, kWidth}});
}

bool HoldsPainting(std::span<const uint8_t> memory, int seed) {
  std::vector<uint8_t> painted(kBytes);
  Paint(Grey(), painted, seed);
  return std::equal(painted.begin(), painted.begin() + kWidth * kHeight,
                    memory.begin());
}

class FenceTest : public DeviceTest,
                  public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!HasBackend(GetParam())) GTEST_SKIP() << "no backend " << GetParam();
    auto fenced = FencedBuffer::Create(kBytes);
    ASSERT_TRUE(fenced.ok()) << fenced.status();
    fenced_.emplace(*std::move(fenced));
    auto admin = Admin::Connect(AdminAddress(""));
    ASSERT_TRUE(admin.ok()) << admin.status();
    admin_ = *std::move(admin);
    auto result = session().CreateBuffer(kBytes, Tight(Grey()));
    ASSERT_TRUE(result.ok()) << result.status();
    memory_ = *std::move(result);
  }

  // A convert on another thread, begun when this returns.
  std::future<absl::Status> Begin(const Buffer& source,
                                  const Buffer& destination) {
    auto done = std::async(std::launch::async, [&] {
      return Convert(source, destination, GetParam()).status();
    });
    EXPECT_TRUE(Await([&] {
      const auto sessions = admin_->ListSessions();
      if (!sessions.ok()) return false;
      return std::any_of(
          sessions->sessions().begin(), sessions->sessions().end(),
          [&](const v1::SessionDescription& listed) {
            return listed.session_id() == session().session_id() &&
                   listed.in_flight() == 1;
          });
    })) << "the convert did not begin, or ended before its fence did";
    return done;
  }

  // Longer than any convert of this size takes.
  static bool StillWaits(const std::future<absl::Status>& done) {
    return done.wait_for(std::chrono::milliseconds(300)) ==
           std::future_status::timeout;
  }

  std::optional<FencedBuffer> fenced_;
  std::unique_ptr<Admin> admin_;
  Buffer memory_;
};

INSTANTIATE_TEST_SUITE_P(Backends, FenceTest, ::testing::Values("cpu", "gl"),
                         [](const auto& param) { return param.param; });

TEST_P(FenceTest, ASourceIsReadAfterItsWriterIsDone) {
  { Paint(Grey(), CpuAccess(fenced_->fd()).bytes(), 1); }
  auto source = Register(fenced_->fd(), Grey());
  ASSERT_TRUE(source.ok()) << source.status();
  CpuAccess device(fenced_->fd());
  ASSERT_TRUE(fenced_->Attach(/*writing=*/true).ok());
  auto done = Begin(*source, memory_);
  EXPECT_TRUE(StillWaits(done));
  // What the device had yet to write.
  Paint(Grey(), device.bytes(), 2);
  ASSERT_TRUE(fenced_->Signal().ok());
  const absl::Status status = done.get();
  EXPECT_TRUE(status.ok()) << status;
  const auto bytes = memory_.bytes();
  EXPECT_TRUE(HoldsPainting(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 2));
}

TEST_P(FenceTest, ADestinationIsWrittenAfterItsReadersAreDone) {
  {
    const auto bytes = memory_.bytes();
    Paint(Grey(), {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}, 2);
  }
  { Paint(Grey(), CpuAccess(fenced_->fd()).bytes(), 1); }
  auto destination = Register(fenced_->fd(), Grey());
  ASSERT_TRUE(destination.ok()) << destination.status();
  CpuAccess device(fenced_->fd(), false);
  ASSERT_TRUE(fenced_->Attach(/*writing=*/false).ok());
  auto done = Begin(memory_, *destination);
  EXPECT_TRUE(StillWaits(done));
  EXPECT_TRUE(HoldsPainting(device.bytes(), 1)) << "written under a reader";
  ASSERT_TRUE(fenced_->Signal().ok());
  const absl::Status status = done.get();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(HoldsPainting(device.bytes(), 2));
}

TEST_P(FenceTest, ReadersDoNotWaitForReaders) {
  { Paint(Grey(), CpuAccess(fenced_->fd()).bytes(), 1); }
  auto source = Register(fenced_->fd(), Grey());
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_TRUE(fenced_->Attach(/*writing=*/false).ok());
  const absl::Status status = Convert(*source, memory_, GetParam()).status();
  EXPECT_TRUE(status.ok()) << status;
  // The fence was pending all the while: only then it can be signalled.
  EXPECT_TRUE(fenced_->Signal().ok());
}

// The bound is the daemon's, not the kernel's: a device that hangs costs the
// request, with a reason, and neither the daemon nor the next request.
TEST_P(FenceTest, ADeviceThatHangsCostsOneRequest) {
  auto buffer = Register(fenced_->fd(), Grey());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_TRUE(fenced_->Attach(/*writing=*/true).ok());
  {
    const auto bytes = memory_.bytes();
    Paint(Grey(), {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}, 3);
  }
  for (const absl::Status& status :
       {Convert(*buffer, memory_, GetParam()).status(),
        Convert(memory_, *buffer, GetParam()).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ReasonOf(status), ErrorReason::kDmaBuf);
    EXPECT_THAT(std::string(status.message()), HasSubstr("fence"));
  }
  const auto bytes = memory_.bytes();
  EXPECT_TRUE(HoldsPainting(
      {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 3));
  ASSERT_TRUE(fenced_->Signal().ok());
  EXPECT_TRUE(Convert(memory_, *buffer, GetParam()).ok());
  EXPECT_TRUE(HoldsPainting(CpuAccess(fenced_->fd(), false).bytes(), 3));
}

// A sync file carries the fence of one exporter's buffer to another's, as
// explicit synchronisation does between devices.
TEST_P(FenceTest, AnImportedSyncFileIsWaitedFor) {
  for (const ExporterKind kind :
       {ExporterKind::kHeap, ExporterKind::kUdmabuf}) {
    SCOPED_TRACE(ExporterName(kind));
    const auto exporter = Open(kind);
    ASSERT_NE(exporter, nullptr);
    const auto fd = exporter->Export(kBytes, true);
    ASSERT_TRUE(fd.ok()) << fd.status();
    { Paint(Grey(), CpuAccess(fd->get()).bytes(), 4); }
    auto source = Register(fd->get(), Grey());
    ASSERT_TRUE(source.ok()) << source.status();
    CpuAccess device(fd->get());
    ASSERT_TRUE(fenced_->Attach(/*writing=*/true).ok());
    const auto sync_file = ExportSyncFile(fenced_->fd(), /*for_writing=*/true);
    ASSERT_TRUE(sync_file.ok()) << sync_file.status();
    const absl::Status imported =
        ImportSyncFile(fd->get(), sync_file->get(), /*writing=*/true);
    ASSERT_TRUE(imported.ok()) << imported;
    auto done = Begin(*source, memory_);
    EXPECT_TRUE(StillWaits(done));
    Paint(Grey(), device.bytes(), 5);
    ASSERT_TRUE(fenced_->Signal().ok());
    const absl::Status status = done.get();
    EXPECT_TRUE(status.ok()) << status;
    const auto bytes = memory_.bytes();
    EXPECT_TRUE(HoldsPainting(
        {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()}, 5));
  }
}

// When the reply is there, the work on the destination is done: whoever asks
// the kernel finds no fence that is still pending.
TEST_P(FenceTest, NothingIsPendingAfterTheReply) {
  auto destination = Register(fenced_->fd(), Grey());
  ASSERT_TRUE(destination.ok()) << destination.status();
  ASSERT_TRUE(Convert(memory_, *destination, GetParam()).ok());
  const auto sync_file = ExportSyncFile(fenced_->fd(), /*for_writing=*/true);
  ASSERT_TRUE(sync_file.ok()) << sync_file.status();
  pollfd waited = {sync_file->get(), POLLIN, 0};
  EXPECT_EQ(poll(&waited, 1, 0), 1);
}

class CaptureTest : public DeviceTest {
 protected:
  static v1::ImageLayout Frame() {
    return Picture(v1::PIXEL_FORMAT_NV12, kVideoWidth, kVideoHeight,
                   {{0, 0, kVideoWidth},
                    {0, uint64_t{kVideoWidth} * kVideoHeight, kVideoWidth}});
  }
  // The frame as a small picture, and what the exact backend makes of it.
  void ExpectConverted(const Buffer& source, int fd) {
    v1::ImageLayout wanted;
    wanted.set_format(v1::PIXEL_FORMAT_RGB);
    wanted.set_width(48);
    wanted.set_height(27);
    auto result = session().CreateBuffer(48 * 27 * 3, wanted);
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_TRUE(Convert(source, *result, "cpu", v1::FILTER_BILINEAR).ok());
    const CpuAccess frame(fd, false);
    // A test picture has colours; memory that nobody wrote has one.
    const auto luma = frame.bytes().first(size_t{kVideoWidth} * kVideoHeight);
    const auto [low, high] = std::minmax_element(luma.begin(), luma.end());
    EXPECT_GT(*high - *low, 100) << "nothing was captured";
    ExpectNear(
        std::string(reinterpret_cast<const char*>(result->bytes().data()),
                    result->bytes().size()),
        Expected(Frame(), frame.bytes(), wanted, v1::FILTER_BILINEAR), 1);
  }
};

// The driver's buffers, exported: the daemon reads where the device writes.
TEST_F(CaptureTest, FramesInTheDevicesOwnBuffers) {
  auto device = VideoDevice::Open();
  ASSERT_TRUE(device.ok()) << device.status();
  ASSERT_TRUE((*device)->AllocateBuffers().ok());
  const auto fd = (*device)->ExportBuffer(0, true);
  ASSERT_TRUE(fd.ok()) << fd.status();
  auto source = Register(fd->get(), Frame(), v1::BUFFER_ACCESS_READ);
  ASSERT_TRUE(source.ok()) << source.status();
  for (int round = 0; round < 2; ++round) {
    const absl::Status captured = (*device)->CaptureInto(1, {});
    ASSERT_TRUE(captured.ok()) << captured;
    ExpectConverted(*source, fd->get());
  }
}

// The device writes into memory that the daemon allocated.
TEST_F(CaptureTest, FramesInTheDaemonsBuffers) {
  for (const v1::AllocatorKind kind :
       {v1::ALLOCATOR_KIND_DMA_HEAP, v1::ALLOCATOR_KIND_UDMABUF}) {
    SCOPED_TRACE(v1::AllocatorKind_Name(kind));
    v1::AllocateBufferRequest request;
    request.set_allocator(kind);
    *request.mutable_layout() = Frame();
    auto source = session().AllocateBuffer(request);
    ASSERT_TRUE(source.ok()) << source.status();
    auto device = VideoDevice::Open();
    ASSERT_TRUE(device.ok()) << device.status();
    ASSERT_TRUE((*device)->TakeBuffers(1).ok());
    const int fd = source->fd();
    const absl::Status captured = (*device)->CaptureInto(1, {&fd, 1});
    ASSERT_TRUE(captured.ok()) << captured;
    ExpectConverted(*source, fd);
  }
}

}  // namespace
}  // namespace preprocd
