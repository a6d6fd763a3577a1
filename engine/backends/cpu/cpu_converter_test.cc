#include "engine/backends/cpu/cpu_converter.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <thread>

#include "engine/backends/cpu/element_types.h"
#include "engine/backends/reference/reference_converter.h"
#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"

namespace {
std::atomic<int64_t> allocations = 0;
std::atomic<uint64_t> allocated_bytes = 0;
std::atomic<int64_t> live_bytes = 0;
std::atomic<int64_t> peak_bytes = 0;

void Forget(void* memory) {
  if (memory == nullptr) return;
  live_bytes -= static_cast<int64_t>(malloc_usable_size(memory));
  free(memory);
}
}  // namespace

// Counts every allocation of this program, whichever thread makes it.
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  allocated_bytes.fetch_add(size, std::memory_order_relaxed);
  void* memory = malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  const int64_t live = live_bytes +=
      static_cast<int64_t>(malloc_usable_size(memory));
  int64_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}
void operator delete(void* memory) noexcept { Forget(memory); }
void operator delete(void* memory, size_t) noexcept { Forget(memory); }

namespace preprocd {
namespace {

struct Picture {
  ImageDesc desc;
  std::shared_ptr<Buffer> buffer;
  PictureBuffers buffers() const {
    PictureBuffers result;
    result.buffers[0] = buffer.get();
    result.count = 1;
    return result;
  }
  std::span<std::byte> bytes() const {
    return buffer->Map(Access::kReadWrite)->bytes();
  }
};

Picture MakePicture(PixelFormat format, DType dtype, int width, int height) {
  Picture picture;
  picture.desc = *MakeImageDesc(format, dtype, width, height);
  picture.buffer = *AllocateBuffer(AllocatorKind::kHeap,
                                   RequiredBytes(picture.desc), "test");
  uint32_t state = 7;
  for (std::byte& byte : picture.bytes()) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return picture;
}

// Allocations of 20 converts after three to warm up. One thread: which of
// several takes a range, and so whose scratch grows first, is up to the
// scheduler.
int64_t SteadyStateAllocations(PixelFormat source, PixelFormat destination,
                               DType dtype, const ConvertSpec& spec) {
  const auto converter = MakeCpuConverter();
  const Picture from = MakePicture(source, DType::kU8, 640, 360);
  const Picture to = MakePicture(destination, dtype, 320, 320);
  const auto plan = PlanConvert(from.desc, to.desc, spec, false);
  EXPECT_TRUE(plan.ok()) << plan.status();
  RowPool pool(1);
  int64_t before = 0;
  for (int i = 0; i < 23; ++i) {
    if (i == 3) before = allocations;
    if (!converter->Convert(*plan, from.buffers(), to.buffers(), pool).ok()) {
      abort();
    }
  }
  return allocations - before;
}

TEST(CpuConverterTest, SteadyStateAllocatesNothing) {
  ConvertSpec letterbox;
  letterbox.fit = Fit::kLetterbox;
  EXPECT_EQ(SteadyStateAllocations(PixelFormat::kNv12, PixelFormat::kPlanarRgb,
                                   DType::kF32, letterbox),
            0);
  ConvertSpec turned;
  turned.orientation = Orientation::kRotate90;
  turned.filter = Filter::kLanczos3;
  EXPECT_EQ(SteadyStateAllocations(PixelFormat::kBgra, PixelFormat::kRgb,
                                   DType::kU8, turned),
            0);
  EXPECT_EQ(SteadyStateAllocations(PixelFormat::kRgb, PixelFormat::kNv12,
                                   DType::kU8, {}),
            0);
  ConvertSpec copy;
  copy.source_rect = Rect{8, 8, 320, 320};
  EXPECT_EQ(SteadyStateAllocations(PixelFormat::kRgb, PixelFormat::kRgb,
                                   DType::kU8, copy),
            0);
}

// The most that a first convert holds at once, tables included.
TEST(CpuConverterTest, A4KFrameTakesLessThanAMebibyteOnTheWay) {
  for (const PixelFormat format : {PixelFormat::kNv12, PixelFormat::kRgb}) {
    const Picture from = MakePicture(format, DType::kU8, 3840, 2160);
    const Picture to =
        MakePicture(PixelFormat::kPlanarRgb, DType::kF32, 640, 640);
    for (const Filter filter :
         {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa,
          Filter::kArea, Filter::kBicubic, Filter::kBicubicAa,
          Filter::kLanczos3}) {
      ConvertSpec spec;
      spec.filter = filter;
      spec.fit = Fit::kLetterbox;
      const auto plan = PlanConvert(from.desc, to.desc, spec, false);
      ASSERT_TRUE(plan.ok());
      // A thread of its own has no rows left from before.
      std::thread([&] {
        const auto converter = MakeCpuConverter();
        RowPool pool(1);
        const int64_t before = live_bytes;
        peak_bytes = before;
        EXPECT_TRUE(
            converter->Convert(*plan, from.buffers(), to.buffers(), pool).ok());
        EXPECT_LT(peak_bytes - before, int64_t{1} << 20) << FilterName(filter);
      }).join();
    }
  }
}

// With all rows of a window in the ring this would take 168 MB.
TEST(CpuConverterTest, ScratchIsBoundedHoweverManyTapsAPixelHas) {
  const Picture from = MakePicture(PixelFormat::kRgba, DType::kU8, 8, 16384);
  const Picture to = MakePicture(PixelFormat::kRgba, DType::kU8, 640, 2);
  const Picture expected = MakePicture(PixelFormat::kRgba, DType::kU8, 640, 2);
  ConvertSpec spec;
  spec.filter = Filter::kArea;
  const auto plan = PlanConvert(from.desc, to.desc, spec, false);
  ASSERT_TRUE(plan.ok());
  RowPool pool(1);
  const uint64_t before = allocated_bytes;
  ASSERT_TRUE(MakeCpuConverter()
                  ->Convert(*plan, from.buffers(), to.buffers(), pool)
                  .ok());
  EXPECT_LT(allocated_bytes - before, uint64_t{8} << 20);
  ASSERT_TRUE(MakeReferenceConverter()
                  ->Convert(*plan, from.buffers(), expected.buffers(), pool)
                  .ok());
  for (size_t i = 0; i < to.bytes().size(); ++i) {
    ASSERT_NEAR(static_cast<int>(to.bytes()[i]),
                static_cast<int>(expected.bytes()[i]), 1)
        << i;
  }
}

// Bug cases L-02 and L-03: the placement that is reported is where the pixels
// are, in whole pixels, and a fixed target is filled whatever its remainder.
TEST(CpuConverterTest, ReportedPlacementIsWherePixelsAre) {
  const struct {
    Size source;
    Rect placed;
  } cases[] = {{{1279, 721}, {0, 139, 640, 361}},
               {{1024, 768}, {0, 80, 640, 480}}};
  for (const auto& c : cases) {
    const Picture from = MakePicture(PixelFormat::kRgb, DType::kU8,
                                     c.source.width, c.source.height);
    std::ranges::fill(from.bytes(), std::byte{255});
    const Picture to = MakePicture(PixelFormat::kRgb, DType::kU8, 640, 640);
    ConvertSpec spec;
    spec.fit = Fit::kLetterbox;
    const auto plan = PlanConvert(from.desc, to.desc, spec, false);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->placement.destination, c.placed);
    RowPool pool(2);
    ASSERT_TRUE(MakeCpuConverter()
                    ->Convert(*plan, from.buffers(), to.buffers(), pool)
                    .ok());
    const auto value = [&](int y) {
      return static_cast<int>(to.bytes()[static_cast<size_t>(y) * 640 * 3]);
    };
    EXPECT_EQ(value(c.placed.y - 1), 114);
    EXPECT_EQ(value(c.placed.y), 255);
    EXPECT_EQ(value(c.placed.y + c.placed.height - 1), 255);
    EXPECT_EQ(value(c.placed.y + c.placed.height), 114);
  }
}

// The conformance battery's pictures are too small to be split.
TEST(CpuConverterTest, BandsGiveTheBytesOfOneThread) {
  const auto converter = MakeCpuConverter();
  RowPool one(1);
  RowPool four(4);
  for (const PixelFormat format : {PixelFormat::kRgb, PixelFormat::kPlanarRgb,
                                   PixelFormat::kI420, PixelFormat::kYuyv}) {
    for (const Filter filter : {Filter::kBilinear, Filter::kLanczos3}) {
      const Picture from =
          MakePicture(PixelFormat::kNv12, DType::kU8, 801, 601);
      const Picture single = MakePicture(format, DType::kU8, 479, 333);
      const Picture split = MakePicture(format, DType::kU8, 479, 333);
      std::ranges::fill(split.bytes(), std::byte{1});
      ConvertSpec spec;
      spec.filter = filter;
      spec.fit = Fit::kLetterbox;
      const auto plan = PlanConvert(from.desc, single.desc, spec, false);
      ASSERT_TRUE(plan.ok());
      ASSERT_TRUE(
          converter->Convert(*plan, from.buffers(), single.buffers(), one)
              .ok());
      ASSERT_TRUE(
          converter->Convert(*plan, from.buffers(), split.buffers(), four)
              .ok());
      EXPECT_TRUE(std::ranges::equal(single.bytes(), split.bytes()))
          << PixelFormatName(format) << " " << FilterName(filter);
    }
  }
}

TEST(CpuConverterTest, FactorsBeyondFloatGiveTheReferencesValue) {
  const Picture from = MakePicture(PixelFormat::kGrey, DType::kU8, 4, 1);
  const Picture to = MakePicture(PixelFormat::kGrey, DType::kI8, 4, 1);
  ConvertSpec spec;
  Normalization n;
  n.offset.fill(1e300);
  n.multiplier.fill(1e-300);
  spec.normalization = n;
  spec.quantization = Quantization{1, 100};
  const auto plan = PlanConvert(from.desc, to.desc, spec, false);
  ASSERT_TRUE(plan.ok());
  RowPool pool(1);
  ASSERT_TRUE(MakeCpuConverter()
                  ->Convert(*plan, from.buffers(), to.buffers(), pool)
                  .ok());
  for (const std::byte byte : to.bytes()) EXPECT_EQ(byte, std::byte{99});
}

TEST(ElementTypesTest, HalfMatchesTheDefinitionAroundEveryHalf) {
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const int exponent = static_cast<int>(bits >> 10);
    const int mantissa = static_cast<int>(bits & 1023);
    const double value = exponent == 0
                             ? std::ldexp(mantissa, -24)
                             : std::ldexp(1024 + mantissa, exponent - 25);
    const auto exact = static_cast<float>(value);
    ASSERT_EQ(FloatToHalf(exact), bits);
    ASSERT_EQ(FloatToHalf(-exact), bits | 0x8000);
    if (bits == 0x7bff) continue;
    const double step = exponent == 0 ? 0x1p-24 : std::ldexp(1, exponent - 25);
    // A tie goes to the even neighbour, anything beside it to the nearer one.
    const auto tie = static_cast<float>(value + step / 2);
    ASSERT_EQ(FloatToHalf(tie), bits + (bits & 1));
    ASSERT_EQ(FloatToHalf(std::nextafterf(tie, 0)), bits);
    ASSERT_EQ(FloatToHalf(std::nextafterf(tie, 1e9f)), bits + 1);
  }
  EXPECT_EQ(FloatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(INFINITY), 0x7c00);
  EXPECT_EQ(FloatToHalf(NAN) & 0x7c00, 0x7c00);
  EXPECT_NE(FloatToHalf(NAN) & 0x3ff, 0);
}

TEST(ElementTypesTest, BfloatRoundsToNearestEven) {
  for (const uint32_t high : {0x3f80u, 0x3f81u, 0x0001u, 0x7f7eu, 0xc2c8u}) {
    const auto at = [high](uint32_t low) {
      return FloatToBfloat16(std::bit_cast<float>(high << 16 | low));
    };
    EXPECT_EQ(at(0), high);
    EXPECT_EQ(at(0x7fff), high);
    EXPECT_EQ(at(0x8000), high + (high & 1));
    EXPECT_EQ(at(0x8001), high + 1);
  }
  EXPECT_EQ(FloatToBfloat16(NAN) & 0x7f80, 0x7f80);
  EXPECT_NE(FloatToBfloat16(NAN) & 0x7f, 0);
}

}  // namespace
}  // namespace preprocd
