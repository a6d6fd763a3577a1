#include "engine/image/image_desc.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

ImageDesc Make(PixelFormat format, int width, int height,
               DType dtype = DType::kU8) {
  const auto desc = MakeImageDesc(format, dtype, width, height);
  EXPECT_TRUE(desc.ok()) << desc.status();
  return desc.value_or(ImageDesc{});
}

absl::Status Validate(const ImageDesc& desc, uint64_t size) {
  return ValidateImageDesc(desc, std::array<uint64_t, 1>{size});
}

ErrorDetail DetailOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return GetErrorDetail(status).value_or(ErrorDetail{});
}

TEST(ImageDescTest, OddSizesRoundChromaUp) {
  const ImageDesc nv12 = Make(PixelFormat::kNv12, 5, 3);
  EXPECT_EQ(nv12.planes[0].stride_bytes, 5u);
  EXPECT_EQ(nv12.planes[1].stride_bytes, 6u);
  EXPECT_EQ(nv12.planes[1].offset_bytes, 15u);
  EXPECT_EQ(RequiredBytes(nv12), 15u + 2 * 6);
  EXPECT_EQ(RequiredBytes(Make(PixelFormat::kI420, 5, 3)), 15u + 6 + 6);
  EXPECT_EQ(RequiredBytes(Make(PixelFormat::kNv16, 5, 3)), 15u + 3 * 6);
  EXPECT_EQ(RequiredBytes(Make(PixelFormat::kNv24, 5, 3)), 15u + 3 * 10);
  EXPECT_EQ(RequiredBytes(Make(PixelFormat::kYuyv, 5, 3)), 3u * 12);
  EXPECT_EQ(RequiredBytes(Make(PixelFormat::kPlanarRgb, 5, 3, DType::kF32)),
            3u * 5 * 3 * 4);
}

TEST(ImageDescTest, StrideAlignmentIsHonoured) {
  const auto desc = MakeImageDesc(PixelFormat::kRgb, DType::kU8, 5, 3, 64);
  ASSERT_TRUE(desc.ok());
  EXPECT_EQ(desc->planes[0].stride_bytes, 64u);
  // The last row needs no padding after it.
  EXPECT_EQ(RequiredBytes(*desc), 2u * 64 + 15);
  EXPECT_TRUE(Validate(*desc, 2 * 64 + 15).ok());
  EXPECT_FALSE(Validate(*desc, 2 * 64 + 14).ok());
}

TEST(ImageDescTest, SizesOutsideTheLimitsAreRefusedWithTheirField) {
  EXPECT_EQ(
      DetailOf(MakeImageDesc(PixelFormat::kRgb, DType::kU8, 0, 5).status())
          .field,
      "width");
  EXPECT_EQ(
      DetailOf(MakeImageDesc(PixelFormat::kRgb, DType::kU8, 5, -1).status())
          .field,
      "height");
  const ErrorDetail large = DetailOf(
      MakeImageDesc(PixelFormat::kRgb, DType::kU8, 5, kMaxImageAxis + 1)
          .status());
  EXPECT_EQ(large.reason, ErrorReason::kTooLarge);
  EXPECT_EQ(
      DetailOf(
          MakeImageDesc(PixelFormat::kUnspecified, DType::kU8, 5, 5).status())
          .field,
      "format");
  EXPECT_EQ(
      DetailOf(MakeImageDesc(static_cast<PixelFormat>(99), DType::kU8, 5, 5)
                   .status())
          .field,
      "format");
  EXPECT_EQ(
      DetailOf(MakeImageDesc(PixelFormat::kRgb, static_cast<DType>(99), 5, 5)
                   .status())
          .field,
      "dtype");
}

TEST(ImageDescTest, ForeignStridesCannotOverflow) {
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  for (const uint64_t stride : {max, max / 2, max / 4, uint64_t{1} << 62}) {
    for (const uint64_t offset : {uint64_t{0}, uint64_t{1} << 63}) {
      ImageDesc desc = Make(PixelFormat::kGrey, 16, 16);
      desc.planes[0].stride_bytes = stride;
      desc.planes[0].offset_bytes = offset;
      EXPECT_EQ(DetailOf(Validate(desc, 4096)).reason,
                ErrorReason::kBufferTooSmall);
    }
  }
}

TEST(ImageDescTest, EveryPlaneIsProved) {
  ImageDesc desc = Make(PixelFormat::kNv12, 16, 16);
  EXPECT_TRUE(Validate(desc, 16 * 16 * 3 / 2).ok());
  desc.planes[1].offset_bytes = 16 * 16 + 1;
  EXPECT_EQ(DetailOf(Validate(desc, 16 * 16 * 3 / 2)).field, "planes[1]");
  desc.planes[1].offset_bytes = 1 << 20;
  EXPECT_EQ(DetailOf(Validate(desc, 4096)).field, "planes[1].offset_bytes");
  desc = Make(PixelFormat::kNv12, 16, 16);
  desc.planes[1].stride_bytes = 15;
  EXPECT_EQ(DetailOf(Validate(desc, 4096)).field, "planes[1].stride_bytes");
  desc = Make(PixelFormat::kNv12, 16, 16);
  desc.planes[1].buffer_index = 1;
  EXPECT_EQ(DetailOf(Validate(desc, 4096)).field, "planes[1].buffer_index");
}

TEST(ImageDescTest, ElementsMustBeAligned) {
  ImageDesc desc = Make(PixelFormat::kPlanarRgb, 4, 4, DType::kF32);
  desc.planes[1].offset_bytes += 2;
  EXPECT_EQ(DetailOf(Validate(desc, 4096)).field, "planes[1].offset_bytes");
  desc = Make(PixelFormat::kRgb, 4, 4, DType::kF32);
  desc.planes[0].stride_bytes += 1;
  EXPECT_EQ(DetailOf(Validate(desc, 4096)).field, "planes[0].stride_bytes");
}

TEST(ImageDescTest, PlanesInSeparateBuffers) {
  ImageDesc desc = Make(PixelFormat::kNv12, 16, 16);
  desc.planes[1].buffer_index = 1;
  desc.planes[1].offset_bytes = 0;
  EXPECT_TRUE(ValidateImageDesc(desc, std::array<uint64_t, 2>{256, 128}).ok());
  EXPECT_FALSE(ValidateImageDesc(desc, std::array<uint64_t, 2>{256, 127}).ok());
  EXPECT_EQ(RequiredBytes(desc, 0), 256u);
  EXPECT_EQ(RequiredBytes(desc, 1), 128u);
}

TEST(ImageDescTest, OverlapIsByExtent) {
  ImageDesc a = Make(PixelFormat::kGrey, 8, 8);
  ImageDesc b = a;
  EXPECT_TRUE(PlanesOverlap(a, b));
  b.planes[0].offset_bytes = 64;
  EXPECT_FALSE(PlanesOverlap(a, b));
  b.planes[0].offset_bytes = 63;
  EXPECT_TRUE(PlanesOverlap(a, b));
  b.planes[0].buffer_index = 1;
  EXPECT_FALSE(PlanesOverlap(a, b));
}

TEST(ImageDescTest, OverlapIsFoundInAnyPairOfPlanes) {
  const ImageDesc nv12 = Make(PixelFormat::kNv12, 8, 8);  // 64 + 32 bytes
  ImageDesc grey = Make(PixelFormat::kGrey, 8, 2);        // 16 bytes
  for (const auto& [offset, overlaps] : {std::pair<uint64_t, bool>{0, true},
                                         {63, true},
                                         {95, true},
                                         {96, false},
                                         {1000, false}}) {
    grey.planes[0].offset_bytes = offset;
    EXPECT_EQ(PlanesOverlap(nv12, grey), overlaps) << offset;
    EXPECT_EQ(PlanesOverlap(grey, nv12), overlaps) << offset;
  }
  // Between the planes when they lie apart.
  ImageDesc apart = nv12;
  apart.planes[1].offset_bytes = 80;
  grey.planes[0].offset_bytes = 64;
  EXPECT_FALSE(PlanesOverlap(apart, grey));
  grey.planes[0].offset_bytes = 65;
  EXPECT_TRUE(PlanesOverlap(apart, grey));
}

// One byte less than the last row's end is refused, that end is enough; for
// every format, type and an odd size.
TEST(ImageDescTest, TheExactSizeIsTheSmallestAccepted) {
  for (const PixelFormatInfo& info : AllPixelFormats()) {
    for (int dtype = 1; dtype < kDTypeCount; ++dtype) {
      for (const int side : {1, 2, 7}) {
        const ImageDesc desc =
            Make(info.format, side, side + 2, static_cast<DType>(dtype));
        const uint64_t required = RequiredBytes(desc);
        EXPECT_TRUE(Validate(desc, required).ok()) << info.name;
        EXPECT_FALSE(Validate(desc, required - 1).ok()) << info.name;
        EXPECT_FALSE(Validate(desc, 0).ok()) << info.name;
      }
    }
  }
}

TEST(ImageDescTest, NoBuffersAtAllIsRefused) {
  EXPECT_EQ(
      DetailOf(ValidateImageDesc(Make(PixelFormat::kGrey, 2, 2), {})).field,
      "planes[0].buffer_index");
}

TEST(ImageDescTest, AnOverflowingAlignmentIsRefused) {
  const uint64_t max = std::numeric_limits<uint64_t>::max();
  for (const uint64_t alignment : {uint64_t{0}, max, max / 2}) {
    EXPECT_EQ(DetailOf(MakeImageDesc(PixelFormat::kNv12, DType::kU8, 16, 16,
                                     alignment)
                           .status())
                  .field,
              "stride_alignment")
        << alignment;
  }
}

TEST(ImageDescTest, ViewsPointAtTheirRows) {
  ImageDesc desc = Make(PixelFormat::kNv12, 4, 4);
  std::vector<std::byte> memory(24);
  const std::array<std::span<std::byte>, 1> buffers = {std::span(memory)};
  const auto view = MakeImageView(desc, buffers);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->row(0, 2), memory.data() + 8);
  EXPECT_EQ(view->row(1, 1), memory.data() + 20);
  EXPECT_EQ(view->as_const().row(1, 0), memory.data() + 16);
  const std::array<std::span<std::byte>, 1> small = {
      std::span(memory).first(23)};
  EXPECT_FALSE(MakeImageView(desc, small).ok());
}

}  // namespace
}  // namespace preprocd
