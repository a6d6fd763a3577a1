// The GL backend on dma-bufs of real exporters, without a copy: counted where
// the daemon's replies do not tell. Runs in the guest. A driver that imports
// nothing makes these tests skip with what it said.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/gles/gles_converter.h"
#include "engine/backends/registry.h"
#include "engine/convert/planner.h"
#include "engine/exec/row_pool.h"
#include "engine/memory/allocator.h"
#include "engine/memory/buffer_import.h"
#include "tests/vm/device_memory.h"

namespace preprocd {
namespace {

constexpr uint64_t kBytes = 65536;
constexpr int kTolerance = 2;
constexpr std::array<uint8_t, 2> kBefore = {0xee, 0x11};

ImageDesc Desc(PixelFormat format, int width, int height,
               const std::vector<PlaneDesc>& planes) {
  ImageDesc desc = *MakeImageDesc(format, DType::kU8, width, height);
  for (size_t i = 0; i < planes.size(); ++i) desc.planes[i] = planes[i];
  return desc;
}

std::shared_ptr<Buffer> Import(int fd) {
  ImportOptions options;
  auto buffer = ImportBuffer(UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), options);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return buffer.ok() ? *std::move(buffer) : nullptr;
}

void Fill(std::span<uint8_t> bytes, int seed) {
  // Smooth, so that both filters round alike; different for each seed.
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<uint8_t>((i % 256) / 2 + i / 1024 +
                                    static_cast<size_t>(seed) * 31);
  }
}

// One GL backend for all tests: its worker takes seconds to start here.
class GlDeviceTest : public ::testing::TestWithParam<ExporterKind> {
 protected:
  static void SetUpTestSuite() {
    GlSettings settings;
    settings.device = "software";
    settings.transfer = GlTransfer::kZeroCopy;
    settings.stall_ms = 60'000;  // shaders are compiled under emulation
    gl_ = new GlesConverter(settings);
    for (std::unique_ptr<Converter>& backend : MakeBackends()) {
      if (backend->capabilities().name == "reference") {
        reference_ = backend.release();
      }
    }
    pool_ = new RowPool(1);
  }

  void SetUp() override {
    ASSERT_NE(reference_, nullptr);
    if (!gl_->capabilities().available) {
      GTEST_SKIP() << gl_->capabilities().detail;
    }
    auto exporter = OpenExporter(GetParam());
    ASSERT_TRUE(exporter.ok()) << exporter.status();
    exporter_ = *std::move(exporter);
    if (gl_->features() == nullptr) Warm();
    ASSERT_NE(gl_->features(), nullptr) << gl_->health();
    if (!gl_->features()->import_dma_buf) {
      GTEST_SKIP() << gl_->features()->version
                   << " imports no dma-buf: " << gl_->features()->import_detail;
    }
  }

  UniqueFd Export() {
    auto fd = exporter_->Export(kBytes, true);
    EXPECT_TRUE(fd.ok()) << fd.status();
    return fd.ok() ? *std::move(fd) : UniqueFd();
  }

  static absl::Status Run(Converter& backend, const ImageDesc& from,
                          Buffer& source, const ImageDesc& to,
                          Buffer& destination) {
    ConvertSpec spec;
    spec.filter = Filter::kBilinear;
    auto plan = PlanConvert(from, to, spec, false);
    if (!plan.ok()) return plan.status();
    PictureBuffers sources;
    sources.buffers[0] = &source;
    sources.count = 1;
    PictureBuffers destinations;
    destinations.buffers[0] = &destination;
    destinations.count = 1;
    return backend.Convert(*plan, sources, destinations, *pool_).status();
  }

  // The same pictures by GL in device memory and by the oracle in private
  // memory; all other bytes of the destination must stay.
  void ExpectSame(const ImageDesc& from, int source_fd, Buffer& source,
                  const ImageDesc& to, int destination_fd,
                  Buffer& destination) {
    auto exact_source = *AllocateBuffer(AllocatorKind::kHeap, kBytes, "source");
    {
      const CpuAccess memory(source_fd, false);
      auto mapping = *exact_source->Map(Access::kWrite);
      memcpy(mapping.bytes().data(), memory.bytes().data(), kBytes);
      const CpuAccess target(destination_fd);
      memset(target.bytes().data(), kBefore[0], target.bytes().size());
    }
    const absl::Status by_gl = Run(*gl_, from, source, to, destination);
    ASSERT_TRUE(by_gl.ok()) << by_gl;
    // Twice over different bytes: what differs afterwards was not written.
    std::array<std::vector<uint8_t>, 2> exact;
    for (size_t i = 0; i < exact.size(); ++i) {
      auto memory = *AllocateBuffer(AllocatorKind::kHeap, kBytes, "exact");
      {
        auto mapping = *memory->Map(Access::kWrite);
        memset(mapping.bytes().data(), kBefore[i], kBytes);
      }
      ASSERT_TRUE(Run(*reference_, from, *exact_source, to, *memory).ok());
      auto mapping = *memory->Map(Access::kRead);
      const auto* bytes =
          reinterpret_cast<const uint8_t*>(mapping.bytes().data());
      exact[i].assign(bytes, bytes + kBytes);
    }
    const CpuAccess got(destination_fd, false);
    for (size_t i = 0; i < kBytes; ++i) {
      const int tolerance = exact[0][i] == exact[1][i] ? kTolerance : 0;
      ASSERT_LE(std::abs(got.bytes()[i] - exact[0][i]), tolerance)
          << "byte " << i << ": " << int{got.bytes()[i]} << " instead of "
          << int{exact[0][i]};
    }
  }

  static uint64_t Copies() {
    return gl_->counts().uploads + gl_->counts().downloads;
  }

  static GlesConverter* gl_;
  static Converter* reference_;
  static RowPool* pool_;
  std::unique_ptr<Exporter> exporter_;

 private:
  // Any convert: the software worker starts with the first one.
  static void Warm() {
    const ImageDesc desc = Desc(PixelFormat::kRgba, 16, 16, {});
    auto from = *AllocateBuffer(AllocatorKind::kHeap, 1024, "from");
    auto to = *AllocateBuffer(AllocatorKind::kHeap, 1024, "to");
    const absl::Status status = Run(*gl_, desc, *from, desc, *to);
    EXPECT_TRUE(status.ok()) << status;
  }
};

GlesConverter* GlDeviceTest::gl_ = nullptr;
Converter* GlDeviceTest::reference_ = nullptr;
RowPool* GlDeviceTest::pool_ = nullptr;

INSTANTIATE_TEST_SUITE_P(
    Devices, GlDeviceTest,
    ::testing::Values(ExporterKind::kHeap, ExporterKind::kUdmabuf,
                      ExporterKind::kDumb, ExporterKind::kVideo),
    [](const auto& param) { return ExporterName(param.param); });

TEST_P(GlDeviceTest, PicturesAreReadAndWrittenWhereTheyLie) {
  const UniqueFd from = Export();
  const UniqueFd to = Export();
  const auto source = Import(from.get());
  const auto destination = Import(to.get());
  ASSERT_TRUE(source != nullptr && destination != nullptr);
  const std::vector<ImageDesc> sources = {
      Desc(PixelFormat::kRgba, 64, 48, {{0, 4096, 320}}),
      Desc(PixelFormat::kNv12, 64, 48, {{0, 0, 128}, {0, 8192, 128}}),
      Desc(PixelFormat::kGrey, 64, 48, {{0, 256, 64}})};
  const std::vector<ImageDesc> destinations = {
      Desc(PixelFormat::kRgba, 32, 24, {{0, 4096, 256}}),
      Desc(PixelFormat::kRgb, 64, 32, {{0, 4096, 256}})};
  for (size_t i = 0; i < sources.size(); ++i) {
    for (const ImageDesc& to_desc : destinations) {
      SCOPED_TRACE(testing::Message() << "source " << i);
      { Fill(CpuAccess(from.get()).bytes(), static_cast<int>(i)); }
      const uint64_t copies = Copies();
      const uint64_t refusals = gl_->counts().import_refusals;
      ExpectSame(sources[i], from.get(), *source, to_desc, to.get(),
                 *destination);
      EXPECT_EQ(gl_->counts().import_refusals, refusals);
      EXPECT_EQ(Copies(), copies);
    }
  }
}

// A descriptor of the same memory finds the image while a buffer over that
// memory is held; a number that names other memory now does not.
TEST_P(GlDeviceTest, ImagesBelongToTheMemoryNotToTheNumber) {
  const UniqueFd target = Export();
  const auto destination = Import(target.get());
  const ImageDesc from = Desc(PixelFormat::kRgba, 64, 48, {{0, 0, 256}});
  const ImageDesc to = Desc(PixelFormat::kRgba, 32, 24, {{0, 0, 128}});
  UniqueFd fd = Export();
  { Fill(CpuAccess(fd.get()).bytes(), 1); }
  const auto held = Import(fd.get());
  ExpectSame(from, fd.get(), *held, to, target.get(), *destination);
  const uint64_t imports = gl_->counts().imports;
  const uint64_t hits = gl_->counts().import_hits;
  ExpectSame(from, fd.get(), *Import(fd.get()), to, target.get(), *destination);
  EXPECT_EQ(gl_->counts().imports, imports) << "the same memory, again";
  EXPECT_EQ(gl_->counts().import_hits, hits + 2);

  const UniqueFd other = Export();
  { Fill(CpuAccess(other.get()).bytes(), 2); }
  ASSERT_EQ(dup3(other.get(), fd.get(), O_CLOEXEC), fd.get());
  ExpectSame(from, fd.get(), *Import(fd.get()), to, target.get(), *destination);
  EXPECT_EQ(gl_->counts().imports, imports + 1) << "other memory";
}

// A pool of four buffers, as a camera has: nothing is made anew.
TEST_P(GlDeviceTest, APoolIsImportedOnce) {
  const ImageDesc from = Desc(PixelFormat::kRgba, 32, 32, {{0, 0, 128}});
  const ImageDesc to = Desc(PixelFormat::kRgba, 16, 16, {{0, 0, 64}});
  std::vector<UniqueFd> fds;
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < 5; ++i) {
    fds.push_back(Export());
    buffers.push_back(Import(fds.back().get()));
    ASSERT_NE(buffers.back(), nullptr);
    { Fill(CpuAccess(fds.back().get()).bytes(), i); }
  }
  uint64_t imports = 0;
  const uint64_t copies = Copies();
  for (int i = 0; i < 40; ++i) {
    const absl::Status status =
        Run(*gl_, from, *buffers[static_cast<size_t>(i % 4)], to, *buffers[4]);
    ASSERT_TRUE(status.ok()) << status;
    if (i == 3) imports = gl_->counts().imports;
  }
  EXPECT_EQ(gl_->counts().imports, imports);
  EXPECT_EQ(Copies(), copies);
}

}  // namespace
}  // namespace preprocd
