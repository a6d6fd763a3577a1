// Check pages of the filter kernels, bit for bit against scalar code written
// from the formulas in filter_kernels.h.
#include "engine/backends/cpu/filter_kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "engine/backends/cpu/kernel_check_support.h"

namespace preprocd {
namespace {

TEST(FilterRowsTest, WeightedSumsOfRows) {
  OnEveryTarget([] {
    for (size_t size = 1; size <= kMaxSize; ++size) {
      for (const int count : {1, 2, 3, 4, 5, 6, 7, 33}) {
        const auto fill = static_cast<Fill>((size + count) % 4);
        std::vector<std::vector<uint8_t>> data;
        std::vector<const uint8_t*> rows;
        std::vector<int16_t> weights;
        for (int k = 0; k < count; ++k) {
          data.push_back(
              Filled<uint8_t>(size + 3, fill, static_cast<uint32_t>(k)));
          weights.push_back(static_cast<int16_t>(
              k == 0 ? 32768 / count + 32768 % count - (count == 1 ? 1 : 0)
                     : 32768 / count));
        }
        if (size % 3 == 0 && count == 1) weights[0] = 1 << 13;
        // Inputs end where they end: sanitizers see a byte too far.
        for (const auto& d : data) rows.push_back(d.data() + 3);
        Guarded<int16_t> out(size);
        FilterRows(rows.data(), weights.data(), count, size, out.data());
        ASSERT_TRUE(out.Intact()) << size << " " << count;
        for (size_t i = 0; i < size; ++i) {
          int sum = 0;
          for (int k = 0; k < count; ++k) {
            const int v = (rows[static_cast<size_t>(k)][i] - 128) * 256;
            const int w = weights[static_cast<size_t>(k)];
            sum += count == 1 && w == 32767 ? v : RoundedProduct(v, w);
          }
          ASSERT_EQ(out[i], sum) << size << " " << count << " at " << i;
        }
      }
    }
  });
}

AxisRequest Request(Filter filter, int from, int to, int channels) {
  AxisRequest r;
  r.filter = filter;
  r.shown_extent = from;
  r.destination_extent = to;
  r.max_index = from - 1;
  r.channels = channels;
  return r;
}

// Source extents for a destination of `size`: shrink near and far, grow, the
// same, and mirrored.
std::vector<AxisRequest> RequestsFor(int size, Filter filter, int channels) {
  std::vector<AxisRequest> requests;
  for (const int from :
       {size * 3, size * 6 + 1, size * 3 / 2 + 1, size / 2 + 1, size}) {
    requests.push_back(Request(filter, from, size, channels));
  }
  AxisRequest mirrored = requests.front();
  mirrored.direction = -1;
  mirrored.origin = mirrored.shown_extent - 1;
  requests.push_back(mirrored);
  return requests;
}

// Sum over the taps of sample `d`, channel `c`.
int64_t SumAt(const FixedTaps& t, const std::vector<int16_t>& in, size_t d,
              size_t c, size_t channels) {
  int64_t sum = 0;
  for (int k = 0; k < t.count; ++k) {
    const size_t at =
        (static_cast<size_t>(t.first[d]) + static_cast<size_t>(k)) * channels +
        c;
    sum +=
        int64_t{in[at]} *
        t.weights[d * static_cast<size_t>(t.stride) + static_cast<size_t>(k)];
  }
  return sum;
}

constexpr std::array<Filter, 6> kWeighted = {
    Filter::kBilinear, Filter::kBilinearAa, Filter::kArea,
    Filter::kBicubic,  Filter::kBicubicAa,  Filter::kLanczos3};

void CheckColumns(const AxisRequest& request, Fill fill) {
  const auto taps = MakeFixedTaps(request);
  ASSERT_NE(taps, nullptr);
  if (taps->count == 1) return;
  const auto channels = static_cast<size_t>(request.channels);
  const auto size = static_cast<size_t>(request.destination_extent);
  const int fraction =
      HasNegativeLobes(request.filter) ? kLobeFraction : kPlainFraction;
  const std::vector<int16_t> in =
      StagedRow(static_cast<size_t>(taps->extent) * channels, fraction, fill,
                static_cast<uint32_t>(size));
  const size_t slack = taps->first.size() - size;
  if (channels <= 2) {
    std::array<Guarded<int16_t>, 2> out = {Guarded<int16_t>(size, slack),
                                           Guarded<int16_t>(size, slack)};
    if (channels == 1) {
      FilterColumns1(in.data(), *taps, out[0].data());
    } else {
      FilterColumns2(in.data(), *taps, out[0].data(), out[1].data());
    }
    const int64_t half = int64_t{1} << (taps->weight_bits - 1);
    for (size_t c = 0; c < channels; ++c) {
      ASSERT_TRUE(out[c].Intact());
      for (size_t d = 0; d < size; ++d) {
        const int64_t sum = SumAt(*taps, in, d, c, channels) + half;
        ASSERT_EQ(out[c][d],
                  Saturated(static_cast<int>(sum >> taps->weight_bits)))
            << "at " << d << " channel " << c;
      }
    }
    return;
  }
  Guarded<uint8_t> out(size * 4, slack * 4);
  FilterColumns4(in.data(), *taps, out.data());
  ASSERT_TRUE(out.Intact());
  const int shift = taps->weight_bits + fraction;
  for (size_t d = 0; d < size; ++d) {
    for (size_t c = 0; c < channels; ++c) {
      const int64_t sum = SumAt(*taps, in, d, c, channels) +
                          (int64_t{128} << shift) + (int64_t{1} << (shift - 1));
      ASSERT_EQ(out[4 * d + c], ToByte(static_cast<int>(sum >> shift)))
          << "at " << d << " channel " << c;
    }
  }
}

TEST(FilterColumnsTest, WeightedSumsAlongARow) {
  OnEveryTarget([] {
    for (int size = 1; size <= static_cast<int>(kMaxSize); ++size) {
      const Filter filter =
          kWeighted[static_cast<size_t>(size) % kWeighted.size()];
      for (int channels = 1; channels <= 4; ++channels) {
        for (const AxisRequest& r : RequestsFor(size, filter, channels)) {
          SCOPED_TRACE(testing::Message()
                       << FilterName(filter) << " " << r.shown_extent << " to "
                       << size << ", " << channels << " channels");
          CheckColumns(r, static_cast<Fill>(size % 4));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

void CheckRoundColumns(AxisRequest request, Fill fill) {
  request.rounds = true;
  const auto taps = MakeFixedTaps(request);
  ASSERT_NE(taps, nullptr);
  if (taps->count == 1) return;
  const auto channels = static_cast<size_t>(request.channels);
  const auto size = static_cast<size_t>(request.destination_extent);
  const std::vector<int16_t> in =
      StagedRow(static_cast<size_t>(taps->extent) * channels, 0, fill, 5);
  const size_t slack = taps->first.size() - size;
  const size_t step = channels <= 2 ? 1 : 4;
  std::array<Guarded<uint8_t>, 2> out = {
      Guarded<uint8_t>(size * step, slack * step),
      Guarded<uint8_t>(size, slack)};
  switch (channels) {
    case 1:
      RoundColumns1(in.data(), *taps, out[0].data());
      break;
    case 2:
      RoundColumns2(in.data(), *taps, out[0].data(), out[1].data());
      break;
    default:
      RoundColumns4(in.data(), *taps, out[0].data());
      break;
  }
  ASSERT_TRUE(out[0].Intact() && out[1].Intact());
  for (size_t d = 0; d < size; ++d) {
    for (size_t c = 0; c < channels; ++c) {
      int64_t sum = 1 << 21;
      for (int k = 0; k < taps->count; ++k) {
        const size_t w =
            d * static_cast<size_t>(taps->stride) + static_cast<size_t>(k);
        const size_t at =
            (static_cast<size_t>(taps->first[d]) + static_cast<size_t>(k)) *
                channels +
            c;
        // Of values again, not of values minus 128.
        sum += int64_t{in[at] + 128} *
               (taps->exact_high[w] * 256 + taps->exact_low[w]);
      }
      const uint8_t got = channels <= 2 ? out[c][d] : out[0][4 * d + c];
      ASSERT_EQ(got, ToByte(static_cast<int>(sum >> 22)))
          << "at " << d << " channel " << c;
    }
  }
}

TEST(RoundColumnsTest, ExactSumsToBytes) {
  OnEveryTarget([] {
    for (int size = 1; size <= static_cast<int>(kMaxSize); ++size) {
      const Filter filter =
          size % 2 == 0 ? Filter::kLanczos3 : Filter::kBicubicAa;
      for (int channels = 1; channels <= 4; ++channels) {
        for (const AxisRequest& r : RequestsFor(size, filter, channels)) {
          SCOPED_TRACE(testing::Message()
                       << FilterName(filter) << " " << r.shown_extent << " to "
                       << size << ", " << channels << " channels");
          CheckRoundColumns(r, static_cast<Fill>(size % 4));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

void CheckPicks(const AxisRequest& request, Fill fill) {
  const auto taps = MakeFixedTaps(request);
  ASSERT_NE(taps, nullptr);
  ASSERT_EQ(taps->count, 1);
  const auto channels = static_cast<size_t>(request.channels);
  const auto size = static_cast<size_t>(request.destination_extent);
  // Exactly the row: sanitizers see a byte too far.
  const std::vector<uint8_t> in =
      Filled<uint8_t>(static_cast<size_t>(taps->extent) * channels, fill, 3);
  const size_t slack = taps->first.size() - size;
  const size_t step = channels <= 2 ? 1 : 4;
  std::array<Guarded<uint8_t>, 2> out = {
      Guarded<uint8_t>(size * step, slack * step),
      Guarded<uint8_t>(size, slack)};
  switch (channels) {
    case 1:
      PickColumns1(in.data(), *taps, out[0].data());
      break;
    case 2:
      PickColumns2(in.data(), *taps, out[0].data(), out[1].data());
      break;
    default:
      PickColumns4(in.data(), *taps, out[0].data());
      break;
  }
  ASSERT_TRUE(out[0].Intact() && out[1].Intact());
  for (size_t d = 0; d < size; ++d) {
    for (size_t c = 0; c < channels; ++c) {
      const uint8_t expected =
          in[static_cast<size_t>(taps->first[d]) * channels + c];
      const uint8_t got = channels <= 2 ? out[c][d] : out[0][4 * d + c];
      ASSERT_EQ(got, expected) << "at " << d << " channel " << c;
    }
  }
}

TEST(PickColumnsTest, OneSampleEach) {
  OnEveryTarget([] {
    for (int size = 1; size <= static_cast<int>(kMaxSize); ++size) {
      for (int channels = 1; channels <= 4; ++channels) {
        for (const AxisRequest& r :
             RequestsFor(size, Filter::kNearest, channels)) {
          SCOPED_TRACE(testing::Message() << r.shown_extent << " to " << size
                                          << ", " << channels << " channels");
          CheckPicks(r, static_cast<Fill>(size % 4));
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  });
}

TEST(RoundRowTest, HalfUpAndClamped) {
  OnEveryTarget([] {
    for (size_t size = 1; size <= kMaxSize; ++size) {
      for (const int fraction : {kPlainFraction, kLobeFraction}) {
        std::vector<int16_t> in = Filled<int16_t>(
            size, static_cast<Fill>(size % 4), static_cast<uint32_t>(size));
        in.resize(size + kStagedPadding);
        Guarded<uint8_t> out(size);
        RoundRow(in.data(), fraction, size, out.data());
        ASSERT_TRUE(out.Intact());
        for (size_t i = 0; i < size; ++i) {
          const int v =
              (Saturated(in[i] + (1 << (fraction - 1))) >> fraction) + 128;
          ASSERT_EQ(out[i], ToByte(v)) << size << " at " << i;
        }
      }
    }
  });
}

}  // namespace

void TimeFilterKernels(int64_t target) {
  constexpr size_t kSize = 1920;
  const auto in = Filled<uint8_t>(kSize * 4, Fill::kNoise, 1);
  const std::vector<int16_t> staged =
      StagedRow(kSize * 4, kPlainFraction, Fill::kNoise, 2);
  std::vector<int16_t> words(kSize * 4);
  std::vector<uint8_t> bytes(kSize * 16);
  const std::array<const uint8_t*, 4> rows = {in.data(), in.data(), in.data(),
                                              in.data()};
  const std::array<int16_t, 4> weights = {8192, 8192, 8192, 8192};
  for (const int count : {2, 4}) {
    Print(count == 2 ? "filter_rows_2" : "filter_rows_4", target, kSize, [&] {
      FilterRows(rows.data(), weights.data(), count, kSize, words.data());
    });
  }
  const auto area = [](int channels) {
    return MakeFixedTaps(Request(Filter::kArea, 1920, 640, channels));
  };
  const auto one = area(1);
  const auto two = area(2);
  const auto three = area(3);
  Print("filter_columns_1_area_3to1", target, 640,
        [&] { FilterColumns1(staged.data(), *one, words.data()); });
  Print("filter_columns_2_area_3to1", target, 640, [&] {
    FilterColumns2(staged.data(), *two, words.data(), words.data() + kSize);
  });
  Print("filter_columns_3_area_3to1", target, 640,
        [&] { FilterColumns4(staged.data(), *three, bytes.data()); });
  const auto pick = MakeFixedTaps(Request(Filter::kNearest, 1920, 640, 1));
  Print("pick_columns_1_3to1", target, 640,
        [&] { PickColumns1(in.data(), *pick, bytes.data()); });
}

}  // namespace preprocd
