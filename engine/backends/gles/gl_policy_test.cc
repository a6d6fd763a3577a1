// The policy tables and the image cache: no GL.
#include "engine/backends/gles/gl_policy.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "engine/backends/gles/element_bits.h"
#include "engine/backends/gles/image_cache.h"
#include "engine/backends/gles/render_plan.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

TEST(GlPolicyTest, RenderersAreKnownByTheirStrings) {
  const RendererTraits& llvmpipe =
      TraitsOfRenderer("llvmpipe (LLVM 15.0.6, 256 bits)");
  EXPECT_TRUE(llvmpipe.software);
  EXPECT_EQ(llvmpipe.serialisation, GlSerialisation::kLifecycle);
  EXPECT_EQ(llvmpipe.target_block, 4);
  EXPECT_TRUE(TraitsOfRenderer("softpipe").software);
  const RendererTraits& vivante = TraitsOfRenderer("Vivante GC7000UL");
  EXPECT_EQ(vivante.serialisation, GlSerialisation::kFull);
  EXPECT_EQ(vivante.yuv_path, GlYuvPath::kExternalSampler);
  EXPECT_FALSE(vivante.float_targets);
  EXPECT_EQ(TraitsOfRenderer("Apple Paravirtual device").serialisation,
            GlSerialisation::kFull);
  EXPECT_EQ(TraitsOfRenderer("virgl (AMD)").serialisation,
            GlSerialisation::kFull);
  EXPECT_EQ(TraitsOfRenderer("Mali-G310").pitch_alignment, 64);
  EXPECT_EQ(TraitsOfRenderer("Mali-G310").offset_alignment, 64);
  EXPECT_EQ(TraitsOfRenderer("V3D 7.1.7").offset_alignment, 1);
  const RendererTraits& other = TraitsOfRenderer("Some Future GPU");
  EXPECT_EQ(other.match, "");
  EXPECT_FALSE(other.software);
}

TEST(GlPolicyTest, SettingsWinOverTheTable) {
  GlSettings settings;
  ASSERT_TRUE(SetGlSetting("serialisation", "full", settings).ok());
  ASSERT_TRUE(SetGlSetting("yuv_path", "external", settings).ok());
  ASSERT_TRUE(SetGlSetting("workers", "3", settings).ok());
  ASSERT_TRUE(SetGlSetting("transfer", "pbo", settings).ok());
  const RendererTraits traits = ResolveTraits("llvmpipe", settings);
  EXPECT_EQ(traits.serialisation, GlSerialisation::kFull);
  EXPECT_EQ(traits.yuv_path, GlYuvPath::kExternalSampler);
  EXPECT_EQ(traits.workers, 3);
  EXPECT_EQ(traits.upload, GlTransfer::kPbo);
  ASSERT_TRUE(SetGlSetting("transfer", "auto", settings).ok());
  EXPECT_FALSE(settings.transfer.has_value());
}

TEST(GlPolicyTest, WrongSettingsAreRefusedWithTheirName) {
  GlSettings settings;
  for (const auto& [name, value] : {std::pair{"transfer", "dma"},
                                    {"workers", "-1"},
                                    {"workers", "x"},
                                    {"stall_ms", "0"},
                                    {"enabled", "maybe"},
                                    {"no_such", "1"},
                                    {"cached_imports", "0"},
                                    {"serialisation", ""}}) {
    const absl::Status status = SetGlSetting(name, value, settings);
    ASSERT_FALSE(status.ok()) << name;
    EXPECT_NE(status.message().find(std::string("gl.") + name),
              absl::string_view::npos)
        << status;
  }
  EXPECT_EQ(settings, GlSettings());
}

TEST(GlPolicyTest, TheEnvironmentIsReadByName) {
  GlSettings settings;
  const auto get = [](const char* name) -> const char* {
    if (strcmp(name, "PREPROCD_GL_TRANSFER") == 0) return "memory";
    if (strcmp(name, "PREPROCD_GL_STALL_MS") == 0) return "77";
    return nullptr;
  };
  ASSERT_TRUE(ApplyGlEnvironment(get, settings).ok());
  EXPECT_EQ(settings.transfer, GlTransfer::kMemory);
  EXPECT_EQ(settings.stall_ms, 77);
  EXPECT_FALSE(ApplyGlEnvironment(
                   [](const char*) -> const char* { return "7.5"; }, settings)
                   .ok());
}

TEST(GlPolicyTest, PicturesAreLoweredByKindAndCapability) {
  GlFeatures features;
  features.import_memfd = true;
  RendererTraits traits;
  traits.upload = GlTransfer::kPbo;
  GlSettings settings;
  using enum BufferKind;
  const auto lower = [&](BufferKind kind) {
    return LowerPicture(kind, features, traits, settings);
  };
  EXPECT_EQ(lower(kMemfd), GlTransfer::kZeroCopy);
  EXPECT_EQ(lower(kDmaBuf), GlTransfer::kPbo);
  EXPECT_EQ(lower(kHeap), GlTransfer::kPbo);
  // Its size may change under an import.
  EXPECT_EQ(lower(kMemfdCopy), GlTransfer::kPbo);
  features.import_dma_buf = true;
  EXPECT_EQ(lower(kDmaBuf), GlTransfer::kZeroCopy);
  settings.transfer = GlTransfer::kMemory;
  traits = ResolveTraits("llvmpipe", settings);
  EXPECT_EQ(lower(kMemfd), GlTransfer::kMemory);
}

ConvertPlan PlanOf(PixelFormat format, DType dtype, Precision precision) {
  ConvertSpec spec;
  spec.precision = precision;
  return *PlanConvert(*MakeImageDesc(PixelFormat::kNv12, DType::kU8, 64, 64),
                      *MakeImageDesc(format, dtype, 16, 16), spec, false);
}

TEST(GlPolicyTest, PassesFollowDestinationTapsAndTargets) {
  GlFeatures f;
  f.render_float32 = true;
  f.read_red = true;
  const auto shape = [&f](PixelFormat format, DType dtype, int taps,
                          bool rounds) {
    return ShapePasses(PlanOf(format, dtype, Precision::kEightBit), taps, taps,
                       rounds, f);
  };
  using enum PixelFormat;
  EXPECT_EQ(shape(kRgba, DType::kU8, 2, false).last, PassShape::kDirect);
  EXPECT_EQ(shape(kBgra, DType::kI8, 2, false).last, PassShape::kDirect);
  EXPECT_EQ(shape(kGrey, DType::kU8, 2, false).last, PassShape::kDirect);
  EXPECT_EQ(shape(kRgb, DType::kU8, 2, false).last, PassShape::kPacked);
  EXPECT_EQ(shape(kPlanarRgb, DType::kU8, 2, false).last, PassShape::kPacked);
  EXPECT_EQ(shape(kRgba, DType::kF32, 2, false).last, PassShape::kPacked);
  EXPECT_EQ(shape(kNv12, DType::kU8, 2, false).last, PassShape::kPacked);
  EXPECT_FALSE(shape(kRgba, DType::kU8, 4, false).two_axes);
  EXPECT_TRUE(shape(kRgba, DType::kU8, 5, false).two_axes);
  EXPECT_TRUE(shape(kRgba, DType::kU8, 2, true).two_axes);
  f.render_float32 = false;
  f.read_red = false;
  // No target for fractions: one pass; rounded bytes need none.
  EXPECT_FALSE(shape(kRgba, DType::kU8, 9, false).two_axes);
  EXPECT_TRUE(shape(kRgba, DType::kU8, 9, true).two_axes);
  EXPECT_EQ(shape(kGrey, DType::kU8, 2, false).last, PassShape::kPacked);
  f.render_half = true;
  EXPECT_TRUE(shape(kRgba, DType::kU8, 9, false).two_axes);
}

TEST(GlPolicyTest, WholeBuffersAreImportedWhereTheStrideAllows) {
  RendererTraits traits;
  traits.pitch_alignment = 64;
  traits.offset_alignment = 64;
  // Tile 3 of a batch of 640x640 rgba tiles.
  const uint64_t stride = 640 * 4;
  const uint64_t size = stride * 640 * 8;
  const auto tile = ChooseImport(size, stride * 640 * 3, stride, stride, 640, 4,
                                 1, 16384, traits);
  ASSERT_TRUE(tile.has_value());
  EXPECT_EQ(tile->offset_bytes, 0u);
  EXPECT_EQ(tile->width, 640);
  EXPECT_EQ(tile->height, 640 * 8);
  EXPECT_EQ(tile->x, 0);
  EXPECT_EQ(tile->y, 640 * 3);
  // A view inside a wider picture, at any pixel.
  const auto view = ChooseImport(size, stride * 7 + 36, stride, 400, 100, 4, 1,
                                 16384, traits);
  ASSERT_TRUE(view.has_value());
  EXPECT_EQ(view->offset_bytes, 0u);
  EXPECT_EQ(view->x, 9);
  EXPECT_EQ(view->y, 7);
}

TEST(GlPolicyTest, OtherPicturesAreImportedAloneOrNotAtAll) {
  RendererTraits traits;
  traits.pitch_alignment = 64;
  traits.offset_alignment = 64;
  // Too high for one image: alone, from the aligned offset before it.
  const auto alone = ChooseImport(256 * 1000, 256 * 900 + 64 + 8, 256, 128, 50,
                                  4, 1, 512, traits);
  ASSERT_TRUE(alone.has_value());
  EXPECT_EQ(alone->offset_bytes, 256u * 900 + 64);
  EXPECT_EQ(alone->x, 2);
  EXPECT_EQ(alone->width, 34);
  EXPECT_EQ(alone->height, 50);
  // The last row is tight: no whole raster holds it.
  const auto tight =
      ChooseImport(256 * 9 + 100, 0, 256, 100, 10, 4, 1, 512, traits);
  ASSERT_TRUE(tight.has_value());
  EXPECT_EQ(tight->width, 25);
  const auto refused = [&](uint64_t size, uint64_t offset, uint64_t stride,
                           uint64_t row, int rows, int texel, int block) {
    return !ChooseImport(size, offset, stride, row, rows, texel, block, 512,
                         traits)
                .has_value();
  };
  EXPECT_TRUE(refused(100'000, 0, 100, 100, 10, 4, 1)) << "pitch";
  EXPECT_TRUE(refused(100'000, 0, 256, 102, 10, 4, 1)) << "row";
  EXPECT_TRUE(refused(100'000, 2, 256, 100, 10, 4, 1)) << "offset";
  EXPECT_TRUE(refused(256 * 9 + 99, 0, 256, 100, 10, 4, 1)) << "size";
  EXPECT_TRUE(refused(1 << 30, 0, 256, 100, 513, 4, 1)) << "height";
  EXPECT_TRUE(refused(1 << 30, 0, 4096, 2052, 4, 4, 1)) << "width";
  EXPECT_TRUE(refused(100'000, 0, 0, 0, 1, 1, 1)) << "stride";
  // Blocks of four.
  EXPECT_FALSE(refused(100'000, 0, 256, 128, 12, 4, 4));
  EXPECT_TRUE(refused(100'000, 0, 256, 124, 12, 4, 4)) << "columns";
  EXPECT_TRUE(refused(100'000, 0, 256, 128, 10, 4, 4)) << "rows";
  EXPECT_TRUE(refused(100'000, 256 * 2, 256, 128, 12, 4, 4)) << "first row";
  EXPECT_TRUE(refused(100'000, 8, 256, 128, 12, 4, 4)) << "first column";
}

// Whatever is chosen stays inside the buffer and meets the plane.
TEST(GlPolicyTest, ImportsNeverReachPastTheBuffer) {
  RendererTraits traits;
  int chosen = 0;
  for (uint64_t size = 1; size < 400; size += 7) {
    for (uint64_t offset = 0; offset < 60; offset += 3) {
      for (uint64_t stride = 1; stride < 40; ++stride) {
        for (const int texel : {1, 2, 4}) {
          const uint64_t row = stride / 4 * 4;
          const int rows = 5;
          if (row == 0 || offset + stride * 4 + row > size) continue;
          const auto w = ChooseImport(size, offset, stride, row, rows, texel, 1,
                                      64, traits);
          if (!w) continue;
          ++chosen;
          const auto t = static_cast<uint64_t>(texel);
          ASSERT_LE(w->offset_bytes +
                        stride * (static_cast<uint64_t>(w->height) - 1) +
                        static_cast<uint64_t>(w->width) * t,
                    size);
          ASSERT_EQ(w->offset_bytes + static_cast<uint64_t>(w->x) * t +
                        static_cast<uint64_t>(w->y) * stride,
                    offset);
          ASSERT_LE(w->y + rows, w->height);
          ASSERT_LE(static_cast<uint64_t>(w->x) * t + row,
                    static_cast<uint64_t>(w->width) * t);
        }
      }
    }
  }
  EXPECT_GT(chosen, 1000);
}

TEST(GlPolicyTest, SoftwareGetsMoreTimeForMoreWork) {
  GlSettings settings;
  settings.stall_ms = 1000;
  EXPECT_EQ(StallLimitMs(settings, false, 1'000'000'000), 1000);
  EXPECT_EQ(StallLimitMs(settings, true, 0), 1000);
  EXPECT_GT(StallLimitMs(settings, true, 1'000'000'000), 10'000);
}

// --- cache -----------------------------------------------------------------

ImageKey Key(uint64_t inode) {
  ImageKey key;
  key.identity = {1, inode};
  key.stride_bytes = 64;
  key.width = 16;
  key.height = 4;
  key.fourcc = 5;
  return key;
}

TEST(ImageCacheTest, EveryPartOfTheKeyTellsImagesApart) {
  ImageCache<int> cache(64);
  cache.Insert(Key(1), 1);
  ASSERT_NE(cache.Find(Key(1)), nullptr);
  const auto misses = [&](auto change) {
    ImageKey key = Key(1);
    change(key);
    return cache.Find(key) == nullptr;
  };
  EXPECT_TRUE(misses([](ImageKey& k) { k.identity.inode = 2; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.identity.device = 2; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.offset_bytes = 4; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.stride_bytes = 128; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.width = 8; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.height = 8; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.fourcc = 6; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.modifier = 1; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.colour_hints = 1; }));
  EXPECT_TRUE(misses([](ImageKey& k) { k.second_offset_bytes = 1; }));
  EXPECT_EQ(cache.counts().hits, 1u);
  EXPECT_EQ(cache.counts().misses, 10u);
}

TEST(ImageCacheTest, TheLeastRecentlyUsedGoesFirst) {
  ImageCache<std::unique_ptr<int>> cache(3);
  for (uint64_t i = 1; i <= 3; ++i) {
    cache.Insert(Key(i), std::make_unique<int>(static_cast<int>(i)));
  }
  EXPECT_EQ(**cache.Find(Key(1)), 1);
  cache.Insert(Key(4), std::make_unique<int>(4));
  EXPECT_EQ(cache.counts().evictions, 1u);
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.Find(Key(2)), nullptr);
  EXPECT_NE(cache.Find(Key(1)), nullptr);
  EXPECT_NE(cache.Find(Key(3)), nullptr);
  EXPECT_NE(cache.Find(Key(4)), nullptr);
}

TEST(ImageCacheTest, ABufferThatIsGoneLeavesWithAllItsImages) {
  ImageCache<int> cache(8);
  ImageKey other = Key(1);
  other.offset_bytes = 64;
  ImageKey second = Key(2);
  second.second_identity = {1, 1};
  cache.Insert(Key(1), 1);
  cache.Insert(other, 2);
  cache.Insert(second, 3);
  cache.Insert(Key(3), 4);
  EXPECT_EQ(cache.Forget({1, 1}), 3u);
  EXPECT_EQ(cache.size(), 1u);
  EXPECT_NE(cache.Find(Key(3)), nullptr);
}

// --- elements --------------------------------------------------------------

TEST(ElementBitsTest, HalvesAndTiesAreRoundedAsTheFormatsSay) {
  GlElementStage stage;
  stage.dtype = DType::kF16;
  stage.normalize = true;
  stage.normalization.multiplier.fill(1);
  ElementBitsTable table = MakeElementBitsTable(stage);
  EXPECT_EQ(table[0], 0u);
  EXPECT_EQ(table[1], 0x3c00u);
  EXPECT_EQ(table[255], 0x5bf8u);
  // Subnormal, and half of the last place to even.
  stage.normalization.multiplier.fill(0x1p-25);
  table = MakeElementBitsTable(stage);
  EXPECT_EQ(table[1], 0u);
  EXPECT_EQ(table[2], 1u);
  EXPECT_EQ(table[3], 2u);
  stage.normalization.multiplier.fill(1e300);
  EXPECT_EQ(MakeElementBitsTable(stage)[1], 0x7c00u);
  stage.normalization.multiplier.fill(-1);
  EXPECT_EQ(MakeElementBitsTable(stage)[1], 0xbc00u);
  stage.dtype = DType::kBf16;
  EXPECT_EQ(MakeElementBitsTable(stage)[1], 0xbf80u);
}

}  // namespace
}  // namespace preprocd
