#include "engine/codec/jpeg_huffman.h"

namespace preprocd {
namespace {

constexpr unsigned kMaxLength = 16;

// T.81 F.2.2.1 EXTEND.
int Extend(unsigned extra, unsigned size) {
  if (size == 0) return 0;
  const auto value = static_cast<int>(extra);
  return extra >> (size - 1) != 0 ? value : value - (1 << size) + 1;
}

// Positions that an AC symbol passes over: a run, 15 and the stored zero for
// ZRL, or the rest of the block.
unsigned SkipOf(uint8_t symbol) {
  const unsigned run = symbol >> 4;
  return (symbol & 15) == 0 && run != 15 ? HuffmanLookup::kEndOfBlock : run;
}

}  // namespace

void HuffmanLookup::Fill(unsigned code, unsigned length, uint8_t symbol) {
  const unsigned size = symbol & 15;
  const unsigned total = length + size;
  if (total > kIndexBits) return;
  const unsigned skip = ac_ ? SkipOf(symbol) : 0;
  const size_t repeats = size_t{1} << (kIndexBits - total);
  for (unsigned extra = 0; extra < 1u << size; ++extra) {
    const auto value = static_cast<uint16_t>(Extend(extra, size));
    const uint32_t entry = uint32_t{value} << 16 | skip << 8 | total;
    const size_t first = size_t{code << size | extra} << (kIndexBits - total);
    for (size_t i = 0; i < repeats; ++i) entries_[first + i] = entry;
  }
}

void HuffmanLookup::PairUp() {
  constexpr size_t kMask = (size_t{1} << kIndexBits) - 1;
  for (size_t i = 0; i < entries_.size(); ++i) {
    const uint64_t first = entries_[i];
    const uint64_t bits = first & kBitsMask;
    const uint64_t skip = first >> 8 & 0xFF;
    const uint64_t second = entries_[i << bits & kMask];
    const uint64_t both = bits + (second & kBitsMask);
    const bool pair = bits != 0 && skip != kEndOfBlock &&
                      (second & kBitsMask) != 0 && both <= kIndexBits;
    const uint64_t step = pair ? 1 + (second >> 8 & 0xFF) : 0;
    const uint64_t value = (pair ? second : first) >> 16;
    pairs_[i] = value << 48 | step << 40 | first >> 16 << 16 | skip << 8 |
                (pair ? both : bits);
  }
}

bool HuffmanLookup::Build(const HuffmanSpec& spec, bool ac) {
  if (spec_.present && ac == ac_ && spec == spec_) return good_;
  spec_ = spec;
  ac_ = ac;
  good_ = false;
  entries_.fill(0);
  unsigned code = 0;
  size_t position = 0;
  for (unsigned length = 1; length <= kMaxLength; ++length, code <<= 1) {
    offsets_[length] = static_cast<int>(position) - static_cast<int>(code);
    for (int i = 0; i < spec.counts[length]; ++i, ++code, ++position) {
      const uint8_t symbol = spec.symbols[position];
      // Too many codes, or one of ones only.
      if (code + 1 >= 1u << length || (!ac && symbol > 15)) return false;
      Fill(code, length, symbol);
    }
    limits_[length] = code << (kMaxLength - length);
  }
  if (ac) PairUp();
  good_ = true;
  return true;
}

HuffmanLookup::LongSymbol HuffmanLookup::DecodeLong(BitBuffer buffer) const {
  buffer.Refill();
  const auto next = static_cast<uint32_t>(buffer.Peek(kMaxLength));
  unsigned length = 1;
  while (length <= kMaxLength && next >= limits_[length]) ++length;
  if (length > kMaxLength) return {buffer, 0, 0, false};
  const auto code = static_cast<int>(next >> (kMaxLength - length));
  const uint8_t symbol =
      spec_.symbols[static_cast<size_t>(code + offsets_[length])];
  buffer.Drop(length);
  const unsigned size = symbol & 15;
  // Shifting by 64 is not defined.
  const int value =
      size == 0 ? 0 : Extend(static_cast<unsigned>(buffer.Peek(size)), size);
  buffer.Drop(size);
  buffer.Refill();
  return {buffer, value, ac_ ? SkipOf(symbol) : 0, true};
}

}  // namespace preprocd
