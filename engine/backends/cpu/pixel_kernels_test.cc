// Check pages of the pixel and element kernels, bit for bit against scalar
// code written from the formulas in pixel_kernels.h and element_table.h.
#include "engine/backends/cpu/pixel_kernels.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "engine/backends/cpu/element_table.h"
#include "engine/backends/cpu/kernel_check_support.h"

namespace preprocd {
namespace {

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

}  // namespace

void TimePixelKernels(int64_t target) {
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

}  // namespace preprocd
