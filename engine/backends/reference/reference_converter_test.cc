// The oracle itself is checked against values worked out by hand.
#include "engine/backends/reference/reference_converter.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

struct Picture {
  ImageDesc desc;
  std::shared_ptr<Buffer> buffer;
  std::vector<uint8_t> bytes() const {
    const auto span = buffer->Map(Access::kRead)->bytes();
    std::vector<uint8_t> copy(span.size());
    memcpy(copy.data(), span.data(), span.size());
    copy.resize(RequiredBytes(desc));
    return copy;
  }
  std::vector<float> floats() const {
    const std::vector<uint8_t> raw = bytes();
    std::vector<float> copy(raw.size() / 4);
    memcpy(copy.data(), raw.data(), raw.size());
    return copy;
  }
};

Picture Make(PixelFormat format, DType dtype, int width, int height,
             const std::vector<uint8_t>& bytes = {}) {
  Picture picture;
  picture.desc = *MakeImageDesc(format, dtype, width, height);
  picture.buffer = *AllocateBuffer(AllocatorKind::kHeap,
                                   RequiredBytes(picture.desc), "test");
  if (!bytes.empty()) {
    EXPECT_EQ(bytes.size(), RequiredBytes(picture.desc));
    memcpy(picture.buffer->Map(Access::kWrite)->bytes().data(), bytes.data(),
           bytes.size());
  }
  return picture;
}

void Convert(const Picture& source, const Picture& destination,
             const ConvertSpec& spec) {
  const auto plan = PlanConvert(source.desc, destination.desc, spec, false);
  ASSERT_TRUE(plan.ok()) << plan.status();
  PictureBuffers from;
  from.buffers[0] = source.buffer.get();
  from.count = 1;
  PictureBuffers to;
  to.buffers[0] = destination.buffer.get();
  to.count = 1;
  RowPool pool(1);
  const auto done = MakeReferenceConverter()->Convert(*plan, from, to, pool);
  ASSERT_TRUE(done.ok()) << done.status();
}

TEST(ReferenceTest, LimitedRangeColours) {
  // BT.601 limited: white 235/128/128, red 81/90/240, black with footroom 0.
  Picture source = Make(PixelFormat::kNv24, DType::kU8, 3, 1,
                        {235, 81, 0, 128, 128, 90, 240, 128, 128});
  source.desc.color = {MatrixCoefficients::kBt601, ColorRange::kLimited};
  const Picture rgb = Make(PixelFormat::kRgb, DType::kU8, 3, 1);
  Convert(source, rgb, {});
  EXPECT_EQ(rgb.bytes(),
            (std::vector<uint8_t>{255, 255, 255, 254, 0, 0, 0, 0, 0}));
  const Picture grey = Make(PixelFormat::kGrey, DType::kU8, 3, 1);
  Convert(source, grey, {});
  // (81 - 16) * 255 / 219 = 75.68
  EXPECT_EQ(grey.bytes(), (std::vector<uint8_t>{255, 76, 0}));
}

TEST(ReferenceTest, Nv12ReplicatesOrInterpolatesChroma) {
  Picture source =
      Make(PixelFormat::kNv12, DType::kU8, 4, 2,
           {100, 100, 100, 100, 100, 100, 100, 100, 128, 128, 128, 168});
  source.desc.color = {MatrixCoefficients::kBt601, ColorRange::kFull};
  const Picture rgb = Make(PixelFormat::kRgb, DType::kU8, 4, 2);
  Convert(source, rgb, {});
  // R = 100 + 1.402 * 40 = 156.08 over the second chroma sample.
  const std::vector<uint8_t> replicated = rgb.bytes();
  EXPECT_EQ(replicated[0], 100);
  EXPECT_EQ(replicated[3], 100);
  EXPECT_EQ(replicated[6], 156);
  ConvertSpec fancy;
  fancy.chroma = ChromaUpsampling::kFancy;
  Convert(source, rgb, fancy);
  // V = 128, 138, 158, 168 along the row.
  const std::vector<uint8_t> triangle = rgb.bytes();
  EXPECT_EQ(triangle[0], 100);
  EXPECT_EQ(triangle[3], 114);
  EXPECT_EQ(triangle[6], 142);
  EXPECT_EQ(triangle[9], 156);
}

TEST(ReferenceTest, Orientation6TurnsClockwise) {
  const Picture source =
      Make(PixelFormat::kGrey, DType::kU8, 3, 2, {1, 2, 3, 4, 5, 6});
  const Picture turned = Make(PixelFormat::kGrey, DType::kU8, 2, 3);
  ConvertSpec spec;
  spec.orientation = Orientation::kRotate90;
  Convert(source, turned, spec);
  EXPECT_EQ(turned.bytes(), (std::vector<uint8_t>{4, 1, 5, 2, 6, 3}));
}

TEST(ReferenceTest, LetterboxPadsAndCropsNothing) {
  const Picture source =
      Make(PixelFormat::kRgb, DType::kU8, 2, 1, {10, 20, 30, 40, 50, 60});
  const Picture boxed = Make(PixelFormat::kGrey, DType::kU8, 2, 3);
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  spec.pad = PadColor{1, 1, 1, 255};
  Convert(source, boxed, spec);
  // Luma of (10,20,30) is 18.15, of (40,50,60) 48.15.
  EXPECT_EQ(boxed.bytes(), (std::vector<uint8_t>{1, 1, 18, 48, 1, 1}));
}

TEST(ReferenceTest, NothingBleedsIntoACrop) {
  const Picture source =
      Make(PixelFormat::kGrey, DType::kU8, 4, 1, {255, 100, 100, 255});
  const Picture large = Make(PixelFormat::kGrey, DType::kU8, 8, 1);
  for (const Filter filter :
       {Filter::kBilinear, Filter::kBicubic, Filter::kLanczos3}) {
    ConvertSpec spec;
    spec.source_rect = Rect{1, 0, 2, 1};
    spec.filter = filter;
    Convert(source, large, spec);
    EXPECT_EQ(large.bytes(), std::vector<uint8_t>(8, 100));
  }
}

TEST(ReferenceTest, NormalisationAndDefaultScale) {
  const Picture source =
      Make(PixelFormat::kRgb, DType::kU8, 1, 1, {255, 51, 0});
  const Picture f32 = Make(PixelFormat::kPlanarRgb, DType::kF32, 1, 1);
  Convert(source, f32, {});
  EXPECT_FLOAT_EQ(f32.floats()[0], 1.0f);
  EXPECT_FLOAT_EQ(f32.floats()[1], 0.2f);
  ConvertSpec spec;
  spec.normalization = Normalization{{127.5, 127.5, 127.5, 0},
                                     {1 / 127.5, 1 / 127.5, 1 / 127.5, 1}};
  Convert(source, f32, spec);
  EXPECT_FLOAT_EQ(f32.floats()[0], 1.0f);
  EXPECT_FLOAT_EQ(f32.floats()[1], -0.6f);
  EXPECT_FLOAT_EQ(f32.floats()[2], -1.0f);
}

TEST(ReferenceTest, IntegerTypesAndUnbiasedAlpha) {
  const Picture source =
      Make(PixelFormat::kRgba, DType::kU8, 1, 1, {0, 128, 255, 200});
  const Picture i8 = Make(PixelFormat::kRgba, DType::kI8, 1, 1);
  Convert(source, i8, {});
  EXPECT_EQ(i8.bytes(), (std::vector<uint8_t>{0x80, 0, 0x7f, 200}));
  const Picture u16 = Make(PixelFormat::kRgb, DType::kU16, 1, 1);
  Convert(source, u16, {});
  // 128 * 257 = 0x8080, little-endian.
  EXPECT_EQ(u16.bytes(), (std::vector<uint8_t>{0, 0, 0x80, 0x80, 0xff, 0xff}));
}

TEST(ReferenceTest, QuantisationRoundsHalfToEvenAndClamps) {
  const Picture source = Make(PixelFormat::kRgb, DType::kU8, 1, 1, {1, 3, 255});
  const Picture i8 = Make(PixelFormat::kRgb, DType::kI8, 1, 1);
  ConvertSpec spec;
  spec.normalization = Normalization{};
  spec.quantization = Quantization{0.5, 10};
  Convert(source, i8, spec);
  // 0.5 -> 0, 1.5 -> 2, 127.5 -> 128 (even) + 10 clamped to 127.
  EXPECT_EQ(i8.bytes(), (std::vector<uint8_t>{10, 12, 127}));
}

TEST(ReferenceTest, HalfAndBfloatRoundToNearestEven) {
  const Picture source = Make(PixelFormat::kGrey, DType::kU8, 1, 1, {255});
  const Picture f16 = Make(PixelFormat::kGrey, DType::kF16, 1, 1);
  Convert(source, f16, {});
  EXPECT_EQ(f16.bytes(), (std::vector<uint8_t>{0x00, 0x3c}));  // 1.0
  const Picture bf16 = Make(PixelFormat::kGrey, DType::kBf16, 1, 1);
  Convert(source, bf16, {});
  EXPECT_EQ(bf16.bytes(), (std::vector<uint8_t>{0x80, 0x3f}));  // 1.0
}

}  // namespace
}  // namespace preprocd
