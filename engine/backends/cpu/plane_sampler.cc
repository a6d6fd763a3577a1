#include "engine/backends/cpu/plane_sampler.h"

#include <algorithm>

#include "engine/backends/cpu/filter_kernels.h"

namespace preprocd {
namespace {

// The weight that makes bytes samples minus 128 (FilterRows).
constexpr int16_t kWhole = 128;

// Bytes per destination sample of a row of bytes.
size_t PickedBytes(size_t channels) { return channels < 3 ? channels : 4; }

}  // namespace

PlaneSampler::PlaneSampler(const StoredPlane& plane, bool transposed,
                           const FixedTaps& along, const FixedTaps& down,
                           bool raw, RowArena& arena)
    : along_(along),
      down_(down),
      channels_(static_cast<size_t>(plane.channels)),
      padded_(along.first.size()),
      raw_(raw),
      rows_first_(along.count == 1 || along.request.rounds),
      staged_(channels_ < 3 && !raw && (along.count > 1 || down.count > 1)),
      fraction_(HasNegativeLobes(along.request.filter) ? kLobeFraction
                                                       : kPlainFraction),
      source_(plane, transposed, along.begin, along.extent, down.begin,
              down.begin + down.extent - 1, down.count, arena) {
  if (raw) return;
  const size_t pixel = PickedBytes(channels_);
  if (rows_first_ && (down.count > 1 || along.count > 1)) {
    slots_ = down.count;
    picked_bytes_ = padded_ * pixel + 64;
    picked_ = arena.Take<uint8_t>(picked_bytes_ * static_cast<size_t>(slots_));
    held_ = arena.Take<int>(static_cast<size_t>(slots_));
    std::fill_n(held_, slots_, -1);
  }
  if (along.count > 1) {
    column_ =
        arena.Take<int16_t>(static_cast<size_t>(along.extent) * channels_);
    // Taps of weight zero read behind the row.
    std::fill_n(column_ + static_cast<size_t>(along.extent) * channels_,
                kStagedPadding, int16_t{0});
  }
  const size_t per_row = channels_ < 3 ? 1 : 4;
  for (size_t i = 0; i < (channels_ == 2 ? 2U : 1U); ++i) {
    if (staged_ || slots_ > 0) {
      words_[i] = arena.Take<int16_t>(padded_ * per_row);
    }
    if (!staged_) bytes_[i] = arena.Take<uint8_t>(padded_ * per_row);
    rows_[i] = staged_ ? static_cast<const void*>(words_[i]) : bytes_[i];
  }
}

size_t PlaneSampler::ScratchBytes(const StoredPlane& plane, bool transposed,
                                  const FixedTaps& along,
                                  const FixedTaps& down) {
  const auto channels = static_cast<size_t>(plane.channels);
  const size_t row = along.first.size() * PickedBytes(channels);
  size_t bytes =
      PlaneReader::StagedBytes(plane, transposed, along.extent, down.count) +
      3 * row;
  if (along.count == 1 || along.request.rounds) {
    bytes += row * static_cast<size_t>(down.count);
  }
  if (along.count > 1) {
    bytes += static_cast<size_t>(along.extent) * channels * sizeof(int16_t);
  }
  return bytes;
}

void PlaneSampler::Sample(int y) {
  const auto d = static_cast<size_t>(y);
  const int first = down_.begin + down_.first[d];
  // Enlarging by picks shows the same source row again.
  if (down_.count == 1) {
    if (first == last_first_) return;
    last_first_ = first;
  }
  const int16_t* weights =
      down_.weights.data() + d * static_cast<size_t>(down_.stride);
  if (raw_) {
    rows_[0] = source_.Row(first);
  } else if (slots_ > 0) {
    SampleDown(first, weights);
  } else if (along_.count > 1) {
    SampleFiltered(first, weights);
  } else {
    SamplePicked(first);
  }
}

void PlaneSampler::Along(const uint8_t* in, std::array<uint8_t*, 2> out) const {
  if (along_.count > 1) {
    FilterRows(&in, &kWhole, 1, static_cast<size_t>(along_.extent) * channels_,
               column_);
    switch (channels_) {
      case 1:
        return RoundColumns1(column_, along_, out[0]);
      case 2:
        return RoundColumns2(column_, along_, out[0], out[1]);
      default:
        return RoundColumns4(column_, along_, out[0]);
    }
  }
  switch (channels_) {
    case 1:
      return PickColumns1(in, along_, out[0]);
    case 2:
      return PickColumns2(in, along_, out[0], out[1]);
    default:
      return PickColumns4(in, along_, out[0]);
  }
}

void PlaneSampler::SamplePicked(int first) {
  const uint8_t* in = source_.Row(first);
  if (along_.identity && (channels_ == 1 || channels_ == 4)) {
    rows_[0] = in;
    return;
  }
  Along(in, bytes_);
}

void PlaneSampler::SampleDown(int first, const int16_t* weights) {
  std::array<const uint8_t*, kMaxFixedTaps> rows = {};
  for (int k = 0; k < down_.count; ++k) {
    const int y = first + k;
    const int slot = y % slots_;
    uint8_t* row = picked_ + static_cast<size_t>(slot) * picked_bytes_;
    if (held_[slot] != y) {
      held_[slot] = y;
      Along(source_.Row(y), {row, row + padded_});
    }
    rows[static_cast<size_t>(k)] = row;
  }
  const auto size = static_cast<size_t>(along_.request.destination_extent);
  if (channels_ >= 3) {
    FilterRows(rows.data(), weights, down_.count, size * 4, words_[0]);
    RoundRow(words_[0], fraction_, size * 4, bytes_[0]);
    return;
  }
  FilterRows(rows.data(), weights, down_.count, size, words_[0]);
  if (channels_ == 1) return;
  for (int k = 0; k < down_.count; ++k) {
    rows[static_cast<size_t>(k)] += padded_;
  }
  FilterRows(rows.data(), weights, down_.count, size, words_[1]);
}

void PlaneSampler::SampleFiltered(int first, const int16_t* weights) {
  std::array<const uint8_t*, kMaxFixedTaps> rows = {};
  for (int k = 0; k < down_.count; ++k) {
    rows[static_cast<size_t>(k)] = source_.Row(first + k);
  }
  FilterRows(rows.data(), weights, down_.count,
             static_cast<size_t>(along_.extent) * channels_, column_);
  switch (channels_) {
    case 1:
      return FilterColumns1(column_, along_, words_[0]);
    case 2:
      return FilterColumns2(column_, along_, words_[0], words_[1]);
    default:
      return FilterColumns4(column_, along_, bytes_[0]);
  }
}

}  // namespace preprocd
