#include "client/cli/pixel_layout.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

namespace preprocd::cli {
namespace {

v1::ImageLayout Layout(v1::PixelFormat format, v1::DataType dtype, int width,
                       int height) {
  v1::ImageLayout layout;
  layout.set_format(format);
  layout.set_dtype(dtype);
  layout.set_width(width);
  layout.set_height(height);
  return layout;
}

TEST(PixelLayout, EveryFormatOfTheProtoIsKnown) {
  const auto& type = *v1::PixelFormat_descriptor();
  for (int i = 0; i < type.value_count(); ++i) {
    const auto format = static_cast<v1::PixelFormat>(type.value(i)->number());
    EXPECT_EQ(PlanesOf(format).empty(), format == v1::PIXEL_FORMAT_UNSPECIFIED)
        << type.value(i)->name();
  }
}

TEST(PixelLayout, OddSizesRoundChromaUp) {
  const auto u8 = v1::DATA_TYPE_U8;
  EXPECT_EQ(TightBytes(Layout(v1::PIXEL_FORMAT_NV12, u8, 5, 3)), 15U + 12);
  EXPECT_EQ(TightBytes(Layout(v1::PIXEL_FORMAT_I420, u8, 5, 3)), 15U + 6 + 6);
  EXPECT_EQ(TightBytes(Layout(v1::PIXEL_FORMAT_NV16, u8, 5, 3)), 15U + 18);
  EXPECT_EQ(TightBytes(Layout(v1::PIXEL_FORMAT_NV24, u8, 5, 3)), 15U + 30);
  EXPECT_EQ(TightBytes(Layout(v1::PIXEL_FORMAT_YUYV, u8, 5, 3)), 36U);
  EXPECT_EQ(
      TightBytes(Layout(v1::PIXEL_FORMAT_PLANAR_RGB, v1::DATA_TYPE_F32, 5, 3)),
      180U);
}

TEST(PixelLayout, UnusableSizesHaveNoBytes) {
  EXPECT_FALSE(
      TightBytes(Layout(v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_U8, 0, 3)));
  EXPECT_FALSE(
      TightBytes(Layout(v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_U8, 3, -1)));
  EXPECT_FALSE(
      TightBytes(Layout(v1::PIXEL_FORMAT_UNSPECIFIED, v1::DATA_TYPE_U8, 3, 3)));
}

TEST(PixelLayout, GatherDropsGapsBetweenRowsAndPlanes) {
  v1::ImageLayout layout =
      Layout(v1::PIXEL_FORMAT_NV12, v1::DATA_TYPE_U8, 2, 2);
  SetPlanes(layout, 1, 4);
  const std::vector<std::byte> memory = {
      std::byte{99}, std::byte{1}, std::byte{2}, std::byte{99},
      std::byte{99}, std::byte{3}, std::byte{4}, std::byte{99},
      std::byte{99}, std::byte{5}, std::byte{6}};
  const auto gathered = GatherTight(layout, memory);
  ASSERT_TRUE(gathered.ok()) << gathered.status();
  EXPECT_EQ(*gathered,
            (std::vector<std::byte>{std::byte{1}, std::byte{2}, std::byte{3},
                                    std::byte{4}, std::byte{5}, std::byte{6}}));
}

TEST(PixelLayout, GatherRefusesAPlaneOutsideTheMemory) {
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_U8, 2, 2);
  EXPECT_FALSE(GatherTight(layout, std::vector<std::byte>(11)).ok());
  EXPECT_TRUE(GatherTight(layout, std::vector<std::byte>(12)).ok());
  SetPlanes(layout, ~0ULL - 4, 6);
  EXPECT_FALSE(GatherTight(layout, std::vector<std::byte>(12)).ok());
  SetPlanes(layout, 0, ~0ULL / 2);
  EXPECT_FALSE(GatherTight(layout, std::vector<std::byte>(12)).ok());
}

}  // namespace
}  // namespace preprocd::cli
