#include "engine/masks/draw_masks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/masks/materialize.h"
#include "engine/masks/overlay_kernels.h"

namespace preprocd {
namespace {

// Rows drawn at once: they stay in the second-level cache from the background
// to the last mask. Even, for chroma rows.
constexpr int kBandRows = 32;

constexpr std::array<MaskColor, 20> kPalette = {{
    {0, 255, 0, 179},     {255, 142, 0, 179},   {66, 39, 34, 179},
    {204, 195, 199, 179}, {80, 80, 80, 179},    {36, 79, 31, 179},
    {255, 244, 131, 179}, {90, 82, 0, 179},     {108, 159, 166, 179},
    {130, 130, 186, 179}, {2, 48, 75, 179},     {0, 69, 255, 179},
    {0, 0, 0, 179},       {0, 128, 0, 179},     {255, 0, 0, 179},
    {0, 0, 255, 179},     {255, 128, 128, 179}, {34, 139, 34, 179},
    {30, 105, 210, 179},  {255, 255, 255, 179},
}};

bool CanDrawOn(PixelFormat format) {
  switch (format) {
    case PixelFormat::kRgba:
    case PixelFormat::kBgra:
    case PixelFormat::kRgb:
    case PixelFormat::kBgr:
    case PixelFormat::kNv12:
      return true;
    default:
      return false;
  }
}

uint8_t ToByte(double value) {
  return static_cast<uint8_t>(std::clamp(std::floor(value + 0.5), 0.0, 255.0));
}

// Colours in the destination's terms.
class Painter {
 public:
  Painter(const ImageView& destination, const DrawStyle& style)
      : to_(destination),
        style_(style),
        palette_(style.palette.empty() ? DefaultPalette() : style.palette),
        yuv_(destination.desc.format == PixelFormat::kNv12),
        pixel_bytes_(destination.desc.format == PixelFormat::kRgba ||
                             destination.desc.format == PixelFormat::kBgra
                         ? 4
                         : (yuv_ ? 1 : 3)) {
    if (!yuv_) return;
    rgb_to_yuv_ = GetRgbToYuvCoefficients(
        ResolveColorEncoding(to_.desc.color, to_.desc.height));
  }

  bool yuv() const { return yuv_; }
  bool packed4() const { return pixel_bytes_ == 4; }

  size_t ColorOf(size_t index, const DrawnObject& object) const {
    const size_t n = palette_.size();
    switch (style_.color_mode) {
      case ColorMode::kInstance:
        return index % n;
      case ColorMode::kTrack:
        return object.track_id == 0 ? index % n : object.track_id % n;
      default:
        return static_cast<size_t>(object.label) % n;
    }
  }

  BlendColor Blend(size_t color) const {
    const MaskColor& c = palette_[color % palette_.size()];
    BlendColor blend = InMemory(c);
    blend.weight = static_cast<uint16_t>(
        std::floor(c.a * style_.opacity * 256 / 255 + 0.5));
    return blend;
  }

  BlendColor Opaque(size_t color) const {
    BlendColor blend = InMemory(palette_[color % palette_.size()]);
    blend.weight = 256;
    return blend;
  }

  // Blends `mask` (n pixels from x) into row y; the luma of YUV.
  void BlendRow(const BlendColor& color, const uint8_t* mask, int x, int y,
                int n) const {
    uint8_t* to = At(x, y);
    const auto count = static_cast<size_t>(n);
    if (yuv_) {
      BlendPlane(mask, color, count, to);
    } else if (pixel_bytes_ == 4) {
      BlendPacked4(mask, color, count, to);
    } else {
      BlendPacked3(mask, color, count, to);
    }
  }

  // For packed4(): `count` rows from y on, with the weights `w`.
  void BlendLogits(const BlendColor& color, const MaskRows::Row& row,
                   const float* w, int x, int y, int n, int count) const {
    BlendPacked4(row.a, row.b, w, static_cast<size_t>(count), color,
                 static_cast<size_t>(n), to_.desc.planes[0].stride_bytes,
                 At(x, y));
  }

  // Blends the chroma row of rows y and y + 1 (y even) with the masks of n
  // pixels from x, which have a readable and writable byte on either side. A
  // chroma sample's weight is the share of its pixels that are set.
  void BlendChroma(const BlendColor& color, uint8_t* top, uint8_t* bottom,
                   int x, int y, int n, std::vector<uint8_t>& counts) const {
    const int first = x / 2;
    const auto count = static_cast<size_t>((x + n - 1) / 2 - first + 1);
    if (counts.size() < count) counts.resize(count);
    for (uint8_t* row : {top, bottom}) {
      row[-1] = 0;
      // A sample that the picture's edge cuts counts what is there.
      row[n] = x + n == to_.desc.width ? row[n - 1] : 0;
    }
    if (y + 1 == to_.desc.height) bottom = top;
    CountQuads(top - (x & 1), bottom - (x & 1), count, counts.data());
    const BlendColor chroma = {{color.channels[1], color.channels[2], 0, 0},
                               color.weight};
    BlendPairs(counts.data(), chroma, count,
               reinterpret_cast<uint8_t*>(to_.row(1, y / 2)) + 2 * first);
  }

  // Pixels [x0, x1) of row y, opaque.
  void FillSpan(const BlendColor& color, int x0, int x1, int y) const {
    if (x0 >= x1) return;
    uint8_t* to = At(x0, y);
    if (yuv_) {
      std::memset(to, color.channels[0], static_cast<size_t>(x1 - x0));
      auto* uv = reinterpret_cast<uint8_t*>(to_.row(1, y / 2));
      for (int s = x0 / 2; s <= (x1 - 1) / 2; ++s) {
        uv[2 * s] = color.channels[1];
        uv[2 * s + 1] = color.channels[2];
      }
      return;
    }
    for (int x = x0; x < x1; ++x, to += pixel_bytes_) {
      std::memcpy(to, color.channels.data(), pixel_bytes_);
    }
  }

  void CopyRows(const ConstImageView& from, int begin, int end) const {
    ForEachRow(begin, end, [&](int plane, int y, size_t bytes) {
      std::memcpy(to_.row(plane, y), from.row(plane, y), bytes);
    });
  }

  void ClearRows(int begin, int end) const {
    const BlendColor black = InMemory({0, 0, 0, 0});
    ForEachRow(begin, end, [&](int plane, int y, size_t bytes) {
      // Both chroma bytes of black are 128.
      const int value = yuv_ ? black.channels[plane == 0 ? 0 : 1] : 0;
      std::memset(to_.row(plane, y), value, bytes);
    });
  }

 private:
  uint8_t* At(int x, int y) const {
    return reinterpret_cast<uint8_t*>(to_.row(0, y)) +
           static_cast<size_t>(x) * pixel_bytes_;
  }

  // `begin` is even for YUV.
  template <class F>
  void ForEachRow(int begin, int end, F f) const {
    const ImageDesc& desc = to_.desc;
    for (int plane = 0; plane < (yuv_ ? 2 : 1); ++plane) {
      const size_t bytes =
          PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
      const int first = plane == 0 ? begin : begin / 2;
      const int last = plane == 0 ? end : (end + 1) / 2;
      for (int y = first; y < last; ++y) f(plane, y, bytes);
    }
  }

  BlendColor InMemory(const MaskColor& c) const {
    switch (to_.desc.format) {
      case PixelFormat::kBgra:
      case PixelFormat::kBgr:
        return {{c.b, c.g, c.r, 255}, 0};
      case PixelFormat::kNv12: {
        BlendColor yuv;
        for (size_t i = 0; i < 3; ++i) {
          const auto& row = rgb_to_yuv_.matrix[i];
          yuv.channels[i] = ToByte(row[0] * c.r + row[1] * c.g + row[2] * c.b +
                                   rgb_to_yuv_.offset[i]);
        }
        return yuv;
      }
      default:
        return {{c.r, c.g, c.b, 255}, 0};
    }
  }

  const ImageView& to_;
  const DrawStyle& style_;
  const std::span<const MaskColor> palette_;
  const bool yuv_;
  const size_t pixel_bytes_;
  RgbToYuvCoefficients rgb_to_yuv_;
};

// Grid pixel whose area holds the centre of destination pixel i.
int NearestOf(int i, int destination, int grid) {
  return static_cast<int>((2 * int64_t{i} + 1) * grid /
                          (2 * int64_t{destination}));
}

// First destination pixel whose centre lies at or behind grid edge `edge`.
int FirstBehind(int edge, int destination, int grid) {
  // (2 i + 1) / (2 destination) >= edge / grid
  const int64_t wanted = 2 * int64_t{edge} * destination - grid;
  if (wanted <= 0) return 0;
  const int64_t step = 2 * int64_t{grid};
  return static_cast<int>((wanted + step - 1) / step);
}

// Destination pixels that a dense mask covers; may be empty.
Rect CoveredBy(const DenseMask& mask, Size grid, const ImageDesc& to) {
  const int x0 = FirstBehind(mask.bounds.x, to.width, grid.width);
  const int x1 =
      FirstBehind(mask.bounds.x + mask.bounds.width, to.width, grid.width);
  const int y0 = FirstBehind(mask.bounds.y, to.height, grid.height);
  const int y1 =
      FirstBehind(mask.bounds.y + mask.bounds.height, to.height, grid.height);
  return {x0, y0, x1 - x0, y1 - y0};
}

// One call's drawing of destination rows [begin, end), begin a multiple of
// kBandRows.
class BandDrawer {
 public:
  // `planes` may be empty: logits are then computed band by band.
  BandDrawer(const DrawnMasks& masks, std::span<const LogitPlane> planes,
             const Painter& painter, const ImageDesc& to)
      : masks_(masks), planes_(planes), painter_(painter), to_(to) {
    if (masks.workspace == nullptr) {
      columns_.Map(to.width, masks.dense_grid.width);
    }
  }

  size_t count() const {
    if (masks_.workspace == nullptr) return masks_.dense.size();
    const MaskPlan& plan = masks_.workspace->plan();
    return plan.semantic ? 0 : plan.masks.size();
  }

  Rect AreaOf(size_t i) const {
    if (masks_.workspace != nullptr) {
      return masks_.workspace->plan().masks[i].box;
    }
    return CoveredBy(masks_.dense[i], masks_.dense_grid, to_);
  }

  void DrawMask(size_t i, int begin, int end, MaskScratch& scratch) const {
    Rect area = AreaOf(i);
    if (area.width <= 0) return;
    const int bottom = std::min(area.y + area.height, end);
    area.y = std::max(area.y, begin);
    area.height = bottom - area.y;
    if (area.height <= 0) return;
    const BlendColor color =
        painter_.Blend(painter_.ColorOf(i, masks_.objects[i]));
    if (masks_.workspace != nullptr) {
      const LogitPlane* plane = i < planes_.size() ? &planes_[i] : nullptr;
      MaskRows rows(*masks_.workspace, i, area, plane, scratch);
      if (painter_.packed4()) {
        const MaskAxis& axis = masks_.workspace->plan().y;
        const int last = area.y + area.height;
        for (int y = area.y; y < last;) {
          const float* w = axis.fraction.data() + static_cast<size_t>(y);
          const int count = *w == 0 ? 1 : RowsBetween(axis, y, last);
          painter_.BlendLogits(color, rows.At(y), w, area.x, y, area.width,
                               count);
          y += count;
        }
        return;
      }
      const auto n = static_cast<size_t>(area.width);
      DrawRows(color, area, scratch, [&](int y, uint8_t* bytes) {
        const MaskRows::Row row = rows.At(y);
        ThresholdRow(row.a, row.b, row.w, n, bytes);
      });
      return;
    }
    const DenseMask& dense = masks_.dense[i];
    // Grid rows that the two buffers hold: enlarging repeats them.
    const uint8_t* held[2] = {};
    DrawRows(color, area, scratch, [&](int y, uint8_t* bytes) {
      const uint8_t*& last = held[painter_.yuv() ? y % 2 : 0];
      const uint8_t* row = DenseRow(dense, y);
      if (row == last) return;
      last = row;
      PickMaskRow(columns_, row, static_cast<size_t>(dense.bounds.width),
                  dense.bounds.x, static_cast<size_t>(area.x),
                  static_cast<size_t>(area.width), bytes);
    });
  }

  void DrawClasses(int begin, int end, MaskScratch& scratch) const {
    const MaskPlan& plan = masks_.workspace->plan();
    const Rect area = {0, begin, to_.width, end - begin};
    for (int c = 0; c + 1 < plan.channels; ++c) {
      DrawRows(painter_.Blend(static_cast<size_t>(c)), area, scratch,
               [&](int y, uint8_t* bytes) {
                 const uint8_t* row =
                     masks_.class_map.data() +
                     static_cast<size_t>(y) * static_cast<size_t>(to_.width);
                 for (int x = 0; x < to_.width; ++x) {
                   bytes[x] = row[x] == c ? 255 : 0;
                 }
               });
    }
  }

  void DrawBox(size_t i, int begin, int end) const {
    const Rect box = AreaOf(i);
    if (box.width <= 0 || box.height <= 0) return;
    const BlendColor color =
        painter_.Opaque(painter_.ColorOf(i, masks_.objects[i]));
    const int x0 = std::max(box.x - kBoxLinePixels, 0);
    const int x1 = std::min(box.x + box.width + kBoxLinePixels, to_.width);
    const int top = std::max(box.y - kBoxLinePixels, begin);
    const int bottom = std::min(box.y + box.height + kBoxLinePixels, end);
    for (int y = top; y < bottom; ++y) {
      if (y < box.y || y >= box.y + box.height) {
        painter_.FillSpan(color, x0, x1, y);
        continue;
      }
      painter_.FillSpan(color, x0, box.x, y);
      painter_.FillSpan(color, box.x + box.width, x1, y);
    }
  }

 private:
  // `mask_row(y, bytes)` gives the mask of one row of `area`, 0 or 0xff, top
  // to bottom.
  template <class F>
  void DrawRows(const BlendColor& color, const Rect& area, MaskScratch& scratch,
                F mask_row) const {
    const auto n = static_cast<size_t>(area.width);
    for (std::vector<uint8_t>* memory : {&scratch.bytes, &scratch.more_bytes}) {
      if (memory->size() < n + 2) memory->resize(n + 2);
    }
    // The two rows of one chroma row.
    uint8_t* even = scratch.bytes.data() + 1;
    uint8_t* odd = scratch.more_bytes.data() + 1;
    const int end = area.y + area.height;
    for (int y = area.y; y < end; ++y) {
      uint8_t* bytes = painter_.yuv() && y % 2 != 0 ? odd : even;
      mask_row(y, bytes);
      painter_.BlendRow(color, bytes, area.x, y, area.width);
      if (!painter_.yuv()) continue;
      if (y % 2 == 0 && y + 1 < end) continue;
      if (y % 2 == 0) std::memset(odd, 0, n);
      if (y % 2 != 0 && y == area.y) std::memset(even, 0, n);
      painter_.BlendChroma(color, even, odd, area.x, y / 2 * 2, area.width,
                           scratch.counts);
    }
  }

  const uint8_t* DenseRow(const DenseMask& dense, int y) const {
    const int row =
        NearestOf(y, to_.height, masks_.dense_grid.height) - dense.bounds.y;
    return dense.pixels + static_cast<size_t>(row) * dense.stride_bytes;
  }

  const DrawnMasks& masks_;
  const std::span<const LogitPlane> planes_;
  const Painter& painter_;
  const ImageDesc& to_;
  GridColumns columns_;  // of dense masks
};

// The logits of all masks, once for all bands. Nothing when they are too many
// to keep.
std::span<const LogitPlane> SweepAll(const DrawnMasks& masks, RowPool& pool) {
  constexpr size_t kMostFloats = size_t{1} << 22;
  if (masks.workspace == nullptr || masks.workspace->plan().semantic) return {};
  MaskWorkspace& workspace = *masks.workspace;
  const int count = static_cast<int>(workspace.plan().masks.size());
  if (!LayOutPlanes(workspace.plan(), 0, count, kMostFloats, workspace.logits(),
                    workspace.planes())) {
    return {};
  }
  const std::span<const LogitPlane> planes = workspace.planes();
  pool.ParallelRows(count, 1, [&](int begin, int end) {
    std::unique_ptr<MaskScratch> scratch = workspace.TakeScratch();
    SweepLogits(workspace, begin,
                planes.subspan(static_cast<size_t>(begin),
                               static_cast<size_t>(end - begin)),
                *scratch);
    workspace.Return(std::move(scratch));
  });
  return planes;
}

absl::Status CheckStyle(const DrawStyle& style) {
  if (style.color_mode > ColorMode::kTrack) {
    return InvalidField(
        "color_mode",
        absl::StrCat("color_mode: ", static_cast<int>(style.color_mode),
                     " is not known"));
  }
  // Written so that NaN is refused too.
  if (!(style.opacity >= 0 && style.opacity <= 1)) {
    return InvalidField("opacity", absl::StrCat("opacity: ", style.opacity,
                                                " is not within 0..1"));
  }
  if (style.palette.size() > static_cast<size_t>(kMaxPaletteColors)) {
    return InvalidField(ErrorReason::kTooLarge, "palette",
                        absl::StrCat("palette: ", style.palette.size(),
                                     " colours > ", kMaxPaletteColors));
  }
  return absl::OkStatus();
}

}  // namespace

std::span<const MaskColor> DefaultPalette() { return kPalette; }

int64_t CoveredPixels(std::span<const DenseMask> masks, Size grid,
                      const ImageDesc& destination) {
  int64_t pixels = 0;
  for (const DenseMask& mask : masks) {
    const Rect area = CoveredBy(mask, grid, destination);
    pixels += int64_t{area.width} * area.height;
  }
  return pixels;
}

absl::Status CheckDraw(const ImageDesc& destination,
                       const ImageDesc* background, const DrawStyle& style,
                       std::span<const DrawnObject> objects) {
  RETURN_IF_ERROR(CheckStyle(style));
  if (!CanDrawOn(destination.format) || destination.dtype != DType::kU8) {
    return InvalidField(
        ErrorReason::kFormatPair, "destination.layout.format",
        absl::StrCat(
            "destination.layout.format: ", PixelFormatName(destination.format),
            " ", DTypeName(destination.dtype),
            " is not drawn on; rgba, bgra, rgb, bgr and nv12 u8 are"));
  }
  if (background != nullptr && (background->format != destination.format ||
                                background->dtype != destination.dtype ||
                                background->width != destination.width ||
                                background->height != destination.height)) {
    return InvalidField(ErrorReason::kGeometryInvalid, "background",
                        "background: differs from the destination in format "
                        "or size");
  }
  for (size_t i = 0; i < objects.size(); ++i) {
    if (objects[i].label >= 0) continue;
    const std::string field = absl::StrCat("masks.boxes[", i, "].label");
    return InvalidField(
        field, absl::StrCat(field, ": ", objects[i].label, " is below 0"));
  }
  return absl::OkStatus();
}

void DrawMasks(const DrawnMasks& masks, const DrawStyle& style,
               Backdrop backdrop, const ConstImageView* background,
               const ImageView& destination, RowPool& pool) {
  const bool semantic =
      masks.workspace != nullptr && masks.workspace->plan().semantic;
  if (semantic) {
    // Has room by contract.
    MaterializeMasks(*masks.workspace, std::as_writable_bytes(masks.class_map),
                     pool)
        .IgnoreError();
  }
  const Painter painter(destination, style);
  const BandDrawer drawer(masks, SweepAll(masks, pool), painter,
                          destination.desc);
  const int height = destination.desc.height;
  const int bands = (height + kBandRows - 1) / kBandRows;
  pool.ParallelRows(bands, 1, [&](int first, int last) {
    MaskWorkspace spare;
    MaskWorkspace& owner =
        masks.workspace != nullptr ? *masks.workspace : spare;
    std::unique_ptr<MaskScratch> scratch = owner.TakeScratch();
    for (int band = first; band < last; ++band) {
      const int begin = band * kBandRows;
      const int end = std::min(begin + kBandRows, height);
      if (backdrop == Backdrop::kZeros) painter.ClearRows(begin, end);
      if (backdrop == Backdrop::kPicture) {
        painter.CopyRows(*background, begin, end);
      }
      if (semantic) drawer.DrawClasses(begin, end, *scratch);
      for (size_t i = 0; i < drawer.count(); ++i) {
        drawer.DrawMask(i, begin, end, *scratch);
      }
      for (size_t i = 0; style.boxes && i < drawer.count(); ++i) {
        drawer.DrawBox(i, begin, end);
      }
    }
    owner.Return(std::move(scratch));
  });
}

}  // namespace preprocd
