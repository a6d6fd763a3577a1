// Check pages: every kernel on every instruction set of this machine, sizes 1
// to 130, unaligned, with extreme fills and guard bytes, bit for bit against
// scalar code written from the formulas in the headers. With --time the same
// program times them: kernel, target, cycles of the time-stamp counter (or
// nanoseconds) per sample.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "engine/backends/cpu/element_table.h"
#include "engine/backends/cpu/filter_kernels.h"
#include "engine/backends/cpu/fixed_taps.h"
#include "engine/backends/cpu/pixel_kernels.h"
#include "engine/exec/monotonic_clock.h"
#include "hwy/highway.h"

namespace preprocd {
namespace {

constexpr size_t kMaxSize = 130;
constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xa5;

std::vector<int64_t> VectorTargets() {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  std::erase_if(targets,
                [](int64_t t) { return t == HWY_SCALAR || t == HWY_EMU128; });
  return targets;
}

void UseTarget(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(target);
}

// Runs `check` on every target and puts the choice back.
void OnEveryTarget(const std::function<void()>& check) {
  for (const int64_t target : VectorTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    UseTarget(target);
    check();
    if (testing::Test::HasFailure()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Output of `size` values between guards, at an odd address.
template <typename T>
class Guarded {
 public:
  // `slack`: values behind the end that a padded output may write.
  explicit Guarded(size_t size, size_t slack = 0)
      : size_(size), bytes_(2 * kGuard + (size + slack) * sizeof(T)) {
    std::fill(bytes_.begin(), bytes_.end(), kGuardByte);
    slack_ = slack;
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuard); }
  T operator[](size_t i) {
    T value;
    memcpy(&value, data() + i, sizeof(T));
    return value;
  }
  bool Intact() const {
    const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_guard) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), is_guard);
  }

 private:
  size_t size_;
  size_t slack_ = 0;
  std::vector<uint8_t> bytes_;
};

enum class Fill { kNoise, kZeros, kOnes, kAlternate, kCount };

template <typename T>
std::vector<T> Filled(size_t size, Fill fill, uint32_t seed) {
  std::minstd_rand random(seed + 7);
  std::vector<T> v(size);
  for (size_t i = 0; i < size; ++i) {
    const auto noise = static_cast<T>(random() >> 5);
    switch (fill) {
      case Fill::kNoise:
        v[i] = noise;
        break;
      case Fill::kZeros:
        v[i] = std::numeric_limits<T>::min();
        break;
      case Fill::kOnes:
        v[i] = std::numeric_limits<T>::max();
        break;
      default:
        v[i] = (noise & 2) != 0 ? std::numeric_limits<T>::max()
                                : std::numeric_limits<T>::min();
        break;
    }
  }
  return v;
}

// Staged samples as the filters make them: inside the range of their format.
std::vector<int16_t> StagedRow(size_t size, int fraction, Fill fill,
                               uint32_t seed) {
  std::vector<int16_t> v = Filled<int16_t>(size, fill, seed);
  const int limit = 128 << fraction;
  for (int16_t& s : v) {
    s = static_cast<int16_t>(
        std::clamp<int>(s, -limit, limit - (1 << fraction)));
  }
  v.resize(size + kStagedPadding);
  return v;
}

int RoundedProduct(int a, int b) { return (a * b + (1 << 14)) >> 15; }
int Saturated(int v) { return std::clamp(v, -32768, 32767); }
uint8_t ToByte(int v) { return static_cast<uint8_t>(std::clamp(v, 0, 255)); }

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
      int64_t sum = (int64_t{128} << 22) + (1 << 21) + (1 << 10);
      for (int k = 0; k < taps->count; ++k) {
        const size_t w =
            d * static_cast<size_t>(taps->stride) + static_cast<size_t>(k);
        const size_t at =
            (static_cast<size_t>(taps->first[d]) + static_cast<size_t>(k)) *
                channels +
            c;
        sum +=
            int64_t{in[at]} * (taps->exact_high[w] * 256 + taps->exact_low[w]);
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

struct Rgba {
  std::array<uint8_t, 4> v = {};
};

// The header's arithmetic for one pixel.
Rgba YuvPixel(const FixedYuv& k, int y, int u, int v) {
  const int luma = RoundedProduct(y, k.y) + k.bias;
  const auto channel = [&](int chroma) {
    return ToByte(Saturated(luma + chroma) >> k.shift);
  };
  return {{channel(RoundedProduct(v, k.vr)),
           channel(RoundedProduct(u, k.ug) + RoundedProduct(v, k.vg)),
           channel(RoundedProduct(u, k.ub)), 255}};
}

// Inputs of every source, with an oracle per pixel.
struct PixelCase {
  PixelInput in;
  std::array<std::vector<uint8_t>, 4> bytes;
  std::array<std::vector<int16_t>, 3> words;

  // Staged samples beyond 0..255 are clamped before colour.
  int Shown(size_t row, size_t i) const {
    const int v = words[row][i];
    if (in.yuv.shift == 6) return v;
    return std::clamp(v, -(128 << kLobeFraction), 127 << kLobeFraction);
  }

  Rgba At(size_t i) const {
    const auto centred = [](uint8_t b) { return (b - 128) * 256; };
    const auto& b = bytes;
    switch (in.source) {
      case PixelSource::kYuv:
        return YuvPixel(in.yuv, centred(b[0][i]), centred(b[1][i]),
                        centred(b[2][i]));
      case PixelSource::kYuvHalfPacked: {
        const size_t pair = i / 2 * 2;
        const size_t first_v = in.v_first ? 0 : 1;
        return YuvPixel(in.yuv, centred(b[0][i]),
                        centred(b[1][pair + 1 - first_v]),
                        centred(b[1][pair + first_v]));
      }
      case PixelSource::kYuvHalfPlanar:
        return YuvPixel(in.yuv, centred(b[0][i]), centred(b[1][i / 2]),
                        centred(b[2][i / 2]));
      case PixelSource::kYuvStaged:
        return YuvPixel(in.yuv, Shown(0, i), Shown(1, i), Shown(2, i));
      case PixelSource::kPlanes:
        return {{b[0][i], b[1][i], b[2][i],
                 in.rows[3] == nullptr ? uint8_t{255} : b[3][i]}};
      case PixelSource::kRgbx:
        break;
    }
    const uint8_t* p = b[0].data() + 4 * i;
    return {{p[in.bgr ? 2 : 0], p[1], p[in.bgr ? 0 : 2],
             in.has_alpha ? p[3] : uint8_t{255}}};
  }
};

PixelCase MakePixelCase(PixelSource source, bool flag, size_t size, Fill fill) {
  PixelCase c;
  c.in.source = source;
  c.in.v_first = flag;
  c.in.bgr = flag;
  c.in.has_alpha = size % 2 == 0;
  const int fraction = source == PixelSource::kYuvStaged && flag
                           ? kLobeFraction
                           : kPlainFraction;
  c.in.yuv = MakeFixedYuv(
      GetYuvToRgbCoefficients(
          {static_cast<MatrixCoefficients>(1 + size % 3),
           size % 2 == 0 ? ColorRange::kLimited : ColorRange::kFull}),
      fraction);
  // Rows end where they end.
  std::array<size_t, 4> sizes = {size, size, size, size};
  if (source == PixelSource::kYuvHalfPacked) sizes[1] = (size + 1) / 2 * 2;
  if (source == PixelSource::kYuvHalfPlanar) {
    sizes[1] = sizes[2] = (size + 1) / 2;
  }
  if (source == PixelSource::kRgbx) sizes[0] = 4 * size;
  for (size_t i = 0; i < 4; ++i) {
    c.bytes[i] = Filled<uint8_t>(sizes[i], fill, static_cast<uint32_t>(i));
    c.in.rows[i] = c.bytes[i].data();
  }
  if (!flag) c.in.rows[3] = nullptr;
  if (source == PixelSource::kYuvStaged) {
    for (size_t i = 0; i < 3; ++i) {
      c.words[i] =
          fraction == kLobeFraction
              ? Filled<int16_t>(size + kStagedPadding, fill,
                                static_cast<uint32_t>(i))
              : StagedRow(size, fraction, fill, static_cast<uint32_t>(i));
      c.in.rows[i] = c.words[i].data();
    }
  }
  return c;
}

uint8_t GreyOf(const Rgba& p) {
  const auto part = [](uint8_t v, int w) {
    return RoundedProduct((v - 128) * 256, w);
  };
  const int sum = part(p.v[0], 9798) + part(p.v[1], 19234) + part(p.v[2], 3736);
  return ToByte((Saturated(sum + 128) >> 8) + 128);
}

void CheckPixels(const PixelCase& c, PixelLayout layout, uint8_t flip,
                 size_t size) {
  const bool planes = layout == PixelLayout::kPlanes;
  const bool four =
      layout == PixelLayout::kRgba || layout == PixelLayout::kBgra;
  const bool bgr = layout == PixelLayout::kBgr || layout == PixelLayout::kBgra;
  const bool grey = layout == PixelLayout::kGrey;
  const size_t pixel_bytes = planes || grey ? 1 : (four ? 4 : 3);
  std::vector<Guarded<uint8_t>> out(4, Guarded<uint8_t>(size * pixel_bytes));
  PixelOutput to;
  to.layout = layout;
  to.flip = flip;
  for (size_t i = 0; i < (planes ? (size % 2 == 0 ? 4U : 3U) : 1U); ++i) {
    to.rows[i] = out[i].data();
  }
  WritePixels(c.in, size, to);
  for (const auto& row : out) ASSERT_TRUE(row.Intact());
  for (size_t i = 0; i < size; ++i) {
    const Rgba p = c.At(i);
    if (grey) {
      ASSERT_EQ(out[0][i], GreyOf(p) ^ flip) << "at " << i;
      continue;
    }
    for (size_t ch = 0; ch < 4; ++ch) {
      const auto expected =
          static_cast<uint8_t>(p.v[ch] ^ (ch == 3 ? 0 : flip));
      if (planes) {
        if (to.rows[ch] == nullptr) continue;
        ASSERT_EQ(out[ch][i], expected) << "at " << i << " channel " << ch;
      } else if (ch < pixel_bytes) {
        const size_t place = ch < 3 && bgr ? 2 - ch : ch;
        ASSERT_EQ(out[0][i * pixel_bytes + place], expected)
            << "at " << i << " channel " << ch;
      }
    }
  }
}

TEST(WritePixelsTest, EverySourceToEveryLayout) {
  OnEveryTarget([] {
    for (size_t size = 1; size <= kMaxSize; ++size) {
      const auto fill = static_cast<Fill>(size % 4);
      for (int source = 0; source <= static_cast<int>(PixelSource::kRgbx);
           ++source) {
        for (const bool flag : {false, true}) {
          const PixelCase c =
              MakePixelCase(static_cast<PixelSource>(source), flag, size, fill);
          for (int layout = 0; layout <= static_cast<int>(PixelLayout::kGrey);
               ++layout) {
            SCOPED_TRACE(testing::Message()
                         << "source " << source << " flag " << flag
                         << " layout " << layout << " size " << size);
            CheckPixels(c, static_cast<PixelLayout>(layout),
                        size % 5 == 0 ? 0x80 : 0, size);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(FixedYuvTest, WithinOneOfTheExactConversion) {
  for (const auto matrix :
       {MatrixCoefficients::kBt601, MatrixCoefficients::kBt709,
        MatrixCoefficients::kBt2020}) {
    for (const ColorRange range : {ColorRange::kLimited, ColorRange::kFull}) {
      const YuvToRgbCoefficients k = GetYuvToRgbCoefficients({matrix, range});
      const FixedYuv fixed = MakeFixedYuv(k, kPlainFraction);
      int off_by_one = 0;
      int pixels = 0;
      for (int y = 0; y < 256; y += 3) {
        for (int u = 0; u < 256; u += 5) {
          for (int v = 0; v < 256; v += 5) {
            const double l = (y - k.y_offset) * k.y_scale;
            const std::array<double, 3> exact = {
                l + k.vr * (v - 128), l - k.ug * (u - 128) - k.vg * (v - 128),
                l + k.ub * (u - 128)};
            const Rgba got = YuvPixel(fixed, (y - 128) * 256, (u - 128) * 256,
                                      (v - 128) * 256);
            for (size_t c = 0; c < 3; ++c) {
              const int e = static_cast<int>(
                  std::floor(std::clamp(exact[c], 0., 255.) + 0.5));
              const int difference = std::abs(e - got.v[c]);
              ASSERT_LE(difference, 1) << y << " " << u << " " << v;
              off_by_one += difference;
              ++pixels;
            }
          }
        }
      }
      // Ties within the arithmetic's 1/64 of a step, hardly more.
      EXPECT_LT(off_by_one, pixels / 40) << static_cast<int>(matrix);
    }
  }
}

ElementStage StageOf(DType dtype, bool imagenet) {
  ElementStage stage;
  stage.dtype = dtype;
  stage.normalize = IsFloat(dtype) || imagenet;
  stage.normalization.multiplier.fill(1.0 / 255);
  if (imagenet) {
    stage.normalization.offset = {123.675, 116.28, 103.53, 0};
    stage.normalization.multiplier = {1 / 58.395, 1 / 57.12, 1 / 57.375,
                                      1.0 / 255};
  }
  if (!IsFloat(dtype) && imagenet) {
    stage.quantization = Quantization{48.5, 3};
  }
  return stage;
}

TEST(ElementTableTest, RowsAreTheTablesBits) {
  OnEveryTarget([] {
    for (const DType dtype : {DType::kU8, DType::kI8, DType::kU16, DType::kI16,
                              DType::kF16, DType::kBf16, DType::kF32}) {
      for (const bool imagenet : {false, true}) {
        const ElementTable table(StageOf(dtype, imagenet));
        const size_t bytes = table.element_bytes();
        for (size_t size = 1; size <= kMaxSize; ++size) {
          const auto in = Filled<uint8_t>(size, static_cast<Fill>(size % 4), 1);
          for (size_t c = 0; c < 4; ++c) {
            Guarded<uint8_t> out(size * bytes);
            table.Row(c, in.data(), size,
                      reinterpret_cast<std::byte*>(out.data()));
            ASSERT_TRUE(out.Intact());
            for (size_t i = 0; i < size; ++i) {
              uint32_t got = 0;
              memcpy(&got, out.data() + i * bytes, bytes);
              ASSERT_EQ(got, table.bits(c, in[i]))
                  << DTypeName(dtype) << " channel " << c << " at " << i;
            }
          }
        }
      }
    }
  });
}

TEST(ElementTableTest, FloatsAreRoundedOnce) {
  const ElementTable table(StageOf(DType::kF32, true));
  for (uint32_t v = 0; v < 256; ++v) {
    const auto expected = static_cast<float>((v - 116.28) * (1 / 57.12));
    float got = 0;
    const uint32_t bits = table.bits(1, static_cast<uint8_t>(v));
    memcpy(&got, &bits, sizeof(got));
    EXPECT_EQ(got, expected) << v;
  }
}

TEST(InterleaveElementsTest, PixelsInOrder) {
  OnEveryTarget([] {
    for (size_t size = 1; size <= kMaxSize; ++size) {
      for (const size_t bytes : {size_t{2}, size_t{4}}) {
        for (const int channels : {3, 4}) {
          std::array<std::vector<uint8_t>, 4> rows;
          std::array<const std::byte*, kMaxChannels> in = {};
          for (size_t c = 0; c < 4; ++c) {
            rows[c] = Filled<uint8_t>(size * bytes, Fill::kNoise,
                                      static_cast<uint32_t>(c));
            in[c] = reinterpret_cast<const std::byte*>(rows[c].data());
          }
          const auto step = static_cast<size_t>(channels);
          Guarded<uint8_t> out(size * bytes * step);
          InterleaveElements(in, channels, bytes, size,
                             reinterpret_cast<std::byte*>(out.data()));
          ASSERT_TRUE(out.Intact());
          for (size_t i = 0; i < size * step; ++i) {
            ASSERT_EQ(memcmp(out.data() + i * bytes,
                             rows[i % step].data() + i / step * bytes, bytes),
                      0)
                << size << " at " << i;
          }
        }
      }
    }
  });
}

// --time

// Lowest time of many runs, per sample.
double LowestNs(size_t samples, const std::function<void()>& run) {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 300; ++i) {
    const int64_t start = MonotonicNs();
    for (int j = 0; j < 16; ++j) run();
    lowest = std::min(lowest, MonotonicNs() - start);
  }
  return static_cast<double>(lowest) / 16 / static_cast<double>(samples);
}

void Print(const char* kernel, int64_t target, size_t samples,
           const std::function<void()>& run) {
  printf("%-34s %-6s %.4f ns\n", kernel, hwy::TargetName(target),
         LowestNs(samples, run));
}

void TimeFilters(int64_t target) {
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

void TimePixels(int64_t target) {
  constexpr size_t kSize = 1920;
  std::vector<uint8_t> out(kSize * 4);
  const PixelCase half =
      MakePixelCase(PixelSource::kYuvHalfPacked, false, kSize, Fill::kNoise);
  const PixelCase staged =
      MakePixelCase(PixelSource::kYuvStaged, false, kSize, Fill::kNoise);
  PixelOutput to;
  to.rows[0] = out.data();
  Print("nv12_row_to_rgb", target, kSize,
        [&] { WritePixels(half.in, kSize, to); });
  Print("staged_yuv_to_rgb", target, kSize,
        [&] { WritePixels(staged.in, kSize, to); });
  to.layout = PixelLayout::kRgba;
  Print("nv12_row_to_rgba", target, kSize,
        [&] { WritePixels(half.in, kSize, to); });
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
    const ElementTable table(StageOf(dtype, true));
    const std::string name =
        std::string("elements_") + std::string(DTypeName(dtype));
    Print(name.c_str(), target, 640, [&] {
      table.Row(0, half.bytes[0].data(), 640,
                reinterpret_cast<std::byte*>(out.data()));
    });
  }
}

void TimeKernels() {
  for (const int64_t target : VectorTargets()) {
    UseTarget(target);
    TimeFilters(target);
    TimePixels(target);
  }
}

}  // namespace
}  // namespace preprocd

int main(int argc, char** argv) {
  if (argc > 1 && strcmp(argv[1], "--time") == 0) {
    preprocd::TimeKernels();
    return 0;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
