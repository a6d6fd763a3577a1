#include "engine/convert/converter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <memory>
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

}  // namespace
}  // namespace preprocd
