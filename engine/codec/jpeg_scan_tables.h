// What the headers say that one plain Huffman-coded scan needs to be decoded:
// quantisation and Huffman tables, restart interval, where its data begin.
// Thread-safety: safe (no state).
// Source: ITU-T T.81 B.2.3, B.2.4; K.3.3 (typical Huffman tables).
#ifndef ENGINE_CODEC_JPEG_SCAN_TABLES_H_
#define ENGINE_CODEC_JPEG_SCAN_TABLES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/codec/jpeg_header.h"

namespace preprocd {

// As a DHT segment has it.
struct HuffmanSpec {
  bool present = false;
  std::array<uint8_t, 17> counts = {};  // [l]: codes of l bits, l in 1..16
  std::array<uint8_t, 256> symbols = {};
  bool operator==(const HuffmanSpec&) const = default;
};

struct JpegScanTables {
  static constexpr size_t kTables = 4;
  struct Quantiser {
    bool present = false;
    std::array<uint16_t, 64> zigzag = {};
  };
  std::array<Quantiser, kTables> quantisers = {};
  std::array<HuffmanSpec, kTables> dc = {};
  std::array<HuffmanSpec, kTables> ac = {};
  struct Component {
    uint8_t quantiser = 0;
    uint8_t dc = 0;
    uint8_t ac = 0;
  };
  std::array<Component, 3> components = {};
  int restart_interval = 0;  // MCUs; 0: none
  size_t data_offset = 0;    // first byte of entropy-coded data
};

// Reads the segments before the first scan. `header` is ReadJpegHeader's for
// `bytes`. Tables that a motion JPEG frame leaves out are those of K.3.3.
// False for everything but a Huffman-coded sequential frame of 1 or 3
// components in one plain scan with well-formed tables: such files are the
// library's, which also knows what to say about them. Then `tables` is
// unspecified.
bool ReadJpegScanTables(std::span<const std::byte> bytes,
                        const JpegHeader& header, JpegScanTables& tables);

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_SCAN_TABLES_H_
