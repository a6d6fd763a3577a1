// The inner loop of Huffman-coded sequential JPEG: bits to coefficients of a
// few MCUs.
// Owns: nothing. Thread-safety: safe (no state).
// Source: ITU-T T.81 F.2.2.
#ifndef ENGINE_CODEC_JPEG_MCU_DECODER_H_
#define ENGINE_CODEC_JPEG_MCU_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/codec/inverse_dct.h"
#include "engine/codec/jpeg_huffman.h"

namespace preprocd {

// MCUs that are decoded before their blocks are transformed.
inline constexpr int kMcuGroup = 8;

// One block of an MCU.
struct McuBlock {
  const HuffmanLookup* dc = nullptr;
  const HuffmanLookup* ac = nullptr;
  size_t component = 0;
  // Where the block of each MCU of a group lies among the coefficients, and
  // its extent among the extents.
  std::array<uint16_t, kMcuGroup> coefficients = {};
  std::array<uint8_t, kMcuGroup> extents = {};
};

struct McuTargets {
  // Zero before; see DctPair.
  int16_t* coefficients = nullptr;
  // Zigzag position of each block's last coefficient or one behind it.
  uint8_t* extents = nullptr;
};

struct McuRun {
  BitBuffer rest;
  size_t next_mcu = 0;
  // False: no such code, a run that leaves its block, or a DC value outside
  // 16 bits. Coefficients of that MCU are unspecified then.
  bool good = true;
};

// Decodes MCUs [first, last) of a group, ending early before an MCU where
// `buffer.at` is past `mark` (JpegEntropyWindow::mark). `dc` holds the
// components' predictions, which go on.
McuRun DecodeMcus(BitBuffer buffer, const uint8_t* mark,
                  std::span<const McuBlock> blocks, size_t first, size_t last,
                  std::array<int, 3>& dc, const McuTargets& targets);

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_MCU_DECODER_H_
