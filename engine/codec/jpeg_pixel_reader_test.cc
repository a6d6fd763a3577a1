// Pixels of plain JPEG files against libjpeg-turbo's own conversion.
#include "engine/codec/jpeg_pixel_reader.h"

#include <gtest/gtest.h>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

TEST(JpegPixelReaderTest, EqualsTheLibraryInEverySamplingAndSize) {
  JpegPixelReader reader;
  for (int size = 1; size <= 70; ++size) {
    for (const auto luma : {Luma(1, 1), Luma(2, 1), Luma(1, 2), Luma(2, 2)}) {
      for (const bool fancy : {false, true}) {
        JpegRecipe recipe;
        recipe.width = size;
        recipe.height = 1 + (size * 53) % 70;
        recipe.sampling = {luma, Luma(1, 1), Luma(1, 1)};
        recipe.restart_interval = size % 3;
        const Bytes file =
            MakeJpeg(recipe, TestCardRgb(recipe.width, recipe.height));
        TestPicture picture(PixelFormat::kRgb, recipe.width, recipe.height);
        DecodeOptions options;
        options.fancy_chroma = fancy;
        DecodeResult result;
        ASSERT_TRUE(reader.Read(file, *ReadJpegHeader(file), options,
                                picture.view(), result));
        EXPECT_EQ(picture.Tight(), DecodeByLibrary(file, false, fancy))
            << luma.h << "x" << luma.v << " " << recipe.width << "x"
            << recipe.height << " " << fancy;
        EXPECT_TRUE(picture.GuardsIntact());
        EXPECT_EQ(result.rows_good, recipe.height);
      }
    }
  }
}

TEST(JpegPixelReaderTest, GreyFilesBecomeGreyPixels) {
  JpegPixelReader reader;
  JpegRecipe recipe;
  recipe.width = 45;
  recipe.height = 27;
  recipe.color = JpegColor::kGrey;
  Samples samples = TestCardRgb(45, 27);
  samples.resize(samples.size() / 3);
  const Bytes file = MakeJpeg(recipe, samples);
  TestPicture picture(PixelFormat::kBgra, 45, 27);
  DecodeResult result;
  ASSERT_TRUE(
      reader.Read(file, *ReadJpegHeader(file), {}, picture.view(), result));
  const Samples grey = RawPlanesByLibrary(file).samples[0];
  const Samples pixels = picture.Tight();
  for (size_t i = 0; i < grey.size(); ++i) {
    for (size_t c = 0; c < 3; ++c) EXPECT_EQ(pixels[i * 4 + c], grey[i]);
    EXPECT_EQ(pixels[i * 4 + 3], 255);
  }
}

TEST(JpegPixelReaderTest, DamageIsLeftToTheLibrary) {
  JpegPixelReader reader;
  JpegRecipe recipe;
  recipe.width = recipe.height = 64;
  Bytes file = MakeJpeg(recipe, TestCardRgb(64, 64));
  file.resize(file.size() * 3 / 4);
  TestPicture picture(PixelFormat::kRgb, 64, 64);
  DecodeResult result;
  EXPECT_FALSE(
      reader.Read(file, *ReadJpegHeader(file), {}, picture.view(), result));
  EXPECT_TRUE(result.warnings.empty());
}

}  // namespace
}  // namespace preprocd
