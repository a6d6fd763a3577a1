#include "engine/backends/cpu/row_arena.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace preprocd {
namespace {

TEST(RowArenaTest, PiecesAreAlignedApartAndPadded) {
  RowArena arena;
  uint8_t* a = arena.Take<uint8_t>(100);
  auto* b = arena.Take<int16_t>(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(b) % 64, 0u);
  memset(a, 1, 100 + 128);
  memset(b, 2, 2000 + 128);
  EXPECT_EQ(a[227], 1);
}

TEST(RowArenaTest, TheSameBandAgainTakesNoMoreMemory) {
  RowArena arena;
  for (int band = 0; band < 5; ++band) {
    arena.Reset();
    for (int row = 0; row < 40; ++row) arena.Take<uint8_t>(10000);
    if (band < 2) continue;
    EXPECT_LE(arena.capacity_bytes(), size_t{1} << 19);
  }
}

// Every band a little larger than the one before: blocks that are too small
// by then must not pile up.
TEST(RowArenaTest, SizesThatCreepUpLeaveNothingBehind) {
  RowArena arena;
  for (size_t size = 64 << 10; size < 512 << 10; size += 256) {
    arena.Reset();
    arena.Take<uint8_t>(size);
    arena.Take<uint8_t>(size / 2);
    EXPECT_LT(arena.capacity_bytes(), 4 * (size + size / 2)) << size;
  }
  arena.Reset();
  EXPECT_LE(arena.capacity_bytes(), size_t{1} << 20);
}

}  // namespace
}  // namespace preprocd
