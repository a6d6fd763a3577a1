// Faults that users of image software reported, each as a kind: colours,
// strides, odd sizes and orientation through the engine's door, on every CPU
// backend. The files' own faults are tests of engine/codec; its README.md
// lists which test holds which report.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/engine.h"
#include "engine/image/orientation.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

constexpr ColorEncoding kLimited601 = {MatrixCoefficients::kBt601,
                                       ColorRange::kLimited};
constexpr ColorEncoding kFull601 = {MatrixCoefficients::kBt601,
                                    ColorRange::kFull};

struct Picture {
  explicit Picture(const ImageDesc& d) : desc(d) {
    buffer = AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(desc), "test")
                 .value();
    buffers.buffers[0] = buffer.get();
    buffers.count = 1;
  }
  Picture(PixelFormat format, int width, int height)
      : Picture(MakeImageDesc(format, DType::kU8, width, height).value()) {}

  uint8_t* row(int plane, int y) const {
    const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
    return reinterpret_cast<uint8_t*>(
               buffer->Map(Access::kReadWrite).value().bytes().data()) +
           p.offset_bytes + static_cast<uint64_t>(y) * p.stride_bytes;
  }
  void FillAll(uint8_t value) const {
    std::fill_n(row(0, 0) - desc.planes[0].offset_bytes, RequiredBytes(desc),
                value);
  }

  ImageDesc desc;
  std::shared_ptr<Buffer> buffer;
  PictureBuffers buffers;
};

using Rgb = std::array<int, 3>;

Rgb PixelOf(const Picture& picture, int x, int y) {
  const uint8_t* p = picture.row(0, y) + 3 * x;
  return {p[0], p[1], p[2]};
}

void ExpectNear(const Rgb& got, const Rgb& wanted, int tolerance) {
  for (size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(got[c], wanted[c], tolerance)
        << "got (" << got[0] << "," << got[1] << "," << got[2] << ") wanted ("
        << wanted[0] << "," << wanted[1] << "," << wanted[2] << ")";
  }
}

class ReportedFaultTest : public testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<Engine> Make() {
    EngineOptions options;
    options.row_threads = 2;
    options.backends = {GetParam()};
    return Engine::Create(options).value();
  }

  absl::Status Convert(const Picture& from, const Picture& to,
                       const ConvertSpec& spec = {}) {
    const auto plan = engine_->Plan(from.desc, to.desc, spec, false);
    if (!plan.ok()) return plan.status();
    WorkReport report;
    return engine_->Convert(*plan, from.buffers, to.buffers, report);
  }

  absl::Status ConvertFile(const Bytes& file, const Picture& to,
                           const ConvertSpec& spec) {
    const auto source =
        Engine::DecodedDesc(*PeekImage(file), to.desc.format).value();
    const auto plan = engine_->Plan(source, to.desc, spec, true);
    if (!plan.ok()) return plan.status();
    WorkReport report;
    return engine_->DecodeAndConvert(file, {}, *plan, to.buffers, report);
  }

  std::unique_ptr<Engine> engine_ = Make();
};

void FillNv12(const Picture& picture, int y, int u, int v) {
  const int height = picture.desc.height;
  const int pairs = (picture.desc.width + 1) / 2;
  for (int i = 0; i < height; ++i) {
    std::fill_n(picture.row(0, i), picture.desc.width, static_cast<uint8_t>(y));
  }
  for (int i = 0; i < (height + 1) / 2; ++i) {
    for (int x = 0; x < pairs; ++x) {
      picture.row(1, i)[2 * x] = static_cast<uint8_t>(u);
      picture.row(1, i)[2 * x + 1] = static_cast<uint8_t>(v);
    }
  }
}

// C-01
TEST_P(ReportedFaultTest, RangeIsTakenAsStated) {
  const struct {
    std::array<int, 3> yuv;
    Rgb limited;
    Rgb full;
  } cases[] = {{{16, 128, 128}, {0, 0, 0}, {16, 16, 16}},
               {{235, 128, 128}, {255, 255, 255}, {235, 235, 235}},
               {{81, 90, 240}, {254, 0, 0}, {238, 14, 14}},
               {{145, 54, 34}, {0, 255, 1}, {13, 238, 14}},
               {{41, 240, 110}, {0, 0, 255}, {16, 15, 239}}};
  for (const auto& c : cases) {
    Picture from(PixelFormat::kNv12, 16, 16);
    FillNv12(from, c.yuv[0], c.yuv[1], c.yuv[2]);
    const Picture to(PixelFormat::kRgb, 16, 16);
    from.desc.color = kLimited601;
    ASSERT_TRUE(Convert(from, to).ok());
    ExpectNear(PixelOf(to, 7, 9), c.limited, 1);
    from.desc.color = kFull601;
    ASSERT_TRUE(Convert(from, to).ok());
    ExpectNear(PixelOf(to, 7, 9), c.full, 1);
  }
}

// C-02: there and back by one description gives the colour back.
TEST_P(ReportedFaultTest, ColourBarsComeBack) {
  constexpr Rgb kBars[] = {{191, 191, 191}, {191, 191, 0}, {0, 191, 191},
                           {0, 191, 0},     {191, 0, 191}, {191, 0, 0},
                           {0, 0, 191},     {0, 0, 0}};
  for (const MatrixCoefficients matrix :
       {MatrixCoefficients::kBt601, MatrixCoefficients::kBt709}) {
    for (const ColorRange range : {ColorRange::kLimited, ColorRange::kFull}) {
      const Picture bars(PixelFormat::kRgb, 64, 8);
      for (int y = 0; y < 8; ++y) {
        for (int x = 0; x < 64; ++x) {
          for (size_t c = 0; c < 3; ++c) {
            bars.row(0, y)[3 * static_cast<size_t>(x) + c] =
                static_cast<uint8_t>(kBars[x / 8][c]);
          }
        }
      }
      Picture nv12(PixelFormat::kNv12, 64, 8);
      nv12.desc.color = {matrix, range};
      ASSERT_TRUE(Convert(bars, nv12).ok());
      const Picture back(PixelFormat::kRgb, 64, 8);
      ASSERT_TRUE(Convert(nv12, back).ok());
      for (int bar = 0; bar < 8; ++bar) {
        ExpectNear(PixelOf(back, 8 * bar + 4, 4), kBars[bar], 2);
      }
    }
  }
}

// C-03
TEST_P(ReportedFaultTest, JpegStaysFullRange) {
  JpegRecipe recipe;
  recipe.width = 256;
  recipe.height = 16;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  recipe.quality = 100;
  Samples ramp;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 256; ++x) {
      ramp.insert(ramp.end(), 3, static_cast<uint8_t>(x));
    }
  }
  const Bytes file = MakeJpeg(recipe, ramp);
  const ImageInfo info = PeekImage(file).value();
  EXPECT_EQ(info.color, kFull601);
  Picture nv12(PixelFormat::kNv12, 256, 16);
  nv12.desc.color = info.color;
  WorkReport report;
  ASSERT_TRUE(engine_->Decode(file, {}, nv12.desc, nv12.buffers, report).ok());
  EXPECT_LE(nv12.row(0, 8)[0], 1);
  EXPECT_GE(nv12.row(0, 8)[255], 254);
  const Picture rgb(PixelFormat::kRgb, 256, 16);
  ASSERT_TRUE(Convert(nv12, rgb).ok());
  for (int x = 0; x < 256; ++x) {
    ExpectNear(PixelOf(rgb, x, 8), {x, x, x}, 2);
  }
}

// C-04, C-05: every order of chroma is its own format.
TEST_P(ReportedFaultTest, ChromaOrdersAreNotMixedUp) {
  constexpr uint8_t kY = 81;
  constexpr uint8_t kU = 90;
  constexpr uint8_t kV = 240;
  const struct {
    PixelFormat format;
    std::vector<std::vector<uint8_t>> units;  // repeated in each plane's rows
  } kinds[] = {{PixelFormat::kNv12, {{kY}, {kU, kV}}},
               {PixelFormat::kNv21, {{kY}, {kV, kU}}},
               {PixelFormat::kI420, {{kY}, {kU}, {kV}}},
               {PixelFormat::kYuyv, {{kY, kU, kY, kV}}},
               {PixelFormat::kUyvy, {{kU, kY, kV, kY}}},
               {PixelFormat::kVyuy, {{kV, kY, kU, kY}}}};
  for (const auto& kind : kinds) {
    for (const int width : {16, 5}) {
      Picture from(kind.format, width, 4);
      from.desc.color = kLimited601;
      for (size_t p = 0; p < kind.units.size(); ++p) {
        const auto plane = static_cast<int>(p);
        const uint64_t bytes =
            PlaneRowBytes(kind.format, DType::kU8, plane, width);
        for (int y = 0; y < PlaneRows(kind.format, plane, 4); ++y) {
          for (uint64_t i = 0; i < bytes; ++i) {
            from.row(plane, y)[i] = kind.units[p][i % kind.units[p].size()];
          }
        }
      }
      const Picture to(PixelFormat::kRgb, width, 4);
      ASSERT_TRUE(Convert(from, to).ok());
      for (int x = 0; x < width; ++x)
        ExpectNear(PixelOf(to, x, 3), {254, 0, 0}, 1);
    }
  }
}

// C-06: what lies beside the picture never shows.
TEST_P(ReportedFaultTest, PaddingOfRowsAndPlanesIsNotRead) {
  ImageDesc desc =
      MakeImageDesc(PixelFormat::kNv12, DType::kU8, 642, 362).value();
  desc.color = kLimited601;
  desc.planes[0].stride_bytes = 704;
  desc.planes[1].stride_bytes = 704;
  desc.planes[1].offset_bytes = uint64_t{704} * 368;
  ConvertSpec letterbox;
  letterbox.fit = Fit::kLetterbox;
  letterbox.filter = Filter::kBilinear;
  letterbox.pad = {0, 0, 0, 255};
  ConvertSpec crop;
  crop.source_rect = Rect{626, 0, 16, 362};
  for (const uint8_t padding : {uint8_t{0}, uint8_t{255}}) {
    const Picture from(desc);
    from.FillAll(padding);
    FillNv12(from, 16, 128, 128);
    const Picture whole(PixelFormat::kRgb, 640, 640);
    ASSERT_TRUE(Convert(from, whole, letterbox).ok());
    const Picture edge(PixelFormat::kRgb, 33, 64);
    ASSERT_TRUE(Convert(from, edge, crop).ok());
    int brightest = 0;
    for (const Picture* picture : {&whole, &edge}) {
      for (int y = 0; y < picture->desc.height; ++y) {
        for (int i = 0; i < 3 * picture->desc.width; ++i) {
          brightest = std::max(brightest, int{picture->row(0, y)[i]});
        }
      }
    }
    EXPECT_EQ(brightest, 0) << int{padding};
  }
}

// C-07: chroma between its samples, centred, as JPEG has it.
TEST_P(ReportedFaultTest, FancyChromaIsCentred) {
  Picture from(PixelFormat::kNv16, 64, 16);
  from.desc.color = kFull601;
  for (int y = 0; y < 16; ++y) {
    std::fill_n(from.row(0, y), 64, uint8_t{128});
    for (int x = 0; x < 32; ++x) {
      from.row(1, y)[2 * x] = x < 16 ? 64 : 192;
      from.row(1, y)[2 * x + 1] = 128;
    }
  }
  Picture to(PixelFormat::kNv24, 64, 16);
  to.desc.color = kFull601;
  ConvertSpec spec;
  spec.chroma = ChromaUpsampling::kFancy;
  ASSERT_TRUE(Convert(from, to, spec).ok());
  const int fancy[] = {64, 96, 160, 192};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(to.row(1, 7)[2 * (30 + i)], fancy[i], 1);
  }
  spec.chroma = ChromaUpsampling::kReplicate;
  ASSERT_TRUE(Convert(from, to, spec).ok());
  const int replicated[] = {64, 64, 192, 192};
  for (int i = 0; i < 4; ++i) {
    EXPECT_NEAR(to.row(1, 7)[2 * (30 + i)], replicated[i], 1);
  }
}

// C-08
TEST_P(ReportedFaultTest, OddSizesKeepTheirLastChroma) {
  ImageDesc i420 =
      MakeImageDesc(PixelFormat::kI420, DType::kU8, 321, 241).value();
  EXPECT_EQ(RequiredBytes(i420), 116323u);
  i420.color = kLimited601;
  const Picture planar(i420);
  for (int y = 0; y < 241; ++y) std::fill_n(planar.row(0, y), 321, uint8_t{81});
  for (int y = 0; y < 121; ++y) {
    std::fill_n(planar.row(1, y), 161, uint8_t{90});
    std::fill_n(planar.row(2, y), 161, uint8_t{240});
  }
  ImageDesc nv12 =
      MakeImageDesc(PixelFormat::kNv12, DType::kU8, 321, 241).value();
  nv12.color = kLimited601;
  nv12.planes[0].stride_bytes = 322;
  nv12.planes[1].stride_bytes = 322;
  nv12.planes[1].offset_bytes = 322 * 241;
  const Picture pairs(nv12);
  FillNv12(pairs, 81, 90, 240);
  for (const Picture* from : {&planar, &pairs}) {
    const Picture to(PixelFormat::kRgb, 321, 241);
    ASSERT_TRUE(Convert(*from, to).ok());
    for (int x = 0; x < 321; ++x)
      ExpectNear(PixelOf(to, x, 240), {254, 0, 0}, 1);
    for (int y = 0; y < 241; ++y)
      ExpectNear(PixelOf(to, 320, y), {254, 0, 0}, 1);
  }
  nv12.planes[1].stride_bytes = 321;
  const uint64_t enough = 1 << 20;
  EXPECT_FALSE(ValidateImageDesc(nv12, std::span(&enough, 1)).ok());
  // A file's rows of chroma, too.
  EXPECT_EQ(PlaneRows(PixelFormat::kNv12, 0, 483) +
                PlaneRows(PixelFormat::kNv12, 1, 483),
            725);
}

// C-09, S-01, S-04: the last byte counts, and both numbers are told.
TEST(ReportedLayoutTest, BuffersThatAreTooSmallAreToldByTheByte) {
  const struct {
    int width;
    int height;
    uint64_t stride;
    uint64_t needed;
    uint64_t given;
  } cases[] = {{2000, 1713, 2000, 5140000, 5138000},
               {640, 480, 704, 506816, 506815},
               {848, 480, 1272, 915416, 610560}};
  for (const auto& c : cases) {
    ImageDesc desc =
        MakeImageDesc(PixelFormat::kNv12, DType::kU8, c.width, c.height)
            .value();
    desc.planes[0].stride_bytes = c.stride;
    desc.planes[1].stride_bytes = c.stride;
    desc.planes[1].offset_bytes = c.stride * static_cast<uint64_t>(c.height);
    EXPECT_TRUE(ValidateImageDesc(desc, std::span(&c.needed, 1)).ok());
    const absl::Status status = ValidateImageDesc(desc, std::span(&c.given, 1));
    EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kBufferTooSmall);
    const std::string message(status.message());
    EXPECT_NE(message.find(std::to_string(c.needed)), std::string::npos)
        << message;
    EXPECT_NE(message.find(std::to_string(c.given)), std::string::npos)
        << message;
  }
}

// C-10
TEST(ReportedLayoutTest, EverySizeIsLegalForEveryFormat) {
  const Size sizes[] = {{5, 5}, {5, 4}, {4, 5}, {1, 1}};
  const struct {
    PixelFormat format;
    std::array<uint64_t, 4> bytes;
  } kinds[] = {{PixelFormat::kGrey, {25, 20, 20, 1}},
               {PixelFormat::kRgb, {75, 60, 60, 3}},
               {PixelFormat::kRgba, {100, 80, 80, 4}},
               {PixelFormat::kNv24, {75, 60, 60, 3}},
               {PixelFormat::kNv16, {55, 44, 40, 3}},
               {PixelFormat::kYuyv, {60, 48, 40, 4}},
               {PixelFormat::kNv12, {43, 32, 32, 3}},
               {PixelFormat::kI420, {43, 32, 32, 3}}};
  for (const auto& kind : kinds) {
    for (size_t i = 0; i < 4; ++i) {
      const auto desc = MakeImageDesc(kind.format, DType::kU8, sizes[i].width,
                                      sizes[i].height);
      ASSERT_TRUE(desc.ok()) << desc.status();
      EXPECT_EQ(RequiredBytes(*desc), kind.bytes[i])
          << PixelFormatName(kind.format) << " " << i;
    }
  }
}

// S-02: planes lie where they are said to lie.
TEST_P(ReportedFaultTest, PlanesBehindExtraRowsAreExact) {
  ImageDesc desc =
      MakeImageDesc(PixelFormat::kNv12, DType::kU8, 192, 108).value();
  desc.color = kLimited601;
  desc.planes[1].offset_bytes = uint64_t{192} * 116;
  const Picture from(desc);
  from.FillAll(200);
  FillNv12(from, 81, 90, 240);
  for (int y = 54; y < 108; ++y) std::fill_n(from.row(0, y), 192, uint8_t{41});
  for (int y = 27; y < 54; ++y) {
    for (int x = 0; x < 96; ++x) {
      from.row(1, y)[2 * x] = 240;
      from.row(1, y)[2 * x + 1] = 110;
    }
  }
  const Picture to(PixelFormat::kRgb, 192, 108);
  ASSERT_TRUE(Convert(from, to).ok());
  for (int y = 0; y < 108; ++y) {
    ExpectNear(PixelOf(to, 100, y), y < 54 ? Rgb{254, 0, 0} : Rgb{0, 0, 255},
               1);
  }
}

// S-03
TEST_P(ReportedFaultTest, PlanesMayLieAnywhereAtAnyStride) {
  ImageDesc desc =
      MakeImageDesc(PixelFormat::kI420, DType::kU8, 800, 650).value();
  desc.color = kLimited601;
  desc.planes[0] = {0, 0, 832};
  desc.planes[1] = {0, 540800, 416};
  desc.planes[2] = {0, 676032, 416};
  const Picture from(desc);
  from.FillAll(7);
  for (int y = 0; y < 650; ++y) std::fill_n(from.row(0, y), 800, uint8_t{145});
  for (int y = 0; y < 325; ++y) {
    std::fill_n(from.row(1, y), 400, uint8_t{54});
    std::fill_n(from.row(2, y), 400, uint8_t{34});
  }
  const Picture to(PixelFormat::kRgb, 200, 160);
  ConvertSpec spec;
  spec.filter = Filter::kArea;
  ASSERT_TRUE(Convert(from, to, spec).ok());
  for (int y = 0; y < 160; ++y) {
    ExpectNear(PixelOf(to, 0, y), {0, 255, 1}, 1);
    ExpectNear(PixelOf(to, 199, y), {0, 255, 1}, 1);
  }
  // A plane that would end outside its buffer is refused.
  const uint64_t size = 676032 + uint64_t{416} * 324 + 399;
  EXPECT_FALSE(ValidateImageDesc(desc, std::span(&size, 1)).ok());
}

// S-05: rows whose length is no multiple of anything.
TEST_P(ReportedFaultTest, RowsOfOddLengthAreExact) {
  for (const PixelFormat format :
       {PixelFormat::kRgb, PixelFormat::kPlanarRgb}) {
    for (const int width : {1, 3, 5, 641, 1366}) {
      const Picture from(PixelFormat::kGrey, width, 3);
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < width; ++x) {
          from.row(0, y)[x] = static_cast<uint8_t>(x * 7 + y * 50);
        }
      }
      const Picture to(format, width, 3);
      ASSERT_TRUE(Convert(from, to).ok());
      const bool planar = format == PixelFormat::kPlanarRgb;
      for (int y = 0; y < 3; ++y) {
        for (int x = 0; x < width; ++x) {
          for (int c = 0; c < 3; ++c) {
            ASSERT_EQ(planar ? to.row(c, y)[x] : to.row(0, y)[3 * x + c],
                      from.row(0, y)[x]);
          }
        }
      }
    }
  }
}

// J-18: a crop of a 4:1:1 file, turned.
TEST_P(ReportedFaultTest, AnySamplingTurns) {
  JpegRecipe recipe;
  recipe.width = 160;
  recipe.height = 96;
  for (const auto& luma : {Luma(4, 1), Luma(2, 2), Luma(1, 2)}) {
    recipe.sampling = {luma, Luma(1, 1), Luma(1, 1)};
    const Bytes file = MakeJpeg(recipe, TestCardRgb(160, 96));
    const Picture plain(PixelFormat::kRgb, 64, 64);
    const Picture turned(PixelFormat::kRgb, 64, 64);
    ConvertSpec spec;
    spec.source_rect = Rect{64, 32, 64, 64};
    ASSERT_TRUE(ConvertFile(file, plain, spec).ok());
    spec.orientation = Orientation::kRotate90;
    ASSERT_TRUE(ConvertFile(file, turned, spec).ok());
    for (int y = 0; y < 64; ++y) {
      for (int x = 0; x < 64; ++x) {
        // Turned clockwise, the left column becomes the top row.
        ExpectNear(PixelOf(turned, 63 - y, x), PixelOf(plain, x, y), 1);
      }
    }
  }
}

// J-27, J-28: eight ways to store one upright card.
TEST_P(ReportedFaultTest, EveryOrientationComesUpright) {
  constexpr Rgb kCard[2][3] = {{{255, 0, 0}, {0, 255, 0}, {0, 0, 255}},
                               {{0, 255, 255}, {255, 0, 255}, {255, 255, 0}}};
  for (int o = 1; o <= 8; ++o) {
    const auto orientation = static_cast<Orientation>(o);
    const bool turned = o >= 5;
    const Size stored = turned ? Size{32, 48} : Size{48, 32};
    const OrientationMap map = GetOrientationMap(orientation, stored);
    Samples samples(48 * 32 * 3);
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 48; ++x) {
        const int sx = map.x0 + map.xx * x + map.xy * y;
        const int sy = map.y0 + map.yx * x + map.yy * y;
        for (size_t c = 0; c < 3; ++c) {
          samples[static_cast<size_t>(sy * stored.width + sx) * 3 + c] =
              static_cast<uint8_t>(kCard[y / 16][x / 16][c]);
        }
      }
    }
    JpegRecipe recipe;
    recipe.width = stored.width;
    recipe.height = stored.height;
    recipe.quality = 100;
    recipe.sampling = {Luma(1, 1), Luma(1, 1), Luma(1, 1)};
    Bytes file = MakeJpeg(recipe, samples);
    file =
        WithInserted(file, 2, ExifSegment(TiffWithOrientation(o, o % 2 == 0)));
    const ImageInfo info = PeekImage(file).value();
    ASSERT_EQ(info.orientation, orientation);
    ConvertSpec spec;
    spec.orientation = info.orientation;
    const Picture upright(PixelFormat::kRgb, 48, 32);
    ASSERT_TRUE(ConvertFile(file, upright, spec).ok());
    for (int y = 0; y < 32; ++y) {
      for (int x = 0; x < 48; ++x) {
        ExpectNear(PixelOf(upright, x, y), kCard[y / 16][x / 16], 3);
      }
    }
    // Without being asked nothing turns.
    const Picture as_stored(PixelFormat::kRgb, stored.width, stored.height);
    ASSERT_TRUE(ConvertFile(file, as_stored, {}).ok());
    for (int y = 0; y < stored.height; ++y) {
      for (int x = 0; x < stored.width; ++x) {
        const size_t at = static_cast<size_t>(y * stored.width + x) * 3;
        ExpectNear(PixelOf(as_stored, x, y),
                   {samples[at], samples[at + 1], samples[at + 2]}, 3);
      }
    }
  }
}

// J-31: a decode that fails says nothing of the one before.
TEST_P(ReportedFaultTest, AFailureLeavesNothingForTheNextDecode) {
  const auto jpeg = [](int width, int height) {
    JpegRecipe recipe;
    recipe.width = width;
    recipe.height = height;
    recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
    return MakeJpeg(recipe, TestCardRgb(width, height));
  };
  const Bytes small = jpeg(17, 9);
  const Picture expected(PixelFormat::kRgb, 17, 9);
  ASSERT_TRUE(ConvertFile(small, expected, {}).ok());
  const Picture large(PixelFormat::kRgb, 300, 300);
  const Bytes good = jpeg(300, 300);
  ASSERT_TRUE(ConvertFile(good, large, {}).ok());
  Bytes cut = good;
  cut.resize(cut.size() / 3);
  EXPECT_FALSE(ConvertFile(cut, large, {}).ok());
  EXPECT_FALSE(PeekImage({}).ok());
  const Picture again(PixelFormat::kRgb, 17, 9);
  ASSERT_TRUE(ConvertFile(small, again, {}).ok());
  for (int y = 0; y < 9; ++y) {
    for (int x = 0; x < 17; ++x) {
      EXPECT_EQ(PixelOf(again, x, y), PixelOf(expected, x, y));
    }
  }
}

// J-36: fancy upsampling and the accurate DCT, whatever the way.
TEST_P(ReportedFaultTest, AConvertOfTheSameSizeIsTheLibrarysPicture) {
  for (const auto& luma : {Luma(2, 2), Luma(2, 1), Luma(1, 1)}) {
    JpegRecipe recipe;
    recipe.width = 153;
    recipe.height = 209;
    recipe.sampling = {luma, Luma(1, 1), Luma(1, 1)};
    const Bytes file = MakeJpeg(recipe, TestCardRgb(153, 209));
    const Samples library = DecodeByLibrary(file, false);
    const Picture picture(PixelFormat::kRgb, 153, 209);
    ASSERT_TRUE(ConvertFile(file, picture, {}).ok());
    int largest = 0;
    for (size_t i = 0; i < library.size(); ++i) {
      largest = std::max(largest,
                         std::abs(int{library[i]} - int{picture.row(0, 0)[i]}));
    }
    EXPECT_LE(largest, 1);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ReportedFaultTest,
                         testing::Values("cpu", "reference"),
                         [](const auto& backend) {
                           return std::string(backend.param);
                         });

}  // namespace
}  // namespace preprocd
