// Damaged JPEG files: each is answered with a status, nothing is repaired in
// silence, and a lenient decode leaves no foreign bytes.
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

Bytes File(bool progressive, int restart_interval = 0,
           bool arithmetic = false) {
  JpegRecipe recipe;
  recipe.width = 96;
  recipe.height = 80;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  recipe.progressive = progressive;
  recipe.arithmetic = arithmetic;
  recipe.restart_interval = restart_interval;
  return MakeJpeg(recipe, TestCardRgb(96, 80));
}

Bytes First(const Bytes& file, size_t count) {
  return Bytes(file.begin(), file.begin() + static_cast<ptrdiff_t>(count));
}

DecodeOptions Lenient() {
  DecodeOptions options;
  options.lenient = true;
  return options;
}

TEST(TruncationTest, EverySixteenthIsRefusedAsTruncated) {
  for (const Bytes& file : {File(false), File(true), File(false, 2),
                            File(false, 0, true), File(true, 0, true)}) {
    for (size_t i = 1; i < 16; ++i) {
      const auto result = TryDecode(First(file, file.size() * i / 16));
      EXPECT_EQ(ReasonOf(result.status()), ErrorReason::kImageTruncated)
          << i << " " << result.status();
    }
  }
}

TEST(TruncationTest, MessageTellsGoodRows) {
  const Bytes file = File(false);
  const size_t scan = FindSegment(file, 0xDA);
  const size_t half = scan + (file.size() - scan) / 2;
  const absl::Status status = TryDecode(First(file, half)).status();
  EXPECT_NE(std::string(status.message()).find("of 80 rows are good"),
            std::string::npos)
      << status;
  // Lenient: the rows that are called good are those of the whole file.
  TestPicture picture(PixelFormat::kRgb, 96, 80);
  ImageDecoder decoder;
  const auto result =
      decoder.Decode(First(file, half), Lenient(), picture.view());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warnings.size(), 1u);
  ASSERT_GT(result->rows_good, 10);
  ASSERT_LT(result->rows_good, 80);
  const Samples whole = DecodeTo(file, PixelFormat::kRgb);
  const Samples part = picture.Tight();
  const auto good = static_cast<ptrdiff_t>(result->rows_good) * 96 * 3;
  EXPECT_TRUE(std::equal(part.begin(), part.begin() + good, whole.begin()));
}

TEST(TruncationTest, MissingEndMarkerAloneIsAWarning) {
  for (const Bytes& file : {File(false), File(true), File(false, 2)}) {
    const Bytes cut = First(file, file.size() - 2);
    EXPECT_EQ(DecodeTo(cut, PixelFormat::kRgb),
              DecodeTo(file, PixelFormat::kRgb));
    EXPECT_EQ(DecodeTo(cut, PixelFormat::kNv12, 1),
              DecodeTo(file, PixelFormat::kNv12, 1));
    const auto result = TryDecode(cut);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->warnings.size(), 1u);
    EXPECT_EQ(result->rows_good, 80);
  }
  const Bytes arithmetic = File(false, 0, true);
  EXPECT_EQ(
      ReasonOf(TryDecode(First(arithmetic, arithmetic.size() - 2)).status()),
      ErrorReason::kImageTruncated);
}

TEST(TruncationTest, ProgressiveFileCutBetweenScansIsTruncated) {
  const Bytes file = File(true);
  // Cut before every later scan header.
  for (size_t at = FindSegment(file, 0xDA) + 2; at + 1 < file.size(); ++at) {
    if (file[at] != std::byte{0xFF} || file[at + 1] != std::byte{0xDA}) {
      continue;
    }
    EXPECT_EQ(ReasonOf(TryDecode(First(file, at)).status()),
              ErrorReason::kImageTruncated)
        << at;
  }
}

TEST(TruncationTest, LenientLeavesNoForeignBytes) {
  for (const Bytes& file : {File(false), File(true)}) {
    for (size_t i = 8; i < 16; ++i) {
      const Bytes cut = First(file, file.size() * i / 16);
      Samples results[2];
      for (const int fill : {0, 255}) {
        TestPicture picture(PixelFormat::kNv12, 96, 80);
        for (int plane = 0; plane < 2; ++plane) {
          for (int y = 0; y < PlaneRows(PixelFormat::kNv12, plane, 80); ++y) {
            std::fill_n(picture.row(plane, y), 96, static_cast<uint8_t>(fill));
          }
        }
        ImageDecoder decoder;
        const auto result = decoder.Decode(cut, Lenient(), picture.view());
        EXPECT_TRUE(result.ok()) << result.status();
        Samples& out = results[fill == 0 ? 0 : 1];
        out = picture.Tight(0);
        const Samples chroma = picture.Tight(1);
        out.insert(out.end(), chroma.begin(), chroma.end());
      }
      EXPECT_EQ(results[0], results[1]) << i;
    }
  }
}

TEST(TruncationTest, MarkersInGarbageAreNotANewProcess) {
  Bytes file = File(false);
  file.resize(file.size() * 7 / 10);
  std::mt19937 random(7);
  for (int i = 0; i < 4096; ++i) {
    file.push_back(static_cast<std::byte>(random()));
    if (i % 500 == 10) {
      for (const int byte : {0xFF, 0xCF, 0xFF, 0xC5, 0xFF, 0xCB}) {
        file.push_back(static_cast<std::byte>(byte));
      }
    }
  }
  EXPECT_EQ(ReasonOf(TryDecode(file).status()), ErrorReason::kImageCorrupt);
}

TEST(RestartTest, FewStrayBytesBeforeMarkersAreAWarning) {
  const Bytes file = File(false, 2);
  const size_t scan = FindSegment(file, 0xDA);
  const auto with_stray = [&](size_t count) {
    Bytes out;
    for (size_t i = 0; i < file.size(); ++i) {
      const bool restart = i > scan && file[i] == std::byte{0xFF} &&
                           (file[i + 1] & std::byte{0xF8}) == std::byte{0xD0};
      if (restart) out.insert(out.end(), count, std::byte{0x12});
      out.push_back(file[i]);
    }
    return out;
  };
  // A few are in the library's bit buffer when the marker comes up.
  for (size_t count = 1; count <= 15; ++count) {
    EXPECT_EQ(DecodeTo(with_stray(count), PixelFormat::kRgb),
              DecodeTo(file, PixelFormat::kRgb));
    const auto result = TryDecode(with_stray(count));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->warnings.size(), 1u) << count;
    const ImageInfo info = PeekImage(file).value();
    TestPicture native(info.native_format, info.width, info.height);
    ImageDecoder decoder;
    EXPECT_EQ(
        decoder.Decode(with_stray(count), {}, native.view())->warnings.size(),
        1u)
        << count;
  }
  EXPECT_EQ(ReasonOf(TryDecode(with_stray(40)).status()),
            ErrorReason::kImageCorrupt);
}

// Each place is judged by itself, however many there are.
TEST(RestartTest, FewStrayBytesBeforeManyMarkersAreAWarning) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 320;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  recipe.restart_interval = 3;
  const Bytes file = MakeJpeg(recipe, TestCardRgb(320, 320));
  const Samples expected = DecodeTo(file, PixelFormat::kRgb);
  const size_t scan = FindSegment(file, 0xDA);
  for (size_t count = 1; count <= 9; ++count) {
    Bytes stray;
    for (size_t i = 0; i < file.size(); ++i) {
      const bool restart = i > scan && file[i] == std::byte{0xFF} &&
                           (file[i + 1] & std::byte{0xF8}) == std::byte{0xD0};
      if (restart) stray.insert(stray.end(), count, std::byte{0x12});
      stray.push_back(file[i]);
    }
    const auto result = TryDecode(stray);
    ASSERT_TRUE(result.ok()) << count << " " << result.status();
    EXPECT_EQ(result->warnings.size(), 1u) << count;
    EXPECT_EQ(DecodeTo(stray, PixelFormat::kRgb), expected) << count;
  }
}

TEST(RestartTest, MarkersWithoutTheirIntervalAreCorrupt) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 64;
  recipe.color = JpegColor::kGrey;
  recipe.restart_interval = 8;
  Samples samples;
  for (int i = 0; i < 64 * 64; ++i) {
    samples.push_back(static_cast<uint8_t>(i * 7));
  }
  const Bytes file = MakeJpeg(recipe, samples);
  EXPECT_TRUE(TryDecode(file).ok());
  EXPECT_EQ(ReasonOf(TryDecode(WithoutSegments(file, 0xDD)).status()),
            ErrorReason::kImageCorrupt);
}

TEST(TableTest, BadHuffmanTablesAreCorrupt) {
  const Bytes file = File(false);
  const size_t scan = FindSegment(file, 0xDA);
  const auto reason = [&](int id, const std::vector<int>& counts, int symbols) {
    std::vector<int> body = {id};
    body.insert(body.end(), counts.begin(), counts.end());
    for (int i = 0; i < symbols; ++i) body.push_back(i & 255);
    return ReasonOf(
        TryDecode(WithInserted(file, scan, Segment(0xC4, body))).status());
  };
  const std::vector<int> overfull = {0, 0, 3, 0,  0,  0,  0,  0,
                                     0, 0, 0, 99, 99, 99, 99, 255};
  EXPECT_EQ(reason(0, overfull, 654), ErrorReason::kImageCorrupt);
  EXPECT_EQ(reason(0, std::vector<int>(16, 255), 4080),
            ErrorReason::kImageCorrupt);
  std::vector<int> oversubscribed(16, 0);
  oversubscribed[0] = 5;
  EXPECT_EQ(reason(0, oversubscribed, 5), ErrorReason::kImageCorrupt);
  std::vector<int> one(16, 0);
  one[0] = 1;
  for (const int id : {4, 15}) {
    EXPECT_EQ(reason(id, one, 1), ErrorReason::kImageCorrupt) << id;
  }
  // A DC table with a category of 32 bits.
  std::vector<int> body = {0, 1};
  body.resize(17, 0);
  body.push_back(0x20);
  EXPECT_EQ(
      ReasonOf(
          TryDecode(WithInserted(file, scan, Segment(0xC4, body))).status()),
      ErrorReason::kImageCorrupt);
}

TEST(ScanHeaderTest, FieldsOutsideTheirRangeAreCorrupt) {
  const Bytes file = File(false);
  const size_t scan = FindSegment(file, 0xDA);
  const size_t frame = FindSegment(file, 0xC0);
  const auto reason = [&](size_t offset, int value) {
    Bytes other = file;
    other[offset] = static_cast<std::byte>(value);
    return ReasonOf(TryDecode(other).status());
  };
  EXPECT_EQ(reason(scan + 6, 0x33), ErrorReason::kImageCorrupt);  // tables
  EXPECT_EQ(reason(scan + 5, 99), ErrorReason::kImageCorrupt);    // component
  EXPECT_EQ(reason(scan + 4, 0), ErrorReason::kImageCorrupt);     // count
  EXPECT_EQ(reason(scan + 4, 5), ErrorReason::kImageCorrupt);
  EXPECT_EQ(reason(frame + 12, 7), ErrorReason::kImageCorrupt);  // table 7
}

TEST(ScanHeaderTest, ComponentWithoutAScanIsCorrupt) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 32;
  recipe.one_scan_per_component = true;
  Bytes file = MakeJpeg(recipe, TestCardRgb(32, 32));
  // The last scan goes; the end marker stays.
  size_t last = 0;
  for (size_t i = 0; i + 1 < file.size(); ++i) {
    if (file[i] == std::byte{0xFF} && file[i + 1] == std::byte{0xDA}) last = i;
  }
  Bytes cut = First(file, last);
  cut.push_back(std::byte{0xFF});
  cut.push_back(std::byte{0xD9});
  EXPECT_EQ(ReasonOf(TryDecode(cut).status()), ErrorReason::kImageCorrupt);
  EXPECT_EQ(ReasonOf(TryDecode(First(file, last)).status()),
            ErrorReason::kImageTruncated);
}

// Whatever a flip does, the answer is a status and the memory around the
// rows is untouched (TryDecode looks).
TEST(FlipTest, RandomBytesNeverCrash) {
  const Bytes files[] = {File(false), File(true), File(false, 3),
                         File(false, 0, true)};
  std::mt19937 random(20240501);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    Bytes file = files[static_cast<size_t>(i) % 4];
    const int flips = 1 + static_cast<int>(random() % 4);
    for (int k = 0; k < flips; ++k) {
      file[2 + random() % (file.size() - 2)] = static_cast<std::byte>(random());
    }
    const auto info = PeekImage(file);
    // Sizes that a flip made large would only make the test slow.
    if (info.ok() && int64_t{info->width} * info->height > 1 << 20) continue;
    const auto strict = TryDecode(file);
    const auto lenient = TryDecode(file, Lenient());
    if (strict.ok()) {
      EXPECT_TRUE(lenient.ok()) << lenient.status();
    } else {
      ++refused;
      EXPECT_NE(ReasonOf(strict.status()), ErrorReason::kUnspecified)
          << strict.status();
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(FlipTest, EveryPrefixOfASmallFileIsAnswered) {
  JpegRecipe recipe;
  recipe.progressive = true;
  const Bytes file = MakeJpeg(recipe, TestCardRgb(16, 16));
  for (size_t size = 1; size + 2 < file.size(); ++size) {
    EXPECT_FALSE(TryDecode(First(file, size)).ok()) << size;
    (void)TryDecode(First(file, size), Lenient());
  }
}

}  // namespace
}  // namespace preprocd
