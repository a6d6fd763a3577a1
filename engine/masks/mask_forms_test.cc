// Run lengths and outlines: both give the mask back.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "engine/masks/contours.h"
#include "engine/masks/run_length.h"

namespace preprocd {
namespace {

struct Mask {
  Rect bounds;
  Size size;
  std::vector<uint8_t> pixels;

  bool At(int x, int y) const {
    x -= bounds.x;
    y -= bounds.y;
    if (x < 0 || y < 0 || x >= bounds.width || y >= bounds.height) return false;
    return pixels[static_cast<size_t>(y * bounds.width + x)] != 0;
  }
};

// Random masks, from sparse to full, with boxes that touch borders or not.
Mask RandomMask(uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  const auto next = [&state](int n) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % static_cast<uint32_t>(n));
  };
  Mask m;
  m.size = {1 + next(20), 1 + next(20)};
  m.bounds.x = next(m.size.width);
  m.bounds.y = next(m.size.height);
  m.bounds.width = 1 + next(m.size.width - m.bounds.x);
  m.bounds.height = 1 + next(m.size.height - m.bounds.y);
  const int share = next(11);
  for (int i = 0; i < m.bounds.width * m.bounds.height; ++i) {
    m.pixels.push_back(next(10) < share ? 255 : 0);
  }
  return m;
}

TEST(RunLengthTest, RunsGiveTheMaskBack) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Mask m = RandomMask(seed);
    std::vector<uint32_t> counts;
    RunLengths(m.pixels.data(), m.bounds, m.size, counts);
    std::vector<bool> columns;
    bool value = false;
    for (size_t i = 0; i < counts.size(); ++i) {
      ASSERT_TRUE(i == 0 || counts[i] > 0) << seed;
      columns.insert(columns.end(), counts[i], value);
      value = !value;
    }
    ASSERT_EQ(columns.size(), static_cast<size_t>(m.size.width * m.size.height))
        << seed;
    size_t at = 0;
    for (int x = 0; x < m.size.width; ++x) {
      for (int y = 0; y < m.size.height; ++y, ++at) {
        ASSERT_EQ(columns[at], m.At(x, y)) << seed << " " << x << "," << y;
      }
    }
  }
}

TEST(RunLengthTest, StringGivesTheCountsBack) {
  // Worked out by hand from the rule in the header.
  const std::vector<uint32_t> small = {0, 1, 31, 32, 100, 16};
  EXPECT_EQ(CompressRunLengths(small), "01o0o0U2@");
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Mask m = RandomMask(seed);
    std::vector<uint32_t> counts;
    RunLengths(m.pixels.data(), m.bounds, m.size, counts);
    counts.push_back(100000 + seed);
    std::vector<uint32_t> back;
    const std::string text = CompressRunLengths(counts);
    for (size_t i = 0; i < text.size();) {
      int64_t value = 0;
      int shift = 0;
      int group = 0;
      do {
        group = text[i++] - 48;
        value |= int64_t{group & 0x1f} << shift;
        shift += 5;
      } while ((group & 0x20) != 0);
      if ((group & 0x10) != 0) value -= int64_t{1} << shift;
      if (back.size() > 2) value += back[back.size() - 2];
      back.push_back(static_cast<uint32_t>(value));
    }
    ASSERT_EQ(back, counts) << seed;
  }
}

TEST(ContoursTest, EvenOddFillGivesTheMaskBack) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Mask m = RandomMask(seed);
    MaskRings rings;
    TraceContours(m.pixels.data(), m.bounds, rings);
    for (int y = 0; y < m.size.height; ++y) {
      for (int x = 0; x < m.size.width; ++x) {
        // Edges to the left of the pixel's centre.
        int crossings = 0;
        size_t first = 0;
        for (const uint32_t count : rings.ring_sizes) {
          for (uint32_t i = 0; i < count; ++i) {
            const size_t a = 2 * (first + i);
            const size_t b = 2 * (first + (i + 1) % count);
            const float x0 = rings.corners[a];
            const float y0 = rings.corners[a + 1];
            const float y1 = rings.corners[b + 1];
            const double centre = y + 0.5;
            if ((y0 > centre) != (y1 > centre) && x0 <= static_cast<float>(x)) {
              ++crossings;
            }
          }
          first += count;
        }
        ASSERT_EQ(2 * first, rings.corners.size());
        ASSERT_EQ(crossings % 2 == 1, m.At(x, y))
            << seed << " " << x << "," << y;
      }
    }
  }
}

TEST(ContoursTest, OutlinesFirstThenHoles) {
  // A frame with a hole, and a dot that touches it at a corner.
  const std::vector<uint8_t> pixels = {1, 1, 1, 0,  //
                                       1, 0, 1, 0,  //
                                       1, 1, 1, 0,  //
                                       0, 0, 0, 1};
  MaskRings rings;
  TraceContours(pixels.data(), {10, 20, 4, 4}, rings);
  EXPECT_EQ(rings.ring_sizes, (std::vector<uint32_t>{4, 4, 4}));
  EXPECT_EQ(
      rings.corners,
      (std::vector<float>{10, 20, 13, 20, 13, 23, 10, 23, 13, 23, 14, 23,
                          14, 24, 13, 24, 11, 22, 12, 22, 12, 21, 11, 21}));
}

TEST(ContoursTest, NothingSetHasNoRing) {
  const std::vector<uint8_t> pixels(6);
  MaskRings rings;
  TraceContours(pixels.data(), {0, 0, 3, 2}, rings);
  EXPECT_TRUE(rings.corners.empty());
  EXPECT_TRUE(rings.ring_sizes.empty());
}

}  // namespace
}  // namespace preprocd
