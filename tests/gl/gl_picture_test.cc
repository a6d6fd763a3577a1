// Pictures through the GL backend: imports that must be refused, memory that
// is used in several ways, colours, batches, large pictures.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <utility>
#include <vector>

#include "engine/backends/gles/image_import.h"
#include "engine/base/error_detail.h"
#include "engine/memory/buffer_import.h"
#include "tests/gl/gl_fixture.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace preprocd {
namespace {

class GlPictureTest : public GlTest {};

UniqueFd Memfd(uint64_t bytes, unsigned seals) {
  UniqueFd fd(memfd_create("gl", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

ImportRequest RequestOf(int fd, int width, int height, uint64_t stride) {
  ImportRequest request;
  request.fd = fd;
  request.key.width = width;
  request.key.height = height;
  request.key.stride_bytes = stride;
  request.key.fourcc = kFourccAbgr8888;
  return request;
}

// Drivers read past the end of such a file and crash.
TEST_F(GlPictureTest, AFileThatIsTooShortIsRefusedBeforeTheDriver) {
  const UniqueFd fd = Memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  EXPECT_TRUE(CheckImportable(RequestOf(fd.get(), 16, 64, 64)).ok());
  ImportRequest request = RequestOf(fd.get(), 16, 65, 64);
  const absl::Status rows = CheckImportable(request);
  EXPECT_EQ(rows.code(), absl::StatusCode::kInvalidArgument);
  const auto detail = GetErrorDetail(rows);
  ASSERT_TRUE(detail.has_value());
  EXPECT_EQ(detail->reason, ErrorReason::kBufferTooSmall);
  EXPECT_EQ(detail->field, "planes[0]");
  EXPECT_EQ(detail->got, "4096");
  EXPECT_EQ(detail->limit, "4160");
  // What to act on: format, size, stride, modifier, needed and available.
  for (const char* part :
       {"AB24", "16x65", "stride 64", "offset 0", "4160", "4096"}) {
    EXPECT_NE(rows.message().find(part), absl::string_view::npos) << rows;
  }
  request = RequestOf(fd.get(), 16, 64, 64);
  request.key.offset_bytes = 4;
  EXPECT_FALSE(CheckImportable(request).ok());
  request.key.offset_bytes = ~0ULL;
  EXPECT_FALSE(CheckImportable(request).ok());
  request = RequestOf(fd.get(), 16, 64, 0x7fffffffffffffff);
  EXPECT_FALSE(CheckImportable(request).ok());
  EXPECT_FALSE(CheckImportable(RequestOf(fd.get(), 0, 1, 64)).ok());
}

TEST_F(GlPictureTest, TheSecondPlaneIsCheckedToo) {
  const UniqueFd luma = Memfd(64 * 64, F_SEAL_SHRINK | F_SEAL_GROW);
  const UniqueFd chroma = Memfd(4096 - 1024, F_SEAL_SHRINK | F_SEAL_GROW);
  ImportRequest request = RequestOf(luma.get(), 64, 64, 64);
  request.key.fourcc = kFourccNv12;
  request.external = true;
  request.second_fd = chroma.get();
  request.key.second_stride_bytes = 64;
  EXPECT_TRUE(CheckImportable(request).ok());
  request.key.second_stride_bytes = 128;
  const absl::Status status = CheckImportable(request);
  EXPECT_EQ(GetErrorDetail(status)->field, "planes[1]") << status;
}

// Drivers map for writing without looking at the answer.
TEST_F(GlPictureTest,
       AFileThatRefusesWritableMappingsIsRefusedBeforeTheDriver) {
  const UniqueFd fd =
      Memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE);
  const absl::Status status = CheckImportable(RequestOf(fd.get(), 16, 64, 64));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kBufferSealed);
}

// The same through the backend: read by upload, once asked for, then known.
TEST_F(GlPictureTest, ASealedSourceIsReadByUpload) {
  Start(Settings());
  if (IsSkipped()) return;
  GlPicture from = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
  UniqueFd fd = Memfd(4096, F_SEAL_SHRINK | F_SEAL_GROW);
  Paint(from, 5);
  ASSERT_EQ(pwrite(fd.get(), from.bytes().data(), 4096, 0), 4096);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  ImportOptions options;
  options.access = Access::kRead;
  from.memory[0] = *ImportBuffer(std::move(fd), options);
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  const ConvertPlan plan = Plan(from, to);
  for (int i = 0; i < 3; ++i) {
    const absl::Status ran = Convert(plan, from, to);
    ASSERT_TRUE(ran.ok()) << ran;
  }
  EXPECT_GE(gl_->counts().uploads, 3u);
  GlPicture expected = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  const GlPicture copy = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
  Paint(copy, 5);
  expected = Reference(plan, copy, to);
  EXPECT_LE(Distance(to, expected), 1);
  if (gl_->features()->import_memfd) {
    EXPECT_GE(gl_->counts().import_refusals, 1u);
    EXPECT_LE(gl_->counts().imports, 4u);
  }
}

TEST_F(GlPictureTest, APlanePastTheBufferIsAnsweredNotRead) {
  Start(Settings());
  if (IsSkipped()) return;
  const GlPicture from = MakeGlPicture(PixelFormat::kNv12, DType::kU8, 64, 64);
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  ConvertPlan plan = Plan(from, to);
  plan.source.planes[1].offset_bytes += 64;
  const absl::Status ran = Convert(plan, from, to);
  EXPECT_EQ(ran.code(), absl::StatusCode::kInvalidArgument) << ran;
  EXPECT_EQ(GetErrorDetail(ran)->reason, ErrorReason::kBufferTooSmall);
  EXPECT_EQ(GetErrorDetail(ran)->field.rfind("source.planes[1]", 0), 0u);
}

// One buffer as RGBA, then as NV12, then as a smaller RGBA at an offset.
TEST_F(GlPictureTest, ABufferCanBeReadInDifferentWays) {
  Start(Settings());
  if (IsSkipped()) return;
  GlPicture a = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 64, 48);
  Paint(a, 9);
  GlPicture b = a;
  b.desc = *MakeImageDesc(PixelFormat::kNv12, DType::kU8, 128, 64);
  GlPicture c = a;
  c.desc = *MakeImageDesc(PixelFormat::kRgba, DType::kU8, 32, 24);
  c.desc.planes[0].offset_bytes = 4096;
  for (int round = 0; round < 3; ++round) {
    for (const GlPicture& from : {a, b, c}) {
      const GlPicture to =
          MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
      const ConvertPlan plan = Plan(from, to);
      const absl::Status ran = Convert(plan, from, to);
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_LE(Distance(to, Reference(plan, from, to)), 1);
    }
  }
}

// A descriptor's number says nothing about its memory.
TEST_F(GlPictureTest, ARecycledDescriptorOfOtherMemoryIsNotTheOldPicture) {
  Start(Settings());
  if (IsSkipped()) return;
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  std::set<int> numbers;
  for (uint32_t i = 0; i < 6; ++i) {
    const GlPicture from =
        MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
    Paint(from, i);
    numbers.insert(from.memory[0]->fd());
    const ConvertPlan plan = Plan(from, to);
    ASSERT_TRUE(Convert(plan, from, to).ok());
    ASSERT_LE(Distance(to, Reference(plan, from, to)), 1) << i;
  }
  EXPECT_LT(numbers.size(), 6u);
}

// The same memory under another descriptor finds its image.
TEST_F(GlPictureTest, AResentDescriptorOfTheSameMemoryIsNotImportedAgain) {
  Start(Settings());
  if (IsSkipped()) return;
  NeedImports();
  if (IsSkipped()) return;
  const GlPicture from = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  Paint(from, 1);
  const ConvertPlan plan = Plan(from, to);
  ASSERT_TRUE(Convert(plan, from, to).ok());
  const uint64_t imports = gl_->counts().imports;
  for (int i = 0; i < 3; ++i) {
    GlPicture again = from;
    UniqueFd copy(fcntl(from.memory[0]->fd(), F_DUPFD_CLOEXEC, 0));
    again.memory[0] = *ImportBuffer(std::move(copy), {});
    ASSERT_TRUE(Convert(plan, again, to).ok());
  }
  EXPECT_EQ(gl_->counts().imports, imports);
}

// What a session that ends had is not kept.
TEST_F(GlPictureTest, ImagesOfBuffersThatAreGoneLeave) {
  Start(Settings());
  if (IsSkipped()) return;
  NeedImports();
  if (IsSkipped()) return;
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 16, 16);
  {
    const GlPicture from =
        MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
    ASSERT_TRUE(Convert(Plan(from, to), from, to).ok());
  }
  const uint64_t imports = gl_->counts().imports;
  const GlPicture next = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 32);
  const ConvertPlan plan = Plan(next, to);
  ASSERT_TRUE(Convert(plan, next, to).ok());
  EXPECT_EQ(gl_->counts().imports, imports + 1);
  // Forgotten before the next job: the first picture's image and those of the
  // fixture's two buffers.
  EXPECT_EQ(gl_->counts().import_evictions, 3u);
  // More at once than a worker lists, or fewer: pixels stay right.
  for (int i = 0; i < 600; ++i) {
    MakeGlPicture(PixelFormat::kGrey, DType::kU8, 4, 4);
  }
  ASSERT_TRUE(Convert(plan, next, to).ok());
  EXPECT_LE(Distance(to, Reference(plan, next, to)), 1);
}

// Planes in two files with strides of their own.
TEST_F(GlPictureTest, PlanesMayLieInDifferentBuffers) {
  Start(Settings());
  if (IsSkipped()) return;
  GlPicture from = MakeGlPicture(PixelFormat::kNv12, DType::kU8, 64, 32);
  from.desc.planes[0] = {0, 0, 704};
  from.desc.planes[1] = {1, 4096, 768};
  from.memory = {*AllocateBuffer(AllocatorKind::kMemfd, 704 * 32, "y"),
                 *AllocateBuffer(AllocatorKind::kMemfd, 4096 + 768 * 16, "uv")};
  Paint(from, 2);
  const GlPicture to = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 32, 16);
  const ConvertPlan plan = Plan(from, to);
  const absl::Status ran = Convert(plan, from, to);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_LE(Distance(to, Reference(plan, from, to)), 1);
  GlPicture swapped = from;
  std::swap(swapped.memory[0], swapped.memory[1]);
  const absl::Status refused = Convert(plan, swapped, to);
  EXPECT_EQ(GetErrorDetail(refused)->field.rfind("source.planes[", 0), 0u)
      << refused;
}

// Destinations inside larger buffers: every other byte stays as it was.
TEST_F(GlPictureTest, BytesAroundADestinationStay) {
  Start(Settings());
  if (IsSkipped()) return;
  const GlPicture from = MakeGlPicture(PixelFormat::kNv12, DType::kU8, 96, 64);
  Paint(from, 3);
  for (const PixelFormat format :
       {PixelFormat::kRgb, PixelFormat::kRgba, PixelFormat::kBgra,
        PixelFormat::kGrey, PixelFormat::kPlanarRgb, PixelFormat::kNv12,
        PixelFormat::kYuyv, PixelFormat::kI420}) {
    for (const DType dtype : {DType::kU8, DType::kF32}) {
      const bool yuv = GetPixelFormatInfo(format).family == ColorFamily::kYuv;
      if (yuv && dtype != DType::kU8) continue;
      GlPicture to = MakeGlPicture(format, dtype, 64, 32, 256, 200'000);
      for (PlaneDesc& plane : to.desc.planes) plane.offset_bytes += 65'536;
      std::ranges::fill(to.bytes(), std::byte{0xee});
      const ConvertPlan plan = Plan(from, to);
      const GlPicture expected = Reference(plan, from, to);
      const absl::Status ran = Convert(plan, from, to);
      ASSERT_TRUE(ran.ok()) << ran;
      if (dtype == DType::kU8) {
        EXPECT_LE(Distance(to, expected), 1) << PixelFormatName(format);
      }
      const std::span<std::byte> bytes = to.bytes();
      EXPECT_TRUE(std::all_of(bytes.begin(), bytes.begin() + 65'536,
                              [](std::byte b) { return b == std::byte{0xee}; }))
          << PixelFormatName(format);
      EXPECT_TRUE(std::all_of(bytes.end() - 134'000, bytes.end(),
                              [](std::byte b) { return b == std::byte{0xee}; }))
          << PixelFormatName(format);
    }
  }
}

// All six colours on every YUV source, on both ways to read them.
TEST_F(GlPictureTest, SixColoursAreWithinTwoOfTheReference) {
  for (const GlYuvPath path :
       {GlYuvPath::kTexelFetch, GlYuvPath::kExternalSampler}) {
    GlSettings settings = Settings();
    settings.yuv_path = path;
    Start(settings);
    if (IsSkipped()) return;
    if (path == GlYuvPath::kExternalSampler && !gl_->features()->import_nv12) {
      printf("external path not tried: %s imports no nv12\n",
             gl_->features()->version.c_str());
      continue;
    }
    for (const PixelFormat format :
         {PixelFormat::kNv12, PixelFormat::kNv21, PixelFormat::kNv16,
          PixelFormat::kNv24, PixelFormat::kI420, PixelFormat::kYuyv,
          PixelFormat::kUyvy, PixelFormat::kVyuy}) {
      for (const auto matrix :
           {MatrixCoefficients::kBt601, MatrixCoefficients::kBt709,
            MatrixCoefficients::kBt2020}) {
        for (const ColorRange range :
             {ColorRange::kLimited, ColorRange::kFull}) {
          GlPicture from = MakeGlPicture(format, DType::kU8, 64, 48);
          Paint(from, 4);
          from.desc.color = {matrix, range};
          const GlPicture to =
              MakeGlPicture(PixelFormat::kRgba, DType::kU8, 64, 48);
          const ConvertPlan plan = Plan(from, to);
          const absl::Status ran = Convert(plan, from, to);
          ASSERT_TRUE(ran.ok()) << ran;
          EXPECT_LE(Distance(to, Reference(plan, from, to)), 2)
              << PixelFormatName(format) << " " << MatrixName(matrix) << " "
              << RangeName(range) << " path " << GlYuvPathName(path);
        }
      }
    }
    if (path == GlYuvPath::kExternalSampler) {
      EXPECT_GT(gl_->counts().import_hits + gl_->counts().imports, 0u);
    }
  }
}

// A batch reads its source once and has the bytes of single converts.
TEST_F(GlPictureTest, ABatchHasTheBytesOfItsTiles) {
  Start(Settings());
  if (IsSkipped()) return;
  const GlPicture from =
      MakeGlPicture(PixelFormat::kNv12, DType::kU8, 256, 128);
  Paint(from, 6);
  for (const PixelFormat format :
       {PixelFormat::kRgba, PixelFormat::kRgb, PixelFormat::kPlanarRgb,
        PixelFormat::kGrey}) {
    const GlPicture batch =
        MakeGlPicture(format, DType::kU8, 32, 32, 1, uint64_t{32} * 32 * 4 * 7);
    std::vector<ConvertPlan> plans;
    std::vector<GlPicture> tiles;
    for (int i = 0; i < 8; ++i) {
      GlPicture tile = batch;
      const uint64_t bytes = RequiredBytes(batch.desc);
      for (PlaneDesc& plane : tile.desc.planes) {
        plane.offset_bytes += bytes * static_cast<uint64_t>(i);
      }
      ConvertSpec spec;
      spec.source_rect = Rect{i % 4 * 64, i / 4 * 64, 64, 64};
      plans.push_back(Plan(from, tile, spec));
      tiles.push_back(std::move(tile));
    }
    const uint64_t uploads = gl_->counts().uploads;
    std::vector<size_t> finished;
    const auto ran =
        gl_->ConvertMany(plans, from.buffers(), batch.buffers(), pool_,
                         [&](size_t i) { finished.push_back(i); });
    ASSERT_TRUE(ran.ok()) << ran.status();
    EXPECT_LE(gl_->counts().uploads - uploads, 1u);
    EXPECT_EQ(finished, (std::vector<size_t>{0, 1, 2, 3, 4, 5, 6, 7}));
    GlPicture single = batch;
    single.memory = {*AllocateBuffer(AllocatorKind::kMemfd,
                                     batch.memory[0]->size_bytes(), "gl")};
    for (const ConvertPlan& plan : plans) {
      ASSERT_TRUE(
          gl_->Convert(plan, from.buffers(), single.buffers(), pool_).ok());
    }
    EXPECT_EQ(Distance(batch, single), 0) << PixelFormatName(format);
  }
}

// Parts of a picture, one intermediate after the other, fit together.
TEST_F(GlPictureTest, LargePicturesAreRenderedInPartsWithoutSeams) {
  Start(Settings());
  if (IsSkipped()) return;
  const GlPicture from = MakeGlPicture(PixelFormat::kGrey, DType::kU8, 31, 17);
  Paint(from, 7);
  // 16 bytes a pixel in between: several parts of 64 MiB.
  const GlPicture to =
      MakeGlPicture(PixelFormat::kI420, DType::kU8, 5000, 1700, 1);
  ConvertSpec spec;
  spec.filter = Filter::kNearest;
  const ConvertPlan plan = Plan(from, to, spec);
  const absl::Status ran = Convert(plan, from, to);
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_LE(Distance(to, Reference(plan, from, to)), 1);
}

}  // namespace
}  // namespace preprocd
