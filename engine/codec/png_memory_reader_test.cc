// The reader that inflates at once against libpng: equal pixels and, whatever
// bytes are flipped, equal answers. Filters on every Highway target against
// the formula.
#include "engine/codec/png_memory_reader.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <cstdlib>
#include <random>
#include <string>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/png_test_images.h"
#include "engine/codec/png_unfilter.h"

namespace preprocd {
namespace {

using Bytes = std::vector<std::byte>;

// Any bytes are filtered rows: each row names one of the five filters.
Bytes RandomPng(std::mt19937& random, PngColorType type, int depth, int width,
                int height) {
  PngRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.color_type = type;
  recipe.bit_depth = depth;
  if (type == PngColorType::kPalette) {
    for (int i = 0; i < 200; ++i) {
      recipe.palette.push_back({static_cast<uint8_t>(random()),
                                static_cast<uint8_t>(random()),
                                static_cast<uint8_t>(random())});
    }
    recipe.palette_alpha = {0, 17, 255, 3};
  }
  const size_t row_bytes = PngRowBytes(recipe);
  std::vector<uint8_t> filtered;
  for (int y = 0; y < height; ++y) {
    filtered.push_back(static_cast<uint8_t>(random() % 5));
    const bool flat = random() % 3 == 0;
    for (size_t i = 0; i < row_bytes; ++i) {
      filtered.push_back(static_cast<uint8_t>(flat ? 1 : random()));
    }
  }
  const std::vector<uint8_t> rows(row_bytes * static_cast<size_t>(height));
  std::vector<PngChunk> chunks = SplitPng(MakePng(recipe, rows));
  // The stream in two chunks.
  const Bytes stream = Deflate(filtered);
  const auto half = static_cast<ptrdiff_t>(stream.size() / 2);
  std::vector<PngChunk> out;
  bool placed = false;
  for (const PngChunk& chunk : chunks) {
    if (chunk.type != "IDAT") {
      out.push_back(chunk);
    } else if (!placed) {
      placed = true;
      out.push_back({"IDAT", Bytes(stream.begin(), stream.begin() + half)});
      out.push_back({"IDAT", Bytes(stream.begin() + half, stream.end())});
    }
  }
  return JoinPng(out);
}

// A chunk that means nothing and has a wrong CRC: not damage, but a reason to
// leave the file to libpng.
Bytes ForLibrary(const Bytes& file) {
  Bytes other = file;
  const Bytes chunk = JoinPng({{"teXt", {std::byte{1}}}});
  Bytes broken(chunk.begin() + 8, chunk.end());
  broken.back() ^= std::byte{1};
  const auto at = static_cast<ptrdiff_t>(8 + 25);  // behind IHDR
  other.insert(other.begin() + at, broken.begin(), broken.end());
  return other;
}

struct Outcome {
  absl::Status status;
  std::vector<uint8_t> pixels;
  size_t warnings = 0;
};

Outcome Decode(const Bytes& file, PixelFormat format) {
  Outcome outcome;
  const auto info = PeekImage(file);
  outcome.status = info.status();
  if (!info.ok()) return outcome;
  TestPicture picture(format, info->width, info->height);
  ImageDecoder decoder;
  const auto result = decoder.Decode(file, {}, picture.view());
  outcome.status = result.status();
  if (result.ok()) outcome.warnings = result->warnings.size();
  EXPECT_TRUE(picture.GuardsIntact());
  outcome.pixels = picture.Tight();
  return outcome;
}

constexpr PixelFormat kFormats[] = {PixelFormat::kGrey, PixelFormat::kRgb,
                                    PixelFormat::kRgba, PixelFormat::kBgr,
                                    PixelFormat::kBgra};

struct Kind {
  PngColorType type;
  int depth;
};
constexpr Kind kKinds[] = {
    {PngColorType::kGrey, 8},       {PngColorType::kGrey, 16},
    {PngColorType::kRgb, 8},        {PngColorType::kRgb, 16},
    {PngColorType::kPalette, 8},    {PngColorType::kGreyAlpha, 8},
    {PngColorType::kGreyAlpha, 16}, {PngColorType::kRgba, 8},
    {PngColorType::kRgba, 16}};

TEST(PngMemoryReaderTest, EqualsTheLibraryForEveryKindAndFormat) {
  std::mt19937 random(1);
  PngMemoryReader reader;
  for (const Kind& kind : kKinds) {
    for (int width = 1; width <= 40; ++width) {
      const Bytes file = RandomPng(random, kind.type, kind.depth, width, 12);
      for (const PixelFormat format : kFormats) {
        TestPicture picture(format, width, 12);
        ASSERT_TRUE(reader.Read(file, *ReadPngHeader(file), picture.view()));
        EXPECT_TRUE(picture.GuardsIntact());
        const Bytes other = ForLibrary(file);
        EXPECT_FALSE(reader.Read(other, *ReadPngHeader(other),
                                 TestPicture(format, width, 12).view()));
        const Outcome expected = Decode(other, format);
        ASSERT_TRUE(expected.status.ok()) << expected.status;
        EXPECT_EQ(picture.Tight(), expected.pixels)
            << static_cast<int>(kind.type) << " " << kind.depth << " " << width;
      }
    }
  }
}

TEST(PngMemoryReaderTest, LeavesOtherFilesToTheLibrary) {
  PngMemoryReader reader;
  const auto takes = [&](const PngRecipe& recipe, PixelFormat format) {
    const std::vector<uint8_t> rows(PngRowBytes(recipe) *
                                    static_cast<size_t>(recipe.height));
    const Bytes file = MakePng(recipe, rows);
    TestPicture picture(format, recipe.width, recipe.height);
    return reader.Read(file, *ReadPngHeader(file), picture.view());
  };
  PngRecipe recipe;
  recipe.width = recipe.height = 300;  // a full window
  EXPECT_TRUE(takes(recipe, PixelFormat::kRgb));
  recipe.transparent = {1, 2, 3};
  EXPECT_TRUE(takes(recipe, PixelFormat::kRgb));
  EXPECT_FALSE(takes(recipe, PixelFormat::kRgba));
  recipe = {};
  recipe.width = recipe.height = 300;
  recipe.interlaced = true;
  EXPECT_FALSE(takes(recipe, PixelFormat::kRgb));
  recipe.interlaced = false;
  recipe.color_type = PngColorType::kGrey;
  recipe.bit_depth = 4;
  EXPECT_FALSE(takes(recipe, PixelFormat::kGrey));
}

// The answer to a file never depends on which of the two read it: the file
// for the library has one warning more.
TEST(PngMemoryReaderTest, FlippedBytesMeanWhatTheLibrarySays) {
  std::mt19937 random(2);
  int refused = 0;
  int given = 0;
  for (int i = 0; i < 2000; ++i) {
    const Kind& kind = kKinds[static_cast<size_t>(i) % std::size(kKinds)];
    Bytes file = RandomPng(random, kind.type, kind.depth, 20, 20);
    const unsigned places =
        i % 2 == 0 ? 60 : static_cast<unsigned>(file.size());
    const size_t at =
        33 + random() % (std::min<size_t>(places, file.size() - 33));
    file[at] = static_cast<std::byte>(random());
    const Bytes other = ForLibrary(file);
    const Outcome got = Decode(file, PixelFormat::kRgba);
    const Outcome expected = Decode(other, PixelFormat::kRgba);
    ASSERT_EQ(got.status.ok(), expected.status.ok())
        << i << " " << got.status << " " << expected.status;
    if (got.status.ok()) {
      EXPECT_EQ(got.pixels, expected.pixels) << i;
      EXPECT_LE(got.warnings, expected.warnings) << i;
      ++given;
    } else {
      EXPECT_EQ(ReasonOf(got.status), ReasonOf(expected.status)) << i;
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(given, 5);
}

uint8_t PredictedByFormula(PngFilter filter, int left, int up, int corner) {
  switch (filter) {
    case PngFilter::kNone:
      return 0;
    case PngFilter::kSub:
      return static_cast<uint8_t>(left);
    case PngFilter::kUp:
      return static_cast<uint8_t>(up);
    case PngFilter::kAverage:
      return static_cast<uint8_t>((left + up) / 2);
    case PngFilter::kPaeth:
      break;
  }
  const int p = left + up - corner;
  const int a = std::abs(p - left);
  const int b = std::abs(p - up);
  const int c = std::abs(p - corner);
  if (a <= b && a <= c) return static_cast<uint8_t>(left);
  return static_cast<uint8_t>(b <= c ? up : corner);
}

TEST(PngUnfilterTest, IsTheFormulaOnEveryTarget) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    std::mt19937 random(3);
    for (size_t pixel = 1; pixel <= 8; ++pixel) {
      for (size_t width = 1; width <= 70; ++width) {
        for (int f = 0; f <= 4; ++f) {
          const auto filter = static_cast<PngFilter>(f);
          const size_t bytes = pixel * width;
          const unsigned mask = random() % 2 == 0 ? 255 : 3;
          std::vector<uint8_t> in(bytes + kPngRowPadding);
          std::vector<uint8_t> above(bytes + kPngRowPadding);
          std::vector<uint8_t> out(bytes + kPngRowPadding);
          for (size_t i = 0; i < bytes; ++i) {
            in[i] = static_cast<uint8_t>(random() & mask);
            above[i] = static_cast<uint8_t>(random());
          }
          UnfilterPngRow(filter, pixel, in.data(), above.data(), bytes,
                         out.data());
          for (size_t i = 0; i < bytes; ++i) {
            const int left = i < pixel ? 0 : out[i - pixel];
            const int corner = i < pixel ? 0 : above[i - pixel];
            const auto expected = static_cast<uint8_t>(
                in[i] + PredictedByFormula(filter, left, above[i], corner));
            ASSERT_EQ(out[i], expected)
                << hwy::TargetName(target) << " " << f << " " << pixel;
          }
        }
      }
    }
    hwy::SetSupportedTargetsForTest(0);
  }
}

}  // namespace
}  // namespace preprocd
