// The inverse DCT of every Highway target against scalar code written from
// jidctint's formula, and against the exact transform.
#include "engine/codec/inverse_dct.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>
#include <vector>

namespace preprocd {
namespace {

using Block = std::array<int, kDctCoefficients>;

double Basis(int k, int n) {
  const double scale = k == 0 ? std::sqrt(0.125) : 0.5;
  return scale * std::cos((2 * n + 1) * k * std::numbers::pi / 16);
}

// T.81 A.3.3 in double precision, level-shifted and clamped.
std::array<double, kDctCoefficients> Exact(const Block& coefficients) {
  std::array<double, kDctCoefficients> out = {};
  for (int y = 0; y < 8; ++y) {
    for (int x = 0; x < 8; ++x) {
      double sum = 128;
      for (int v = 0; v < 8; ++v) {
        for (int u = 0; u < 8; ++u) {
          sum += Basis(v, y) * Basis(u, x) *
                 coefficients[static_cast<size_t>(v * 8 + u)];
        }
      }
      out[static_cast<size_t>(y * 8 + x)] = std::clamp(sum, 0.0, 255.0);
    }
  }
  return out;
}

// jidctint's passes on plain integers: 13-bit constants, the first pass keeps
// two more bits.
void Pass(std::array<int64_t, 8>& v, int shift) {
  const auto c = [](double value) { return std::llround(value * 8192); };
  const int64_t z1 = (v[2] + v[6]) * c(0.541196100);
  const int64_t t2 = z1 - v[6] * c(1.847759065);
  const int64_t t3 = z1 + v[2] * c(0.765366865);
  const int64_t t0 = (v[0] + v[4]) * 8192;
  const int64_t t1 = (v[0] - v[4]) * 8192;
  const int64_t even[4] = {t0 + t3, t1 + t2, t1 - t2, t0 - t3};
  const int64_t z5 = (v[7] + v[3] + v[5] + v[1]) * c(1.175875602);
  const int64_t a1 = -(v[7] + v[1]) * c(0.899976223);
  const int64_t a2 = -(v[5] + v[3]) * c(2.562915447);
  const int64_t a3 = z5 - (v[7] + v[3]) * c(1.961570560);
  const int64_t a4 = z5 - (v[5] + v[1]) * c(0.390180644);
  const int64_t odd[4] = {
      v[1] * c(1.501321110) + a1 + a4, v[3] * c(3.072711026) + a2 + a3,
      v[5] * c(2.053119869) + a2 + a4, v[7] * c(0.298631336) + a1 + a3};
  for (size_t i = 0; i < 4; ++i) {
    const int64_t half = int64_t{1} << (shift - 1);
    v[i] = (even[i] + odd[i] + half) >> shift;
    v[7 - i] = (even[i] - odd[i] + half) >> shift;
  }
}

std::array<uint8_t, kDctCoefficients> ByFormula(const Block& coefficients) {
  std::array<std::array<int64_t, 8>, 8> rows = {};
  for (size_t x = 0; x < 8; ++x) {
    std::array<int64_t, 8> column = {};
    for (size_t y = 0; y < 8; ++y) column[y] = coefficients[y * 8 + x];
    Pass(column, 11);
    for (size_t y = 0; y < 8; ++y) rows[y][x] = column[y];
  }
  std::array<uint8_t, kDctCoefficients> out = {};
  for (size_t y = 0; y < 8; ++y) {
    Pass(rows[y], 18);
    for (size_t x = 0; x < 8; ++x) {
      out[y * 8 + x] =
          static_cast<uint8_t>(std::clamp<int64_t>(rows[y][x] + 128, 0, 255));
    }
  }
  return out;
}

class EveryTarget : public testing::Test {
 protected:
  template <class Body>
  void Run(Body body) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      SCOPED_TRACE(hwy::TargetName(target));
      body();
      hwy::SetSupportedTargetsForTest(0);
    }
  }
};

// A row of blocks with coefficients in the first `extent` zigzag positions
// of quantised values up to `limit`.
struct BlockRow {
  std::vector<DctPair> pairs;
  std::vector<uint8_t> extents;
  std::vector<Block> dequantised;
};

BlockRow RandomRow(std::mt19937& random, int count, const DctPair& quantiser,
                   int limit) {
  BlockRow row;
  row.pairs.resize(static_cast<size_t>(count + 1) / 2);
  row.extents.resize(row.pairs.size() * 2);
  row.dequantised.resize(static_cast<size_t>(count));
  for (size_t b = 0; b < static_cast<size_t>(count); ++b) {
    const int shape = static_cast<int>(random() % 4);
    const unsigned extent = shape == 0   ? 0
                            : shape == 1 ? 1 + random() % 9
                                         : 10 + random() % 54;
    row.extents[b] = static_cast<uint8_t>(extent);
    for (unsigned k = 0; k <= extent; ++k) {
      if (k != extent && random() % 3 == 0) continue;
      const int value = static_cast<int>(random()) % (limit + 1);
      const size_t natural = kZigzagToNatural[k];
      const size_t at = natural / 8 * DctPair::kRowStep + natural % 8;
      row.pairs[b / 2].values[at + b % 2 * 8] = static_cast<int16_t>(value);
      row.dequantised[b][natural] = value * quantiser.values[at];
    }
  }
  return row;
}

DctPair TestQuantiser() {
  std::array<uint16_t, kDctCoefficients> zigzag = {};
  for (size_t k = 0; k < zigzag.size(); ++k) {
    zigzag[k] = static_cast<uint16_t>(3 + k / 2);
  }
  return MakeQuantiser(zigzag);
}

TEST_F(EveryTarget, EqualsTheFormulaAndTouchesNothingElse) {
  const DctPair quantiser = TestQuantiser();
  Run([&] {
    std::mt19937 random(7);
    for (int count = 1; count <= 18; ++count) {
      for (int round = 0; round < 20; ++round) {
        BlockRow row = RandomRow(random, count, quantiser, 3 + round * 2);
        constexpr uint8_t kGuard = 0x5A;
        const size_t stride = static_cast<size_t>(count) * 8 + 3;
        std::vector<uint8_t> out(stride * 8 + 2, kGuard);
        InverseDctRow(row.pairs.data(), row.extents.data(), quantiser, count,
                      out.data() + 1, stride);
        EXPECT_EQ(out[0], kGuard);
        EXPECT_EQ(out.back(), kGuard);
        for (size_t y = 0; y < 8; ++y) {
          for (size_t x = 0; x < stride; ++x) {
            const uint8_t got = out[1 + y * stride + x];
            if (x >= static_cast<size_t>(count) * 8) {
              EXPECT_EQ(got, kGuard);
              continue;
            }
            const auto expected = ByFormula(row.dequantised[x / 8]);
            ASSERT_EQ(got, expected[y * 8 + x % 8]) << "block " << x / 8;
          }
        }
        for (const DctPair& pair : row.pairs) {
          EXPECT_TRUE(std::all_of(pair.values.begin(), pair.values.end(),
                                  [](int16_t v) { return v == 0; }));
        }
      }
    }
  });
}

TEST_F(EveryTarget, IsWithinOneOfTheExactTransform) {
  const DctPair quantiser = TestQuantiser();
  Run([&] {
    std::mt19937 random(9);
    for (int round = 0; round < 50; ++round) {
      BlockRow row = RandomRow(random, 2, quantiser, 12);
      std::array<uint8_t, 128> out = {};
      InverseDctRow(row.pairs.data(), row.extents.data(), quantiser, 2,
                    out.data(), 16);
      for (size_t b = 0; b < 2; ++b) {
        const auto exact = Exact(row.dequantised[b]);
        for (size_t i = 0; i < exact.size(); ++i) {
          EXPECT_LE(std::abs(out[i / 8 * 16 + b * 8 + i % 8] - exact[i]), 1.0);
        }
      }
    }
  });
}

// Values that no encoder writes: the same bytes on every target.
TEST_F(EveryTarget, ExtremesAreAlikeEverywhere) {
  std::array<uint16_t, kDctCoefficients> zigzag = {};
  zigzag.fill(255);
  const DctPair quantiser = MakeQuantiser(zigzag);
  std::vector<std::vector<uint8_t>> results;
  Run([&] {
    std::mt19937 random(11);
    std::vector<uint8_t> all;
    for (int round = 0; round < 200; ++round) {
      DctPair pair = {};
      std::array<uint8_t, 2> extents = {};
      for (size_t b = 0; b < 2; ++b) {
        const unsigned last = random() % 64;
        extents[b] = static_cast<uint8_t>(last);
        for (unsigned k = 0; k <= last; ++k) {
          // Every other block has its first row only.
          const size_t natural = kZigzagToNatural[k];
          if (round % 2 == 0 && natural >= 8) continue;
          pair.values[natural / 8 * DctPair::kRowStep + natural % 8 + b * 8] =
              static_cast<int16_t>(random());
        }
      }
      std::array<uint8_t, 128> out = {};
      InverseDctRow(&pair, extents.data(), quantiser, 2, out.data(), 16);
      all.insert(all.end(), out.begin(), out.end());
    }
    results.push_back(all);
  });
  for (const auto& result : results) EXPECT_TRUE(result == results[0]);
}

}  // namespace
}  // namespace preprocd
