// Huffman decoding of JPEG coefficients: look-up tables that give code and
// extra bits at once, and the bit buffer they are indexed by.
// Owns: tables. Thread-safety: compatible.
// Source: ITU-T T.81 C.2, F.2.2.
#ifndef ENGINE_CODEC_JPEG_HUFFMAN_H_
#define ENGINE_CODEC_JPEG_HUFFMAN_H_

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/codec/jpeg_scan_tables.h"

namespace preprocd {

// Bits from memory without byte stuffing; the next one is the highest.
// Reading is not checked: the memory must go on behind the data.
struct BitBuffer {
  const uint8_t* at = nullptr;  // next byte to load
  uint64_t bits = 0;
  // Loaded bits that are not used up; those below them in `bits` are the true
  // next ones, too.
  unsigned count = 0;

  // At least 56 bits afterwards, without a branch.
  void Refill() {
    uint64_t next;
    memcpy(&next, at, sizeof(next));
    if constexpr (std::endian::native == std::endian::little) {
      next = __builtin_bswap64(next);
    }
    bits |= next >> count;
    at += (63 - count) >> 3;
    count |= 56;
  }
  void Drop(unsigned n) {
    bits <<= n;
    count -= n;
  }
  uint64_t Peek(unsigned n) const { return bits >> (64 - n); }
};

class HuffmanLookup {
 public:
  static constexpr unsigned kIndexBits = 10;
  // Longest code and longest run of extra bits.
  static constexpr unsigned kMaxBits = 16 + 15;
  // Of an entry; as wide as a shift's count, so that masking costs nothing.
  static constexpr uint32_t kBitsMask = 63;
  // Added to a coefficient's position by the end of a block.
  static constexpr unsigned kEndOfBlock = 128;

  // Entries for codes whose extra bits fit the index too:
  //   value (signed) << 16 | positions to skip << 8 | bits used
  // Entries that use no bits need DecodeLong.
  uint32_t entry(uint64_t index) const { return entries_[index]; }

  // Entries of AC tables for one symbol or, where both fit the index, two:
  //   value << 48 | step << 40 | value << 16 | positions to skip << 8 | bits
  // The upper value belongs `step` positions behind the lower one; with one
  // symbol the step is 0 and the values are the same.
  uint64_t pair(uint64_t index) const { return pairs_[index]; }

  struct LongSymbol {
    BitBuffer rest;
    int value = 0;
    unsigned skip = 0;
    bool good = false;  // false: no such code
  };
  // One symbol with its extra bits; refills before and after. By value, so
  // that the caller's buffer stays in registers.
  LongSymbol DecodeLong(BitBuffer buffer) const;

  // Builds the tables; quick when `spec` is that of the last call. False when
  // the codes are not those of a tree, or a DC symbol is above 15.
  bool Build(const HuffmanSpec& spec, bool ac);

 private:
  void Fill(unsigned code, unsigned length, uint8_t symbol);
  void PairUp();

  HuffmanSpec spec_;
  bool ac_ = false;
  bool good_ = false;
  std::array<uint32_t, 1 << kIndexBits> entries_ = {};
  std::array<uint64_t, 1 << kIndexBits> pairs_ = {};
  // Canonical decoding of codes longer than the index: first code behind
  // those of l bits, left-aligned to 16 bits, and the symbol's position.
  std::array<uint32_t, 18> limits_ = {};
  std::array<int32_t, 18> offsets_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_HUFFMAN_H_
