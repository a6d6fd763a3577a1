// The decoder of our own alone (JpegStripDecoder would hide that it gives
// up): what it takes, that it equals the library there, and that it lets go
// of everything else.
#include "engine/codec/jpeg_baseline_decoder.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "engine/codec/jpeg_strip_decoder.h"
#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

using End = JpegBaselineDecoder::End;

struct Outcome {
  bool opened = false;
  bool complete = false;
  End end = End::kOdd;
  std::array<Samples, 3> samples;
};

int CeilDiv(int a, int b) { return (a + b - 1) / b; }

Outcome Decode(JpegBaselineDecoder& decoder, const Bytes& file) {
  Outcome outcome;
  const auto header = ReadJpegHeader(file);
  if (!header.ok()) return outcome;
  outcome.opened = decoder.Open(file, *header);
  if (!outcome.opened) return outcome;
  const auto count = static_cast<size_t>(header->component_count);
  for (int top = 0; top < header->height; top += 8 * header->max_v) {
    std::array<Samples, 3> strip;
    JpegStripTargets targets;
    std::array<size_t, 3> widths = {};
    for (size_t c = 0; c < count; ++c) {
      const int h = header->components[c].h;
      const int v = header->components[c].v;
      widths[c] =
          static_cast<size_t>(CeilDiv(header->width * h, header->max_h));
      const size_t coded = (widths[c] + 7) / 8 * 8;
      strip[c].resize(coded * static_cast<size_t>(v) * 8);
      targets[c] = {strip[c].data(), coded};
    }
    if (!decoder.Next(targets)) return outcome;
    for (size_t c = 0; c < count; ++c) {
      const int v = header->components[c].v;
      const int plane_rows = CeilDiv(header->height * v, header->max_v);
      const int first = top / header->max_v * v;
      for (int y = 0; y < v * 8 && first + y < plane_rows; ++y) {
        const auto row = strip[c].begin() +
                         y * static_cast<ptrdiff_t>(targets[c].stride_bytes);
        outcome.samples[c].insert(outcome.samples[c].end(), row,
                                  row + static_cast<ptrdiff_t>(widths[c]));
      }
    }
  }
  outcome.complete = true;
  outcome.end = decoder.Finish();
  return outcome;
}

// Noise of all kinds: long codes, long runs, long extra bits.
Samples NoisyRgb(int width, int height, unsigned seed, int amplitude) {
  std::mt19937 random(seed);
  Samples samples = TestCardRgb(width, height);
  for (uint8_t& sample : samples) {
    const int noise =
        static_cast<int>(random() % static_cast<unsigned>(amplitude + 1));
    sample = static_cast<uint8_t>(std::min(255, sample + noise));
  }
  return samples;
}

JpegRecipe Recipe420(int width, int height) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  return recipe;
}

TEST(JpegBaselineTest, TakesEverySamplingUpToTwoByTwo) {
  JpegBaselineDecoder decoder;
  int cases = 0;
  for (int luma = 0; luma < 4; ++luma) {
    for (int cb = 0; cb < 4; ++cb) {
      for (int cr = 0; cr < 4; ++cr) {
        JpegRecipe recipe = Recipe420(67, 45);
        recipe.sampling = {Luma(1 + (luma & 1), 1 + (luma >> 1)),
                           Luma(1 + (cb & 1), 1 + (cb >> 1)),
                           Luma(1 + (cr & 1), 1 + (cr >> 1))};
        int blocks = 0;
        for (int c = 0; c < 3; ++c) {
          const auto f = recipe.sampling[static_cast<size_t>(c)];
          blocks += f.h * f.v;
        }
        if (blocks > 10) continue;  // more than the format allows
        recipe.restart_interval = cb == cr ? 3 : 0;
        const Bytes file = MakeJpeg(
            recipe, NoisyRgb(67, 45, static_cast<unsigned>(cases), 90));
        const Outcome outcome = Decode(decoder, file);
        ASSERT_TRUE(outcome.opened && outcome.complete) << luma << cb << cr;
        EXPECT_EQ(outcome.end, End::kMarker);
        EXPECT_TRUE(outcome.samples == RawPlanesByLibrary(file).samples)
            << luma << cb << cr;
        ++cases;
      }
    }
  }
  EXPECT_GT(cases, 50);
}

TEST(JpegBaselineTest, EverySizeAndQuality) {
  JpegBaselineDecoder decoder;
  for (int size = 1; size <= 70; ++size) {
    for (const bool grey : {false, true}) {
      JpegRecipe recipe = Recipe420(size, 71 - size);
      recipe.quality = 1 + (size * 31) % 100;
      recipe.restart_interval = size % 4;
      if (grey) {
        recipe.color = JpegColor::kGrey;
        recipe.sampling = {};
      }
      Samples samples = NoisyRgb(size, 71 - size, static_cast<unsigned>(size),
                                 size * 7 % 256);
      if (grey) samples.resize(samples.size() / 3);
      const Bytes file = MakeJpeg(recipe, samples);
      const Outcome outcome = Decode(decoder, file);
      ASSERT_TRUE(outcome.opened && outcome.complete) << size;
      EXPECT_EQ(outcome.end, End::kMarker);
      EXPECT_TRUE(outcome.samples == RawPlanesByLibrary(file).samples) << size;
    }
  }
}

// Longer than a window of entropy-coded data, with and without restarts, on
// every Highway target.
class LargePictureTest : public testing::TestWithParam<int64_t> {
 protected:
  LargePictureTest() { hwy::SetSupportedTargetsForTest(GetParam()); }
  ~LargePictureTest() override { hwy::SetSupportedTargetsForTest(0); }
};

INSTANTIATE_TEST_SUITE_P(Targets, LargePictureTest,
                         testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
                         [](const auto& target) {
                           return std::string(hwy::TargetName(target.param));
                         });

TEST_P(LargePictureTest, EqualsTheLibrary) {
  JpegBaselineDecoder decoder;
  for (const int interval : {0, 1, 50, 5000}) {
    JpegRecipe recipe = Recipe420(640, 400);
    recipe.quality = 97;
    recipe.restart_interval = interval;
    const Bytes file = MakeJpeg(recipe, NoisyRgb(640, 400, 5, 255));
    EXPECT_GT(file.size(), 200'000u);
    const Outcome outcome = Decode(decoder, file);
    ASSERT_TRUE(outcome.complete) << interval;
    EXPECT_EQ(outcome.end, End::kMarker);
    EXPECT_TRUE(outcome.samples == RawPlanesByLibrary(file).samples);
  }
}

TEST(JpegBaselineTest, MotionJpegWithoutTables) {
  JpegBaselineDecoder decoder;
  const Bytes file = MakeJpeg(Recipe420(64, 48), NoisyRgb(64, 48, 3, 60));
  const Outcome outcome = Decode(decoder, WithoutSegments(file, 0xC4));
  ASSERT_TRUE(outcome.opened && outcome.complete);
  EXPECT_TRUE(outcome.samples == RawPlanesByLibrary(file).samples);
}

TEST(JpegBaselineTest, LeavesOtherFilesToTheLibrary) {
  JpegBaselineDecoder decoder;
  const Samples samples = TestCardRgb(40, 40);
  const auto opens = [&](const JpegRecipe& recipe) {
    return Decode(decoder, MakeJpeg(recipe, samples)).opened;
  };
  JpegRecipe recipe = Recipe420(40, 40);
  EXPECT_TRUE(opens(recipe));
  recipe.progressive = true;
  EXPECT_FALSE(opens(recipe));
  recipe = Recipe420(40, 40);
  recipe.arithmetic = true;
  EXPECT_FALSE(opens(recipe));
  recipe = Recipe420(40, 40);
  recipe.one_scan_per_component = true;
  EXPECT_FALSE(opens(recipe));
  recipe = Recipe420(40, 40);
  recipe.sampling[0] = Luma(4, 1);
  EXPECT_FALSE(opens(recipe));
}

TEST(JpegBaselineTest, NoticesWhatFollowsThePixels) {
  JpegBaselineDecoder decoder;
  const Bytes file = MakeJpeg(Recipe420(48, 48), NoisyRgb(48, 48, 1, 30));
  Bytes cut(file.begin(), file.end() - 2);
  EXPECT_EQ(Decode(decoder, cut).end, End::kNoMarker);
  Bytes padded = cut;
  for (const int byte : {0x55, 0x55, 0xFF, 0xD9}) {
    padded.push_back(static_cast<std::byte>(byte));
  }
  EXPECT_EQ(Decode(decoder, padded).end, End::kOdd);
  Bytes filled = cut;
  for (const int byte : {0xFF, 0xFF, 0xFF, 0xD9}) {
    filled.push_back(static_cast<std::byte>(byte));
  }
  EXPECT_EQ(Decode(decoder, filled).end, End::kMarker);
  // A height that agrees costs no second decode.
  for (const int height : {48, 47}) {
    Bytes named = cut;
    for (const int byte : {0xFF, 0xDC, 0, 4, 0, height, 0xFF, 0xD9}) {
      named.push_back(static_cast<std::byte>(byte));
    }
    EXPECT_EQ(Decode(decoder, named).end,
              height == 48 ? End::kMarker : End::kOdd);
  }
}

TEST(JpegBaselineTest, CutFilesAreNeverComplete) {
  JpegBaselineDecoder decoder;
  for (const int interval : {0, 2}) {
    JpegRecipe recipe = Recipe420(96, 80);
    recipe.restart_interval = interval;
    const Bytes file = MakeJpeg(recipe, NoisyRgb(96, 80, 2, 200));
    for (size_t size = 2; size + 3 < file.size(); size += 5) {
      const Bytes cut(file.begin(),
                      file.begin() + static_cast<ptrdiff_t>(size));
      const Outcome outcome = Decode(decoder, cut);
      EXPECT_FALSE(outcome.complete && outcome.end != End::kOdd) << size;
    }
    EXPECT_TRUE(Decode(decoder, file).complete);
  }
}

}  // namespace
}  // namespace preprocd
