#include "engine/image/pixel_format.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace preprocd {
namespace {

TEST(PixelFormatTest, NamesAreUniqueAndRoundTrip) {
  std::set<std::string> names;
  EXPECT_EQ(AllPixelFormats().size(),
            static_cast<size_t>(kPixelFormatCount - 1));
  for (const PixelFormatInfo& info : AllPixelFormats()) {
    EXPECT_TRUE(names.insert(std::string(info.name)).second) << info.name;
    EXPECT_EQ(ParsePixelFormat(info.name), info.format);
    EXPECT_EQ(PixelFormatName(info.format), info.name);
  }
  EXPECT_EQ(ParsePixelFormat("NV12"), std::nullopt);
  EXPECT_EQ(ParsePixelFormat(""), std::nullopt);
  EXPECT_EQ(PixelFormatName(PixelFormat::kUnspecified), "unspecified");
}

TEST(PixelFormatTest, FourccsAreTheKernels) {
  // drm_fourcc.h: R8, BG24 (bytes R G B), AB24 (bytes R G B A), NV12, YU12.
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kGrey).fourcc, 0x20203852u);
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kRgb).fourcc, 0x34324742u);
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kRgba).fourcc, 0x34324241u);
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kNv12).fourcc, 0x3231564eu);
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kI420).fourcc, 0x32315559u);
  EXPECT_EQ(GetPixelFormatInfo(PixelFormat::kPlanarRgb).fourcc, 0u);
}

TEST(PixelFormatTest, PlanarAndPackedAreTwins) {
  for (const PixelFormatInfo& info : AllPixelFormats()) {
    const PixelFormat planar = PlanarVariant(info.format);
    if (planar == info.format) continue;
    EXPECT_EQ(PackedVariant(planar), info.format) << info.name;
    const PixelFormatInfo& twin = GetPixelFormatInfo(planar);
    EXPECT_EQ(twin.channels, info.channels);
    EXPECT_EQ(twin.channel_order, info.channel_order);
    EXPECT_EQ(twin.plane_count, info.channels);
  }
}

TEST(DTypeTest, NamesSizesAndKinds) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(ParseDType(DTypeName(dtype)), dtype);
    EXPECT_GT(DTypeSize(dtype), 0);
  }
  EXPECT_EQ(DTypeSize(DType::kF32), 4);
  EXPECT_EQ(DTypeSize(DType::kBf16), 2);
  EXPECT_TRUE(IsFloat(DType::kF16));
  EXPECT_FALSE(IsFloat(DType::kI16));
  EXPECT_EQ(ParseDType("f64"), std::nullopt);
}

}  // namespace
}  // namespace preprocd
