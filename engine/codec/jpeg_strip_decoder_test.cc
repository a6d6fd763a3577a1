// Strips against libjpeg-turbo's raw planes: equal in every sample, for every
// sampling, size, quality and restart interval.
#include "engine/codec/jpeg_strip_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/codec/decode_test_support.h"
#include "engine/codec/jpeg_library_planes.h"
#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

using Factors = JpegRecipe::Factors;

struct Planes {
  std::array<Samples, 3> samples;
  bool operator==(const Planes&) const = default;
};

constexpr uint8_t kGuard = 0xA5;

// The picture's samples of every plane by strips; checks that nothing is
// written beside the target rows.
absl::StatusOr<Planes> ByStrips(JpegStripDecoder& decoder, const Bytes& file,
                                DecodeResult& result,
                                const DecodeOptions& options = {}) {
  const auto header = ReadJpegHeader(file);
  if (!header.ok()) return header.status();
  const absl::Status begun = decoder.Begin(file, *header, options);
  if (!begun.ok()) return begun;
  Planes planes;
  constexpr size_t kPadding = 3;
  while (decoder.next_strip() < decoder.strip_count()) {
    std::array<Samples, 3> memory;
    JpegStripTargets targets;
    for (int c = 0; c < decoder.plane_count(); ++c) {
      const auto i = static_cast<size_t>(c);
      const JpegPlane& plane = decoder.plane(c);
      const size_t stride = static_cast<size_t>(plane.coded_width) + kPadding;
      memory[i].assign(stride * static_cast<size_t>(plane.strip_rows) + 1,
                       kGuard);
      targets[i] = {memory[i].data() + 1, stride};
    }
    const auto strip = decoder.Next(targets);
    if (!strip.ok()) return strip.status();
    for (int c = 0; c < decoder.plane_count(); ++c) {
      const auto i = static_cast<size_t>(c);
      const JpegPlane& plane = decoder.plane(c);
      EXPECT_EQ(memory[i][0], kGuard);
      for (int y = 0; y < plane.strip_rows; ++y) {
        const uint8_t* row =
            targets[i].data + static_cast<size_t>(y) * targets[i].stride_bytes;
        for (size_t p = 0; p < kPadding; ++p) {
          EXPECT_EQ(row[static_cast<size_t>(plane.coded_width) + p], kGuard);
        }
        if (y >= strip->planes[i].rows) continue;
        EXPECT_EQ(planes.samples[i].size(),
                  static_cast<size_t>(strip->planes[i].first_row + y) *
                      static_cast<size_t>(plane.width));
        planes.samples[i].insert(planes.samples[i].end(), row,
                                 row + plane.width);
      }
    }
  }
  const absl::Status finished = decoder.Finish(result);
  if (!finished.ok()) return finished;
  return planes;
}

Planes ByLibrary(const Bytes& file, int shrink = 1) {
  const RawPlanes raw = RawPlanesByLibrary(file, shrink);
  return {raw.samples};
}

TEST(JpegStripTest, EqualsTheLibrarysRawPlanes) {
  const std::array<Factors, 4> samplings[] = {
      {Luma(1, 1), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 1), Luma(1, 1), Luma(1, 1)},
      {Luma(1, 2), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 2), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 2), Luma(2, 1), Luma(1, 2)},
      {Luma(2, 2), Luma(1, 2), Luma(1, 1)},
      {Luma(1, 1), Luma(2, 2), Luma(1, 2)},
      {Luma(4, 1), Luma(1, 1), Luma(1, 1)},
      {Luma(4, 2), Luma(1, 1), Luma(1, 1)},
  };
  JpegStripDecoder decoder;
  for (const auto& sampling : samplings) {
    for (int size = 1; size <= 70; ++size) {
      JpegRecipe recipe;
      recipe.width = size;
      recipe.height = 1 + size * 37 % 70;
      recipe.sampling = sampling;
      recipe.quality = 1 + size * 29 % 100;
      recipe.restart_interval = size % 5 == 0 ? size / 5 : 0;
      const Bytes file =
          MakeJpeg(recipe, TestCardRgb(recipe.width, recipe.height));
      DecodeResult result;
      const auto planes = ByStrips(decoder, file, result);
      ASSERT_TRUE(planes.ok()) << planes.status();
      EXPECT_TRUE(*planes == ByLibrary(file))
          << sampling[0].h << "x" << sampling[0].v << " " << recipe.width << "x"
          << recipe.height;
      EXPECT_EQ(result.rows_good, recipe.height);
      EXPECT_TRUE(result.warnings.empty());
    }
  }
}

TEST(JpegStripTest, ShrunkPlanesEqualTheLibrarysScaledOnes) {
  const std::array<Factors, 4> samplings[] = {
      {Luma(1, 1), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 1), Luma(1, 1), Luma(1, 1)},
      {Luma(1, 2), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 2), Luma(1, 1), Luma(1, 1)},
      {Luma(2, 2), Luma(1, 2), Luma(1, 2)},
      {Luma(4, 1), Luma(1, 1), Luma(1, 1)},
  };
  JpegStripDecoder decoder;
  for (const auto& sampling : samplings) {
    for (const int shrink : {2, 4, 8}) {
      for (int size = 1; size <= 70; size += 3) {
        JpegRecipe recipe;
        recipe.width = size;
        recipe.height = 1 + size * 37 % 70;
        recipe.sampling = sampling;
        recipe.quality = 1 + size * 29 % 100;
        recipe.progressive = size % 7 == 0;
        recipe.restart_interval = size % 5 == 0 ? size / 5 : 0;
        const Bytes file =
            MakeJpeg(recipe, TestCardRgb(recipe.width, recipe.height));
        DecodeOptions options;
        options.shrink = shrink;
        DecodeResult result;
        const auto planes = ByStrips(decoder, file, result, options);
        ASSERT_TRUE(planes.ok()) << planes.status();
        EXPECT_TRUE(*planes == ByLibrary(file, shrink))
            << sampling[0].h << "x" << sampling[0].v << " " << recipe.width
            << "x" << recipe.height << " 1/" << shrink;
        EXPECT_EQ(result.rows_good, recipe.height);
      }
    }
  }
}

TEST(JpegStripTest, EveryProcessAndColour) {
  JpegStripDecoder decoder;
  for (int kind = 0; kind < 32; ++kind) {
    JpegRecipe recipe;
    recipe.width = 61;
    recipe.height = 43;
    recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
    recipe.progressive = (kind & 1) != 0;
    recipe.arithmetic = (kind & 2) != 0;
    recipe.one_scan_per_component = (kind & 4) != 0 && !recipe.progressive;
    recipe.color = (kind & 8) != 0    ? JpegColor::kGrey
                   : (kind & 16) != 0 ? JpegColor::kRgb
                                      : JpegColor::kYcc;
    Samples samples = TestCardRgb(61, 43);
    if (recipe.color == JpegColor::kGrey) samples.resize(samples.size() / 3);
    const Bytes file = MakeJpeg(recipe, samples);
    DecodeResult result;
    const auto planes = ByStrips(decoder, file, result);
    ASSERT_TRUE(planes.ok()) << planes.status();
    EXPECT_TRUE(*planes == ByLibrary(file)) << kind;
  }
}

TEST(JpegStripTest, DamageIsRefusedOrWarnedOf) {
  JpegRecipe recipe;
  recipe.width = 96;
  recipe.height = 80;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  const Bytes file = MakeJpeg(recipe, TestCardRgb(96, 80));
  JpegStripDecoder decoder;
  const size_t scan = FindSegment(file, 0xDA);
  for (size_t size = scan + 20; size + 2 < file.size(); size += 7) {
    const Bytes cut(file.begin(), file.begin() + static_cast<ptrdiff_t>(size));
    DecodeResult result;
    const absl::Status strict = ByStrips(decoder, cut, result).status();
    EXPECT_EQ(ReasonOf(strict), ErrorReason::kImageTruncated) << strict;
    EXPECT_NE(std::string(strict.message()).find("rows are good"),
              std::string::npos);
    DecodeOptions options;
    options.lenient = true;
    DecodeResult lenient;
    const auto planes = ByStrips(decoder, cut, lenient, options);
    ASSERT_TRUE(planes.ok()) << planes.status();
    EXPECT_EQ(lenient.warnings.size(), 1u);
    EXPECT_LT(lenient.rows_good, 80);
    // Good rows are those of the whole file.
    const Planes whole = ByLibrary(file);
    const auto good = static_cast<ptrdiff_t>(lenient.rows_good) * 96;
    EXPECT_TRUE(std::equal(whole.samples[0].begin(),
                           whole.samples[0].begin() + good,
                           planes->samples[0].begin()));
  }
  DecodeResult result;
  EXPECT_TRUE(ByStrips(decoder, file, result).ok());
}

// What the library alone makes of a file: its planes, or "" and its words.
struct LibraryOutcome {
  bool good = false;
  std::string message;
  Planes planes;
};

LibraryOutcome ByLibraryPlanes(const Bytes& file, const JpegHeader& header) {
  JpegLibraryPlanes library;
  LibraryOutcome outcome;
  const auto width = static_cast<size_t>(header.width + 32);
  std::array<Samples, 3> strip;
  JpegStripTargets targets;
  for (size_t c = 0; c < 3; ++c) {
    strip[c].resize(width * 32);
    targets[c] = {strip[c].data(), width};
  }
  const auto failed = [&] {
    const JpegDamage damage = library.source().damage();
    outcome.message =
        std::string(library.source().DamageStatus(header.height).message());
    return damage;
  };
  if (!library.Open(file, header, {})) {
    failed();
    return outcome;
  }
  const auto ratio = [&](int factor, int most) {
    return static_cast<size_t>(most / factor);
  };
  for (int top = 0; top < header.height; top += 8 * header.max_v) {
    if (!library.Next(targets)) {
      failed();
      return outcome;
    }
    for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
      const JpegComponent& component = header.components[c];
      const size_t x_ratio = ratio(component.h, header.max_h);
      const size_t y_ratio = ratio(component.v, header.max_v);
      const size_t columns =
          (static_cast<size_t>(header.width) + x_ratio - 1) / x_ratio;
      const size_t rows =
          (static_cast<size_t>(header.height) + y_ratio - 1) / y_ratio;
      const size_t first =
          static_cast<size_t>(top / header.max_v * component.v);
      for (size_t y = 0; y < size_t{component.v} * 8 && first + y < rows; ++y) {
        const uint8_t* row = targets[c].data + y * width;
        outcome.planes.samples[c].insert(outcome.planes.samples[c].end(), row,
                                         row + columns);
      }
    }
  }
  outcome.good =
      library.Finish() && library.source().damage() == JpegDamage::kNone;
  if (!outcome.good) failed();
  return outcome;
}

// The two decoders behind the interface are one to whoever uses it: whatever
// bytes are flipped, samples and words are the library's.
TEST(JpegStripTest, FlippedBytesMeanWhatTheLibrarySays) {
  std::mt19937 random(20261201);
  std::vector<Bytes> files;
  for (const int interval : {0, 2}) {
    for (const int quality : {20, 90}) {
      JpegRecipe recipe;
      recipe.width = 96;
      recipe.height = 70;
      recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
      recipe.restart_interval = interval;
      recipe.quality = quality;
      files.push_back(MakeJpeg(recipe, TestCardRgb(96, 70)));
    }
  }
  JpegStripDecoder decoder;
  int refused = 0;
  int given = 0;
  for (int i = 0; i < 3000; ++i) {
    Bytes file = files[static_cast<size_t>(i) % files.size()];
    const int flips = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < flips; ++k) {
      file[2 + random() % (file.size() - 2)] = static_cast<std::byte>(random());
    }
    const auto header = ReadJpegHeader(file);
    if (!header.ok() || !JpegStripDecoder::Supports(*header)) continue;
    if (int64_t{header->width} * header->height > 1 << 16) continue;
    const LibraryOutcome expected = ByLibraryPlanes(file, *header);
    DecodeResult result;
    const auto planes = ByStrips(decoder, file, result);
    ASSERT_EQ(planes.ok(), expected.good) << i << " " << planes.status();
    if (planes.ok()) {
      EXPECT_TRUE(*planes == expected.planes) << i;
      ++given;
    } else {
      EXPECT_EQ(std::string(planes.status().message()), expected.message) << i;
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(given, 500);
}

TEST(JpegStripTest, PlanesWithoutATargetAreLeftOut) {
  for (const bool progressive : {false, true}) {
    JpegRecipe recipe;
    recipe.width = recipe.height = 50;
    recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
    recipe.progressive = progressive;
    const Bytes file = MakeJpeg(recipe, TestCardRgb(50, 50));
    EXPECT_EQ(DecodeTo(file, PixelFormat::kGrey), ByLibrary(file).samples[0]);
  }
}

TEST(JpegStripTest, MissingEndMarkerIsAWarning) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 40;
  Bytes file = MakeJpeg(recipe, TestCardRgb(40, 40));
  const Planes whole = ByLibrary(file);
  file.resize(file.size() - 2);
  JpegStripDecoder decoder;
  DecodeResult result;
  const auto planes = ByStrips(decoder, file, result);
  ASSERT_TRUE(planes.ok()) << planes.status();
  EXPECT_TRUE(*planes == whole);
  EXPECT_EQ(result.warnings.size(), 1u);
  EXPECT_EQ(result.rows_good, 40);
}

}  // namespace
}  // namespace preprocd
