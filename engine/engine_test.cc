#include "engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/codec/png_test_images.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->reason : ErrorReason::kUnspecified;
}

std::unique_ptr<Engine> MakeEngine(std::vector<std::string> backends = {}) {
  EngineOptions options;
  options.row_threads = 2;
  options.backends = std::move(backends);
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return std::move(engine).value();
}

// A heap buffer with one picture in it.
struct Picture {
  explicit Picture(const ImageDesc& d) : desc(d) {
    buffer = AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(desc), "test")
                 .value();
    buffers.buffers[0] = buffer.get();
    buffers.count = 1;
  }
  Picture(PixelFormat format, int width, int height, DType dtype = DType::kU8)
      : Picture(MakeImageDesc(format, dtype, width, height).value()) {}

  std::span<uint8_t> bytes() const {
    // A heap buffer stays where it is while it lives.
    const std::span<std::byte> span =
        buffer->Map(Access::kReadWrite).value().bytes();
    return {reinterpret_cast<uint8_t*>(span.data()), span.size()};
  }
  Samples Copy() const {
    const auto all = bytes().first(RequiredBytes(desc));
    return Samples(all.begin(), all.end());
  }

  ImageDesc desc;
  std::shared_ptr<Buffer> buffer;
  PictureBuffers buffers;
};

Bytes ColorJpeg(int width, int height) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  return MakeJpeg(recipe, TestCardRgb(width, height));
}

// 255 when the sizes differ.
int LargestDifference(const Samples& a, const Samples& b) {
  if (a.size() != b.size()) return 255;
  int largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
  }
  return largest;
}

TEST(EngineCreateTest, UnknownBackendsAreRefused) {
  EngineOptions options;
  options.backends = {"cpu", "no-such"};
  EXPECT_EQ(ReasonOf(Engine::Create(options).status()),
            ErrorReason::kBackendUnknown);
  options.backends = {"cpu", "cpu"};
  EXPECT_EQ(ReasonOf(Engine::Create(options).status()),
            ErrorReason::kBackendUnknown);
}

TEST(EngineCreateTest, OptionsChooseAndOrderBackends) {
  const auto engine = MakeEngine({"reference", "cpu"});
  ASSERT_EQ(engine->backends().size(), 2u);
  EXPECT_EQ(engine->backends()[0]->name, "reference");
  EXPECT_GE(engine->backends()[0]->rank, 0);
  const ImageDesc rgb =
      MakeImageDesc(PixelFormat::kRgb, DType::kU8, 8, 8).value();
  EXPECT_EQ(engine->Plan(rgb, rgb, {}, false)->backend, "reference");
  ConvertSpec forced;
  forced.backends = {"cpu"};
  EXPECT_EQ(engine->Plan(rgb, rgb, forced, false)->backend, "cpu");
  const auto only = MakeEngine({"reference"});
  EXPECT_EQ(ReasonOf(only->Plan(rgb, rgb, forced, false).status()),
            ErrorReason::kBackendUnknown);
}

TEST(EngineCreateTest, ReferenceRunsOnlyWhenNamed) {
  const auto engine = MakeEngine();
  const ImageDesc rgb =
      MakeImageDesc(PixelFormat::kRgb, DType::kU8, 8, 8).value();
  EXPECT_NE(engine->Plan(rgb, rgb, {}, false)->backend, "reference");
}

TEST(DecodedDescTest, FollowsTheFileAndTheDestination) {
  ImageInfo info;
  info.width = 10;
  info.height = 6;
  info.color_space = "ycbcr";
  info.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  const auto format = [&](PixelFormat destination) {
    return Engine::DecodedDesc(info, destination)->format;
  };
  EXPECT_EQ(format(PixelFormat::kRgba), PixelFormat::kRgb);
  EXPECT_EQ(format(PixelFormat::kUnspecified), PixelFormat::kRgb);
  // Coded planes where the file has those of a format.
  info.subsampling = "4:2:2";
  info.native_format = PixelFormat::kNv16;
  EXPECT_EQ(format(PixelFormat::kRgb), PixelFormat::kNv16);
  info.subsampling = "4:1:1";
  info.native_format = PixelFormat::kNv12;
  EXPECT_EQ(format(PixelFormat::kRgb), PixelFormat::kRgb);
  info.subsampling = "4:4:4";
  info.color_space = "rgb";
  EXPECT_EQ(format(PixelFormat::kRgb), PixelFormat::kRgb);
  EXPECT_EQ(Engine::DecodedDesc(info, PixelFormat::kRgb)->color, info.color);
  info.color_space = "grey";
  EXPECT_EQ(format(PixelFormat::kRgb), PixelFormat::kGrey);
  info.has_alpha = true;
  EXPECT_EQ(format(PixelFormat::kPlanarRgba), PixelFormat::kRgba);
  EXPECT_EQ(format(PixelFormat::kRgb), PixelFormat::kGrey);
  info.color_space = "palette";
  EXPECT_EQ(format(PixelFormat::kBgr), PixelFormat::kRgb);
  info.width = 0;
  EXPECT_FALSE(Engine::DecodedDesc(info, PixelFormat::kRgb).ok());
}

TEST(EngineConvertTest, CopiesAPictureAndReportsTime) {
  const auto engine = MakeEngine();
  const Picture source(PixelFormat::kRgb, 9, 7);
  const Picture destination(PixelFormat::kBgr, 9, 7);
  const Samples card = TestCardRgb(9, 7);
  std::copy(card.begin(), card.end(), source.bytes().begin());
  const auto plan = engine->Plan(source.desc, destination.desc, {}, false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  WorkReport report;
  const absl::Status status =
      engine->Convert(*plan, source.buffers, destination.buffers, report);
  ASSERT_TRUE(status.ok()) << status;
  const Samples out = destination.Copy();
  for (size_t i = 0; i < card.size(); i += 3) {
    EXPECT_EQ(out[i], card[i + 2]);
    EXPECT_EQ(out[i + 1], card[i + 1]);
  }
  EXPECT_GT(report.convert_ns, 0);
  EXPECT_EQ(report.decode_ns, 0);
  EXPECT_EQ(report.bytes_copied, 0u);
}

TEST(EngineConvertTest, OverlapOfTheSameBufferIsRefused) {
  const auto engine = MakeEngine();
  ImageDesc desc = MakeImageDesc(PixelFormat::kRgb, DType::kU8, 8, 8).value();
  ImageDesc second = desc;
  second.planes[0].offset_bytes = 192;
  Picture memory(PixelFormat::kRgb, 8, 24);
  const auto convert = [&](const ImageDesc& from, const ImageDesc& to) {
    WorkReport report;
    return engine->Convert(*engine->Plan(from, to, {}, false), memory.buffers,
                           memory.buffers, report);
  };
  EXPECT_TRUE(convert(desc, second).ok());
  second.planes[0].offset_bytes = 191;
  EXPECT_EQ(ReasonOf(convert(desc, second)), ErrorReason::kBufferOverlap);
  EXPECT_EQ(ReasonOf(convert(second, desc)), ErrorReason::kBufferOverlap);
  EXPECT_EQ(ReasonOf(convert(desc, desc)), ErrorReason::kBufferOverlap);
}

TEST(EngineConvertTest, PlanesInSeveralBuffersAreComparedByBuffer) {
  const auto engine = MakeEngine();
  ImageDesc source =
      MakeImageDesc(PixelFormat::kNv12, DType::kU8, 16, 16).value();
  source.planes[1] = {1, 0, 16};
  const Picture luma(PixelFormat::kGrey, 16, 16);
  const Picture chroma(PixelFormat::kGrey, 16, 32);
  PictureBuffers from;
  from.buffers = {luma.buffer.get(), chroma.buffer.get()};
  from.count = 2;
  ImageDesc destination =
      MakeImageDesc(PixelFormat::kGrey, DType::kU8, 16, 16).value();
  const auto plan = engine->Plan(source, destination, {}, false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  WorkReport report;
  // Chroma occupies the first 128 bytes of the second buffer.
  EXPECT_EQ(ReasonOf(engine->Convert(*plan, from, chroma.buffers, report)),
            ErrorReason::kBufferOverlap);
  destination.planes[0].offset_bytes = 128;
  const auto behind = engine->Plan(source, destination, {}, false);
  EXPECT_TRUE(engine->Convert(*behind, from, chroma.buffers, report).ok());
}

TEST(EngineDecodeTest, WritesTheFilesPixels) {
  const auto engine = MakeEngine();
  const Bytes file = ColorJpeg(37, 21);
  const Picture picture(PixelFormat::kRgb, 37, 21);
  WorkReport report;
  const auto result =
      engine->Decode(file, {}, picture.desc, picture.buffers, report);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(picture.Copy(), DecodeByLibrary(file, false));
  EXPECT_GT(report.decode_ns, 0);
  EXPECT_EQ(result->info.width, 37);
}

TEST(EngineDecodeTest, DamageNamesTheSourceField) {
  const auto engine = MakeEngine();
  Bytes file = ColorJpeg(37, 21);
  file.resize(file.size() / 2);
  const Picture picture(PixelFormat::kRgb, 37, 21);
  WorkReport report;
  const absl::Status status =
      engine->Decode(file, {}, picture.desc, picture.buffers, report).status();
  EXPECT_EQ(ReasonOf(status), ErrorReason::kImageTruncated);
  EXPECT_EQ(GetErrorDetail(status)->field, "source");
  EXPECT_EQ(std::string(status.message()).rfind("source: ", 0), 0u) << status;
}

// Decoding then converting by hand gives the same bytes as both in one call.
TEST(EngineDecodeTest, DecodeAndConvertIsBothSteps) {
  const auto engine = MakeEngine();
  for (int round = 0; round < 3; ++round) {
    const int width = 60 + round * 31;
    const Bytes file = ColorJpeg(width, 45);
    const auto info = PeekImage(file);
    const ImageDesc decoded =
        Engine::DecodedDesc(*info, PixelFormat::kRgb).value();
    const Picture by_hand(PixelFormat::kRgb, 32, 32);
    const Picture in_one(PixelFormat::kRgb, 32, 32);
    ConvertSpec spec;
    spec.fit = Fit::kLetterbox;
    const auto plan = engine->Plan(decoded, by_hand.desc, spec, true);
    ASSERT_TRUE(plan.ok()) << plan.status();
    WorkReport report;
    const Picture between(decoded);
    ASSERT_TRUE(
        engine->Decode(file, {}, decoded, between.buffers, report).ok());
    ASSERT_TRUE(
        engine->Convert(*plan, between.buffers, by_hand.buffers, report).ok());
    WorkReport one;
    const absl::Status status =
        engine->DecodeAndConvert(file, {}, *plan, in_one.buffers, one);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(in_one.Copy(), by_hand.Copy());
    EXPECT_GT(one.decode_ns, 0);
    EXPECT_GT(one.convert_ns, 0);
    EXPECT_EQ(one.bytes_copied, 0u);
  }
}

// A frame that is decoded to memory first fails before anything is written.
TEST(EngineDecodeTest, AFailedDecodeBeforeAConvertLeavesTheDestinationAlone) {
  const auto engine = MakeEngine();
  Bytes file = ColorJpeg(64, 64);
  const ImageDesc decoded =
      Engine::DecodedDesc(*PeekImage(file), PixelFormat::kRgb).value();
  file.resize(file.size() / 2);
  const Picture picture(PixelFormat::kRgb, 16, 16);
  std::ranges::fill(picture.bytes(), uint8_t{9});
  ConvertSpec turned;
  turned.orientation = Orientation::kRotate90;
  const auto plan = engine->Plan(decoded, picture.desc, turned, true);
  WorkReport report;
  EXPECT_EQ(ReasonOf(engine->DecodeAndConvert(file, {}, *plan, picture.buffers,
                                              report)),
            ErrorReason::kImageTruncated);
  EXPECT_EQ(picture.Copy(), Samples(16 * 16 * 3, 9));
  // The engine still works, and a lenient call has its warning.
  DecodeOptions lenient;
  lenient.lenient = true;
  EXPECT_TRUE(
      engine->DecodeAndConvert(file, lenient, *plan, picture.buffers, report)
          .ok());
  EXPECT_EQ(report.warnings.size(), 1u);
}

TEST(EngineDecodeTest, SizeThatIsNotThePlansIsRefused) {
  const auto engine = MakeEngine();
  const ImageDesc decoded =
      MakeImageDesc(PixelFormat::kRgb, DType::kU8, 20, 20).value();
  const Picture picture(PixelFormat::kRgb, 16, 16);
  const auto plan = engine->Plan(decoded, picture.desc, {}, true);
  WorkReport report;
  EXPECT_EQ(ReasonOf(engine->DecodeAndConvert(ColorJpeg(21, 20), {}, *plan,
                                              picture.buffers, report)),
            ErrorReason::kGeometryInvalid);
}

TEST(EngineDecodeTest, ManyThreadsShareOneEngine) {
  const auto engine = MakeEngine();
  const Bytes files[] = {ColorJpeg(64, 48), ColorJpeg(33, 65)};
  std::vector<std::thread> threads;
  std::array<int, 4> good = {};
  for (size_t t = 0; t < good.size(); ++t) {
    threads.emplace_back([&, t] {
      const Bytes& file = files[t % 2];
      const ImageDesc decoded =
          Engine::DecodedDesc(*PeekImage(file), PixelFormat::kRgb).value();
      const Picture out(PixelFormat::kRgb, decoded.width, decoded.height);
      const auto plan = engine->Plan(decoded, out.desc, {}, true);
      const Samples expected = DecodeByLibrary(file, false);
      for (int i = 0; i < 20; ++i) {
        WorkReport report;
        const absl::Status status =
            engine->DecodeAndConvert(file, {}, *plan, out.buffers, report);
        if (status.ok() && LargestDifference(out.Copy(), expected) <= 1)
          ++good[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : good) EXPECT_EQ(count, 20);
}

TEST(EngineEncodeTest, FilesComeBack) {
  const auto engine = MakeEngine();
  const Picture picture(PixelFormat::kRgb, 21, 13);
  const Samples card = TestCardRgb(21, 13);
  std::copy(card.begin(), card.end(), picture.bytes().begin());
  WorkReport report;
  std::vector<std::byte> file;
  ASSERT_TRUE(
      engine->EncodePngFile(picture.desc, picture.buffers, {}, file, report)
          .ok());
  const Picture back(PixelFormat::kRgb, 21, 13);
  ASSERT_TRUE(engine->Decode(file, {}, back.desc, back.buffers, report).ok());
  EXPECT_EQ(back.Copy(), card);
  ASSERT_TRUE(
      engine->EncodeJpegFile(picture.desc, picture.buffers, {}, file, report)
          .ok());
  EXPECT_EQ(PeekImage(file)->width, 21);
  EXPECT_GT(report.encode_ns, 0);
  JpegEncodeOptions bad;
  bad.quality = 0;
  EXPECT_EQ(ReasonOf(engine->EncodeJpegFile(picture.desc, picture.buffers, bad,
                                            file, report)),
            ErrorReason::kFieldInvalid);
}

}  // namespace
}  // namespace preprocd
