#include "engine/backends/cpu/cpu_converter.h"

#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "engine/backends/cpu/element_types.h"
#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

// Counts every allocation of this program, whichever thread makes it.
void* operator new(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace preprocd {
namespace {

TEST(CpuConverterTest, SteadyStateAllocatesNothing) {
  const auto converter = MakeCpuConverter();
  const ImageDesc from =
      *MakeImageDesc(PixelFormat::kNv12, DType::kU8, 640, 360);
  const ImageDesc to =
      *MakeImageDesc(PixelFormat::kPlanarRgb, DType::kF32, 320, 320);
  const auto source =
      *AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(from), "from");
  const auto destination =
      *AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(to), "to");
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  const auto plan = PlanConvert(from, to, spec, false);
  ASSERT_TRUE(plan.ok());
  PictureBuffers a;
  a.buffers[0] = source.get();
  a.count = 1;
  PictureBuffers b;
  b.buffers[0] = destination.get();
  b.count = 1;
  // One thread: which of several takes a range, and so whose scratch grows
  // first, is up to the scheduler.
  RowPool pool(1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(converter->Convert(*plan, a, b, pool).ok());
  }
  const int64_t before = allocations;
  for (int i = 0; i < 20; ++i) {
    if (!converter->Convert(*plan, a, b, pool).ok()) abort();
  }
  EXPECT_EQ(allocations - before, 0);
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
