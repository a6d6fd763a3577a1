// What pixels a JPEG file has: every coding and destination.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

JpegRecipe Recipe(int width, int height, int h, int v) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {Luma(h, v), Luma(1, 1), Luma(1, 1), Luma(h, v)};
  return recipe;
}

Bytes ColorFile(const JpegRecipe& recipe) {
  return MakeJpeg(recipe, TestCardRgb(recipe.width, recipe.height));
}

Samples Constant(int width, int height, const Samples& pixel) {
  Samples out;
  for (int i = 0; i < width * height; ++i) {
    out.insert(out.end(), pixel.begin(), pixel.end());
  }
  return out;
}

std::string ColorSpaceOf(const Bytes& file) {
  const auto info = PeekImage(file);
  return info.ok() ? info->color_space : std::string(info.status().message());
}

// Channels of packed pixels in the order R G B.
Samples ToRgb(const Samples& in, size_t step, bool blue_first) {
  Samples out;
  for (size_t i = 0; i < in.size(); i += step) {
    out.push_back(in[i + (blue_first ? 2 : 0)]);
    out.push_back(in[i + 1]);
    out.push_back(in[i + (blue_first ? 0 : 2)]);
  }
  return out;
}

class SamplingTest : public testing::TestWithParam<
                         std::tuple<std::tuple<int, int>, int, int>> {};

// Exact, because the library is the definition: accurate DCT, fancy chroma.
TEST_P(SamplingTest, EqualsTheLibraryInEveryPackedFormat) {
  const auto [factors, width, height] = GetParam();
  const Bytes file = ColorFile(
      Recipe(width, height, std::get<0>(factors), std::get<1>(factors)));
  const Samples rgb = DecodeByLibrary(file, false);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), rgb);
  EXPECT_EQ(ToRgb(DecodeTo(file, PixelFormat::kBgr), 3, true), rgb);
  const Samples rgba = DecodeTo(file, PixelFormat::kRgba);
  EXPECT_EQ(ToRgb(rgba, 4, false), rgb);
  EXPECT_EQ(rgba[3], 255);
  const Samples bgra = DecodeTo(file, PixelFormat::kBgra);
  EXPECT_EQ(ToRgb(bgra, 4, true), rgb);
  EXPECT_EQ(bgra.back(), 255);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kGrey), DecodeByLibrary(file, true));
  DecodeOptions replicate;
  replicate.fancy_chroma = false;
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb, 0, replicate),
            DecodeByLibrary(file, false, false));
}

// The luma plane is the grey picture, whatever happens to chroma.
TEST_P(SamplingTest, LumaOfEveryNvFormatIsTheCodedLuma) {
  const auto [factors, width, height] = GetParam();
  const Bytes file = ColorFile(
      Recipe(width, height, std::get<0>(factors), std::get<1>(factors)));
  const Samples luma = DecodeByLibrary(file, true);
  for (const PixelFormat format :
       {PixelFormat::kNv12, PixelFormat::kNv16, PixelFormat::kNv24}) {
    EXPECT_EQ(DecodeTo(file, format, 0), luma) << PixelFormatName(format);
    DecodeTo(file, format, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, SamplingTest,
    testing::Combine(testing::Values(std::tuple(1, 1), std::tuple(2, 1),
                                     std::tuple(2, 2), std::tuple(1, 2),
                                     std::tuple(4, 1), std::tuple(4, 2)),
                     testing::Values(1, 7, 16, 33), testing::Values(1, 8, 19)));

// Chroma that is constant inside each 16x16 block survives any path.
Samples BlockyYcc(int width, int height) {
  Samples out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const int block = x / 16 + 2 * (y / 16);
      out.push_back(static_cast<uint8_t>(60 + block * 40));
      out.push_back(static_cast<uint8_t>(200 - block * 35));
      out.push_back(static_cast<uint8_t>(40 + block * 35));
    }
  }
  return out;
}

TEST(NvTest, ChromaOfEverySamplingInEveryNvFormat) {
  constexpr int kSize = 32;
  DecodeOptions replicate;
  replicate.fancy_chroma = false;
  for (const auto& [h, v] :
       {std::pair(1, 1), std::pair(2, 1), std::pair(2, 2), std::pair(1, 2),
        std::pair(4, 1), std::pair(4, 2), std::pair(1, 4)}) {
    JpegRecipe recipe = Recipe(kSize, kSize, h, v);
    recipe.samples_are_ycc = true;
    recipe.quality = 100;
    const Bytes file = MakeJpeg(recipe, BlockyYcc(kSize, kSize));
    for (const PixelFormat format :
         {PixelFormat::kNv12, PixelFormat::kNv16, PixelFormat::kNv24}) {
      const PixelFormatInfo& info = GetPixelFormatInfo(format);
      const Samples chroma = DecodeTo(file, format, 1, replicate);
      const int columns = kSize >> info.chroma_x_shift;
      Samples expected;
      for (int y = 0; y < kSize >> info.chroma_y_shift; ++y) {
        for (int x = 0; x < columns; ++x) {
          const int block = (x << info.chroma_x_shift) / 16 +
                            2 * ((y << info.chroma_y_shift) / 16);
          expected.push_back(static_cast<uint8_t>(200 - block * 35));
          expected.push_back(static_cast<uint8_t>(40 + block * 35));
        }
      }
      EXPECT_LE(MaxDifference(chroma, expected), 1)
          << h << "x" << v << " " << info.name;
    }
  }
}

TEST(NvTest, NativeFormatsFollowTheSampling) {
  const auto native = [](int h, int v) {
    return PeekImage(ColorFile(Recipe(20, 20, h, v)))->native_format;
  };
  EXPECT_EQ(native(1, 1), PixelFormat::kNv24);
  EXPECT_EQ(native(2, 1), PixelFormat::kNv16);
  EXPECT_EQ(native(2, 2), PixelFormat::kNv12);
  EXPECT_EQ(native(1, 2), PixelFormat::kNv12);
  EXPECT_EQ(native(4, 1), PixelFormat::kNv12);
}

TEST(NvTest, GreyFileHasNeutralChroma) {
  JpegRecipe recipe;
  recipe.width = 17;
  recipe.height = 9;
  recipe.color = JpegColor::kGrey;
  const Bytes file = MakeJpeg(recipe, Samples(17 * 9, 77));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kNv12, 0), Samples(17 * 9, 77));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kNv12, 1), Samples(9 * 2 * 5, 128));
}

TEST(ProcessTest, ProgressiveArithmeticAndSeveralScansGiveTheSamePixels) {
  for (const auto& [h, v] :
       {std::pair(1, 1), std::pair(2, 2), std::pair(2, 1), std::pair(1, 2)}) {
    JpegRecipe recipe = Recipe(65, 43, h, v);
    const Samples baseline = DecodeTo(ColorFile(recipe), PixelFormat::kRgb);
    const auto same = [&](const JpegRecipe& other, const char* process) {
      const Bytes file = ColorFile(other);
      EXPECT_EQ(PeekImage(file)->process, process);
      EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), baseline) << process;
    };
    JpegRecipe other = recipe;
    other.progressive = true;
    same(other, "progressive");
    other.arithmetic = true;
    same(other, "arithmetic-progressive");
    other.progressive = false;
    same(other, "arithmetic");
    other.arithmetic = false;
    other.one_scan_per_component = true;
    same(other, "baseline");
    other.one_scan_per_component = false;
    other.restart_interval = 2;
    same(other, "baseline");
  }
}

TEST(ProcessTest, SixteenBitTablesOfLowQualityAreRead) {
  JpegRecipe recipe = Recipe(64, 64, 2, 2);
  recipe.quality = 2;
  const Bytes file = ColorFile(recipe);
  EXPECT_EQ(PeekImage(file)->process, "extended");
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), DecodeByLibrary(file, false));
}

TEST(SamplingNamesTest, RatiosCountNotFactors) {
  JpegRecipe plain = Recipe(65, 49, 2, 1);
  JpegRecipe odd = plain;
  odd.sampling = {Luma(2, 2), Luma(1, 2), Luma(1, 2)};
  const Bytes file = ColorFile(odd);
  EXPECT_EQ(PeekImage(file)->subsampling, "4:2:2");
  EXPECT_EQ(PeekImage(file)->native_format, PixelFormat::kNv16);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
            DecodeTo(ColorFile(plain), PixelFormat::kRgb));
  for (int plane = 0; plane < 2; ++plane) {
    EXPECT_EQ(DecodeTo(file, PixelFormat::kNv16, plane),
              DecodeTo(ColorFile(plain), PixelFormat::kNv16, plane));
  }
  odd.sampling = {Luma(1, 2), Luma(1, 2), Luma(1, 2)};
  plain = Recipe(65, 49, 1, 1);
  EXPECT_EQ(PeekImage(ColorFile(odd))->subsampling, "4:4:4");
  EXPECT_EQ(DecodeTo(ColorFile(odd), PixelFormat::kNv24, 1),
            DecodeTo(ColorFile(plain), PixelFormat::kNv24, 1));
}

TEST(SamplingNamesTest, ChromaFinerThanLumaAndFractions) {
  JpegRecipe recipe = Recipe(33, 20, 1, 1);
  recipe.sampling = {Luma(1, 1), Luma(2, 2), Luma(2, 2)};
  const Bytes finer = ColorFile(recipe);
  EXPECT_EQ(PeekImage(finer)->subsampling, "1x1,2x2,2x2");
  EXPECT_EQ(DecodeTo(finer, PixelFormat::kRgb), DecodeByLibrary(finer, false));
  DecodeTo(finer, PixelFormat::kNv12, 1);
  // The library does not write fractions either: factors 3x1 and 2x1.
  Bytes fraction = ColorFile(Recipe(33, 20, 2, 1));
  const size_t frame = FindSegment(fraction, 0xC0);
  fraction[frame + 11] = std::byte{0x31};
  fraction[frame + 14] = std::byte{0x21};
  EXPECT_EQ(ReasonOf(PeekImage(fraction).status()),
            ErrorReason::kImageUnsupported);
}

// Four components, 16x16, all samples alike.
Bytes InkFile(JpegColor color, const Samples& pixel, std::optional<bool> adobe,
              int h = 1) {
  JpegRecipe recipe = Recipe(16, 16, h, h);
  recipe.color = color;
  recipe.quality = 100;
  recipe.adobe = adobe;
  return MakeJpeg(recipe, Constant(16, 16, pixel));
}

TEST(InkTest, YcckIsInvertedInkForAllFourChannels) {
  for (const int h : {1, 2}) {
    // The library's input is CMYK-like triples; stored Y 150 Cb 100 Cr 160.
    const Bytes file =
        InkFile(JpegColor::kYcck, {150, 100, 160, 200}, std::nullopt, h);
    EXPECT_EQ(ColorSpaceOf(file), "ycck");
    EXPECT_LE(MaxDifference(DecodeTo(file, PixelFormat::kRgb),
                            Constant(16, 16, {47, 93, 122})),
              1);
  }
}

TEST(InkTest, CmykWithAdobeMarkerIsInverted) {
  EXPECT_LE(MaxDifference(
                DecodeTo(InkFile(JpegColor::kCmyk, {255, 255, 255, 255}, true),
                         PixelFormat::kRgb),
                Constant(16, 16, {255, 255, 255})),
            1);
  const Bytes cyan = InkFile(JpegColor::kCmyk, {0, 255, 255, 255}, true);
  EXPECT_EQ(ColorSpaceOf(cyan), "cmyk");
  EXPECT_LE(MaxDifference(DecodeTo(cyan, PixelFormat::kRgb),
                          Constant(16, 16, {0, 255, 255})),
            1);
  EXPECT_LE(MaxDifference(DecodeTo(cyan, PixelFormat::kBgra),
                          Constant(16, 16, {255, 255, 0, 255})),
            1);
  EXPECT_LE(MaxDifference(DecodeTo(cyan, PixelFormat::kGrey),
                          Constant(16, 16, {179})),
            1);
  EXPECT_LE(MaxDifference(DecodeTo(cyan, PixelFormat::kNv12, 1),
                          Constant(8, 8, {171, 0})),
            1);
}

TEST(InkTest, CmykWithoutMarkerIsReadAlikeAndSaysSo) {
  const Bytes file = InkFile(JpegColor::kCmyk, {0, 255, 255, 255}, false);
  EXPECT_LE(MaxDifference(DecodeTo(file, PixelFormat::kRgb),
                          Constant(16, 16, {0, 255, 255})),
            1);
  const auto result = TryDecode(file);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(result->warnings.size(), 1u);
  EXPECT_NE(result->warnings[0].find("ink"), std::string::npos);
  const auto told = TryDecode(InkFile(JpegColor::kCmyk, {9, 9, 9, 9}, true));
  ASSERT_TRUE(told.ok());
  EXPECT_TRUE(told->warnings.empty());
}

// Red, green, blue and white quadrants, stored as R G B.
Bytes RgbCodedFile() {
  JpegRecipe recipe = Recipe(32, 32, 1, 1);
  recipe.color = JpegColor::kRgb;
  recipe.quality = 100;
  Samples samples;
  for (int y = 0; y < 32; ++y) {
    for (int x = 0; x < 32; ++x) {
      const int q = x / 16 + 2 * (y / 16);
      for (int c = 0; c < 3; ++c) {
        samples.push_back(q == 3 || q == c ? 255 : 0);
      }
    }
  }
  return MakeJpeg(recipe, samples);
}

void ExpectQuadrants(const Bytes& file) {
  EXPECT_EQ(ColorSpaceOf(file), "rgb");
  EXPECT_EQ(PeekImage(file)->native_format, PixelFormat::kRgb);
  const Samples rgb = DecodeTo(file, PixelFormat::kRgb);
  const Samples grey = DecodeTo(file, PixelFormat::kGrey);
  const Samples luma = DecodeTo(file, PixelFormat::kNv12, 0);
  const Samples expected_luma = {76, 150, 29, 255};
  for (size_t q = 0; q < 4; ++q) {
    const size_t at = (q / 2 * 16 + 8) * 32 + q % 2 * 16 + 8;
    for (size_t c = 0; c < 3; ++c) {
      EXPECT_NEAR(rgb[at * 3 + c], q == 3 || q == c ? 255 : 0, 2);
    }
    EXPECT_NEAR(grey[at], expected_luma[q], 2);
    EXPECT_NEAR(luma[at], expected_luma[q], 2);
  }
  const Samples chroma = DecodeTo(file, PixelFormat::kNv24, 1);
  EXPECT_NEAR(chroma[(8 * 32 + 8) * 2 + 1], 255, 2);  // Cr of red
}

TEST(RgbCodedTest, MarkerIdsAndTheirOrder) {
  const Bytes file = RgbCodedFile();  // ids R G B and APP14 transform 0
  ExpectQuadrants(file);
  // The ids alone.
  ExpectQuadrants(WithoutSegments(file, 0xEE));
  // The marker alone: ids 1 2 3.
  Bytes numbered = file;
  const size_t frame = FindSegment(numbered, 0xC0);
  const size_t scan = FindSegment(numbered, 0xDA);
  for (size_t c = 0; c < 3; ++c) {
    numbered[frame + 10 + c * 3] = static_cast<std::byte>(c + 1);
    numbered[scan + 5 + c * 2] = static_cast<std::byte>(c + 1);
  }
  ExpectQuadrants(numbered);
  // The marker behind the frame header.
  const size_t marker = FindSegment(numbered, 0xEE);
  const Bytes segment(numbered.begin() + static_cast<ptrdiff_t>(marker),
                      numbered.begin() + static_cast<ptrdiff_t>(marker + 16));
  Bytes late = WithoutSegments(numbered, 0xEE);
  ExpectQuadrants(WithInserted(late, FindSegment(late, 0xC4), segment));
}

TEST(ComponentIdTest, OtherIdsAreYcc) {
  JpegRecipe recipe = Recipe(24, 24, 2, 2);
  recipe.jfif = false;
  const Bytes file = ColorFile(recipe);
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  const size_t frame = FindSegment(file, 0xC0);
  const size_t scan = FindSegment(file, 0xDA);
  for (const auto& ids :
       {std::array{0, 1, 2}, std::array{5, 9, 200}, std::array{1, 1, 1}}) {
    Bytes other = file;
    for (size_t c = 0; c < 3; ++c) {
      other[frame + 10 + c * 3] = static_cast<std::byte>(ids[c]);
      other[scan + 5 + c * 2] = static_cast<std::byte>(ids[c]);
    }
    EXPECT_EQ(ColorSpaceOf(other), "ycbcr");
    EXPECT_EQ(DecodeTo(other, PixelFormat::kRgb), expected);
  }
}

TEST(GreyTest, AdobeMarkerDoesNotMakeItInk) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 24;
  recipe.color = JpegColor::kGrey;
  recipe.quality = 100;
  Bytes file = MakeJpeg(recipe, Samples(24 * 24, 100));
  file = WithInserted(
      file, 2, Segment(0xEE, {'A', 'd', 'o', 'b', 'e', 0, 100, 0, 0, 0, 0, 0}));
  EXPECT_EQ(ColorSpaceOf(file), "grey");
  EXPECT_EQ(PeekImage(file)->native_format, PixelFormat::kGrey);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), Samples(24 * 24 * 3, 100));
}

TEST(HuffmanTest, MotionJpegFramesWithoutTables) {
  const Bytes file = ColorFile(Recipe(64, 48, 2, 1));
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  EXPECT_EQ(DecodeTo(WithoutSegments(file, 0xC4), PixelFormat::kRgb), expected);
  // The first of the four tables only.
  Bytes partial = file;
  const size_t table = FindSegment(partial, 0xC4);
  partial.erase(partial.begin() + static_cast<ptrdiff_t>(table),
                partial.begin() + static_cast<ptrdiff_t>(table + 33));
  EXPECT_EQ(DecodeTo(partial, PixelFormat::kRgb), expected);
}

TEST(HuffmanTest, FieldsOfAviFramesAreTold) {
  const Bytes file = WithoutSegments(ColorFile(Recipe(64, 48, 2, 1)), 0xC4);
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  for (int polarity = 0; polarity <= 2; ++polarity) {
    std::vector<int> body = {'A', 'V', 'I', '1', polarity, 0};
    body.resize(14);
    const Bytes avi = WithInserted(file, 2, Segment(0xE0, body));
    EXPECT_EQ(DecodeTo(avi, PixelFormat::kRgb), expected);
    EXPECT_EQ(TryDecode(avi)->warnings.size(), polarity == 0 ? 0u : 1u);
  }
}

TEST(HuffmanTest, ProgressiveWithoutTablesIsCorrupt) {
  JpegRecipe recipe = Recipe(32, 32, 2, 2);
  recipe.progressive = true;
  EXPECT_EQ(
      ReasonOf(TryDecode(WithoutSegments(ColorFile(recipe), 0xC4)).status()),
      ErrorReason::kImageCorrupt);
}

// Tables of the file before must not serve a file that lacks its own.
TEST(HistoryTest, ADecoderRemembersNothing) {
  JpegRecipe recipe = Recipe(32, 32, 2, 2);
  recipe.progressive = true;
  const Bytes first = ColorFile(recipe);
  const Bytes without_tables = WithoutSegments(first, 0xC4);
  const Bytes without_quantisation = WithoutSegments(first, 0xDB);
  ImageDecoder decoder;
  TestPicture picture(PixelFormat::kRgb, 32, 32);
  ASSERT_TRUE(decoder.Decode(first, {}, picture.view()).ok());
  const Samples expected = picture.Tight();
  EXPECT_FALSE(decoder.Decode(without_tables, {}, picture.view()).ok());
  EXPECT_FALSE(decoder.Decode(without_quantisation, {}, picture.view()).ok());
  const auto again = decoder.Decode(first, {}, picture.view());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rows_good, 32);
  EXPECT_EQ(again->info.width, 32);
  EXPECT_EQ(picture.Tight(), expected);
}

TEST(HeightTest, ComesFromTheDnlSegment) {
  const Bytes file = ColorFile(Recipe(24, 40, 2, 2));
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  const Bytes line_count = Segment(0xDC, {0, 40});
  Bytes unknown = file;
  const size_t height = FindSegment(file, 0xC0) + 5;
  unknown[height] = unknown[height + 1] = std::byte{0};
  const Bytes named = WithInserted(unknown, unknown.size() - 2, line_count);
  EXPECT_EQ(PeekImage(named)->height, 40);
  EXPECT_EQ(DecodeTo(named, PixelFormat::kRgb), expected);
  // A known height with a segment that agrees.
  EXPECT_EQ(DecodeTo(WithInserted(file, file.size() - 2, line_count),
                     PixelFormat::kRgb),
            expected);
  EXPECT_EQ(ReasonOf(PeekImage(unknown).status()), ErrorReason::kImageCorrupt);
  EXPECT_EQ(ReasonOf(PeekImage(WithInserted(unknown, unknown.size() - 2,
                                            Segment(0xDC, {0, 0})))
                         .status()),
            ErrorReason::kImageCorrupt);
}

TEST(HeightTest, OfTheFrameHeaderCountsAgainstAnother) {
  for (const bool progressive : {false, true}) {
    JpegRecipe recipe = Recipe(24, 40, 2, 2);
    recipe.progressive = progressive;
    const Bytes file = ColorFile(recipe);
    // Behind the first scan.
    const size_t scan = FindSegment(file, 0xDA);
    size_t end = scan + 2;
    while (file[end] != std::byte{0xFF} || file[end + 1] < std::byte{0xC0}) {
      ++end;
    }
    for (const int height : {39, 41, 40}) {
      const Bytes other = WithInserted(file, end, Segment(0xDC, {0, height}));
      for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kNv12}) {
        EXPECT_EQ(DecodeTo(other, format), DecodeTo(file, format));
        TestPicture picture(format, 24, 40);
        ImageDecoder decoder;
        const auto result = decoder.Decode(other, {}, picture.view());
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_EQ(result->warnings.size(), height == 40 ? 0u : 1u) << height;
      }
    }
  }
}

TEST(HuffmanTest, OptimisedAndOneSymbolTables) {
  JpegRecipe recipe = Recipe(64, 64, 2, 2);
  recipe.optimised_tables = true;
  const Bytes card = ColorFile(recipe);
  EXPECT_EQ(DecodeTo(card, PixelFormat::kRgb), DecodeByLibrary(card, false));
  // One colour: a DC table and an AC table of very few symbols.
  const Bytes flat = MakeJpeg(recipe, Samples(64 * 64 * 3, 77));
  EXPECT_EQ(DecodeTo(flat, PixelFormat::kRgb), DecodeByLibrary(flat, false));
}

// Progressive files with scans left out: pixels depend on nothing but the
// file.
TEST(HistoryTest, IncompleteProgressionsDoNotDependOnTheLastPicture) {
  JpegRecipe recipe = Recipe(32, 32, 2, 2);
  recipe.progressive = true;
  const Bytes file = ColorFile(recipe);
  std::vector<size_t> scans;
  for (size_t at = FindSegment(file, 0xDA); at + 1 < file.size(); ++at) {
    if (file[at] == std::byte{0xFF} && file[at + 1] == std::byte{0xDA}) {
      scans.push_back(at);
    }
  }
  ASSERT_GT(scans.size(), 4u);
  const Bytes another = ColorFile(Recipe(32, 32, 1, 1));
  for (size_t skip = 0; skip + 1 < scans.size(); ++skip) {
    Bytes other(file.begin(),
                file.begin() + static_cast<ptrdiff_t>(scans[skip]));
    other.insert(other.end(),
                 file.begin() + static_cast<ptrdiff_t>(scans[skip + 1]),
                 file.end());
    DecodeOptions lenient;
    lenient.lenient = true;
    ImageDecoder decoder;
    Samples results[2];
    for (Samples& result : results) {
      TestPicture picture(PixelFormat::kRgb, 32, 32);
      const auto decoded = decoder.Decode(other, lenient, picture.view());
      if (decoded.ok()) result = picture.Tight();
      ASSERT_TRUE(decoder.Decode(another, {}, picture.view()).ok());
    }
    EXPECT_EQ(results[0], results[1]) << skip;
  }
}

TEST(SegmentTest, EmptyTablesAndFillBytesChangeNothing) {
  const Bytes file = ColorFile(Recipe(24, 24, 2, 2));
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  const size_t scan = FindSegment(file, 0xDA);
  const Bytes fill = ToBytes({0xFF, 0xFF, 0xFF});
  for (const Bytes& extra :
       {Segment(0xC4, {}), Segment(0xDB, {}), Segment(0xFE, {}), fill}) {
    const Bytes other = WithInserted(file, scan, extra);
    EXPECT_EQ(DecodeTo(other, PixelFormat::kRgb), expected);
    const auto result = TryDecode(other);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(result->warnings.empty());
  }
}

TEST(SegmentTest, JunkBetweenHeadersIsAWarning) {
  const Bytes file = ColorFile(Recipe(24, 24, 2, 2));
  const size_t at = FindSegment(file, 0xDB);
  for (const size_t count : {size_t{1}, size_t{2}, size_t{34}}) {
    const Bytes other = WithInserted(file, at, Bytes(count, std::byte{0x11}));
    EXPECT_EQ(DecodeTo(other, PixelFormat::kRgb),
              DecodeTo(file, PixelFormat::kRgb));
    const auto result = TryDecode(other);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->warnings.size(), 1u) << count;
  }
}

TEST(TailTest, BytesBehindTheEndAreNotRead) {
  const Bytes file = ColorFile(Recipe(24, 24, 2, 2));
  JpegRecipe small;
  Bytes with_second = file;
  const Bytes second = MakeJpeg(small, TestCardRgb(16, 16));
  with_second.insert(with_second.end(), second.begin(), second.end());
  Bytes with_zeros = file;
  with_zeros.resize(file.size() + (1 << 20));
  for (const Bytes& other : {with_second, with_zeros}) {
    EXPECT_EQ(DecodeTo(other, PixelFormat::kRgb),
              DecodeTo(file, PixelFormat::kRgb));
    EXPECT_TRUE(TryDecode(other)->warnings.empty());
  }
}

TEST(TailTest, BrokenColourProfilesStopNothing) {
  const Bytes file = ColorFile(Recipe(24, 24, 2, 2));
  std::vector<int> body;
  for (const char c : std::string("ICC_PROFILE")) body.push_back(c);
  for (const int byte : {0, 0, 7, 1, 2, 3}) body.push_back(byte);
  const Bytes other = WithInserted(file, 2, Segment(0xE2, body));
  EXPECT_EQ(DecodeTo(other, PixelFormat::kRgb),
            DecodeTo(file, PixelFormat::kRgb));
}

}  // namespace
}  // namespace preprocd
