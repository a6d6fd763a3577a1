// What decoding costs: nothing is allocated for a frame like the one before,
// and files that ask for much with few bytes are refused before they get it.
#include <gtest/gtest.h>
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "engine/base/limits.h"
#include "engine/codec/decode_test_support.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_strip_decoder.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/codec/png_test_images.h"

namespace {
std::atomic<int64_t> allocations = 0;
std::atomic<uint64_t> largest = 0;
std::atomic<int64_t> held = 0;

void* Held(void* memory) {
  if (memory != nullptr) {
    held.fetch_add(static_cast<int64_t>(malloc_usable_size(memory)));
  }
  return memory;
}

void Release(void* memory) {
  if (memory != nullptr) {
    held.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  }
  free(memory);
}
}  // namespace

// Sees every allocation of this program but those of C libraries, which have
// no part in what is counted here.
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (size > largest.load()) largest.store(size);
  void* memory = Held(malloc(size));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (size > largest.load()) largest.store(size);
  return Held(malloc(size));
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }

namespace preprocd {
namespace {

Bytes Frame(int width, int height, int phase, JpegRecipe::Factors luma) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {luma, Luma(1, 1), Luma(1, 1)};
  Samples samples = TestCardRgb(width, height);
  for (uint8_t& sample : samples) {
    sample = static_cast<uint8_t>(sample + phase);
  }
  return MakeJpeg(recipe, samples);
}

TEST(DecodeCostTest, NothingIsAllocatedForFramesOfTheSameShape) {
  const struct {
    JpegRecipe::Factors luma;
    PixelFormat native;
  } kinds[] = {{Luma(2, 2), PixelFormat::kNv12},
               {Luma(2, 1), PixelFormat::kNv16},
               {Luma(1, 1), PixelFormat::kNv24}};
  for (const auto& kind : kinds) {
    const Bytes frames[] = {Frame(333, 222, 0, kind.luma),
                            Frame(333, 222, 50, kind.luma)};
    for (const PixelFormat format : {kind.native, PixelFormat::kGrey,
                                     PixelFormat::kRgb, PixelFormat::kBgra}) {
      TestPicture picture(format, 333, 222);
      ImageDecoder decoder;
      ASSERT_TRUE(decoder.Decode(frames[0], {}, picture.view()).ok());
      const int64_t before = allocations.load();
      for (int i = 0; i < 6; ++i) {
        const auto result = decoder.Decode(frames[i % 2], {}, picture.view());
        ASSERT_TRUE(result.ok());
      }
      EXPECT_EQ(allocations.load() - before, 0)
          << static_cast<int>(format) << " " << kind.luma.h;
    }
  }
}

TEST(DecodeCostTest, StripsNeedConstantMemory) {
  JpegStripDecoder decoder;
  const Bytes small = Frame(64, 64, 0, Luma(2, 2));
  const Bytes large = Frame(1600, 1200, 0, Luma(2, 2));
  JpegStripTargets targets;
  Samples memory(1600 * 16 * 3);
  targets.fill({memory.data(), 1600});
  targets[1].data += 1600 * 16;
  targets[2].data += 1600 * 32;
  const auto decode = [&](const Bytes& file) {
    const JpegHeader header = *ReadJpegHeader(file);
    ASSERT_TRUE(decoder.Begin(file, header, {}).ok());
    while (decoder.next_strip() < decoder.strip_count()) {
      ASSERT_TRUE(decoder.Next(targets).ok());
    }
    DecodeResult result;
    ASSERT_TRUE(decoder.Finish(result).ok());
  };
  decode(small);
  const int64_t before = allocations.load();
  decode(large);
  EXPECT_EQ(allocations.load() - before, 0);
}

// A frame header of `width` x `height` and `scans` scans of a byte or two.
Bytes ScanBomb(int width, int height, int scans) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 16;
  recipe.progressive = true;
  Bytes file = MakeJpeg(recipe, TestCardRgb(16, 16));
  const size_t frame = FindSegment(file, 0xC2);
  file[frame + 5] = static_cast<std::byte>(height >> 8);
  file[frame + 6] = static_cast<std::byte>(height);
  file[frame + 7] = static_cast<std::byte>(width >> 8);
  file[frame + 8] = static_cast<std::byte>(width);
  file.resize(file.size() - 2);
  for (int i = 0; i < scans; ++i) {
    const Bytes scan = Segment(0xDA, {1, 1, 0, 1, 5, 0});
    file.insert(file.end(), scan.begin(), scan.end());
    file.push_back(std::byte{0x7F});
  }
  file.push_back(std::byte{0xFF});
  file.push_back(std::byte{0xD9});
  return file;
}

ErrorReason Refusal(const Bytes& file) {
  const auto info = PeekImage(file);
  EXPECT_TRUE(info.ok()) << info.status();
  // The picture is never touched, so that it may be of another size.
  std::byte pixel[3];
  const std::span<std::byte> span(pixel);
  ImageDesc desc = *MakeImageDesc(PixelFormat::kRgb, DType::kU8, 1, 1);
  ImageView view = *MakeImageView(desc, std::span(&span, 1));
  view.desc.width = info->width;
  view.desc.height = info->height;
  ImageDecoder decoder;
  largest = 0;
  for (const bool lenient : {false, true}) {
    DecodeOptions options;
    options.lenient = lenient;
    const auto result = decoder.Decode(file, options, view);
    EXPECT_FALSE(result.ok());
    if (lenient) return ReasonOf(result.status());
  }
  return ErrorReason::kUnspecified;
}

TEST(DecodeCostTest, ManyScansOfNothingAreRefused) {
  EXPECT_EQ(Refusal(ScanBomb(16000, 6000, 60)), ErrorReason::kTooLarge);
  EXPECT_EQ(Refusal(ScanBomb(16000, 6000, 480)), ErrorReason::kTooLarge);
  EXPECT_EQ(Refusal(ScanBomb(1600, 1600, 490)), ErrorReason::kTooLarge);
  EXPECT_EQ(Refusal(ScanBomb(64, 64, kMaxJpegScans + 1)),
            ErrorReason::kTooLarge);
}

TEST(DecodeCostTest, CoefficientsThatCannotBeThereGetNoMemory) {
  const Bytes file = ScanBomb(16000, 6000, 0);
  EXPECT_LT(file.size(), 2000u);
  EXPECT_EQ(Refusal(file), ErrorReason::kImageCorrupt);
  const Bytes cut(file.begin(), file.end() - 2);
  EXPECT_EQ(Refusal(cut), ErrorReason::kImageTruncated);
}

TEST(DecodeCostTest, EmptyArithmeticBlocksGetNoMemoryEither) {
  JpegRecipe recipe;
  recipe.width = recipe.height = 16;
  recipe.progressive = recipe.arithmetic = true;
  Bytes file = MakeJpeg(recipe, TestCardRgb(16, 16));
  const size_t frame = FindSegment(file, 0xCA);
  const int sizes[] = {16000, 6000};
  file[frame + 5] = static_cast<std::byte>(sizes[1] >> 8);
  file[frame + 6] = static_cast<std::byte>(sizes[1]);
  file[frame + 7] = static_cast<std::byte>(sizes[0] >> 8);
  file[frame + 8] = static_cast<std::byte>(sizes[0]);
  EXPECT_EQ(Refusal(file), ErrorReason::kTooLarge);
  // A black picture of an ordinary size passes.
  recipe.width = recipe.height = 512;
  EXPECT_TRUE(DecodeTo(MakeJpeg(recipe, Samples(512 * 512 * 3)),
                       PixelFormat::kGrey) == Samples(512 * 512));
}

// A decoder that once read a large file does not keep its memory.
TEST(DecodeCostTest, WhatAPngDecoderKeepsIsBounded) {
  PngRecipe recipe;
  recipe.width = 4000;
  recipe.height = 3000;
  Samples samples(PngRowBytes(recipe) * 3000);
  for (size_t i = 0; i < samples.size(); i += 7) {
    samples[i] = static_cast<uint8_t>(i);
  }
  const Bytes file = MakePng(recipe, samples);
  TestPicture picture(PixelFormat::kRgb, 4000, 3000);
  ImageDecoder decoder;
  const int64_t before = held.load();
  ASSERT_TRUE(decoder.Decode(file, {}, picture.view()).ok());
  EXPECT_LT(held.load() - before, int64_t{19} << 20);
}

TEST(DecodeCostTest, RowsThatCannotBeThereGetNoMemory) {
  PngRecipe recipe;
  recipe.width = recipe.height = 16;
  std::vector<PngChunk> chunks =
      SplitPng(MakePng(recipe, std::vector<uint8_t>(PngRowBytes(recipe) * 16)));
  chunks[0].body[1] = std::byte{0};
  chunks[0].body[2] = std::byte{16};  // 4096 columns and rows
  chunks[0].body[3] = std::byte{0};
  chunks[0].body[6] = std::byte{16};
  chunks[0].body[7] = std::byte{0};
  const Bytes file = JoinPng(chunks);
  const auto info = PeekImage(file);
  ASSERT_TRUE(info.ok()) << info.status();
  TestPicture picture(PixelFormat::kRgb, info->width, info->height);
  ImageDecoder decoder;
  largest = 0;
  EXPECT_FALSE(decoder.Decode(file, {}, picture.view()).ok());
  EXPECT_LT(largest.load(), uint64_t{1} << 20);
}

}  // namespace
}  // namespace preprocd
