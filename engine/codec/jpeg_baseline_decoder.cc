#include "engine/codec/jpeg_baseline_decoder.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace preprocd {
namespace {

constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kEoi = 0xD9;

int CeilDiv(int value, int divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

struct JpegBaselineDecoder::Scratch {
  std::array<DctPair, kMcuGroup* kMaxMcuBlocks / 2> pairs = {};
  std::array<uint8_t, kMcuGroup* kMaxMcuBlocks> extents = {};
  std::array<DctPair, 3> quantisers = {};
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
    const JpegPlane plane = JpegPlaneOf(header_, static_cast<int>(c));
    for (int y = 0; y < header_.components[c].v; ++y) {
      BlockRow& row = rows_[static_cast<size_t>(block_rows_++)];
      row = {c, y, extent / 2, extent, static_cast<int>(h), 0, 0};
      row.blocks_across = plane.coded_width / kDctSize;
      row.blocks_down = CeilDiv(plane.height, kDctSize);
      for (size_t x = 0; x < h; ++x) {
        McuBlock& placed = blocks_[static_cast<size_t>(block++)];
        placed.component = c;
        placed.dc = &scratch_->dc[component.dc];
        placed.ac = &scratch_->ac[component.ac];
        for (size_t m = 0; m < kMcuGroup; ++m) {
          const size_t at = extent + m * h + x;
          placed.extents[m] = static_cast<uint8_t>(at);
          placed.coefficients[m] = static_cast<uint16_t>(
              at / 2 * 2 * kDctCoefficients + at % 2 * kDctSize);
        }
      }
      extent += h * kMcuGroup;
    }
  }
}

bool JpegBaselineDecoder::Restart() {
  if (!window_.AtSegmentEnd(buffer_)) return false;
  if (window_.marker() != kRst0 + next_restart_) return false;
  next_restart_ = (next_restart_ + 1) & 7;
  until_restart_ = scratch_->tables.restart_interval;
  dc_ = {};
  window_.BeginSegment(buffer_);
  return true;
}

bool JpegBaselineDecoder::DecodeGroup(int mcus) {
  const std::span blocks(blocks_.data(), static_cast<size_t>(mcu_blocks_));
  const McuTargets targets = {scratch_->pairs[0].values.data(),
                              scratch_->extents.data()};
  const bool restarts = scratch_->tables.restart_interval > 0;
  const auto end = static_cast<size_t>(mcus);
  size_t next = 0;
  while (next < end) {
    if (restarts && until_restart_ == 0 && !Restart()) return false;
    if (buffer_.at > window_.mark() && !window_.Fill(buffer_)) return false;
    const size_t last =
        restarts ? std::min(end, next + static_cast<size_t>(until_restart_))
                 : end;
    const McuRun run =
        DecodeMcus(buffer_, window_.mark(), blocks, next, last, dc_, targets);
    if (!run.good) return false;
    buffer_ = run.rest;
    until_restart_ -= static_cast<int>(run.next_mcu - next);
    next = run.next_mcu;
  }
  return true;
}

void JpegBaselineDecoder::TransformGroup(int first_mcu, int mcus,
                                         const JpegStripTargets& targets) {
  for (size_t i = 0; i < static_cast<size_t>(block_rows_); ++i) {
    const BlockRow& row = rows_[i];
    const int first = first_mcu * row.columns;
    const int count = std::min(mcus * row.columns, row.blocks_across - first);
    const int down = next_row_ * header_.components[row.component].v + row.row;
    const JpegPlaneTarget& target = targets[row.component];
    DctPair* pairs = scratch_->pairs.data() + row.first_pair;
    int done = 0;
    if (target.data != nullptr && count > 0 && down < row.blocks_down) {
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
  for (int mcu = 0; mcu < mcus_per_row_; mcu += kMcuGroup) {
    const int count = std::min(kMcuGroup, mcus_per_row_ - mcu);
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
