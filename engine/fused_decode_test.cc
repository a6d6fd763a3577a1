// Decoding and converting in one pass: the bytes are those of both steps by
// hand, the frame is never held, and nothing is allocated once warm.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/codec/jpeg_test_images.h"
#include "engine/engine.h"
#include "engine/memory/allocator.h"

namespace {
std::atomic<int64_t> allocations = 0;
std::atomic<int64_t> held_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;

void* Counted(void* memory) {
  if (memory == nullptr) return nullptr;
  allocations.fetch_add(1, std::memory_order_relaxed);
  const auto size = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = held_bytes.fetch_add(size) + size;
  int64_t peak = peak_bytes.load();
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
  return memory;
}

void Release(void* memory) {
  if (memory == nullptr) return;
  held_bytes.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  free(memory);
}
}  // namespace

// Every allocation of this program but those of C libraries, which have no
// part in what is counted here.
void* operator new(size_t size) {
  void* memory = Counted(malloc(size));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, std::align_val_t alignment) {
  void* memory = Counted(aligned_alloc(
      static_cast<size_t>(alignment),
      (size + static_cast<size_t>(alignment) - 1) /
          static_cast<size_t>(alignment) * static_cast<size_t>(alignment)));
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t size, const std::nothrow_t&) noexcept {
  return Counted(malloc(size));
}
void operator delete(void* memory) noexcept { Release(memory); }
void operator delete(void* memory, size_t) noexcept { Release(memory); }
void operator delete(void* memory, std::align_val_t) noexcept {
  Release(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  Release(memory);
}

namespace preprocd {
namespace {

std::unique_ptr<Engine> MakeEngine(int threads) {
  EngineOptions options;
  options.row_threads = threads;
  options.backends = {"cpu"};
  return Engine::Create(options).value();
}

// A picture in a heap buffer, which is a mapping of its own and not counted.
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

Bytes Jpeg(int width, int height, JpegRecipe::Factors luma,
           bool progressive = false, int restart_interval = 0) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.sampling = {luma, Luma(1, 1), Luma(1, 1)};
  recipe.progressive = progressive;
  recipe.restart_interval = restart_interval;
  return MakeJpeg(recipe, TestCardRgb(width, height));
}

Bytes GreyJpeg(int width, int height) {
  JpegRecipe recipe;
  recipe.width = width;
  recipe.height = height;
  recipe.color = JpegColor::kGrey;
  recipe.sampling = {Luma(1, 1)};
  Samples grey(static_cast<size_t>(width) * static_cast<size_t>(height));
  const Samples card = TestCardRgb(width, height);
  for (size_t i = 0; i < grey.size(); ++i) grey[i] = card[3 * i];
  return MakeJpeg(recipe, grey);
}

// Resident memory of this process that belongs to no file.
int64_t AnonymousBytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  int64_t shared = 0;
  statm >> size >> resident >> shared;
  EXPECT_GT(resident, 0);
  return (resident - shared) * sysconf(_SC_PAGESIZE);
}

struct Wanted {
  PixelFormat format = PixelFormat::kRgb;
  DType dtype = DType::kU8;
  Size size = {64, 64};
};

// Both ways; empty bytes when one fails.
struct BothWays {
  Samples by_hand;
  Samples fused;
};

BothWays RunBoth(Engine& engine, const Bytes& file, const ConvertSpec& spec,
                 const Wanted& wanted) {
  const ImageDesc source =
      Engine::DecodedDesc(*PeekImage(file), wanted.format).value();
  const Picture by_hand(wanted.format, wanted.size.width, wanted.size.height,
                        wanted.dtype);
  const Picture fused(by_hand.desc);
  // What is not written shows.
  std::ranges::fill(by_hand.bytes(), uint8_t{0x11});
  std::ranges::fill(fused.bytes(), uint8_t{0x22});
  const auto plan = engine.Plan(source, by_hand.desc, spec, true);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  const Picture between(source);
  WorkReport report;
  EXPECT_TRUE(engine.Decode(file, {}, source, between.buffers, report).ok());
  EXPECT_TRUE(
      engine.Convert(*plan, between.buffers, by_hand.buffers, report).ok());
  const absl::Status status =
      engine.DecodeAndConvert(file, {}, *plan, fused.buffers, report);
  EXPECT_TRUE(status.ok()) << status;
  return {by_hand.Copy(), fused.Copy()};
}

class FusedDecodeTest : public testing::TestWithParam<int> {
 protected:
  std::unique_ptr<Engine> engine_ = MakeEngine(GetParam());
};

TEST_P(FusedDecodeTest, EveryOrientationAndCrop) {
  const Bytes file = Jpeg(331, 270, Luma(2, 2));
  const std::optional<Rect> crops[] = {
      std::nullopt, Rect{0, 0, 331, 16}, Rect{7, 101, 199, 163},
      Rect{330, 269, 1, 1}, Rect{16, 32, 128, 128}};
  for (int o = 1; o <= 8; ++o) {
    for (const auto& crop : crops) {
      for (const Fit fit : {Fit::kStretch, Fit::kLetterbox, Fit::kCover}) {
        ConvertSpec spec;
        spec.orientation = static_cast<Orientation>(o);
        spec.source_rect = crop;
        spec.fit = fit;
        const BothWays both = RunBoth(
            *engine_, file, spec, {PixelFormat::kRgb, DType::kU8, {90, 70}});
        EXPECT_EQ(both.fused, both.by_hand)
            << "orientation " << o << " crop " << (crop ? crop->width : 0)
            << " fit " << static_cast<int>(fit);
      }
    }
  }
}

TEST_P(FusedDecodeTest, EveryFilterUpAndDown) {
  const Bytes file = Jpeg(258, 226, Luma(2, 2));
  for (const Filter filter :
       {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa, Filter::kArea,
        Filter::kBicubic, Filter::kBicubicAa, Filter::kLanczos3}) {
    for (const Size size : {Size{20, 17}, Size{86, 75}, Size{258, 226},
                            Size{301, 500}, Size{5, 400}}) {
      for (const ChromaUpsampling chroma :
           {ChromaUpsampling::kReplicate, ChromaUpsampling::kFancy}) {
        ConvertSpec spec;
        spec.filter = filter;
        spec.chroma = chroma;
        spec.orientation = Orientation::kRotate180;
        const BothWays both = RunBoth(
            *engine_, file, spec, {PixelFormat::kPlanarRgb, DType::kF32, size});
        EXPECT_EQ(both.fused, both.by_hand)
            << "filter " << static_cast<int>(filter) << " " << size.width << "x"
            << size.height;
      }
    }
  }
}

TEST_P(FusedDecodeTest, EverySamplingAndDestination) {
  const Bytes files[] = {Jpeg(203, 250, Luma(2, 2)),
                         Jpeg(203, 250, Luma(2, 1)),
                         Jpeg(203, 250, Luma(1, 1)),
                         Jpeg(203, 250, Luma(1, 2)),
                         Jpeg(203, 250, Luma(4, 1)),
                         Jpeg(203, 250, Luma(2, 2), /*progressive=*/true),
                         Jpeg(203, 250, Luma(2, 2), false, 3),
                         GreyJpeg(203, 250)};
  for (const Bytes& file : files) {
    for (const PixelFormat format :
         {PixelFormat::kRgb, PixelFormat::kBgra, PixelFormat::kGrey,
          PixelFormat::kPlanarRgb, PixelFormat::kNv12}) {
      for (const DType dtype : {DType::kU8, DType::kF16}) {
        if (format == PixelFormat::kNv12 && dtype != DType::kU8) continue;
        ConvertSpec spec;
        spec.fit = Fit::kLetterbox;
        const BothWays both =
            RunBoth(*engine_, file, spec, {format, dtype, {96, 64}});
        EXPECT_EQ(both.fused, both.by_hand)
            << "file " << &file - files << " format "
            << PixelFormatName(format);
      }
    }
  }
}

TEST_P(FusedDecodeTest, DamageIsAnsweredAsByDecode) {
  Bytes cut = Jpeg(320, 320, Luma(2, 2));
  cut.resize(cut.size() / 2);
  Bytes noisy = Jpeg(320, 320, Luma(2, 2));
  for (size_t i = noisy.size() / 2; i < noisy.size() / 2 + 40; ++i) {
    noisy[i] = std::byte{0xFF};
  }
  for (const Bytes& file : {cut, noisy}) {
    const ImageDesc source =
        Engine::DecodedDesc(*PeekImage(file), PixelFormat::kRgb).value();
    const Picture between(source);
    const Picture out(PixelFormat::kRgb, 64, 64);
    const Picture by_hand(out.desc);
    const auto plan = engine_->Plan(source, out.desc, {}, true);
    WorkReport report;
    const absl::Status decoded =
        engine_->Decode(file, {}, source, between.buffers, report).status();
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(engine_->DecodeAndConvert(file, {}, *plan, out.buffers, report),
              decoded);
    DecodeOptions lenient;
    lenient.lenient = true;
    WorkReport two_steps;
    ASSERT_TRUE(
        engine_->Decode(file, lenient, source, between.buffers, two_steps)
            .ok());
    ASSERT_TRUE(
        engine_->Convert(*plan, between.buffers, by_hand.buffers, two_steps)
            .ok());
    WorkReport one_step;
    ASSERT_TRUE(
        engine_->DecodeAndConvert(file, lenient, *plan, out.buffers, one_step)
            .ok());
    EXPECT_EQ(out.Copy(), by_hand.Copy());
    EXPECT_EQ(one_step.warnings, two_steps.warnings);
    EXPECT_FALSE(one_step.warnings.empty());
  }
}

TEST_P(FusedDecodeTest, FourKNeedsUnderFourMiBAndNothingOnceWarm) {
  const Bytes file = Jpeg(3840, 2160, Luma(2, 2));
  const ImageDesc source =
      Engine::DecodedDesc(*PeekImage(file), PixelFormat::kRgb).value();
  const Picture out(PixelFormat::kPlanarRgb, 640, 640, DType::kF32);
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  const auto plan = engine_->Plan(source, out.desc, spec, true);
  ASSERT_TRUE(plan.ok()) << plan.status();
  // Picture memory is mapped, not allocated by new, and kept for the next call
  // once it was used.
  std::ranges::fill(out.bytes(), uint8_t{1});
  const int64_t resident_before = AnonymousBytes();
  const int64_t held_before = held_bytes.load();
  peak_bytes.store(held_before);
  WorkReport report;
  ASSERT_TRUE(
      engine_->DecodeAndConvert(file, {}, *plan, out.buffers, report).ok());
  EXPECT_LT(peak_bytes.load() - held_before, int64_t{4} << 20);
  EXPECT_LT(AnonymousBytes() - resident_before, int64_t{4} << 20);
  // Both threads of a pool have been in both parts after a few frames.
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(
        engine_->DecodeAndConvert(file, {}, *plan, out.buffers, report).ok());
  }
  const int64_t before = allocations.load();
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(
        engine_->DecodeAndConvert(file, {}, *plan, out.buffers, report).ok());
  }
  EXPECT_EQ(allocations.load() - before, 0);
}

// Pixels against the exact average of the pixels that each one stands for.
TEST_P(FusedDecodeTest, FastScaleIsTheSmallerPicture) {
  JpegRecipe recipe;
  recipe.width = 640;
  recipe.height = 400;
  recipe.sampling = {Luma(2, 2), Luma(1, 1), Luma(1, 1)};
  recipe.quality = 98;
  Samples smooth(640 * 400 * 3);
  for (size_t i = 0; i < smooth.size() / 3; ++i) {
    const size_t x = i % 640;
    const size_t y = i / 640;
    smooth[3 * i] = static_cast<uint8_t>(x * 255 / 640);
    smooth[3 * i + 1] = static_cast<uint8_t>(y * 255 / 400);
    smooth[3 * i + 2] = static_cast<uint8_t>((x + y) * 200 / 1040);
  }
  const Bytes file = MakeJpeg(recipe, smooth);
  const ImageDesc source =
      Engine::DecodedDesc(*PeekImage(file), PixelFormat::kRgb).value();
  for (int o = 1; o <= 8; ++o) {
    for (const int shrink : {1, 2, 4, 8}) {
      ConvertSpec spec;
      spec.filter = Filter::kArea;
      spec.orientation = static_cast<Orientation>(o);
      const Size upright =
          OrientedSize(spec.orientation, {640 / shrink, 400 / shrink});
      const Picture exact(PixelFormat::kRgb, upright.width, upright.height);
      const Picture fast(exact.desc);
      const auto plan = engine_->Plan(source, exact.desc, spec, true);
      ASSERT_TRUE(plan.ok()) << plan.status();
      WorkReport report;
      ASSERT_TRUE(
          engine_->DecodeAndConvert(file, {}, *plan, exact.buffers, report)
              .ok());
      EXPECT_TRUE(report.warnings.empty());
      ASSERT_TRUE(engine_
                      ->DecodeAndConvert(file, {}, *plan, fast.buffers, report,
                                         DecodeScaling::kFast)
                      .ok());
      EXPECT_EQ(
          report.warnings,
          std::vector<std::string>(
              {shrink == 1 ? "fast_scale: decoded at full size"
                           : "fast_scale: decoded at 1/" +
                                 std::to_string(shrink) + " of its size"}));
      const Samples a = exact.Copy();
      const Samples b = fast.Copy();
      int largest = 0;
      for (size_t i = 0; i < a.size(); ++i) {
        largest = std::max(largest, std::abs(int{a[i]} - int{b[i]}));
      }
      EXPECT_LE(largest, shrink == 1 ? 0 : 3) << o << " 1/" << shrink;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, FusedDecodeTest, testing::Values(1, 2),
                         [](const auto& threads) {
                           return "t" + std::to_string(threads.param);
                         });

}  // namespace
}  // namespace preprocd
