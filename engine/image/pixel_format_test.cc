#include "engine/image/pixel_format.h"

#include <gtest/gtest.h>

#include <cstdint>
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
  // drm_fourcc.h names the little-endian word, so RGB in memory is BG24.
  const struct {
    const char* name;
    const char* code;
  } cases[] = {
      {"grey", "R8  "}, {"rgb", "BG24"},  {"rgba", "AB24"}, {"bgr", "RG24"},
      {"bgra", "AR24"}, {"nv12", "NV12"}, {"nv21", "NV21"}, {"nv16", "NV16"},
      {"nv24", "NV24"}, {"i420", "YU12"}, {"yuyv", "YUYV"}, {"uyvy", "UYVY"},
      {"vyuy", "VYUY"},
  };
  for (const auto& c : cases) {
    uint32_t code = 0;
    for (int i = 3; i >= 0; --i) {
      code = code << 8 | static_cast<unsigned char>(c.code[i]);
    }
    const auto format = ParsePixelFormat(c.name);
    ASSERT_TRUE(format) << c.name;
    EXPECT_EQ(GetPixelFormatInfo(*format).fourcc, code) << c.name;
  }
  for (const auto format : {PixelFormat::kPlanarRgb, PixelFormat::kPlanarBgr,
                            PixelFormat::kPlanarRgba}) {
    EXPECT_EQ(GetPixelFormatInfo(format).fourcc, 0u);
  }
}

// Elements per unit and planes agree with the channels and the subsampling.
TEST(PixelFormatTest, RowsAreConsistent) {
  for (const PixelFormatInfo& info : AllPixelFormats()) {
    ASSERT_GE(info.plane_count, 1) << info.name;
    ASSERT_LE(info.plane_count, kMaxPlanes) << info.name;
    double elements_per_pixel = 0;
    for (size_t i = 0; i < info.plane_count; ++i) {
      const PlaneInfo& plane = info.planes[i];
      elements_per_pixel += 1.0 * plane.unit_elements / plane.unit_width /
                            (1 << plane.vertical_shift);
    }
    const double chroma_share =
        1.0 / (1 << (info.chroma_x_shift + info.chroma_y_shift));
    const double expected =
        info.family == ColorFamily::kYuv ? 1 + 2 * chroma_share : info.channels;
    EXPECT_EQ(elements_per_pixel, expected) << info.name;
    std::set<int> places;
    for (const int8_t place : info.channel_order) {
      if (place < 0) continue;
      EXPECT_TRUE(places.insert(place).second) << info.name;
    }
    const size_t ordered = info.family == ColorFamily::kRgb ? info.channels : 0;
    EXPECT_EQ(places.size(), ordered) << info.name;
    EXPECT_EQ(info.has_alpha, info.channel_order[3] >= 0) << info.name;
  }
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
