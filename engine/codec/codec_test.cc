// PeekImage and the checks before any decoding: formats, limits, geometry.
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <string>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/codec/png_test_images.h"

namespace preprocd {
namespace {

ErrorReason PeekReason(const Bytes& file) {
  return ReasonOf(PeekImage(file).status());
}

Bytes Text(const std::string& text) {
  Bytes out(text.size());
  memcpy(out.data(), text.data(), text.size());
  return out;
}

Bytes SmallJpeg() {
  JpegRecipe recipe;
  recipe.width = 24;
  recipe.height = 17;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  return MakeJpeg(recipe, TestCardRgb(24, 17));
}

Bytes SmallPng(PngRecipe recipe = {}) {
  return MakePng(
      recipe,
      std::vector<uint8_t>(
          PngRowBytes(recipe) * static_cast<size_t>(recipe.height), 100));
}

void Patch16(Bytes& file, size_t offset, int value) {
  file[offset] = static_cast<std::byte>(value >> 8);
  file[offset + 1] = static_cast<std::byte>(value);
}

TEST(PeekTest, OtherBytesAreNotAnImage) {
  EXPECT_EQ(PeekReason({}), ErrorReason::kImageFormat);
  EXPECT_EQ(PeekReason(Text("GIF89a and more")), ErrorReason::kImageFormat);
  EXPECT_EQ(PeekReason(Text("BM")), ErrorReason::kImageFormat);
  EXPECT_EQ(PeekReason(ToBytes({0xFF, 0xD8, 0x00, 0x10})),
            ErrorReason::kImageFormat);
  EXPECT_EQ(PeekReason(Text("\x89PNG\n\n\x1a\n123")),
            ErrorReason::kImageCorrupt);
}

TEST(PeekTest, ABeginningIsTruncated) {
  for (const Bytes& file : {SmallJpeg(), SmallPng()}) {
    for (size_t size = 1; size < 12; ++size) {
      EXPECT_EQ(PeekReason(Bytes(file.begin(),
                                 file.begin() + static_cast<ptrdiff_t>(size))),
                ErrorReason::kImageTruncated)
          << size;
    }
  }
}

TEST(PeekTest, JpegHeaderIsReported) {
  const auto info = PeekImage(SmallJpeg());
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->file_format, FileFormat::kJpeg);
  EXPECT_EQ(info->width, 24);
  EXPECT_EQ(info->height, 17);
  EXPECT_EQ(info->components, 3);
  EXPECT_EQ(info->bit_depth, 8);
  EXPECT_EQ(info->subsampling, "4:2:0");
  EXPECT_EQ(info->process, "baseline");
  EXPECT_EQ(info->color_space, "ycbcr");
  EXPECT_EQ(info->native_format, PixelFormat::kNv12);
  EXPECT_EQ(info->color,
            (ColorEncoding{MatrixCoefficients::kBt601, ColorRange::kFull}));
  EXPECT_FALSE(info->has_orientation);
}

TEST(PeekTest, PngHeaderIsReported) {
  PngRecipe recipe;
  recipe.width = 9;
  recipe.height = 3;
  recipe.bit_depth = 16;
  recipe.color_type = PngColorType::kRgba;
  recipe.interlaced = true;
  const auto info = PeekImage(SmallPng(recipe));
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->file_format, FileFormat::kPng);
  EXPECT_EQ(info->width, 9);
  EXPECT_EQ(info->height, 3);
  EXPECT_EQ(info->components, 4);
  EXPECT_EQ(info->bit_depth, 16);
  EXPECT_EQ(info->process, "interlaced");
  EXPECT_TRUE(info->has_alpha);
  EXPECT_EQ(info->native_format, PixelFormat::kRgba);
}

TEST(PeekTest, OrientationOfJpegAndPng) {
  const Bytes jpeg = SmallJpeg();
  const Bytes png = SmallPng();
  for (int value = 1; value <= 8; ++value) {
    const Bytes tiff = TiffWithOrientation(value, value % 2 == 0);
    const auto of_jpeg = PeekImage(WithInserted(jpeg, 2, ExifSegment(tiff)));
    ASSERT_TRUE(of_jpeg.ok()) << of_jpeg.status();
    EXPECT_TRUE(of_jpeg->has_orientation);
    EXPECT_EQ(of_jpeg->orientation, OrientationFromExif(value));
    // Before and behind the pixels.
    for (const size_t place : {size_t{1}, size_t{2}}) {
      std::vector<PngChunk> chunks = SplitPng(png);
      chunks.insert(chunks.begin() + static_cast<ptrdiff_t>(place),
                    {"eXIf", tiff});
      const auto of_png = PeekImage(JoinPng(chunks));
      ASSERT_TRUE(of_png.ok()) << of_png.status();
      EXPECT_EQ(of_png->orientation, OrientationFromExif(value)) << place;
    }
  }
}

TEST(PeekTest, OrientationIsReportedAndNotApplied) {
  const Bytes plain = SmallJpeg();
  const Bytes turned =
      WithInserted(plain, 2, ExifSegment(TiffWithOrientation(6, true)));
  EXPECT_EQ(DecodeTo(turned, PixelFormat::kRgb),
            DecodeTo(plain, PixelFormat::kRgb));
}

TEST(PeekTest, MalformedExifStopsNothing) {
  const Bytes plain = SmallJpeg();
  Bytes loop = TiffWithOrientation(6, false);
  loop[4] = std::byte{0};
  for (const Bytes& tiff : {Bytes(), Text("XX*"), loop, Bytes(3)}) {
    const Bytes file = WithInserted(plain, 2, ExifSegment(tiff));
    const auto info = PeekImage(file);
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_FALSE(info->has_orientation);
    EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
              DecodeTo(plain, PixelFormat::kRgb));
  }
}

TEST(MetadataTest, MalformedExifIsOneWarning) {
  const auto warnings = [](const Bytes& tiff) {
    const auto result =
        TryDecode(WithInserted(SmallJpeg(), 2, ExifSegment(tiff)));
    EXPECT_TRUE(result.ok()) << result.status();
    return result->warnings.size();
  };
  const Bytes good = TiffWithOrientation(6, false);
  EXPECT_EQ(warnings(good), 0u);
  Bytes other = good;
  other[0] = other[1] = std::byte{'X'};
  EXPECT_EQ(warnings(other), 1u);
  other = good;
  other[2] = std::byte{0x2B};
  EXPECT_EQ(warnings(other), 1u);
  other = good;
  for (size_t i = 4; i < 8; ++i) other[i] = std::byte{0xFF};
  EXPECT_EQ(warnings(other), 1u);
  other = good;
  other[22] = std::byte{8};  // the next directory is this one
  EXPECT_EQ(warnings(other), 1u);
  other = good;
  other[8] = other[9] = std::byte{0xFF};
  EXPECT_EQ(warnings(other), 1u);
  EXPECT_EQ(warnings(TiffWithOrientation(9, true)), 1u);
  EXPECT_EQ(warnings({}), 1u);
}

TEST(MetadataTest, BrokenProfilesAreOneWarning) {
  const auto part = [](int number, int count) {
    std::vector<int> body;
    for (const char c : std::string("ICC_PROFILE")) body.push_back(c);
    for (const int byte : {0, number, count, 1, 2, 3}) body.push_back(byte);
    return Segment(0xE2, body);
  };
  const auto warnings = [](const std::vector<Bytes>& parts, bool last = false) {
    Bytes file = SmallJpeg();
    for (const Bytes& segment : parts) {
      file = WithInserted(file, last ? FindSegment(file, 0xDA) : 2, segment);
    }
    EXPECT_EQ(PeekImage(file)->has_icc, !parts.empty());
    const auto result = TryDecode(file);
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
              DecodeTo(SmallJpeg(), PixelFormat::kRgb));
    return result->warnings.size();
  };
  EXPECT_EQ(warnings({}), 0u);
  EXPECT_EQ(warnings({part(1, 1)}), 0u);
  EXPECT_EQ(warnings({part(1, 1)}, true), 0u);  // behind the frame header
  EXPECT_EQ(warnings({part(2, 2), part(1, 2)}), 0u);
  EXPECT_EQ(warnings({part(0, 1)}), 1u);
  EXPECT_EQ(warnings({part(1, 2), part(1, 2)}), 1u);
  EXPECT_EQ(warnings({part(1, 2), part(2, 3)}), 1u);
  EXPECT_EQ(warnings({part(1, 2)}), 1u);
  EXPECT_EQ(warnings({part(7, 1)}), 1u);
}

TEST(PeekTest, SizeOfTheMainPictureNotOfThumbnails) {
  const Bytes main = SmallJpeg();
  JpegRecipe small;
  Bytes thumbnail = MakeJpeg(small, TestCardRgb(16, 16));
  Bytes app1 = ExifSegment(TiffWithOrientation(1, false));
  // A thumbnail and a comment full of frame headers before the real one.
  Bytes file = WithInserted(main, 2, app1);
  Bytes app13 =
      ToBytes({0xFF, 0xED, static_cast<int>((thumbnail.size() + 2) >> 8),
               static_cast<int>((thumbnail.size() + 2) & 255)});
  app13.insert(app13.end(), thumbnail.begin(), thumbnail.end());
  file = WithInserted(file, 2, app13);
  file = WithInserted(
      file, 2, Segment(0xFE, {0xFF, 0xC0, 0, 11, 8, 0, 9, 0, 9, 1, 1, 17, 0}));
  const auto info = PeekImage(file);
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->width, 24);
  EXPECT_EQ(info->height, 17);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
            DecodeTo(main, PixelFormat::kRgb));
}

TEST(PeekTest, StandaloneMarkersHaveNoLength) {
  const Bytes main = SmallJpeg();
  const Bytes file = WithInserted(main, FindSegment(main, 0xDB),
                                  ToBytes({0xFF, 0x01, 0xFF, 0xD0}));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
            DecodeTo(main, PixelFormat::kRgb));
}

TEST(PeekTest, TablesMayStandBeforeTheFrame) {
  const Bytes main = SmallJpeg();
  const size_t table = FindSegment(main, 0xC4);
  const size_t size = 2 + (std::to_integer<size_t>(main[table + 2]) << 8 |
                           std::to_integer<size_t>(main[table + 3]));
  const Bytes segment(main.begin() + static_cast<ptrdiff_t>(table),
                      main.begin() + static_cast<ptrdiff_t>(table + size));
  Bytes moved = main;
  moved.erase(moved.begin() + static_cast<ptrdiff_t>(table),
              moved.begin() + static_cast<ptrdiff_t>(table + size));
  moved = WithInserted(moved, FindSegment(moved, 0xC0), segment);
  EXPECT_EQ(PeekImage(moved)->width, PeekImage(main)->width);
  EXPECT_EQ(DecodeTo(moved, PixelFormat::kRgb),
            DecodeTo(main, PixelFormat::kRgb));
}

TEST(PeekTest, LosslessHierarchicalAndTwelveBitAreNamed) {
  Bytes file = SmallJpeg();
  const size_t frame = FindSegment(file, 0xC0);
  for (const int marker :
       {0xC3, 0xC5, 0xC6, 0xC7, 0xC8, 0xCB, 0xCD, 0xCE, 0xCF, 0xDE}) {
    file[frame + 1] = static_cast<std::byte>(marker);
    const absl::Status status = PeekImage(file).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << marker;
    EXPECT_EQ(ReasonOf(status), ErrorReason::kImageUnsupported) << marker;
  }
  file[frame + 1] = std::byte{0xC1};
  file[frame + 4] = std::byte{12};
  const absl::Status status = PeekImage(file).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kImageUnsupported);
  EXPECT_NE(std::string(status.message()).find("12-bit"), std::string::npos);
  file[frame + 4] = std::byte{7};
  EXPECT_EQ(PeekReason(file), ErrorReason::kImageCorrupt);
}

TEST(PeekTest, FrameHeadersThatContradictThemselves) {
  const Bytes good = SmallJpeg();
  const size_t frame = FindSegment(good, 0xC0);
  const auto patched = [&](size_t offset, int value) {
    Bytes file = good;
    file[frame + offset] = static_cast<std::byte>(value);
    return PeekReason(file);
  };
  EXPECT_EQ(patched(9, 0), ErrorReason::kImageCorrupt);      // components
  EXPECT_EQ(patched(9, 2), ErrorReason::kImageCorrupt);      // length differs
  EXPECT_EQ(patched(11, 0x02), ErrorReason::kImageCorrupt);  // factor 0
  EXPECT_EQ(patched(11, 0x52), ErrorReason::kImageCorrupt);  // factor 5
  EXPECT_EQ(patched(11, 0x32), ErrorReason::kUnspecified);
  EXPECT_EQ(patched(14, 0x21), ErrorReason::kUnspecified);
  Bytes file = good;
  Patch16(file, frame + 7, 0);
  EXPECT_EQ(PeekReason(file), ErrorReason::kImageCorrupt);  // width
  // Two frame headers.
  Bytes second(good.begin() + static_cast<ptrdiff_t>(frame),
               good.begin() + static_cast<ptrdiff_t>(frame + 19));
  EXPECT_EQ(PeekReason(WithInserted(good, frame, second)),
            ErrorReason::kImageCorrupt);
  // None.
  EXPECT_EQ(PeekReason(WithoutSegments(good, 0xC0)),
            ErrorReason::kImageCorrupt);
  EXPECT_EQ(PeekReason(ToBytes({0xFF, 0xD8, 0xFF, 0xD9})),
            ErrorReason::kImageCorrupt);
}

TEST(PeekTest, IllegalSegmentLengthsAreCorrupt) {
  const Bytes good = SmallJpeg();
  for (const int length : {0, 1}) {
    EXPECT_EQ(
        PeekReason(WithInserted(good, 2, ToBytes({0xFF, 0xFE, 0, length}))),
        ErrorReason::kImageCorrupt);
  }
}

TEST(PeekTest, PngHeadersThatContradictThemselves) {
  const Bytes good = SmallPng();
  const auto patched = [&](size_t offset, int value) {
    Bytes file = good;
    file[offset] = static_cast<std::byte>(value);
    return PeekReason(file);
  };
  EXPECT_EQ(patched(19, 0), ErrorReason::kImageCorrupt);  // width 0
  EXPECT_EQ(patched(24, 3), ErrorReason::kImageCorrupt);  // bit depth
  EXPECT_EQ(patched(25, 1), ErrorReason::kImageCorrupt);  // colour type
  EXPECT_EQ(patched(25, 3), ErrorReason::kImageCorrupt);  // no palette
  EXPECT_EQ(patched(26, 1), ErrorReason::kImageCorrupt);  // compression
  EXPECT_EQ(patched(28, 2), ErrorReason::kImageCorrupt);  // interlace
  std::vector<PngChunk> chunks = SplitPng(good);
  chunks.erase(chunks.begin() + 1);
  EXPECT_EQ(PeekReason(JoinPng(chunks)), ErrorReason::kImageCorrupt);
}

TEST(LimitTest, HugeHeadersAreRefusedFromTheHeaderAlone) {
  const auto start = std::chrono::steady_clock::now();
  Bytes jpeg = SmallJpeg();
  const size_t frame = FindSegment(jpeg, 0xC0);
  Patch16(jpeg, frame + 5, 65535);
  EXPECT_EQ(PeekReason(jpeg), ErrorReason::kTooLarge);
  Patch16(jpeg, frame + 5, 16384);
  Patch16(jpeg, frame + 7, 16384);
  EXPECT_EQ(PeekReason(jpeg), ErrorReason::kTooLarge);  // pixels
  for (const int size : {100000, 16384, 0x7FFFFFFF}) {
    Bytes png = SmallPng();
    png.resize(33);  // the signature and IHDR
    for (const size_t at : {size_t{16}, size_t{20}}) {
      Patch16(png, at, size >> 16);
      Patch16(png, at + 2, size & 0xFFFF);
    }
    EXPECT_EQ(PeekReason(png), ErrorReason::kTooLarge) << size;
  }
  // Nothing of the pictures' size is touched: far below what that would take.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(LimitTest, ErrorNamesBothNumbers) {
  Bytes jpeg = SmallJpeg();
  Patch16(jpeg, FindSegment(jpeg, 0xC0) + 5, 20000);
  const auto detail = GetErrorDetail(PeekImage(jpeg).status());
  ASSERT_TRUE(detail);
  EXPECT_EQ(detail->got, "20000");
  EXPECT_EQ(detail->limit, "16384");
}

TEST(LimitTest, AncillaryChunksBeforeThePixelsAreCounted) {
  std::vector<PngChunk> chunks = SplitPng(SmallPng());
  const std::vector<PngChunk> many(kMaxPngAncillaryChunks + 1,
                                   {"teXt", Bytes(1)});
  chunks.insert(chunks.begin() + 1, many.begin(), many.end());
  EXPECT_EQ(PeekReason(JoinPng(chunks)), ErrorReason::kTooLarge);
  chunks.erase(chunks.begin() + 1);
  EXPECT_EQ(PeekReason(JoinPng(chunks)), ErrorReason::kUnspecified);
}

TEST(LimitTest, ProgressiveScansAreCounted) {
  JpegRecipe recipe;
  recipe.color = JpegColor::kGrey;
  recipe.progressive = true;
  Bytes file = MakeJpeg(recipe, Samples(256, 90));
  file.erase(file.end() - 2, file.end());
  // Empty DC refinement scans, each legal in form: one byte of data.
  Bytes scan = Segment(0xDA, {1, 1, 0, 0, 0, 0x10});
  for (int i = 0; i < 4; ++i) scan.push_back(std::byte{0});
  for (int i = 0; i <= kMaxJpegScans; ++i) {
    file.insert(file.end(), scan.begin(), scan.end());
  }
  DecodeOptions lenient;
  lenient.lenient = true;
  const absl::Status status = TryDecode(file, lenient).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kTooLarge) << status;
}

TEST(DestinationTest, WrongSizesAndFormatsAreRefused) {
  const Bytes file = SmallJpeg();
  ImageDecoder decoder;
  const auto reason = [&](const TestPicture& picture) {
    return ReasonOf(decoder.Decode(file, {}, picture.view()).status());
  };
  EXPECT_EQ(reason(TestPicture(PixelFormat::kRgb, 23, 17)),
            ErrorReason::kGeometryInvalid);
  EXPECT_EQ(reason(TestPicture(PixelFormat::kRgb, 24, 18)),
            ErrorReason::kGeometryInvalid);
  EXPECT_EQ(reason(TestPicture(PixelFormat::kPlanarRgb, 24, 17)),
            ErrorReason::kFormatPair);
  EXPECT_EQ(reason(TestPicture(PixelFormat::kRgb, 24, 17, 6, DType::kU16)),
            ErrorReason::kFormatPair);
  TestPicture nv12(PixelFormat::kNv12, 8, 8);
  EXPECT_EQ(ReasonOf(decoder.Decode(SmallPng(), {}, nv12.view()).status()),
            ErrorReason::kFormatPair);
}

}  // namespace
}  // namespace preprocd
