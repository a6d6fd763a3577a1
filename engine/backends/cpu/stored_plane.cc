#include "engine/backends/cpu/stored_plane.h"

#include <algorithm>

namespace preprocd {
namespace {

// Columns staged together, so that each stored row's cache line is used well.
constexpr int kStripColumns = 16;

int SlotsFor(bool transposed, int live) {
  if (!transposed) return live;
  return (live + kStripColumns - 1) / kStripColumns * kStripColumns +
         kStripColumns;
}

StoredPlane MakePlane(const ConstImageView& view, int index) {
  StoredPlane plane;
  const auto i = static_cast<size_t>(index);
  plane.base = reinterpret_cast<const uint8_t*>(view.planes[i]);
  plane.stride = static_cast<ptrdiff_t>(view.desc.planes[i].stride_bytes);
  plane.flip = view.desc.dtype == DType::kI8 ? 0x80 : 0;
  return plane;
}

// Packed YUV: luma at byte `y`, U at `u`, V at `v` of every 4.
void AddPackedYuv(const ConstImageView& view, int8_t y, int8_t u, int8_t v,
                  StoredPlanes& result) {
  StoredPlane& luma = result.planes[0];
  luma = MakePlane(view, 0);
  luma.step = 2;
  luma.offset[0] = y;
  StoredPlane& chroma = result.planes[1];
  chroma = MakePlane(view, 0);
  chroma.step = 4;
  chroma.channels = 2;
  chroma.offset = {u, v, 0, 0};
  chroma.chroma = true;
  result.count = 2;
}

void AddPlanarYuv(const ConstImageView& view, const PixelFormatInfo& info,
                  StoredPlanes& result) {
  result.planes[0] = MakePlane(view, 0);
  result.count = info.plane_count;
  for (int i = 1; i < info.plane_count; ++i) {
    StoredPlane& chroma = result.planes[static_cast<size_t>(i)];
    chroma = MakePlane(view, i);
    chroma.chroma = true;
    if (info.plane_count == 2) {
      chroma.channels = 2;
      chroma.step = 2;
    }
  }
  result.v_first = info.format == PixelFormat::kNv21;
}

void AddRgb(const ConstImageView& view, const PixelFormatInfo& info,
            StoredPlanes& result) {
  if (!info.is_planar_rgb()) {
    StoredPlane& plane = result.planes[0];
    plane = MakePlane(view, 0);
    plane.channels = info.channels;
    plane.step = info.channels;
    result.count = 1;
    result.bgr = info.channel_order[0] != 0;
    return;
  }
  for (const int position : info.channel_order) {
    if (position < 0) continue;
    StoredPlane& plane = result.planes[static_cast<size_t>(result.count)];
    plane = MakePlane(view, position);
    // Alpha is never biased.
    if (result.count == 3) plane.flip = 0;
    ++result.count;
  }
}

}  // namespace

StoredPlanes GetStoredPlanes(const ConstImageView& view) {
  const PixelFormatInfo& info = GetPixelFormatInfo(view.desc.format);
  StoredPlanes result;
  switch (view.desc.format) {
    case PixelFormat::kYuyv:
      AddPackedYuv(view, 0, 1, 3, result);
      return result;
    case PixelFormat::kUyvy:
      AddPackedYuv(view, 1, 0, 2, result);
      return result;
    case PixelFormat::kVyuy:
      AddPackedYuv(view, 1, 2, 0, result);
      return result;
    default:
      break;
  }
  switch (info.family) {
    case ColorFamily::kYuv:
      AddPlanarYuv(view, info, result);
      break;
    case ColorFamily::kRgb:
      AddRgb(view, info, result);
      break;
    case ColorFamily::kGrey:
      result.planes[0] = MakePlane(view, 0);
      result.count = 1;
      break;
  }
  return result;
}

PlaneReader::PlaneReader(const StoredPlane& plane, bool transposed, int begin,
                         int extent, int first_row, int last_row, int live,
                         RowArena& arena)
    : plane_(plane),
      transposed_(transposed),
      begin_(begin),
      extent_(extent),
      first_row_(first_row),
      last_row_(last_row) {
  if (!transposed && plane.in_place()) return;
  slots_ = SlotsFor(transposed, live);
  row_bytes_ =
      static_cast<size_t>(extent) * static_cast<size_t>(plane.channels);
  ring_ = arena.Take<uint8_t>(row_bytes_ * static_cast<size_t>(slots_));
  held_ = arena.Take<int>(static_cast<size_t>(slots_));
  std::fill_n(held_, slots_, -1);
}

size_t PlaneReader::StagedBytes(const StoredPlane& plane, bool transposed,
                                int extent, int live) {
  if (!transposed && plane.in_place()) return 0;
  return static_cast<size_t>(extent) * static_cast<size_t>(plane.channels) *
         static_cast<size_t>(SlotsFor(transposed, live));
}

const uint8_t* PlaneReader::Row(int y) {
  if (slots_ == 0) {
    if (plane_.ring_rows > 0) y %= plane_.ring_rows;
    return plane_.base + y * plane_.stride + begin_ * plane_.step;
  }
  const int slot = y % slots_;
  uint8_t* out = ring_ + static_cast<size_t>(slot) * row_bytes_;
  if (held_[slot] == y) return out;
  if (!transposed_) {
    StageRow(y, out);
    held_[slot] = y;
    return out;
  }
  const int strip = y / kStripColumns * kStripColumns;
  const int begin = std::max(strip, first_row_);
  const int end = std::min(strip + kStripColumns, last_row_ + 1);
  const int first_slot = begin % slots_;
  StageColumns(begin, end - begin,
               ring_ + static_cast<size_t>(first_slot) * row_bytes_);
  for (int i = begin; i < end; ++i) held_[i % slots_] = i;
  return out;
}

void PlaneReader::StageRow(int y, uint8_t* out) const {
  const uint8_t* in = plane_.base + y * plane_.stride + begin_ * plane_.step;
  const uint8_t flip = plane_.flip;
  if (plane_.channels == 1) {
    in += plane_.offset[0];
    const ptrdiff_t step = plane_.step;
    for (int i = 0; i < extent_; ++i) {
      out[i] = static_cast<uint8_t>(in[i * step] ^ flip);
    }
    return;
  }
  const int channels = plane_.channels;
  for (int i = 0; i < extent_; ++i, in += plane_.step, out += channels) {
    for (int c = 0; c < channels; ++c) {
      out[c] = static_cast<uint8_t>(in[plane_.offset[static_cast<size_t>(c)]] ^
                                    (c == 3 ? 0 : flip));
    }
  }
}

// `count` stored columns from `x` on become rows; strips never wrap round
// the ring.
void PlaneReader::StageColumns(int x, int count, uint8_t* out) const {
  const int channels = plane_.channels;
  const uint8_t* in = plane_.base + begin_ * plane_.stride + x * plane_.step;
  for (int i = 0; i < extent_; ++i, in += plane_.stride) {
    uint8_t* to = out + i * channels;
    const uint8_t* from = in;
    for (int s = 0; s < count; ++s, from += plane_.step, to += row_bytes_) {
      for (int c = 0; c < channels; ++c) {
        const uint8_t flip = c == 3 ? 0 : plane_.flip;
        to[c] = static_cast<uint8_t>(
            from[plane_.offset[static_cast<size_t>(c)]] ^ flip);
      }
    }
  }
}

}  // namespace preprocd
