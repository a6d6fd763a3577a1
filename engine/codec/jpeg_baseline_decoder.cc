#include "engine/codec/jpeg_baseline_decoder.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace preprocd {
namespace {

constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kEoi = 0xD9;

int CeilDiv(int value, int divisor) { return (value + divisor - 1) / divisor; }

using PairOrder = std::array<uint8_t, kDctCoefficients>;

// Where zigzag position k lies in a pair, for the left block.
PairOrder MakePairOrder() {
  PairOrder order = {};
  for (size_t k = 0; k < kDctCoefficients; ++k) {
    const size_t natural = kZigzagToNatural[k];
    order[k] = static_cast<uint8_t>(natural / kDctSize * DctPair::kRowStep +
                                    natural % kDctSize);
  }
  return order;
}

struct BlockState {
  BitBuffer buffer;
  int dc = 0;
  unsigned extent = 0;
  bool good = true;
};

// One coefficient; false when the block has ended.
inline bool DecodeCoefficient(const HuffmanLookup& table,
                              const uint8_t* pair_order, int16_t* block,
                              BlockState& state, unsigned& position) {
  const uint32_t entry =
      table.entry(state.buffer.Peek(HuffmanLookup::kIndexBits));
  int value;
  if (__builtin_expect((entry & 0xFF) != 0, 1)) {
    state.buffer.Drop(entry & 0xFF);
    position += entry >> 8 & 0xFF;
    value = static_cast<int16_t>(entry >> 16);
  } else {
    const HuffmanLookup::LongSymbol symbol = table.DecodeLong(state.buffer);
    state.buffer = symbol.rest;
    position += symbol.good ? symbol.skip : 64;
    value = symbol.value;
  }
  if (position > 63) {
    // The end of a block jumps far; a run that leaves it or no code does not.
    state.good &= position >= HuffmanLookup::kEndOfBlock;
    return false;
  }
  block[pair_order[position]] = static_cast<int16_t>(value);
  state.extent = position;
  return ++position < 64;
}

inline void DecodeBlock(const HuffmanLookup& dc_table,
                        const HuffmanLookup& ac_table,
                        const uint8_t* pair_order, int16_t* block,
                        BlockState& state) {
  state.buffer.Refill();
  const uint32_t entry =
      dc_table.entry(state.buffer.Peek(HuffmanLookup::kIndexBits));
  if (__builtin_expect((entry & 0xFF) != 0, 1)) {
    state.buffer.Drop(entry & 0xFF);
    state.dc += static_cast<int16_t>(entry >> 16);
  } else {
    const HuffmanLookup::LongSymbol symbol = dc_table.DecodeLong(state.buffer);
    state.buffer = symbol.rest;
    state.good &= symbol.good;
    state.dc += symbol.value;
  }
  state.good &= state.dc == static_cast<int16_t>(state.dc);
  block[0] = static_cast<int16_t>(state.dc);
  state.extent = 0;
  unsigned position = 1;
  // A refill gives 56 bits, so at least five short codes.
  const auto next = [&] {
    return DecodeCoefficient(ac_table, pair_order, block, state, position);
  };
  if (next() && next() && next() && next()) {
    do {
      state.buffer.Refill();
    } while (next() && next() && next() && next() && next());
  }
}

}  // namespace

struct JpegBaselineDecoder::Scratch {
  std::array<DctPair, kGroup* kMaxMcuBlocks / 2> pairs = {};
  std::array<uint8_t, kGroup* kMaxMcuBlocks> extents = {};
  std::array<DctPair, 3> quantisers = {};
  PairOrder pair_order = MakePairOrder();
  JpegScanTables tables;
  std::array<HuffmanLookup, JpegScanTables::kTables> dc;
  std::array<HuffmanLookup, JpegScanTables::kTables> ac;
};

JpegBaselineDecoder::JpegBaselineDecoder() = default;
JpegBaselineDecoder::~JpegBaselineDecoder() = default;

bool JpegBaselineDecoder::Open(std::span<const std::byte> bytes,
                               const JpegHeader& header) {
  if (scratch_ == nullptr) scratch_.reset(new (std::nothrow) Scratch);
  if (scratch_ == nullptr) return false;
  header_ = header;
  if (header.max_h > kMaxFactor || header.max_v > kMaxFactor) return false;
  if (!ReadJpegScanTables(bytes, header, scratch_->tables)) return false;
  if (header.component_count == 1) {
    // The one component of a scan is coded block by block, row by row.
    if (header.max_v > 1) return false;
    header_.max_h = header_.components[0].h = 1;
  }
  mcu_blocks_ = 0;
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    mcu_blocks_ += header_.components[c].h * header_.components[c].v;
  }
  if (mcu_blocks_ > kMaxMcuBlocks || !BuildLookups()) return false;
  PlaceBlocks();
  mcus_per_row_ = CeilDiv(header_.width, header_.max_h * kDctSize);
  mcu_rows_ = CeilDiv(header_.height, header_.max_v * kDctSize);
  next_row_ = 0;
  until_restart_ = scratch_->tables.restart_interval;
  next_restart_ = 0;
  dc_ = {};
  if (!window_.Begin(bytes.subspan(scratch_->tables.data_offset), buffer_)
           .ok()) {
    return false;
  }
  // A decode that gave up may have left coefficients.
  scratch_->pairs.fill({});
  return true;
}

bool JpegBaselineDecoder::BuildLookups() {
  const JpegScanTables& tables = scratch_->tables;
  for (size_t c = 0; c < static_cast<size_t>(header_.component_count); ++c) {
    const JpegScanTables::Component& component = tables.components[c];
    if (!scratch_->dc[component.dc].Build(tables.dc[component.dc], false) ||
        !scratch_->ac[component.ac].Build(tables.ac[component.ac], true)) {
      return false;
    }
    scratch_->quantisers[c] =
        MakeQuantiser(tables.quantisers[component.quantiser].zigzag);
  }
  return true;
}

// Lays the blocks of a group out so that neighbours in a row are pairs.
void JpegBaselineDecoder::PlaceBlocks() {
  size_t extent = 0;
  int block = 0;
  block_rows_ = 0;
  for (size_t c = 0; c < static_cast<size_t>(header_.component_count); ++c) {
    const JpegScanTables::Component& component = scratch_->tables.components[c];
    const auto h = static_cast<size_t>(header_.components[c].h);
    for (int y = 0; y < header_.components[c].v; ++y) {
      rows_[static_cast<size_t>(block_rows_++)] = {c, y, extent / 2, extent,
                                                   static_cast<int>(h)};
      for (size_t x = 0; x < h; ++x) {
        McuBlock& placed = blocks_[static_cast<size_t>(block++)];
        placed.component = c;
        placed.dc = &scratch_->dc[component.dc];
        placed.ac = &scratch_->ac[component.ac];
        for (size_t m = 0; m < kGroup; ++m) {
          const size_t at = extent + m * h + x;
          placed.extents[m] = static_cast<uint8_t>(at);
          placed.coefficients[m] = static_cast<uint16_t>(
              at / 2 * 2 * kDctCoefficients + at % 2 * kDctSize);
        }
      }
      extent += h * kGroup;
    }
  }
}

bool JpegBaselineDecoder::Restart(BitBuffer& buffer) {
  if (!window_.AtSegmentEnd(buffer)) return false;
  if (window_.marker() != kRst0 + next_restart_) return false;
  next_restart_ = (next_restart_ + 1) & 7;
  until_restart_ = scratch_->tables.restart_interval;
  dc_ = {};
  window_.BeginSegment(buffer);
  return true;
}

bool JpegBaselineDecoder::DecodeGroup(int mcus) {
  BlockState state;
  state.buffer = buffer_;
  int16_t* coefficients = scratch_->pairs[0].values.data();
  uint8_t* extents = scratch_->extents.data();
  const uint8_t* pair_order = scratch_->pair_order.data();
  const auto blocks = static_cast<size_t>(mcu_blocks_);
  const bool restarts = scratch_->tables.restart_interval > 0;
  for (size_t m = 0; m < static_cast<size_t>(mcus); ++m) {
    if (restarts && until_restart_-- == 0) {
      if (!Restart(state.buffer)) return false;
      --until_restart_;
    }
    if (!window_.HasMcu(state.buffer) && !window_.Fill(state.buffer)) {
      return false;
    }
    for (size_t b = 0; b < blocks; ++b) {
      const McuBlock& block = blocks_[b];
      state.dc = dc_[block.component];
      DecodeBlock(*block.dc, *block.ac, pair_order,
                  coefficients + block.coefficients[m], state);
      dc_[block.component] = state.dc;
      extents[block.extents[m]] = static_cast<uint8_t>(state.extent);
    }
    if (!state.good) return false;
  }
  buffer_ = state.buffer;
  return true;
}

void JpegBaselineDecoder::TransformGroup(int first_mcu, int mcus,
                                         const JpegStripTargets& targets) {
  for (size_t i = 0; i < static_cast<size_t>(block_rows_); ++i) {
    const BlockRow& row = rows_[i];
    const JpegComponent& component = header_.components[row.component];
    const int x_ratio = header_.max_h / component.h;
    const int y_ratio = header_.max_v / component.v;
    const int first = first_mcu * row.columns;
    // Blocks that only fill up the last MCU of a row or column are dropped.
    const int across =
        CeilDiv(CeilDiv(header_.width, x_ratio), kDctSize) - first;
    const int count = std::min(mcus * row.columns, across);
    const int blocks_down = CeilDiv(CeilDiv(header_.height, y_ratio), kDctSize);
    const JpegPlaneTarget& target = targets[row.component];
    DctPair* pairs = scratch_->pairs.data() + row.first_pair;
    int done = 0;
    if (target.data != nullptr && count > 0 &&
        next_row_ * component.v + row.row < blocks_down) {
      uint8_t* out =
          target.data +
          static_cast<size_t>(row.row * kDctSize) * target.stride_bytes +
          static_cast<size_t>(first * kDctSize);
      InverseDctRow(pairs, scratch_->extents.data() + row.first_extent,
                    scratch_->quantisers[row.component], count, out,
                    target.stride_bytes);
      done = CeilDiv(count, 2);
    }
    std::fill(pairs + done, pairs + CeilDiv(mcus * row.columns, 2), DctPair{});
  }
}

bool JpegBaselineDecoder::Next(const JpegStripTargets& targets) {
  for (int mcu = 0; mcu < mcus_per_row_; mcu += kGroup) {
    const int count = std::min(kGroup, mcus_per_row_ - mcu);
    if (!DecodeGroup(count)) return false;
    TransformGroup(mcu, count, targets);
  }
  ++next_row_;
  return window_.Inside(buffer_);
}

JpegBaselineDecoder::End JpegBaselineDecoder::Finish() {
  if (!window_.AtSegmentEnd(buffer_)) return End::kOdd;
  if (window_.marker() == kEoi) return End::kMarker;
  return window_.marker() == JpegEntropyWindow::kFileEnd ? End::kNoMarker
                                                         : End::kOdd;
}

}  // namespace preprocd
