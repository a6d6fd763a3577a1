#include "engine/codec/jpeg_mcu_decoder.h"

#include <algorithm>

// Compiled for each target although it has no vectors: newer ones shift
// without the carry's detour.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/codec/jpeg_mcu_decoder.cc"
#include <hwy/foreach_target.h>
// Behind foreach_target.h, as Highway wants it.
#include <hwy/highway.h>

#ifndef ENGINE_CODEC_JPEG_MCU_DECODER_ONCE
#define ENGINE_CODEC_JPEG_MCU_DECODER_ONCE
namespace preprocd {
namespace {

// Positions that a symbol can reach: a block's, those that a damaged run
// reaches behind it, and those of the end of a block.
constexpr size_t kReachable = 256;
using PairOrder = std::array<uint8_t, kReachable>;

// Where zigzag position k lies in a pair, for the left block. An end of block
// stores its zero where the last coefficient, which it rules out, is zero.
constexpr PairOrder MakePairOrder() {
  PairOrder order = {};
  for (size_t k = 0; k < kReachable; ++k) {
    const size_t natural = kZigzagToNatural[std::min<size_t>(k, 63)];
    order[k] = static_cast<uint8_t>(natural / kDctSize * DctPair::kRowStep +
                                    natural % kDctSize);
  }
  return order;
}
constexpr PairOrder kPairOrder = MakePairOrder();

// Below it the longest run cannot reach the last coefficient.
constexpr unsigned kPairsBelow = 63 - 15;

// What position is behind an end of block that follows coefficient 0.
constexpr unsigned kEndBehindFirst = 1 + HuffmanLookup::kEndOfBlock + 1;

}  // namespace
}  // namespace preprocd
#endif  // ENGINE_CODEC_JPEG_MCU_DECODER_ONCE

HWY_BEFORE_NAMESPACE();
namespace preprocd {
namespace HWY_NAMESPACE {
namespace {

struct BlockState {
  BitBuffer buffer;
  int dc = 0;
  unsigned position = 0;
};

// One coefficient, or the end of the block; `position` is behind it.
HWY_INLINE void DecodeCoefficient(const HuffmanLookup& table, int16_t* block,
                                  BlockState& state) {
  const uint32_t entry =
      table.entry(state.buffer.Peek(HuffmanLookup::kIndexBits));
  int value;
  if (HWY_LIKELY((entry & HuffmanLookup::kBitsMask) != 0)) {
    state.buffer.Drop(entry & HuffmanLookup::kBitsMask);
    state.position += entry >> 8 & 0xFF;
    value = static_cast<int16_t>(entry >> 16);
  } else {
    const HuffmanLookup::LongSymbol symbol = table.DecodeLong(state.buffer);
    state.buffer = symbol.rest;
    // Without a code: behind the block, before where its end leads.
    state.position += symbol.good ? symbol.skip : 64;
    value = symbol.value;
  }
  block[kPairOrder[state.position]] = static_cast<int16_t>(value);
  ++state.position;
}

// The same for one or two symbols. From `position` the first must not be able
// to fill the block, because then the second belongs to the next one.
HWY_INLINE void DecodePair(const HuffmanLookup& table, int16_t* block,
                           BlockState& state) {
  const uint64_t pair =
      table.pair(state.buffer.Peek(HuffmanLookup::kIndexBits));
  if (HWY_LIKELY((pair & HuffmanLookup::kBitsMask) != 0)) {
    state.buffer.Drop(static_cast<unsigned>(pair & HuffmanLookup::kBitsMask));
    state.position += static_cast<unsigned>(pair >> 8 & 0xFF);
    block[kPairOrder[state.position]] = static_cast<int16_t>(pair >> 16);
    state.position += static_cast<unsigned>(pair >> 40 & 0xFF);
    block[kPairOrder[state.position]] = static_cast<int16_t>(pair >> 48);
    ++state.position;
  } else {
    DecodeCoefficient(table, block, state);
  }
}

// False: the block is not whole. `position` is behind its last symbol.
HWY_INLINE bool DecodeBlock(const HuffmanLookup& dc_table,
                            const HuffmanLookup& ac_table, int16_t* block,
                            BlockState& state) {
  bool good = true;
  state.buffer.Refill();
  const uint32_t entry =
      dc_table.entry(state.buffer.Peek(HuffmanLookup::kIndexBits));
  if (HWY_LIKELY((entry & HuffmanLookup::kBitsMask) != 0)) {
    state.buffer.Drop(entry & HuffmanLookup::kBitsMask);
    state.dc += static_cast<int16_t>(entry >> 16);
  } else {
    const HuffmanLookup::LongSymbol symbol = dc_table.DecodeLong(state.buffer);
    state.buffer = symbol.rest;
    good = symbol.good;
    state.dc += symbol.value;
  }
  block[0] = static_cast<int16_t>(state.dc);
  state.position = 1;
  // A refill gives 56 bits, enough for five entries; the first is DC's.
  const auto more = [&] {
    DecodePair(ac_table, block, state);
    return state.position < kPairsBelow;
  };
  if (more() && more() && more() && more()) {
    do {
      state.buffer.Refill();
    } while (more() && more() && more() && more() && more());
  }
  while (state.position < 64) {
    state.buffer.Refill();
    DecodeCoefficient(ac_table, block, state);
  }
  return good && state.dc == static_cast<int16_t>(state.dc) &&
         (state.position == 64 || state.position >= kEndBehindFirst);
}

McuRun DecodeMcus(BitBuffer buffer, const uint8_t* mark,
                  std::span<const McuBlock> blocks, size_t first, size_t last,
                  std::array<int, 3>& dc, const McuTargets& targets) {
  // Its address goes nowhere, so that it stays in registers.
  BlockState state;
  state.buffer = buffer;
  size_t mcu = first;
  bool good = true;
  for (; mcu < last && good && state.buffer.at <= mark; ++mcu) {
    for (const McuBlock& block : blocks) {
      state.dc = dc[block.component];
      good &=
          DecodeBlock(*block.dc, *block.ac,
                      targets.coefficients + block.coefficients[mcu], state);
      dc[block.component] = state.dc;
      const unsigned behind = state.position;
      targets.extents[block.extents[mcu]] =
          static_cast<uint8_t>(behind == 64 ? 63 : behind - kEndBehindFirst);
      if (!good) break;
    }
  }
  return {state.buffer, mcu, good};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace preprocd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace preprocd {

HWY_EXPORT(DecodeMcus);

McuRun DecodeMcus(BitBuffer buffer, const uint8_t* mark,
                  std::span<const McuBlock> blocks, size_t first, size_t last,
                  std::array<int, 3>& dc, const McuTargets& targets) {
  return HWY_DYNAMIC_DISPATCH(DecodeMcus)(buffer, mark, blocks, first, last, dc,
                                          targets);
}

}  // namespace preprocd
#endif  // HWY_ONCE
