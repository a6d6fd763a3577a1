// Rows on every Highway target against scalar code written from libjpeg's
// formulas: all widths of two vectors and more, guard samples behind the rows.
#include "engine/codec/ycc_rows.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <random>
#include <vector>

namespace preprocd {
namespace {

using Samples = std::vector<uint8_t>;

template <class Body>
void OnEveryTarget(Body body) {
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
    hwy::SetSupportedTargetsForTest(0);
  }
}

Samples RandomRow(std::mt19937& random, int width) {
  Samples row(static_cast<size_t>(width) + kRowPadding);
  const unsigned kind = random() % 4;
  for (uint8_t& sample : row) {
    const unsigned value = random();
    sample = kind == 0   ? uint8_t{0}
             : kind == 1 ? uint8_t{255}
             : kind == 2 ? static_cast<uint8_t>(value % 2 * 255)
                         : static_cast<uint8_t>(value);
  }
  return row;
}

// jdsample.c, h2v1 and h2v2: `sums` are one row's samples or 3 near + far.
Samples AcrossByFormula(const std::vector<int>& sums, int even, int odd,
                        int shift) {
  Samples out;
  for (size_t i = 0; i < sums.size(); ++i) {
    const int left = sums[i == 0 ? 0 : i - 1];
    const int right = sums[std::min(i + 1, sums.size() - 1)];
    out.push_back(static_cast<uint8_t>((3 * sums[i] + left + even) >> shift));
    out.push_back(static_cast<uint8_t>((3 * sums[i] + right + odd) >> shift));
  }
  return out;
}

TEST(YccRowsTest, UpsamplingIsTheFormula) {
  OnEveryTarget([] {
    std::mt19937 random(3);
    for (int width = 1; width <= 130; ++width) {
      const Samples near = RandomRow(random, width);
      const Samples far = RandomRow(random, width);
      std::vector<uint16_t> memory(static_cast<size_t>(width) +
                                   2 * kRowPadding);
      const ChromaSums sums = {memory.data()};
      const auto count = static_cast<size_t>(width);
      Samples out(2 * count + kRowPadding);
      const auto got = [&](size_t size) {
        return Samples(out.begin(), out.begin() + static_cast<ptrdiff_t>(size));
      };
      std::vector<int> single(near.begin(), near.begin() + width);
      TriangleAcross(near.data(), width, sums, out.data());
      EXPECT_EQ(got(2 * count), AcrossByFormula(single, 1, 2, 2));
      std::vector<int> both;
      for (size_t i = 0; i < count; ++i) both.push_back(3 * near[i] + far[i]);
      TriangleAcrossAndDown(near.data(), far.data(), width, sums, out.data());
      EXPECT_EQ(got(2 * count), AcrossByFormula(both, 8, 7, 4));
      for (const bool upper : {false, true}) {
        TriangleDown(near.data(), far.data(), upper, width, out.data());
        Samples expected;
        for (size_t i = 0; i < count; ++i) {
          expected.push_back(
              static_cast<uint8_t>((both[i] + (upper ? 1 : 2)) >> 2));
        }
        EXPECT_EQ(got(count), expected);
      }
      ReplicateAcross(near.data(), width, out.data());
      Samples twice;
      for (size_t i = 0; i < count; ++i) twice.insert(twice.end(), 2, near[i]);
      EXPECT_EQ(got(2 * count), twice);
    }
  });
}

// jdcolor.c with its tables spelt out.
void PixelByFormula(int y, int cb, int cr, uint8_t* rgb) {
  const auto fix = [](double x) { return static_cast<int>(x * 65536 + 0.5); };
  const int b = cb - 128;
  const int r = cr - 128;
  const auto clamped = [](int v) {
    return static_cast<uint8_t>(std::clamp(v, 0, 255));
  };
  rgb[0] = clamped(y + ((fix(1.40200) * r + 32768) >> 16));
  rgb[1] = clamped(y + ((-fix(0.34414) * b - fix(0.71414) * r + 32768) >> 16));
  rgb[2] = clamped(y + ((fix(1.77200) * b + 32768) >> 16));
}

TEST(YccRowsTest, ColoursAreTheFormula) {
  OnEveryTarget([] {
    std::mt19937 random(4);
    for (int width = 1; width <= 130; ++width) {
      const Samples y = RandomRow(random, width);
      const Samples cb = RandomRow(random, width);
      const Samples cr = RandomRow(random, width);
      for (const PixelFormat format :
           {PixelFormat::kRgb, PixelFormat::kBgr, PixelFormat::kRgba,
            PixelFormat::kBgra}) {
        const PixelFormatInfo& info = GetPixelFormatInfo(format);
        const auto channels = static_cast<size_t>(info.channels);
        constexpr uint8_t kGuard = 0x3C;
        const auto count = static_cast<size_t>(width);
        Samples out(count * channels + 8, kGuard);
        YccRowToPixels(y.data(), cb.data(), cr.data(), width, format,
                       out.data());
        for (size_t x = 0; x < count; ++x) {
          uint8_t rgb[3];
          PixelByFormula(y[x], cb[x], cr[x], rgb);
          const uint8_t* pixel = out.data() + x * channels;
          for (size_t c = 0; c < 3; ++c) {
            ASSERT_EQ(pixel[info.channel_order[c]], rgb[c]) << x << " " << c;
          }
          if (channels == 4) {
            EXPECT_EQ(pixel[3], 255);
          }
        }
        for (size_t i = count * channels; i < out.size(); ++i) {
          EXPECT_EQ(out[i], kGuard);
        }
      }
    }
  });
}

TEST(YccRowsTest, EveryChromaPairIsExact) {
  OnEveryTarget([] {
    constexpr int kWidth = 256;
    Samples y(kWidth + kRowPadding, 128);
    Samples cb(kWidth + kRowPadding);
    for (size_t x = 0; x < kWidth; ++x) cb[x] = static_cast<uint8_t>(x);
    Samples out(kWidth * 3);
    for (int value = 0; value < 256; ++value) {
      const Samples cr(kWidth + kRowPadding, static_cast<uint8_t>(value));
      YccRowToPixels(y.data(), cb.data(), cr.data(), kWidth, PixelFormat::kRgb,
                     out.data());
      for (int x = 0; x < kWidth; ++x) {
        uint8_t rgb[3];
        PixelByFormula(128, x, value, rgb);
        ASSERT_TRUE(std::equal(rgb, rgb + 3, out.begin() + 3 * x))
            << x << " " << value;
      }
    }
  });
}

}  // namespace
}  // namespace preprocd
