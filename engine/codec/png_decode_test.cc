// What pixels a PNG file has, and which damage is answered how.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/codec/png_test_images.h"

namespace preprocd {
namespace {

// Bytes that look random but are the same everywhere.
std::vector<uint8_t> Rows(const PngRecipe& recipe) {
  std::vector<uint8_t> rows(PngRowBytes(recipe) *
                            static_cast<size_t>(recipe.height));
  uint32_t state = 12345;
  for (uint8_t& byte : rows) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  return rows;
}

std::vector<std::array<uint8_t, 3>> Palette(size_t count) {
  std::vector<std::array<uint8_t, 3>> palette;
  for (size_t i = 0; i < count; ++i) {
    palette.push_back({static_cast<uint8_t>(i * 37 + 5),
                       static_cast<uint8_t>(255 - i), static_cast<uint8_t>(i)});
  }
  return palette;
}

PngRecipe Recipe(PngColorType type, int depth, int width, int height) {
  PngRecipe recipe;
  recipe.color_type = type;
  recipe.bit_depth = depth;
  recipe.width = width;
  recipe.height = height;
  if (type == PngColorType::kPalette) {
    recipe.palette = Palette(size_t{1} << depth);
  }
  return recipe;
}

// Sample `i` of a stored row.
int SampleAt(const std::vector<uint8_t>& rows, size_t row_start, int depth,
             size_t i) {
  if (depth == 8) return rows[row_start + i];
  if (depth == 16) {
    const int wide = rows[row_start + 2 * i] << 8 | rows[row_start + 2 * i + 1];
    return (wide * 255 + 32895) >> 16;
  }
  const size_t bit = i * static_cast<size_t>(depth);
  const int shift = 8 - depth - static_cast<int>(bit % 8);
  return rows[row_start + bit / 8] >> shift & ((1 << depth) - 1);
}

// The picture as R G B A by the standard's own words.
std::vector<uint8_t> ExpectedRgba(const PngRecipe& recipe,
                                  const std::vector<uint8_t>& rows) {
  std::vector<uint8_t> out;
  const int depth = recipe.bit_depth;
  for (int y = 0; y < recipe.height; ++y) {
    const size_t start = static_cast<size_t>(y) * PngRowBytes(recipe);
    for (int x = 0; x < recipe.width; ++x) {
      const auto i = static_cast<size_t>(x);
      const auto at = [&](size_t k) {
        return static_cast<uint8_t>(SampleAt(rows, start, depth, k));
      };
      switch (recipe.color_type) {
        case PngColorType::kGrey: {
          const auto grey = static_cast<uint8_t>(
              depth < 8 ? at(i) * (255 / ((1 << depth) - 1)) : at(i));
          out.insert(out.end(), {grey, grey, grey, 255});
          break;
        }
        case PngColorType::kGreyAlpha:
          out.insert(out.end(),
                     {at(2 * i), at(2 * i), at(2 * i), at(2 * i + 1)});
          break;
        case PngColorType::kPalette: {
          const auto& entry = recipe.palette[at(i)];
          const uint8_t alpha = at(i) < recipe.palette_alpha.size()
                                    ? recipe.palette_alpha[at(i)]
                                    : uint8_t{255};
          out.insert(out.end(), {entry[0], entry[1], entry[2], alpha});
          break;
        }
        case PngColorType::kRgb:
          out.insert(out.end(), {at(3 * i), at(3 * i + 1), at(3 * i + 2), 255});
          break;
        case PngColorType::kRgba:
          out.insert(out.end(),
                     {at(4 * i), at(4 * i + 1), at(4 * i + 2), at(4 * i + 3)});
          break;
      }
    }
  }
  return out;
}

// Every destination from the R G B A picture.
std::vector<uint8_t> FromRgba(const std::vector<uint8_t>& rgba,
                              PixelFormat format) {
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  std::vector<uint8_t> out;
  for (size_t i = 0; i < rgba.size(); i += 4) {
    if (format == PixelFormat::kGrey) {
      const double luma =
          0.299 * rgba[i] + 0.587 * rgba[i + 1] + 0.114 * rgba[i + 2];
      out.push_back(static_cast<uint8_t>(luma + 0.5));
      continue;
    }
    std::array<uint8_t, 4> pixel = {};
    for (size_t c = 0; c < info.channels; ++c) {
      pixel[static_cast<size_t>(info.channel_order[c])] = rgba[i + c];
    }
    out.insert(out.end(), pixel.begin(), pixel.begin() + info.channels);
  }
  return out;
}

void ExpectAllFormats(const PngRecipe& recipe) {
  const std::vector<uint8_t> rows = Rows(recipe);
  const Bytes file = MakePng(recipe, rows);
  const std::vector<uint8_t> rgba = ExpectedRgba(recipe, rows);
  for (const PixelFormat format :
       {PixelFormat::kRgba, PixelFormat::kRgb, PixelFormat::kBgr,
        PixelFormat::kBgra, PixelFormat::kGrey}) {
    // Fixed point and double may round a luma differently at one half.
    EXPECT_LE(MaxDifference(DecodeTo(file, format), FromRgba(rgba, format)),
              format == PixelFormat::kGrey ? 1 : 0)
        << PixelFormatName(format) << " from type "
        << static_cast<int>(recipe.color_type) << " depth " << recipe.bit_depth
        << (recipe.interlaced ? " interlaced " : " ") << recipe.width << "x"
        << recipe.height;
  }
}

struct TypeAndDepth {
  PngColorType type;
  int depth;
};
constexpr TypeAndDepth kTypes[] = {
    {PngColorType::kGrey, 1},       {PngColorType::kGrey, 2},
    {PngColorType::kGrey, 4},       {PngColorType::kGrey, 8},
    {PngColorType::kGrey, 16},      {PngColorType::kRgb, 8},
    {PngColorType::kRgb, 16},       {PngColorType::kPalette, 1},
    {PngColorType::kPalette, 2},    {PngColorType::kPalette, 4},
    {PngColorType::kPalette, 8},    {PngColorType::kGreyAlpha, 8},
    {PngColorType::kGreyAlpha, 16}, {PngColorType::kRgba, 8},
    {PngColorType::kRgba, 16}};

TEST(PngPixelTest, EveryTypeAndDepthInEveryFormat) {
  for (const TypeAndDepth& t : kTypes) {
    for (const int width : {1, 7, 9, 33}) {
      ExpectAllFormats(Recipe(t.type, t.depth, width, 5));
    }
  }
}

TEST(PngPixelTest, InterlacedOfEverySmallSize) {
  for (const TypeAndDepth& t : kTypes) {
    for (int size = 1; size <= 9; ++size) {
      PngRecipe recipe = Recipe(t.type, t.depth, size, 10 - size);
      recipe.interlaced = true;
      ExpectAllFormats(recipe);
    }
  }
}

TEST(PngPixelTest, PaletteAlphaShorterThanThePalette) {
  PngRecipe recipe = Recipe(PngColorType::kPalette, 8, 8, 8);
  recipe.palette_alpha = {0, 0, 0, 9, 77};
  ExpectAllFormats(recipe);
  const auto info = PeekImage(MakePng(recipe, Rows(recipe)));
  EXPECT_TRUE(info->has_alpha);
  EXPECT_EQ(info->native_format, PixelFormat::kRgba);
}

TEST(PngPixelTest, TransparentColours) {
  PngRecipe grey = Recipe(PngColorType::kGrey, 8, 2, 1);
  grey.transparent = {20};
  EXPECT_EQ(DecodeTo(MakePng(grey, {20, 21}), PixelFormat::kRgba),
            (std::vector<uint8_t>{20, 20, 20, 0, 21, 21, 21, 255}));
  EXPECT_EQ(DecodeTo(MakePng(grey, {20, 21}), PixelFormat::kGrey),
            (std::vector<uint8_t>{20, 21}));
  PngRecipe rgb = Recipe(PngColorType::kRgb, 8, 2, 1);
  rgb.transparent = {1, 2, 3};
  const Bytes file = MakePng(rgb, {1, 2, 3, 1, 2, 4});
  EXPECT_EQ(DecodeTo(file, PixelFormat::kBgra),
            (std::vector<uint8_t>{3, 2, 1, 0, 4, 2, 1, 255}));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
            (std::vector<uint8_t>{1, 2, 3, 1, 2, 4}));
}

TEST(PngPixelTest, GreyWithAlphaIsOneGreyAndItsAlpha) {
  const Bytes file =
      MakePng(Recipe(PngColorType::kGreyAlpha, 8, 1, 1), {20, 1});
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgba),
            (std::vector<uint8_t>{20, 20, 20, 1}));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb),
            (std::vector<uint8_t>{20, 20, 20}));
  EXPECT_EQ(DecodeTo(file, PixelFormat::kGrey), (std::vector<uint8_t>{20}));
}

TEST(PngPixelTest, SixteenBitsRoundByTheFormulaForAllValues) {
  std::vector<uint8_t> rows;
  std::vector<uint8_t> expected;
  for (int value = 0; value < 65536; ++value) {
    rows.push_back(static_cast<uint8_t>(value >> 8));
    rows.push_back(static_cast<uint8_t>(value));
    expected.push_back(static_cast<uint8_t>((value * 255 + 32895) >> 16));
  }
  EXPECT_EQ(DecodeTo(MakePng(Recipe(PngColorType::kGrey, 16, 256, 256), rows),
                     PixelFormat::kGrey),
            expected);
}

TEST(PngPixelTest, ColourChunksChangeNoValue) {
  const PngRecipe recipe = Recipe(PngColorType::kRgb, 8, 9, 9);
  const Bytes file = MakePng(recipe, Rows(recipe));
  for (const PngChunk& extra :
       {PngChunk{"gAMA", ToBytes({0, 0, 0x27, 0x10})},
        PngChunk{"sRGB", ToBytes({0})}, PngChunk{"iCCP", ToBytes({'x', 0, 0})},
        PngChunk{"iCCP", {}}, PngChunk{"sBIT", ToBytes({5, 6, 5})},
        PngChunk{"bKGD", ToBytes({0, 1, 0, 2, 0, 3})}}) {
    std::vector<PngChunk> chunks = SplitPng(file);
    chunks.insert(chunks.begin() + 1, extra);
    EXPECT_EQ(DecodeTo(JoinPng(chunks), PixelFormat::kRgb),
              DecodeTo(file, PixelFormat::kRgb))
        << extra.type;
  }
}

TEST(PngPixelTest, AnimationsGiveTheirStillPicture) {
  const PngRecipe recipe = Recipe(PngColorType::kRgb, 8, 9, 9);
  const Bytes file = MakePng(recipe, Rows(recipe));
  std::vector<PngChunk> chunks = SplitPng(file);
  chunks.insert(chunks.begin() + 1, {"acTL", Bytes(8)});
  chunks.insert(chunks.begin() + 2, {"fcTL", Bytes(26)});
  chunks.insert(chunks.end() - 1, {"fdAT", Bytes(300'000)});
  const auto result = TryDecode(JoinPng(chunks));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warnings.size(), 1u);
  EXPECT_EQ(DecodeTo(JoinPng(chunks), PixelFormat::kRgb),
            DecodeTo(file, PixelFormat::kRgb));
}

// A 32x32 rgb file in pieces.
class PngDamageTest : public testing::Test {
 protected:
  PngDamageTest()
      : recipe_(Recipe(PngColorType::kRgb, 8, 32, 32)),
        rows_(Rows(recipe_)),
        file_(MakePng(recipe_, rows_)) {}

  // The file with its pixels replaced by these bodies of IDAT chunks.
  static Bytes WithData(const std::vector<Bytes>& bodies,
                        std::vector<PngChunk> chunks) {
    size_t at = 0;
    while (chunks[at].type != "IDAT") ++at;
    while (chunks[at].type == "IDAT") {
      chunks.erase(chunks.begin() + static_cast<ptrdiff_t>(at));
    }
    for (const Bytes& body : bodies) {
      chunks.insert(chunks.begin() + static_cast<ptrdiff_t>(at++),
                    {"IDAT", body});
    }
    return JoinPng(chunks);
  }

  // The rows with filter bytes of 0.
  std::vector<uint8_t> Filtered(size_t count) const {
    std::vector<uint8_t> raw;
    for (size_t y = 0; y < count; ++y) {
      raw.push_back(0);
      raw.insert(raw.end(), rows_.begin() + static_cast<ptrdiff_t>(y * 96),
                 rows_.begin() + static_cast<ptrdiff_t>(y * 96 + 96));
    }
    return raw;
  }

  Bytes FileOf(const std::vector<Bytes>& bodies) const {
    return WithData(bodies, SplitPng(file_));
  }

  const PngRecipe recipe_;
  const std::vector<uint8_t> rows_;
  const Bytes file_;
};

TEST_F(PngDamageTest, WrongAdlerOfThePixelsIsCorrupt) {
  Bytes stream = Deflate(Filtered(32));
  EXPECT_EQ(DecodeTo(FileOf({stream}), PixelFormat::kRgb), rows_);
  stream.back() ^= std::byte{1};
  EXPECT_EQ(ReasonOf(TryDecode(FileOf({stream})).status()),
            ErrorReason::kImageCorrupt);
}

TEST_F(PngDamageTest, WrongChecksums) {
  Bytes file = file_;
  const size_t end = FindChunk(file, "IEND");
  file[end - 1] ^= std::byte{1};  // of the last IDAT
  EXPECT_EQ(ReasonOf(TryDecode(file).status()), ErrorReason::kImageCorrupt);
  file = file_;
  file[32] ^= std::byte{1};  // of IHDR
  EXPECT_EQ(ReasonOf(TryDecode(file).status()), ErrorReason::kImageCorrupt);
  // Of a comment: the pixels are good.
  std::vector<PngChunk> chunks = SplitPng(file_);
  chunks.insert(chunks.begin() + 1, {"tEXt", ToBytes({'a', 0, 'b'})});
  file = JoinPng(chunks);
  file[33 + 8 + 3] ^= std::byte{1};
  const auto result = TryDecode(file);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warnings.size(), 1u);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), rows_);
}

TEST_F(PngDamageTest, WrongChecksumOfTransparencyIsCorrupt) {
  PngRecipe recipe = Recipe(PngColorType::kPalette, 8, 4, 4);
  recipe.palette_alpha = {1, 2, 3};
  Bytes file = MakePng(recipe, Rows(recipe));
  file[FindChunk(file, "tRNS") + 8 + 3] ^= std::byte{1};
  EXPECT_EQ(ReasonOf(TryDecode(file).status()), ErrorReason::kImageCorrupt);
}

TEST_F(PngDamageTest, StreamThatEndsEarlyTellsItsRows) {
  const absl::Status status =
      TryDecode(FileOf({Deflate(Filtered(30))})).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kImageCorrupt);
  EXPECT_NE(std::string(status.message()).find("30 of 32 rows"),
            std::string::npos)
      << status;
}

TEST_F(PngDamageTest, DataBehindTheStreamIsIgnored) {
  Bytes stream = Deflate(Filtered(32));
  stream.insert(stream.end(), 50, std::byte{7});
  EXPECT_EQ(DecodeTo(FileOf({stream}), PixelFormat::kRgb), rows_);
  // A further chunk of pixels, chunks of nothing, bytes behind the end.
  stream.resize(stream.size() - 50);
  EXPECT_EQ(DecodeTo(FileOf({{}, stream, {}, {}}), PixelFormat::kRgb), rows_);
  Bytes tail = file_;
  tail.resize(tail.size() + 1000);
  EXPECT_EQ(DecodeTo(tail, PixelFormat::kRgb), rows_);
}

TEST_F(PngDamageTest, ChunkBetweenPixelsIsCorrupt) {
  const Bytes stream = Deflate(Filtered(32));
  const auto half = stream.begin() + static_cast<ptrdiff_t>(stream.size() / 2);
  std::vector<PngChunk> chunks = SplitPng(
      FileOf({Bytes(stream.begin(), half), Bytes(half, stream.end())}));
  EXPECT_EQ(DecodeTo(JoinPng(chunks), PixelFormat::kRgb), rows_);
  chunks.insert(chunks.begin() + 2, {"tEXt", ToBytes({'a', 0, 'b'})});
  EXPECT_EQ(ReasonOf(TryDecode(JoinPng(chunks)).status()),
            ErrorReason::kImageCorrupt);
}

TEST_F(PngDamageTest, MissingEndIsAWarning) {
  const Bytes file(file_.begin(), file_.end() - 12);
  EXPECT_EQ(DecodeTo(file, PixelFormat::kRgb), rows_);
  const auto result = TryDecode(file);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->warnings.size(), 1u);
}

TEST_F(PngDamageTest, EverySixteenthIsTruncated) {
  for (size_t i = 1; i < 16; ++i) {
    const Bytes cut(file_.begin(), file_.begin() + static_cast<ptrdiff_t>(
                                                       file_.size() * i / 16));
    EXPECT_EQ(ReasonOf(TryDecode(cut).status()), ErrorReason::kImageTruncated)
        << i;
  }
}

TEST_F(PngDamageTest, LenientGivesTheRowsBeforeTheCut) {
  const Bytes cut(file_.begin(),
                  file_.begin() + static_cast<ptrdiff_t>(file_.size() / 2));
  DecodeOptions lenient;
  lenient.lenient = true;
  TestPicture picture(PixelFormat::kRgba, 32, 32);
  ImageDecoder decoder;
  const auto result = decoder.Decode(cut, lenient, picture.view());
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_GT(result->rows_good, 5);
  ASSERT_LT(result->rows_good, 32);
  EXPECT_EQ(picture.row(0, 0)[1], rows_[1]);
  const uint8_t* filled = picture.row(0, 31);
  EXPECT_EQ((std::vector<uint8_t>(filled, filled + 4)),
            (std::vector<uint8_t>{128, 128, 128, 255}));
}

TEST_F(PngDamageTest, UnknownFiltersAndFalseInterlaceAreCorrupt) {
  for (const int filter : {5, 255}) {
    std::vector<uint8_t> raw = Filtered(32);
    raw[2 * 97] = static_cast<uint8_t>(filter);
    EXPECT_EQ(ReasonOf(TryDecode(FileOf({Deflate(raw)})).status()),
              ErrorReason::kImageCorrupt);
  }
  std::vector<PngChunk> chunks = SplitPng(FileOf({Deflate(Filtered(32))}));
  chunks[0].body[12] = std::byte{1};
  EXPECT_EQ(ReasonOf(TryDecode(JoinPng(chunks)).status()),
            ErrorReason::kImageCorrupt);
}

TEST_F(PngDamageTest, RandomBytesNeverCrash) {
  PngRecipe interlaced = recipe_;
  interlaced.interlaced = true;
  PngRecipe palette = Recipe(PngColorType::kPalette, 4, 32, 32);
  palette.palette_alpha = {1, 2, 3};
  const Bytes files[] = {file_, MakePng(interlaced, rows_),
                         MakePng(palette, Rows(palette))};
  DecodeOptions lenient;
  lenient.lenient = true;
  std::mt19937 random(99);
  int refused = 0;
  for (int i = 0; i < 600; ++i) {
    Bytes file = files[static_cast<size_t>(i) % 3];
    for (size_t k = 0; k < 1 + random() % 4; ++k) {
      file[8 + random() % (file.size() - 8)] = static_cast<std::byte>(random());
    }
    const auto info = PeekImage(file);
    // Sizes that a flip made large would only make the test slow.
    if (info.ok() && int64_t{info->width} * info->height > 1 << 20) continue;
    const auto strict = TryDecode(file);
    if (!strict.ok()) ++refused;
    EXPECT_TRUE(!strict.ok() || TryDecode(file, lenient).ok());
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace preprocd
