#include "engine/image/batch_layout.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

ImageDesc Desc(PixelFormat format, int width, int height,
               DType dtype = DType::kU8, uint64_t alignment = 1) {
  return *MakeImageDesc(format, dtype, width, height, alignment);
}

BatchLayout Batch(const ImageDesc& first, int count) {
  return {first, count, TightBatchStride(first)};
}

std::string FieldOf(const BatchLayout& batch, uint64_t size,
                    ErrorReason reason) {
  const absl::Status status = ValidateBatch(batch, {&size, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  const auto detail = GetErrorDetail(status);
  EXPECT_TRUE(detail && detail->reason == reason) << status;
  return detail ? detail->field : "";
}

TEST(BatchLayoutTest, PackedBatchIsOneTallPicture) {
  const ImageDesc tall = Desc(PixelFormat::kRgb, 7, 15, DType::kU8, 32);
  const BatchLayout batch =
      Batch(Desc(PixelFormat::kRgb, 7, 5, DType::kU8, 32), 3);
  for (int i = 0; i < 3; ++i) {
    const ImageDesc element = BatchElement(batch, i);
    EXPECT_EQ(element.planes[0].offset_bytes,
              5u * static_cast<uint64_t>(i) * tall.planes[0].stride_bytes);
  }
  EXPECT_EQ(RequiredBytes(batch), RequiredBytes(tall));
  const uint64_t size = RequiredBytes(tall);
  EXPECT_TRUE(ValidateBatch(batch, {&size, 1}).ok());
  EXPECT_EQ(FieldOf(batch, size - 1, ErrorReason::kBufferTooSmall), "");
}

TEST(BatchLayoutTest, PlanarBatchHasTheChannelsOfAPictureTogether) {
  const BatchLayout batch =
      Batch(Desc(PixelFormat::kPlanarRgb, 6, 4, DType::kF32), 2);
  EXPECT_EQ(batch.stride_bytes, 3u * 6 * 4 * 4);
  EXPECT_EQ(BatchElement(batch, 1).planes[2].offset_bytes, (3u + 2u) * 24 * 4);
}

TEST(BatchLayoutTest, OddYuvElementsDoNotTouch) {
  const BatchLayout batch = Batch(Desc(PixelFormat::kNv12, 5, 3), 3);
  EXPECT_EQ(batch.stride_bytes, 5u * 3 + 6 * 2);
  const uint64_t size = 3 * batch.stride_bytes;
  EXPECT_TRUE(ValidateBatch(batch, {&size, 1}).ok());
}

TEST(BatchLayoutTest, InterleavedPlanesAreAllowedOverlapIsNot) {
  // [C,N,H,W]: planes far apart, elements close together.
  BatchLayout batch = Batch(Desc(PixelFormat::kPlanarRgb, 4, 4), 3);
  const uint64_t size = 3 * 3 * 16;
  for (size_t plane = 0; plane < 3; ++plane) {
    batch.first.planes[plane].offset_bytes = plane * 3 * 16;
  }
  batch.stride_bytes = 16;
  EXPECT_TRUE(ValidateBatch(batch, {&size, 1}).ok());
  EXPECT_EQ(BatchElement(batch, 2).planes[1].offset_bytes, (3u + 2u) * 16);
  batch.stride_bytes = 15;
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kFieldInvalid), "stride_bytes");
  batch.stride_bytes = 0;
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kFieldInvalid), "stride_bytes");
}

TEST(BatchLayoutTest, BadBatchesAreRefused) {
  const ImageDesc first = Desc(PixelFormat::kRgb, 4, 4, DType::kU16);
  const uint64_t size = 1 << 20;
  BatchLayout batch = Batch(first, 0);
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kGeometryInvalid), "count");
  batch.count = kMaxBatchElements + 1;
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kTooLarge), "count");
  batch.count = 2;
  batch.stride_bytes += 1;
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kFieldInvalid), "stride_bytes");
  batch.stride_bytes = std::numeric_limits<uint64_t>::max() - 1;
  EXPECT_EQ(FieldOf(batch, size, ErrorReason::kBufferTooSmall), "");

  BatchLayout split = Batch(Desc(PixelFormat::kNv12, 4, 4), 2);
  split.first.planes[1] = {1, 0, 4};
  const std::vector<uint64_t> sizes = {size, size};
  const absl::Status status = ValidateBatch(split, sizes);
  EXPECT_EQ(GetErrorDetail(status)->field, "planes");
  split.count = 1;
  EXPECT_TRUE(ValidateBatch(split, sizes).ok());
}

}  // namespace
}  // namespace preprocd
