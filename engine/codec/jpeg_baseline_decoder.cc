#include "engine/codec/jpeg_baseline_decoder.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/codec/reduced_dct.h"

namespace preprocd {
namespace {

constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kEoi = 0xD9;
constexpr uint8_t kDnl = 0xDC;

int CeilDiv(int value, int divisor) { return (value + divisor - 1) / divisor; }

}  // namespace

struct JpegBaselineDecoder::Scratch {
  std::array<DctPair, kMcuGroup* kMaxMcuBlocks / 2> pairs = {};
  std::array<uint8_t, kMcuGroup* kMaxMcuBlocks> extents = {};
  std::array<DctPair, 3> quantisers = {};
  JpegScanTables tables;
  std::array<HuffmanLookup, JpegScanTables::kTables> dc;
  std::array<HuffmanLookup, JpegScanTables::kTables> ac;
  // Groups of waiting strips, slot after slot, then their extents.
  ScratchBytes waiting;
  DctPair* waiting_pairs = nullptr;
  uint8_t* waiting_extents = nullptr;
};

JpegBaselineDecoder::JpegBaselineDecoder() = default;
JpegBaselineDecoder::~JpegBaselineDecoder() = default;

bool JpegBaselineDecoder::Open(std::span<const std::byte> bytes,
                               const JpegHeader& header, int shrink) {
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
  PlaceBlocks(shrink);
  mcus_per_row_ = CeilDiv(header_.width, header_.max_h * kDctSize);
  mcu_rows_ = CeilDiv(header_.height, header_.max_v * kDctSize);
  next_row_ = 0;
  until_restart_ = scratch_->tables.restart_interval;
  next_restart_ = 0;
  dc_ = {};
  deferred_ = 0;
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
void JpegBaselineDecoder::PlaceBlocks(int shrink) {
  size_t extent = 0;
  int block = 0;
  block_rows_ = 0;
  for (size_t c = 0; c < static_cast<size_t>(header_.component_count); ++c) {
    const JpegScanTables::Component& component = scratch_->tables.components[c];
    const auto h = static_cast<size_t>(header_.components[c].h);
    const JpegPlane plane = JpegPlaneOf(header_, static_cast<int>(c), shrink);
    for (int y = 0; y < header_.components[c].v; ++y) {
      BlockRow& row = rows_[static_cast<size_t>(block_rows_++)];
      row = {c, y, extent / 2, extent, static_cast<int>(h), 0, 0, kDctSize};
      row.blocks_across = plane.coded_width / plane.block_size;
      row.blocks_down = CeilDiv(plane.height, plane.block_size);
      row.block_size = plane.block_size;
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

absl::Status JpegBaselineDecoder::Defer(int strips) {
  PREPROCD_CHECK(strips >= 0 && strips <= kMaxWaiting);
  if (strips == 0 || scratch_ == nullptr) return absl::OkStatus();
  const auto groups = static_cast<size_t>(
      strips * CeilDiv(mcus_per_row_, static_cast<int>(kMcuGroup)));
  const size_t blocks = groups * static_cast<size_t>(mcu_blocks_) * kMcuGroup;
  const size_t pair_bytes = blocks / 2 * sizeof(DctPair);
  RETURN_IF_ERROR(
      scratch_->waiting.Reserve(pair_bytes + blocks + alignof(DctPair)));
  const auto address = reinterpret_cast<uintptr_t>(scratch_->waiting.data());
  uint8_t* first =
      scratch_->waiting.data() +
      (alignof(DctPair) - address % alignof(DctPair)) % alignof(DctPair);
  scratch_->waiting_pairs = reinterpret_cast<DctPair*>(first);
  scratch_->waiting_extents = first + pair_bytes;
  std::uninitialized_fill_n(scratch_->waiting_pairs, blocks / 2, DctPair{});
  deferred_ = strips;
  waiting_.fill({});
  return absl::OkStatus();
}

// Strips that are transformed at once share one group.
JpegBaselineDecoder::Group JpegBaselineDecoder::GroupOf(int strip,
                                                        int index) const {
  if (deferred_ == 0) {
    return {scratch_->pairs.data(), scratch_->extents.data()};
  }
  const int per_strip = CeilDiv(mcus_per_row_, static_cast<int>(kMcuGroup));
  const auto at = static_cast<size_t>(strip % deferred_ * per_strip + index) *
                  static_cast<size_t>(mcu_blocks_) * kMcuGroup;
  return {scratch_->waiting_pairs + at / 2, scratch_->waiting_extents + at};
}

void JpegBaselineDecoder::Complete(int strip) {
  if (deferred_ == 0) return;
  const Waiting& waiting = waiting_[static_cast<size_t>(strip % deferred_)];
  if (waiting.strip != strip) return;
  int index = 0;
  for (int mcu = 0; mcu < mcus_per_row_; mcu += kMcuGroup) {
    TransformGroup(strip, mcu, std::min<int>(kMcuGroup, mcus_per_row_ - mcu),
                   GroupOf(strip, index++), waiting.targets);
  }
}

bool JpegBaselineDecoder::DecodeGroup(int mcus, const Group& group) {
  const std::span blocks(blocks_.data(), static_cast<size_t>(mcu_blocks_));
  const McuTargets targets = {group.pairs->values.data(), group.extents};
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

void JpegBaselineDecoder::TransformGroup(int strip, int first_mcu, int mcus,
                                         const Group& group,
                                         const JpegStripTargets& targets) {
  for (size_t i = 0; i < static_cast<size_t>(block_rows_); ++i) {
    const BlockRow& row = rows_[i];
    const int first = first_mcu * row.columns;
    const int count = std::min(mcus * row.columns, row.blocks_across - first);
    const int down = strip * header_.components[row.component].v + row.row;
    const PlaneTarget& target = targets[row.component];
    DctPair* pairs = group.pairs + row.first_pair;
    int done = 0;
    if (target.data != nullptr && count > 0 && down < row.blocks_down) {
      const int size = row.block_size;
      const uint8_t* extents = group.extents + row.first_extent;
      const DctPair& quantiser = scratch_->quantisers[row.component];
      uint8_t* out = target.data +
                     static_cast<size_t>(row.row * size) * target.stride_bytes +
                     static_cast<size_t>(first * size);
      if (size == kDctSize) {
        InverseDctRow(pairs, extents, quantiser, count, out,
                      target.stride_bytes);
      } else {
        ReducedDctRow(pairs, extents, quantiser, size, count, out,
                      target.stride_bytes);
      }
      done = CeilDiv(count, 2);
    }
    std::fill(pairs + done, pairs + CeilDiv(mcus * row.columns, 2), DctPair{});
  }
}

bool JpegBaselineDecoder::Next(const JpegStripTargets& targets) {
  int index = 0;
  for (int mcu = 0; mcu < mcus_per_row_; mcu += kMcuGroup) {
    const int count = std::min<int>(kMcuGroup, mcus_per_row_ - mcu);
    const Group group = GroupOf(next_row_, index++);
    if (!DecodeGroup(count, group)) return false;
    if (deferred_ == 0) {
      TransformGroup(next_row_, mcu, count, group, targets);
    }
  }
  const bool inside = window_.Inside(buffer_);
  if (inside && deferred_ > 0) {
    waiting_[static_cast<size_t>(next_row_ % deferred_)] = {next_row_, targets};
  }
  ++next_row_;
  return inside;
}

// DNL with the height that was decoded, then EOI: nothing to tell.
bool JpegBaselineDecoder::EndsBehindHeight() const {
  constexpr uint8_t kDnlBody[] = {0, 4};
  const std::span<const std::byte> rest = window_.behind_marker();
  if (window_.marker() != kDnl || rest.size() < 6) return false;
  const auto at = [&rest](size_t i) { return std::to_integer<int>(rest[i]); };
  return at(0) == kDnlBody[0] && at(1) == kDnlBody[1] &&
         (at(2) << 8 | at(3)) == header_.height && at(4) == 0xFF &&
         at(5) == kEoi;
}

JpegBaselineDecoder::End JpegBaselineDecoder::Finish() {
  if (!window_.AtSegmentEnd(buffer_)) return End::kOdd;
  if (window_.marker() == kEoi || EndsBehindHeight()) return End::kMarker;
  return window_.marker() == JpegEntropyWindow::kFileEnd ? End::kNoMarker
                                                         : End::kOdd;
}

}  // namespace preprocd
