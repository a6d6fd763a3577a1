// Pictures to files: what comes back is what went in, within each format's
// promise, from every layout and stride.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/image_encoder.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/codec/row_color.h"

namespace preprocd {
namespace {

// A smooth picture, in which chroma subsampling costs little.
std::array<uint8_t, 4> Pixel(int x, int y) {
  return {static_cast<uint8_t>(60 + x * 2), static_cast<uint8_t>(200 - y * 3),
          static_cast<uint8_t>(90 + x + y), static_cast<uint8_t>(x * 7 + y)};
}

// Fills any rgb or grey layout of u8 or u16 (value * 257 - 1 shows both
// bytes).
TestPicture Picture(PixelFormat format, int width, int height,
                    DType dtype = DType::kU8) {
  TestPicture picture(format, width, height, 6, dtype);
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto pixel = Pixel(x, y);
      for (size_t c = 0; c < info.channels; ++c) {
        const int order =
            info.family == ColorFamily::kGrey ? 0 : info.channel_order[c];
        const bool planar = info.is_planar_rgb();
        const int plane = planar ? order : 0;
        const int at = planar ? x : x * info.channels + order;
        if (dtype == DType::kU8) {
          picture.row(plane, y)[at] = pixel[c];
        } else {
          reinterpret_cast<uint16_t*>(picture.row(plane, y))[at] =
              static_cast<uint16_t>(pixel[c] * 257);
        }
      }
    }
  }
  return picture;
}

std::vector<uint8_t> Expected(int width, int height, size_t channels) {
  std::vector<uint8_t> out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const auto pixel = Pixel(x, y);
      out.insert(out.end(), pixel.begin(),
                 pixel.begin() + static_cast<ptrdiff_t>(channels));
    }
  }
  return out;
}

TEST(PngEncodeTest, EveryLayoutComesBackExactly) {
  for (const PixelFormat format :
       {PixelFormat::kGrey, PixelFormat::kRgb, PixelFormat::kRgba,
        PixelFormat::kBgr, PixelFormat::kBgra, PixelFormat::kPlanarRgb,
        PixelFormat::kPlanarBgr, PixelFormat::kPlanarRgba}) {
    for (const DType dtype : {DType::kU8, DType::kU16}) {
      for (const auto& [width, height] : {std::pair(1, 1), std::pair(33, 17)}) {
        const TestPicture picture = Picture(format, width, height, dtype);
        std::vector<std::byte> file = ToBytes({1, 2, 3});
        const absl::Status status =
            EncodePng(picture.view().as_const(), {}, file);
        ASSERT_TRUE(status.ok()) << status;
        const PixelFormatInfo& info = GetPixelFormatInfo(format);
        EXPECT_EQ(PeekImage(file)->bit_depth, dtype == DType::kU8 ? 8 : 16);
        EXPECT_EQ(PeekImage(file)->has_alpha, info.has_alpha);
        const PixelFormat back = info.family == ColorFamily::kGrey
                                     ? PixelFormat::kGrey
                                 : info.has_alpha ? PixelFormat::kRgba
                                                  : PixelFormat::kRgb;
        EXPECT_EQ(DecodeTo(file, back), Expected(width, height, info.channels))
            << info.name << " " << DTypeName(dtype);
      }
    }
  }
}

TEST(PngEncodeTest, SixteenBitSamplesAreBigEndianInTheFile) {
  TestPicture picture(PixelFormat::kGrey, 1, 1, 6, DType::kU16);
  *reinterpret_cast<uint16_t*>(picture.row(0, 0)) = 0xA325;
  std::vector<std::byte> file;
  PngEncodeOptions stored;
  stored.compression = 0;
  ASSERT_TRUE(EncodePng(picture.view().as_const(), stored, file).ok());
  const std::string bytes(reinterpret_cast<const char*>(file.data()),
                          file.size());
  EXPECT_NE(bytes.find("\xA3\x25"), std::string::npos);
}

TEST(PngEncodeTest, CompressionLevelsAndTheirBounds) {
  const TestPicture picture = Picture(PixelFormat::kRgb, 40, 40);
  std::vector<std::byte> none;
  std::vector<std::byte> best;
  ASSERT_TRUE(EncodePng(picture.view().as_const(), {0}, none).ok());
  ASSERT_TRUE(EncodePng(picture.view().as_const(), {9}, best).ok());
  EXPECT_LT(best.size(), none.size());
  EXPECT_EQ(DecodeTo(none, PixelFormat::kRgb),
            DecodeTo(best, PixelFormat::kRgb));
  for (const int level : {-1, 10}) {
    const absl::Status status =
        EncodePng(picture.view().as_const(), {level}, none);
    EXPECT_EQ(GetErrorDetail(status)->field, "compression");
    EXPECT_TRUE(none.empty());
  }
}

TEST(JpegEncodeTest, EveryLayoutAndSamplingStaysClose) {
  for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kRgba,
                                   PixelFormat::kBgr, PixelFormat::kBgra}) {
    for (const auto& [sampling, name] :
         {std::pair(JpegSubsampling::k444, "4:4:4"),
          std::pair(JpegSubsampling::k422, "4:2:2"),
          std::pair(JpegSubsampling::k420, "4:2:0")}) {
      for (const auto& [width, height] : {std::pair(1, 1), std::pair(33, 17)}) {
        const TestPicture picture = Picture(format, width, height);
        std::vector<std::byte> file;
        const absl::Status status =
            EncodeJpeg(picture.view().as_const(), {95, sampling}, file);
        ASSERT_TRUE(status.ok()) << status;
        EXPECT_EQ(PeekImage(file)->subsampling, name);
        EXPECT_LE(MaxDifference(DecodeTo(file, PixelFormat::kRgb),
                                Expected(width, height, 3)),
                  12)
            << PixelFormatName(format) << " " << name;
      }
    }
  }
}

TEST(JpegEncodeTest, GreyStaysGrey) {
  const TestPicture picture = Picture(PixelFormat::kGrey, 31, 9);
  std::vector<std::byte> file;
  ASSERT_TRUE(EncodeJpeg(picture.view().as_const(), {95}, file).ok());
  EXPECT_EQ(PeekImage(file)->components, 1);
  EXPECT_LE(
      MaxDifference(DecodeTo(file, PixelFormat::kGrey), Expected(31, 9, 1)), 4);
}

// The planes go in and come out without a colour conversion.
TEST(JpegEncodeTest, NvPlanesComeBack) {
  for (const auto& [width, height] : {std::pair(1, 1), std::pair(16, 16),
                                      std::pair(37, 23), std::pair(64, 50)}) {
    TestPicture picture(PixelFormat::kNv12, width, height);
    for (int y = 0; y < height; ++y) {
      for (int x = 0; x < width; ++x) {
        picture.row(0, y)[x] = static_cast<uint8_t>(50 + x * 2 + y);
      }
    }
    for (int y = 0; y < (height + 1) / 2; ++y) {
      for (int x = 0; x < (width + 1) / 2; ++x) {
        picture.row(1, y)[2 * x] = static_cast<uint8_t>(90 + x);
        picture.row(1, y)[2 * x + 1] = static_cast<uint8_t>(160 - y * 2);
      }
    }
    std::vector<std::byte> file;
    const absl::Status status = EncodeJpeg(picture.view().as_const(),
                                           {98, JpegSubsampling::k444}, file);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(PeekImage(file)->subsampling, "4:2:0");
    for (int plane = 0; plane < 2; ++plane) {
      EXPECT_LE(MaxDifference(DecodeTo(file, PixelFormat::kNv12, plane),
                              picture.Tight(plane)),
                4)
          << width << "x" << height << " plane " << plane;
    }
  }
}

TEST(JpegEncodeTest, QualityChangesSizeAndIsBounded) {
  const TestPicture picture = Picture(PixelFormat::kRgb, 64, 64);
  std::vector<std::byte> low;
  std::vector<std::byte> high;
  ASSERT_TRUE(EncodeJpeg(picture.view().as_const(), {1}, low).ok());
  ASSERT_TRUE(EncodeJpeg(picture.view().as_const(), {100}, high).ok());
  EXPECT_LT(low.size(), high.size());
  for (const int quality : {0, 101, -5}) {
    const absl::Status status =
        EncodeJpeg(picture.view().as_const(), {quality}, low);
    EXPECT_EQ(GetErrorDetail(status)->field, "quality");
    EXPECT_TRUE(low.empty());
  }
}

// More than the first output buffer.
TEST(JpegEncodeTest, LargeFilesGrow) {
  constexpr int kSize = 512;
  TestPicture picture(PixelFormat::kRgb, kSize, kSize);
  uint32_t state = 1;
  for (int y = 0; y < kSize; ++y) {
    for (int x = 0; x < kSize * 3; ++x) {
      state = state * 1664525u + 1013904223u;
      picture.row(0, y)[x] = static_cast<uint8_t>(state >> 24);
    }
  }
  std::vector<std::byte> file;
  ASSERT_TRUE(
      EncodeJpeg(picture.view().as_const(), {100, JpegSubsampling::k444}, file)
          .ok());
  EXPECT_GT(file.size(), 300'000u);
  EXPECT_LE(MaxDifference(DecodeTo(file, PixelFormat::kRgb), picture.Tight()),
            8);
}

TEST(EncodeTest, OtherFormatsAndSizesAreRefused) {
  std::vector<std::byte> file;
  const auto jpeg = [&](PixelFormat format, DType dtype = DType::kU8) {
    const TestPicture picture(format, 8, 8, 8, dtype);
    return ReasonOf(EncodeJpeg(picture.view().as_const(), {}, file));
  };
  EXPECT_EQ(jpeg(PixelFormat::kPlanarRgb), ErrorReason::kFormatPair);
  EXPECT_EQ(jpeg(PixelFormat::kNv16), ErrorReason::kFormatPair);
  EXPECT_EQ(jpeg(PixelFormat::kYuyv), ErrorReason::kFormatPair);
  EXPECT_EQ(jpeg(PixelFormat::kRgb, DType::kU16), ErrorReason::kFormatPair);
  const TestPicture nv12(PixelFormat::kNv12, 8, 8);
  EXPECT_EQ(ReasonOf(EncodePng(nv12.view().as_const(), {}, file)),
            ErrorReason::kFormatPair);
  const TestPicture floats(PixelFormat::kRgb, 8, 8, 8, DType::kF32);
  EXPECT_EQ(ReasonOf(EncodePng(floats.view().as_const(), {}, file)),
            ErrorReason::kFormatPair);
  ConstImageView wide = nv12.view().as_const();
  wide.desc.width = kMaxImageAxis + 1;
  EXPECT_EQ(ReasonOf(EncodeJpeg(wide, {}, file)), ErrorReason::kTooLarge);
  wide.desc.width = 0;
  EXPECT_EQ(ReasonOf(EncodeJpeg(wide, {}, file)),
            ErrorReason::kGeometryInvalid);
}

TEST(RowColorTest, YccOfRgbIsTheFormulaForACubeOfColours) {
  for (int r = 0; r < 256; r += 15) {
    for (int g = 0; g < 256; g += 15) {
      for (int b = 0; b < 256; b += 15) {
        const std::array<uint8_t, 3> rgb = {static_cast<uint8_t>(r),
                                            static_cast<uint8_t>(g),
                                            static_cast<uint8_t>(b)};
        std::array<uint8_t, 3> ycc = {};
        RgbRowToYcc(rgb.data(), 1, ycc.data());
        EXPECT_NEAR(ycc[0], 0.299 * r + 0.587 * g + 0.114 * b, 0.51);
        EXPECT_NEAR(ycc[1], -0.168736 * r - 0.331264 * g + 0.5 * b + 128, 0.52);
        EXPECT_NEAR(ycc[2], 0.5 * r - 0.418688 * g - 0.081312 * b + 128, 0.52);
      }
    }
  }
}

}  // namespace
}  // namespace preprocd
