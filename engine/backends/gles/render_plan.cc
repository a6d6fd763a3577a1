#include "engine/backends/gles/render_plan.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/check.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

using Matrix = std::array<std::array<double, 4>, 4>;  // rows

struct Affine {
  Matrix matrix = {};
  std::array<double, 4> offset = {};
};

Affine IdentityMatrix() {
  Affine a;
  for (size_t i = 0; i < 4; ++i) a.matrix[i][i] = 1;
  return a;
}

void StoreAffine(const Affine& a, std::array<float, 16>& matrix,
                 std::array<float, 4>& offset) {
  for (size_t r = 0; r < 4; ++r) {
    offset[r] = static_cast<float>(a.offset[r]);
    for (size_t c = 0; c < 4; ++c) {
      matrix[c * 4 + r] = static_cast<float>(a.matrix[r][c]);
    }
  }
}

// Stored order -> Y U V for the formats that store them otherwise.
bool ChromaIsSwapped(PixelFormat format) {
  return format == PixelFormat::kNv21 || format == PixelFormat::kVyuy;
}

// Stored components -> R G B A, or Y, or Y U V when the colour stays.
Affine FirstStep(const ConvertPlan& plan, const SourceLayout& layout,
                 bool keeps_yuv) {
  const PixelFormatInfo& from = GetPixelFormatInfo(plan.source.format);
  constexpr double kOpaque = 255;
  Affine a;
  if (layout.fetch == PixelFetch::kExternal) {
    a = IdentityMatrix();
    a.matrix[3][3] = 0;
    a.offset[3] = kOpaque;
    return a;
  }
  switch (from.family) {
    case ColorFamily::kGrey:
      for (size_t r = 0; r < 3; ++r) a.matrix[r][0] = 1;
      a.offset[3] = kOpaque;
      return a;
    case ColorFamily::kRgb:
      for (size_t r = 0; r < 4; ++r) {
        const int position = from.channel_order[r];
        if (position < 0) {
          a.offset[r] = kOpaque;
        } else {
          a.matrix[r][static_cast<size_t>(position)] = 1;
        }
      }
      return a;
    case ColorFamily::kYuv:
      break;
  }
  const size_t u = ChromaIsSwapped(plan.source.format) ? 2 : 1;
  const size_t v = 3 - u;
  if (keeps_yuv) {
    a.matrix[0][0] = 1;
    a.matrix[1][u] = 1;
    a.matrix[2][v] = 1;
    return a;
  }
  const YuvToRgbCoefficients k = GetYuvToRgbCoefficients(plan.source.color);
  for (size_t r = 0; r < 3; ++r) {
    a.matrix[r][0] = k.y_scale;
    a.offset[r] = -k.y_offset * k.y_scale;
  }
  const bool grey =
      GetPixelFormatInfo(plan.destination.format).family == ColorFamily::kGrey;
  if (!grey) {
    a.matrix[0][v] = k.vr;
    a.matrix[1][u] = -k.ug;
    a.matrix[1][v] = -k.vg;
    a.matrix[2][u] = k.ub;
    a.offset[0] -= 128 * k.vr;
    a.offset[1] += 128 * (k.ug + k.vg);
    a.offset[2] -= 128 * k.ub;
  }
  a.offset[3] = kOpaque;
  return a;
}

// R G B A (or what FirstStep kept) -> the destination's family.
Affine SecondStep(const ConvertPlan& plan, const SourceLayout& layout,
                  bool keeps_yuv) {
  const ColorFamily from = layout.fetch == PixelFetch::kExternal
                               ? ColorFamily::kRgb
                               : GetPixelFormatInfo(plan.source.format).family;
  const ColorFamily to = GetPixelFormatInfo(plan.destination.format).family;
  if (keeps_yuv || to == ColorFamily::kRgb) return IdentityMatrix();
  Affine a;
  if (to == ColorFamily::kGrey) {
    if (from != ColorFamily::kRgb) return IdentityMatrix();
    const LumaWeights w = GetLumaWeights(MatrixCoefficients::kBt601);
    a.matrix[0] = {w.kr, w.kg(), w.kb, 0};
    return a;
  }
  const RgbToYuvCoefficients k =
      GetRgbToYuvCoefficients(plan.destination.color);
  for (size_t r = 0; r < 3; ++r) {
    for (size_t c = 0; c < 3; ++c) a.matrix[r][c] = k.matrix[r][c];
    a.offset[r] = k.offset[r];
  }
  return a;
}

void SetColour(const ConvertPlan& plan, const SourceLayout& layout,
               RenderPlan& out) {
  const PixelFormatInfo& from = GetPixelFormatInfo(plan.source.format);
  const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
  const bool keeps_yuv = from.family == ColorFamily::kYuv &&
                         to.family == ColorFamily::kYuv &&
                         plan.source.color == plan.destination.color;
  Affine second = SecondStep(plan, layout, keeps_yuv);
  if (out.shapes.last == PassShape::kDirect && to.family == ColorFamily::kRgb) {
    Affine sorted;
    for (size_t channel = 0; channel < 4; ++channel) {
      const auto position = static_cast<size_t>(to.channel_order[channel]);
      sorted.matrix[position] = second.matrix[channel];
      sorted.offset[position] = second.offset[channel];
      out.direct_order[position] = static_cast<int>(channel);
    }
    second = sorted;
  }
  StoreAffine(FirstStep(plan, layout, keeps_yuv), out.colour.first,
              out.colour.first_offset);
  StoreAffine(second, out.colour.second, out.colour.second_offset);
}

void SetGeometry(const ConvertPlan& plan, RenderPlan& out) {
  const OrientationMap o =
      GetOrientationMap(plan.orientation, plan.source_rect.size());
  const Rect& shown = plan.placement.shown;
  out.orient = {o.xx, o.xy, o.yx, o.yy};
  out.corner = {plan.source_rect.x + o.xx * shown.x + o.xy * shown.y + o.x0,
                plan.source_rect.y + o.yx * shown.x + o.yy * shown.y + o.y0};
  out.format = plan.destination.format;
  out.dtype = plan.destination.dtype;
  out.width = plan.destination.width;
  out.height = plan.destination.height;
  out.placed = plan.placement.destination;
  out.has_padding = plan.has_padding;
}

// An axis that keeps its extent is copied by every filter.
TapsKey AxisKey(Filter filter, int source, int destination, bool blends) {
  TapsKey key;
  key.filter = source == destination ? Filter::kNearest : filter;
  key.source_extent = source;
  key.destination_extent = destination;
  key.area_blends = key.filter == Filter::kArea && blends;
  return key;
}

void SetTaps(const ConvertPlan& plan, const GlFeatures& features,
             RenderPlan& out) {
  const Size from = plan.placement.shown.size();
  const Size to = plan.placement.destination.size();
  const bool blends = AreaBlends(from, to);
  out.taps_x = AxisKey(plan.filter, from.width, to.width, blends);
  out.taps_y = AxisKey(plan.filter, from.height, to.height, blends);
  const auto count = [](const TapsKey& key) {
    return TapCount(key.filter, key.source_extent, key.destination_extent,
                    key.area_blends);
  };
  out.count_x = count(out.taps_x);
  out.count_y = count(out.taps_y);
  const ColorFamily family = GetPixelFormatInfo(plan.source.format).family;
  out.rounds = plan.precision != Precision::kFull &&
               RoundsBetweenAxes(plan.filter, family) && out.count_x > 1;
  out.taps_x.rounded = out.rounds;
  out.shapes =
      ShapePasses(plan, out.count_x, out.count_y, out.rounds, features);
}

void SetYuvTarget(PixelFormat format, size_t plane, TargetPlane& target) {
  switch (format) {
    case PixelFormat::kYuyv:
      target.component = {0, 1, 0, 2};
      target.step = {2, 1, 2, 1};
      target.add = {0, 0, 1, 0};
      return;
    case PixelFormat::kUyvy:
    case PixelFormat::kVyuy:
      target.component = {1, 0, 2, 0};
      if (format == PixelFormat::kVyuy) target.component = {2, 0, 1, 0};
      target.step = {1, 2, 1, 2};
      target.add = {0, 0, 0, 1};
      return;
    default:
      break;
  }
  if (plane == 0) return;
  target.chroma_rows = true;
  if (format == PixelFormat::kI420) {
    target.component.fill(static_cast<int>(plane));
    return;
  }
  target.component = {1, 2, 1, 2};
  if (format == PixelFormat::kNv21) target.component = {2, 1, 2, 1};
  target.step.fill(2);
  target.add = {0, 0, 1, 1};
}

void SetTargets(const ConvertPlan& plan, RenderPlan& out) {
  const ImageDesc& desc = plan.destination;
  const PixelFormatInfo& to = GetPixelFormatInfo(desc.format);
  out.elements = GlElementStageOf(plan);
  out.element_bytes = DTypeSize(desc.dtype);
  out.eight_bits = plan.precision != Precision::kFull;
  if (to.family == ColorFamily::kYuv) {
    out.pack = PackKind::kYuv;
    out.eight_bits = false;
  } else if (!out.eight_bits) {
    out.pack = PackKind::kFormula;
  } else {
    out.pack =
        IsPlainGlByte(out.elements) ? PackKind::kBytes : PackKind::kTable;
  }
  out.block_x_shift = to.chroma_x_shift;
  out.block_y_shift = to.chroma_y_shift;
  out.target_count = to.plane_count;
  for (size_t p = 0; p < to.plane_count; ++p) {
    TargetPlane& target = out.targets[p];
    target.buffer_index = desc.planes[p].buffer_index;
    target.offset_bytes = desc.planes[p].offset_bytes;
    target.stride_bytes = desc.planes[p].stride_bytes;
    target.row_bytes =
        PlaneRowBytes(desc.format, desc.dtype, static_cast<int>(p), desc.width);
    target.rows = PlaneRows(desc.format, static_cast<int>(p), desc.height);
    if (to.family == ColorFamily::kYuv) {
      SetYuvTarget(desc.format, p, target);
      continue;
    }
    target.channels = to.is_planar_rgb() ? 1 : to.channels;
    for (size_t channel = 0; channel < 4; ++channel) {
      const int position = to.channel_order[channel];
      if (position < 0) continue;
      if (!to.is_planar_rgb()) {
        target.order[static_cast<size_t>(position)] = static_cast<int>(channel);
      } else if (position == static_cast<int>(p)) {
        target.order.fill(static_cast<int>(channel));
      }
    }
  }
}

void SetReads(const SourceLayout& layout, RenderPlan& out) {
  const int64_t fetches = layout.plane_count + 2;
  const auto width = static_cast<int64_t>(out.placed.width);
  const auto height = static_cast<int64_t>(out.placed.height);
  if (out.shapes.two_axes) {
    out.reads = width * out.taps_y.source_extent * out.count_x * fetches +
                width * height * out.count_y;
  } else {
    out.reads = width * height * out.count_x * out.count_y * fetches;
  }
  out.reads += static_cast<int64_t>(out.width) * out.height * 4;
}

void SetPlane(SourceLayout& layout, TexelFormat format, int width, int height) {
  auto& plane = layout.planes[static_cast<size_t>(layout.plane_count++)];
  plane.format = format;
  plane.width = width;
  plane.height = height;
  plane.row_bytes =
      static_cast<uint64_t>(width) * static_cast<uint64_t>(TexelBytes(format));
}

void LayOutYuv(const ImageDesc& source, const PixelFormatInfo& info,
               SourceLayout& layout) {
  const int width =
      (source.width + (1 << info.chroma_x_shift) - 1) >> info.chroma_x_shift;
  const int height =
      (source.height + (1 << info.chroma_y_shift) - 1) >> info.chroma_y_shift;
  layout.chroma_x_shift = info.chroma_x_shift;
  layout.chroma_y_shift = info.chroma_y_shift;
  if (info.plane_count == 1) {
    layout.fetch = PixelFetch::kYuvPairs;
    SetPlane(layout, TexelFormat::kRgba8, width, source.height);
    return;
  }
  SetPlane(layout, TexelFormat::kR8, source.width, source.height);
  if (info.plane_count == 2) {
    layout.fetch = PixelFetch::kSemiPlanar;
    SetPlane(layout, TexelFormat::kRg8, width, height);
    return;
  }
  layout.fetch = PixelFetch::kThreePlane;
  SetPlane(layout, TexelFormat::kR8, width, height);
  SetPlane(layout, TexelFormat::kR8, width, height);
}

}  // namespace

int TexelBytes(TexelFormat format) {
  switch (format) {
    case TexelFormat::kR8:
      return 1;
    case TexelFormat::kRg8:
      return 2;
    case TexelFormat::kRgb8:
      return 3;
    case TexelFormat::kRgba8:
      break;
  }
  return 4;
}

SourceLayout LayOutSource(const ImageDesc& source, int max_texture,
                          bool external) {
  const PixelFormatInfo& info = GetPixelFormatInfo(source.format);
  SourceLayout layout;
  layout.format = source.format;
  layout.biased = source.dtype == DType::kI8;
  if (info.family == ColorFamily::kYuv) {
    LayOutYuv(source, info, layout);
    if (external) layout.fetch = PixelFetch::kExternal;
    return layout;
  }
  if (info.is_planar_rgb()) {
    layout.fetch = PixelFetch::kPlanar;
    for (int p = 0; p < info.plane_count; ++p) {
      SetPlane(layout, TexelFormat::kR8, source.width, source.height);
    }
    return layout;
  }
  switch (info.channels) {
    case 1:
      layout.fetch = PixelFetch::kGrey;
      SetPlane(layout, TexelFormat::kR8, source.width, source.height);
      break;
    case 3:
      if (source.width * 3 <= max_texture) {
        layout.fetch = PixelFetch::kRgbBytes;
        SetPlane(layout, TexelFormat::kR8, source.width * 3, source.height);
      } else {
        layout.fetch = PixelFetch::kRgbTexel;
        SetPlane(layout, TexelFormat::kRgb8, source.width, source.height);
      }
      break;
    default:
      layout.fetch = PixelFetch::kRgba;
      SetPlane(layout, TexelFormat::kRgba8, source.width, source.height);
      break;
  }
  return layout;
}

Rect ReadRect(const ConvertPlan& plan) {
  // Fancy chroma reads one sample beyond what is shown, inside the rectangle.
  constexpr int kMargin = 2;
  const Rect& r = plan.source_rect;
  const Rect& s = plan.shown_stored;
  const int x0 = std::max(r.x, s.x - kMargin);
  const int y0 = std::max(r.y, s.y - kMargin);
  return {x0, y0, std::min(r.x + r.width, s.x + s.width + kMargin) - x0,
          std::min(r.y + r.height, s.y + s.height + kMargin) - y0};
}

TexelRect PlaneWindow(const SourceLayout& layout, int plane, const Rect& read) {
  // Pixels first..last become texels; chroma planes and pairs are coarser.
  const bool pairs = layout.fetch == PixelFetch::kYuvPairs;
  const bool chroma = plane > 0 && (layout.fetch == PixelFetch::kSemiPlanar ||
                                    layout.fetch == PixelFetch::kThreePlane);
  const int sx = chroma || pairs ? layout.chroma_x_shift : 0;
  const int sy = chroma ? layout.chroma_y_shift : 0;
  const int scale = layout.fetch == PixelFetch::kRgbBytes ? 3 : 1;
  const int x0 = read.x >> sx;
  const int y0 = read.y >> sy;
  const int x1 = ((read.x + read.width - 1) >> sx) + 1;
  const int y1 = ((read.y + read.height - 1) >> sy) + 1;
  return {x0 * scale, y0, (x1 - x0) * scale, y1 - y0};
}

Rect Unite(const Rect& a, const Rect& b) {
  if (a.width == 0 || a.height == 0) return b;
  const int x = std::min(a.x, b.x);
  const int y = std::min(a.y, b.y);
  return {x, y, std::max(a.x + a.width, b.x + b.width) - x,
          std::max(a.y + a.height, b.y + b.height) - y};
}

RenderPlan MakeRenderPlan(const ConvertPlan& plan, const SourceLayout& layout,
                          const GlFeatures& features) {
  RenderPlan out;
  SetGeometry(plan, out);
  SetTaps(plan, features, out);
  SetColour(plan, layout, out);
  SetTargets(plan, out);
  const Rect& r = plan.source_rect;
  out.chroma_bounds = {r.x >> layout.chroma_x_shift,
                       r.y >> layout.chroma_y_shift,
                       (r.x + r.width - 1) >> layout.chroma_x_shift,
                       (r.y + r.height - 1) >> layout.chroma_y_shift};
  out.fancy = plan.chroma == ChromaUpsampling::kFancy &&
              (layout.chroma_x_shift > 0 || layout.chroma_y_shift > 0);
  const std::array<double, kMaxChannels> pad = PadValues(plan);
  for (size_t c = 0; c < 4; ++c) out.pad[c] = static_cast<float>(pad[c]);
  SetReads(layout, out);
  return out;
}

ElementFormula MakeElementFormula(const GlElementStage& stage) {
  ElementFormula formula;
  const bool wide = stage.dtype == DType::kU16 || stage.dtype == DType::kI16;
  const bool is_signed =
      stage.dtype == DType::kI8 || stage.dtype == DType::kI16;
  formula.high = wide ? 65535 : 255;
  if (is_signed) {
    formula.low = wide ? -32768 : -128;
    formula.high = wide ? 32767 : 127;
  }
  formula.zero_point = static_cast<float>(stage.quantization.zero_point);
  for (size_t c = 0; c < 4; ++c) {
    const bool alpha = stage.alpha && c == 3;
    if (!stage.normalize || (alpha && !IsFloat(stage.dtype))) {
      formula.mode[c] = ElementMode::kPlain;
      formula.scale[c] = wide ? 257 : 1;
      if (is_signed && !alpha) formula.flip[c] = wide ? 0x8000 : 0x80;
      continue;
    }
    // One factor and one sum: factors that only a double holds cancel here.
    double scale = stage.normalization.multiplier[c];
    if (stage.quantized) scale *= stage.quantization.multiplier;
    formula.scale[c] = static_cast<float>(scale);
    formula.offset[c] =
        static_cast<float>(-stage.normalization.offset[c] * scale);
    formula.mode[c] = stage.dtype == DType::kF16    ? ElementMode::kF16
                      : stage.dtype == DType::kBf16 ? ElementMode::kBf16
                      : stage.dtype == DType::kF32  ? ElementMode::kF32
                                                    : ElementMode::kQuantized;
  }
  return formula;
}

}  // namespace preprocd
