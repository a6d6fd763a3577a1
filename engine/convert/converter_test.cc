#include "engine/convert/converter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/memory/allocator.h"
#include "engine/memory/buffer_import.h"

namespace preprocd {
namespace {

constexpr uint64_t kNv12Bytes = 24;  // 4x4

// A memfd without seals: never mapped, copied in and out.
UniqueFd UnsealedMemfd(const std::string& bytes) {
  auto fd = CreateMemfd("test", bytes.size());
  EXPECT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(pwrite(fd->get(), bytes.data(), bytes.size(), 0),
            static_cast<ssize_t>(bytes.size()));
  return *std::move(fd);
}

std::string ReadAll(int fd, size_t size) {
  std::string bytes(size, '\0');
  EXPECT_EQ(pread(fd, bytes.data(), size, 0), static_cast<ssize_t>(size));
  return bytes;
}

std::shared_ptr<Buffer> Import(int fd, Access access = Access::kReadWrite) {
  ImportOptions options;
  options.access = access;
  auto buffer = ImportBuffer(UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)), options);
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  return *std::move(buffer);
}

PictureBuffers Pictures(const std::vector<std::shared_ptr<Buffer>>& buffers) {
  PictureBuffers picture;
  for (const auto& buffer : buffers) {
    picture.buffers[static_cast<size_t>(picture.count++)] = buffer.get();
  }
  return picture;
}

// NV12 whose chroma plane names buffer 1.
ImageDesc SplitNv12() {
  ImageDesc desc = *MakeImageDesc(PixelFormat::kNv12, DType::kU8, 4, 4);
  desc.planes[1].buffer_index = 1;
  return desc;
}

// Writes 'Y' and 'C' into the planes.
void Fill(const ImageView& view) {
  for (int y = 0; y < 4; ++y) memset(view.row(0, y), 'Y', 4);
  for (int y = 0; y < 2; ++y) memset(view.row(1, y), 'C', 4);
}

TEST(MappedDestinationTest, OneFileImportedTwiceKeepsBothPlanes) {
  const UniqueFd fd = UnsealedMemfd(std::string(kNv12Bytes, '.'));
  const std::vector<std::shared_ptr<Buffer>> buffers = {Import(fd.get()),
                                                        Import(fd.get())};
  ASSERT_TRUE(buffers[0]->copies());
  MappedDestination mapped;
  ASSERT_TRUE(mapped.Map(SplitNv12(), Pictures(buffers)).ok());
  Fill(mapped.view());
  ASSERT_TRUE(mapped.Finish().ok());
  EXPECT_EQ(ReadAll(fd.get(), kNv12Bytes),
            std::string(16, 'Y') + std::string(8, 'C'));
  // In and out, once.
  EXPECT_EQ(mapped.bytes_copied(), 2 * kNv12Bytes);
}

TEST(MappedDestinationTest, OneFileImportedReadOnlyTooIsStillRefused) {
  const UniqueFd fd = UnsealedMemfd(std::string(kNv12Bytes, '.'));
  const std::vector<std::shared_ptr<Buffer>> buffers = {
      Import(fd.get()), Import(fd.get(), Access::kRead)};
  MappedDestination mapped;
  const absl::Status status = mapped.Map(SplitNv12(), Pictures(buffers));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST(MappedDestinationTest, BytesBetweenRowsSurvive) {
  const UniqueFd fd = UnsealedMemfd("....--....--");
  const std::vector<std::shared_ptr<Buffer>> buffers = {Import(fd.get())};
  ImageDesc desc = *MakeImageDesc(PixelFormat::kGrey, DType::kU8, 4, 2);
  desc.planes[0].stride_bytes = 6;
  MappedDestination mapped;
  ASSERT_TRUE(mapped.Map(desc, Pictures(buffers)).ok());
  memset(mapped.view().row(0, 0), 'a', 4);
  memset(mapped.view().row(0, 1), 'b', 4);
  ASSERT_TRUE(mapped.Finish().ok());
  EXPECT_EQ(ReadAll(fd.get(), 12), "aaaa--bbbb--");
}

// The ways to end without Finish: a converter that returns early, and one
// that says so.
TEST(MappedDestinationTest, ACopiedBufferStaysUntouchedWithoutFinish) {
  for (const bool by_call : {false, true}) {
    const UniqueFd fd = UnsealedMemfd(std::string(kNv12Bytes, '.'));
    const std::vector<std::shared_ptr<Buffer>> buffers = {Import(fd.get())};
    {
      MappedDestination mapped;
      ASSERT_TRUE(mapped
                      .Map(*MakeImageDesc(PixelFormat::kNv12, DType::kU8, 4, 4),
                           Pictures(buffers))
                      .ok());
      Fill(mapped.view());
      if (by_call) mapped.Abandon();
    }
    EXPECT_EQ(ReadAll(fd.get(), kNv12Bytes), std::string(kNv12Bytes, '.'));
  }
}

TEST(MappedDestinationTest, PlanesOutsideTheirBufferAreRefusedWithTheirField) {
  auto heap = AllocateBuffer(AllocatorKind::kHeap, kNv12Bytes, "test");
  ASSERT_TRUE(heap.ok()) << heap.status();
  const std::vector<std::shared_ptr<Buffer>> buffers = {*heap};
  MappedDestination mapped;
  const absl::Status status = mapped.Map(SplitNv12(), Pictures(buffers));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(GetErrorDetail(status)->field,
            "destination.planes[1].buffer_index");
  MappedSource source;
  EXPECT_EQ(GetErrorDetail(source.Map(SplitNv12(), Pictures(buffers)))->field,
            "source.planes[1].buffer_index");
}

TEST(MappedSourceTest, PlanesAreFoundInTheirBuffers) {
  const UniqueFd luma = UnsealedMemfd(std::string(16, 'Y'));
  const UniqueFd chroma = UnsealedMemfd(std::string(8, 'C'));
  const std::vector<std::shared_ptr<Buffer>> buffers = {
      Import(luma.get(), Access::kRead), Import(chroma.get(), Access::kRead)};
  ImageDesc desc = SplitNv12();
  desc.planes[1].offset_bytes = 0;
  MappedSource mapped;
  ASSERT_TRUE(mapped.Map(desc, Pictures(buffers)).ok());
  EXPECT_EQ(*mapped.view().row(0, 3), std::byte{'Y'});
  EXPECT_EQ(*mapped.view().row(1, 1), std::byte{'C'});
  EXPECT_EQ(mapped.bytes_copied(), 24u);
}

// Copies a rectangle of a grey source and counts; fails for the plan whose
// rectangle begins at `bad_x`.
class CropConverter : public Converter {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   RowPool&) override {
    ++calls;
    if (plan.source_rect.x == bad_x) return absl::UnavailableError("bad");
    MappedSource from;
    absl::Status status = from.Map(plan.source, source);
    if (!status.ok()) return status;
    MappedDestination to;
    status = to.Map(plan.destination, destination);
    if (!status.ok()) return status;
    const Rect& r = plan.source_rect;
    for (int y = 0; y < r.height; ++y) {
      memcpy(to.view().row(0, y), from.view().row(0, r.y + y) + r.x,
             static_cast<size_t>(r.width));
    }
    status = to.Finish();
    if (!status.ok()) return status;
    return from.bytes_copied() + to.bytes_copied();
  }

  std::atomic<int> calls = 0;
  int bad_x = -1;

 private:
  Capabilities capabilities_;
};

// A 16x2 source, cut into 2x2 tiles that follow each other.
struct Cuts {
  explicit Cuts(int count) {
    const ImageDesc source =
        *MakeImageDesc(PixelFormat::kGrey, DType::kU8, 16, 2);
    for (int i = 0; i < count; ++i) {
      ConvertPlan plan;
      plan.source = source;
      plan.destination = *MakeImageDesc(PixelFormat::kGrey, DType::kU8, 2, 2);
      plan.destination.planes[0].offset_bytes = static_cast<uint64_t>(4 * i);
      plan.source_rect = {2 * i, 0, 2, 2};
      plans.push_back(plan);
      for (const int x : {0, 1, 16, 17}) {
        expected += kPixels[static_cast<size_t>(2 * i + x)];
      }
    }
  }

  static constexpr char kPixels[] = "abcdefghijklmnopABCDEFGHIJKLMNOP";
  std::vector<ConvertPlan> plans;
  std::string expected;
};

// Every index once; whether the buffer's owner saw the picture when told.
class Told {
 public:
  explicit Told(int fd, const Cuts& cuts) : fd_(fd), cuts_(cuts) {}
  void operator()(size_t index) {
    const std::string all = ReadAll(fd_, cuts_.expected.size());
    const std::lock_guard lock(mutex_);
    indexes_.push_back(index);
    EXPECT_EQ(all.substr(4 * index, 4), cuts_.expected.substr(4 * index, 4));
  }
  std::vector<size_t> Sorted() {
    std::sort(indexes_.begin(), indexes_.end());
    return indexes_;
  }

 private:
  const int fd_;
  const Cuts& cuts_;
  std::mutex mutex_;
  std::vector<size_t> indexes_;
};

UniqueFd Memfd(const std::string& bytes, bool sealed) {
  UniqueFd fd = UnsealedMemfd(bytes);
  if (sealed) {
    EXPECT_TRUE(SealSize(fd.get()).ok());
  }
  return fd;
}

TEST(ConvertManyTest, TilesLandInTheirPlacesAndAreToldWhenTheyAreThere) {
  for (const bool sealed : {true, false}) {
    for (const int threads : {1, 2, 3}) {
      for (const int count : {1, 2, 3, 5, 8}) {
        const Cuts cuts(count);
        const UniqueFd from = Memfd(Cuts::kPixels, sealed);
        const UniqueFd to =
            Memfd(std::string(cuts.expected.size() + 3, '.'), sealed);
        const std::vector<std::shared_ptr<Buffer>> source = {
            Import(from.get())};
        const std::vector<std::shared_ptr<Buffer>> batch = {Import(to.get())};
        RowPool pool(threads);
        CropConverter converter;
        Told told(to.get(), cuts);
        const auto copied =
            converter.ConvertMany(cuts.plans, Pictures(source), Pictures(batch),
                                  pool, [&told](size_t index) { told(index); });
        ASSERT_TRUE(copied.ok()) << copied.status();
        EXPECT_EQ(ReadAll(to.get(), cuts.expected.size() + 3),
                  cuts.expected + "...");
        EXPECT_EQ(converter.calls, count);
        EXPECT_EQ(told.Sorted().size(), static_cast<size_t>(count));
        EXPECT_EQ(told.Sorted().back(), static_cast<size_t>(count - 1));
        // A copied buffer once in and once out, however many tiles.
        EXPECT_EQ(*copied, sealed ? 0
                                  : sizeof(Cuts::kPixels) - 1 +
                                        2 * (cuts.expected.size() + 3));
      }
    }
  }
}

TEST(ConvertManyTest, AFailedTileLeavesACopiedBatchUntouched) {
  const Cuts cuts(6);
  const UniqueFd from = Memfd(Cuts::kPixels, true);
  const UniqueFd to = Memfd(std::string(24, '.'), false);
  const std::vector<std::shared_ptr<Buffer>> source = {Import(from.get())};
  const std::vector<std::shared_ptr<Buffer>> batch = {Import(to.get())};
  RowPool pool(2);
  CropConverter converter;
  converter.bad_x = 6;
  int told = 0;
  const auto copied =
      converter.ConvertMany(cuts.plans, Pictures(source), Pictures(batch), pool,
                            [&told](size_t) { ++told; });
  EXPECT_EQ(copied.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ReadAll(to.get(), 24), std::string(24, '.'));
  EXPECT_EQ(told, 0);
}

TEST(ConvertManyTest, BuffersThatCannotBeMappedNameTheirSide) {
  const Cuts cuts(2);
  const UniqueFd fd = Memfd(Cuts::kPixels, true);
  const std::vector<std::shared_ptr<Buffer>> source = {Import(fd.get())};
  const std::vector<std::shared_ptr<Buffer>> batch = {
      Import(fd.get(), Access::kRead)};
  RowPool pool(1);
  CropConverter converter;
  const auto copied = converter.ConvertMany(
      cuts.plans, Pictures(source), Pictures(batch), pool, [](size_t) {});
  EXPECT_EQ(copied.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(copied.status())->field, "destination.buffer");
  EXPECT_EQ(converter.calls, 0);
}

}  // namespace
}  // namespace preprocd
