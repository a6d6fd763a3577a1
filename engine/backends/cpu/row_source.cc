#include "engine/backends/cpu/row_source.h"

#include <algorithm>

namespace preprocd {

RowSource::RowSource(const ConvertPlan& plan, const ConstImageView& view)
    : plan_(plan),
      view_(view),
      orientation_(
          GetOrientationMap(plan.orientation, plan.source_rect.size())),
      width_(plan.placement.shown.width) {
  const PixelFormatInfo& info = GetPixelFormatInfo(view.desc.format);
  if (info.family == ColorFamily::kYuv) {
    AddYuvChannels();
    return;
  }
  if (info.family == ColorFamily::kGrey) {
    AddChannel(0, 0, 1, false);
    return;
  }
  for (const int position : info.channel_order) {
    if (position < 0) continue;
    if (info.is_planar_rgb()) {
      AddChannel(position, 0, 1, false);
    } else {
      AddChannel(0, position, info.channels, false);
    }
  }
}

void RowSource::AddYuvChannels() {
  switch (view_.desc.format) {
    case PixelFormat::kYuyv:
      AddChannel(0, 0, 2, false);
      AddChannel(0, 1, 4, true);
      AddChannel(0, 3, 4, true);
      return;
    case PixelFormat::kUyvy:
      AddChannel(0, 1, 2, false);
      AddChannel(0, 0, 4, true);
      AddChannel(0, 2, 4, true);
      return;
    case PixelFormat::kVyuy:
      AddChannel(0, 1, 2, false);
      AddChannel(0, 2, 4, true);
      AddChannel(0, 0, 4, true);
      return;
    case PixelFormat::kI420:
      AddChannel(0, 0, 1, false);
      AddChannel(1, 0, 1, true);
      AddChannel(2, 0, 1, true);
      return;
    case PixelFormat::kNv21:
      AddChannel(0, 0, 1, false);
      AddChannel(1, 1, 2, true);
      AddChannel(1, 0, 2, true);
      return;
    default:
      AddChannel(0, 0, 1, false);
      AddChannel(1, 0, 2, true);
      AddChannel(1, 1, 2, true);
  }
}

void RowSource::AddChannel(int plane, int offset_bytes, int step_bytes,
                           bool chroma) {
  const bool alpha = channels_ == 3;
  const PixelFormatInfo& info = GetPixelFormatInfo(view_.desc.format);
  const auto p = static_cast<size_t>(plane);
  Channel& channel = channel_[static_cast<size_t>(channels_++)];
  channel.base = view_.planes[p] + offset_bytes;
  channel.step_bytes = step_bytes;
  // i8 pictures hold v - 128; alpha is never biased.
  channel.flip = view_.desc.dtype == DType::kI8 && !alpha ? 0x80 : 0;
  channel.stride_bytes =
      static_cast<ptrdiff_t>(view_.desc.planes[p].stride_bytes);
  channel.x_shift = chroma ? info.chroma_x_shift : 0;
  channel.y_shift = chroma ? info.chroma_y_shift : 0;
  const Rect& r = plan_.source_rect;
  channel.min_x = r.x >> channel.x_shift;
  channel.max_x = (r.x + r.width - 1) >> channel.x_shift;
  channel.min_y = r.y >> channel.y_shift;
  channel.max_y = (r.y + r.height - 1) >> channel.y_shift;
}

void RowSource::Fetch(int y,
                      const std::array<float*, kMaxChannels>& rows) const {
  const int ox = plan_.placement.shown.x;
  const int oy = plan_.placement.shown.y + y;
  const OrientationMap& o = orientation_;
  Walk walk;
  walk.x = plan_.source_rect.x + o.xx * ox + o.xy * oy + o.x0;
  walk.y = plan_.source_rect.y + o.yx * ox + o.yy * oy + o.y0;
  walk.dx = o.xx;
  walk.dy = o.yx;
  const bool fancy = plan_.chroma == ChromaUpsampling::kFancy;
  for (int c = 0; c < channels_; ++c) {
    const Channel& channel = channel_[static_cast<size_t>(c)];
    float* row = rows[static_cast<size_t>(c)];
    if (channel.x_shift == 0 && channel.y_shift == 0) {
      FetchFull(channel, walk, row);
    } else if (fancy) {
      FetchFancy(channel, walk, row);
    } else {
      FetchReplicated(channel, walk, row);
    }
  }
}

void RowSource::FetchFull(const Channel& channel, const Walk& walk,
                          float* row) const {
  const std::byte* at = channel.base + walk.y * channel.stride_bytes +
                        walk.x * channel.step_bytes;
  const ptrdiff_t step =
      walk.dy * channel.stride_bytes + walk.dx * channel.step_bytes;
  // A constant step lets the compiler vectorise the common cases.
  if (step == 1) {
    for (int i = 0; i < width_; ++i) {
      row[i] = static_cast<float>(static_cast<uint8_t>(at[i]) ^ channel.flip);
    }
  } else if (step == 3) {
    for (int i = 0; i < width_; ++i) {
      row[i] =
          static_cast<float>(static_cast<uint8_t>(at[i * 3]) ^ channel.flip);
    }
  } else {
    for (int i = 0; i < width_; ++i) {
      row[i] =
          static_cast<float>(static_cast<uint8_t>(at[i * step]) ^ channel.flip);
    }
  }
}

void RowSource::FetchReplicated(const Channel& channel, const Walk& walk,
                                float* row) const {
  if (walk.dy == 0) {
    const std::byte* line =
        channel.base + (walk.y >> channel.y_shift) * channel.stride_bytes;
    for (int i = 0; i < width_; ++i) {
      const int cx = (walk.x + i * walk.dx) >> channel.x_shift;
      row[i] = static_cast<float>(
          static_cast<uint8_t>(line[cx * channel.step_bytes]) ^ channel.flip);
    }
    return;
  }
  const std::byte* column =
      channel.base + (walk.x >> channel.x_shift) * channel.step_bytes;
  for (int i = 0; i < width_; ++i) {
    const int cy = (walk.y + i * walk.dy) >> channel.y_shift;
    row[i] = static_cast<float>(
        static_cast<uint8_t>(column[cy * channel.stride_bytes]) ^ channel.flip);
  }
}

void RowSource::FetchFancy(const Channel& channel, const Walk& walk,
                           float* row) const {
  // Extents only bound the far tap; the rectangle bounds it again below.
  const int width = channel.max_x + 2;
  const int height = channel.max_y + 2;
  const auto sample = [&](int cx, int cy) {
    cx = std::clamp(cx, channel.min_x, channel.max_x);
    cy = std::clamp(cy, channel.min_y, channel.max_y);
    return static_cast<float>(
        static_cast<uint8_t>(
            channel.base[cy * channel.stride_bytes + cx * channel.step_bytes]) ^
        channel.flip);
  };
  for (int i = 0; i < width_; ++i) {
    const ChromaTaps tx =
        FancyChroma(walk.x + i * walk.dx, channel.x_shift, width);
    const ChromaTaps ty =
        FancyChroma(walk.y + i * walk.dy, channel.y_shift, height);
    const auto wx0 = static_cast<float>(tx.weight0);
    const auto wx1 = static_cast<float>(tx.weight1);
    float sum =
        static_cast<float>(ty.weight0) * (wx0 * sample(tx.index0, ty.index0) +
                                          wx1 * sample(tx.index1, ty.index0));
    if (ty.weight1 != 0) {
      sum +=
          static_cast<float>(ty.weight1) * (wx0 * sample(tx.index0, ty.index1) +
                                            wx1 * sample(tx.index1, ty.index1));
    }
    row[i] = sum;
  }
}

}  // namespace preprocd
