#include "engine/backends/cpu/fixed_renderer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/backends/cpu/filter_kernels.h"
#include "engine/backends/cpu/plane_sampler.h"
#include "engine/backends/cpu/row_arena.h"
#include "engine/backends/cpu/vector_targets.h"
#include "engine/convert/planner.h"
#include "engine/image/orientation.h"

namespace preprocd {
namespace {

// A piece of a row and its copies fit a store buffer; a multiple of every
// vector and of the chroma block.
constexpr int kPiecePixels = 256;

// Per band; plans that would stage more go through the float rows, whose ring
// is bounded by fetching again.
constexpr size_t kMaxScratchBytes = size_t{3} << 20;

RowArena& ThreadArena() {
  thread_local RowArena arena;
  return arena;
}

// The axes of one plane as requests. Stored luma index of shown sample i:
// origin + direction * i.
struct Axes {
  AxisRequest along;
  AxisRequest down;
};

Axes MakeAxes(const ConvertPlan& plan, const StoredPlane& plane,
              const PixelFormatInfo& from, bool transposed) {
  const Placement& p = plan.placement;
  const Rect& r = plan.source_rect;
  const OrientationMap o = GetOrientationMap(plan.orientation, r.size());
  Axes axes;
  axes.along.filter = plan.filter;
  axes.along.shown_extent = p.shown.width;
  axes.along.destination_extent = p.destination.width;
  axes.along.area_blends = plan.filter == Filter::kArea &&
                           AreaBlends(p.shown.size(), p.destination.size());
  axes.along.channels = plane.channels;
  axes.along.fancy = plan.chroma == ChromaUpsampling::kFancy;
  axes.down = axes.along;
  axes.down.channels = 0;
  axes.along.rounds = RoundsBetweenAxes(plan.filter, from.family);
  axes.down.shown_extent = p.shown.height;
  axes.down.destination_extent = p.destination.height;
  AxisRequest& x = transposed ? axes.down : axes.along;
  AxisRequest& y = transposed ? axes.along : axes.down;
  // Along the shown row the stored walk is (xx, yx), down it is (xy, yy).
  if (transposed) {
    x.direction = o.xy;
    x.origin = r.x + o.x0 + o.xy * p.shown.y;
    y.direction = o.yx;
    y.origin = r.y + o.y0 + o.yx * p.shown.x;
  } else {
    x.direction = o.xx;
    x.origin = r.x + o.x0 + o.xx * p.shown.x;
    y.direction = o.yy;
    y.origin = r.y + o.y0 + o.yy * p.shown.y;
  }
  x.shift = plane.chroma ? from.chroma_x_shift : 0;
  y.shift = plane.chroma ? from.chroma_y_shift : 0;
  // A plane that is not subsampled has nothing to interpolate; equal requests
  // share their table.
  if (x.shift == 0) x.fancy = false;
  if (y.shift == 0) y.fancy = false;
  x.min_index = r.x >> x.shift;
  x.max_index = (r.x + r.width - 1) >> x.shift;
  y.min_index = r.y >> y.shift;
  y.max_index = (r.y + r.height - 1) >> y.shift;
  return axes;
}

}  // namespace

FixedRenderer::FixedRenderer(const ConvertPlan& plan,
                             const StoredPlanes& stored,
                             const ImageView& destination)
    : plan_(&plan),
      destination_(&destination),
      from_(&GetPixelFormatInfo(plan.source.format)),
      to_(&GetPixelFormatInfo(plan.destination.format)),
      stored_(stored) {
  const OrientationMap o =
      GetOrientationMap(plan.orientation, plan.source_rect.size());
  transposed_ = o.xx == 0;
  if (HasNegativeLobes(plan.filter)) fraction_ = kLobeFraction;
}

std::optional<FixedRenderer> FixedRenderer::Make(const ConvertPlan& plan,
                                                 const ConstImageView& source,
                                                 const ImageView& destination,
                                                 FixedTables& tables) {
  return Make(plan, GetStoredPlanes(source), destination, tables);
}

std::optional<FixedRenderer> FixedRenderer::Make(const ConvertPlan& plan,
                                                 const StoredPlanes& stored,
                                                 const ImageView& destination,
                                                 FixedTables& tables) {
  if (!VectorKernelsRun() || plan.precision == Precision::kFull) {
    return std::nullopt;
  }
  FixedRenderer renderer(plan, stored, destination);
  if (renderer.to_->family == ColorFamily::kYuv) return std::nullopt;
  if (!renderer.FindTaps(tables)) return std::nullopt;
  renderer.elements_ =
      tables.elements.Get(ElementStageOf(plan), [](const ElementStage& stage) {
        return std::make_shared<const ElementTable>(stage);
      });
  if (renderer.from_->family == ColorFamily::kYuv) renderer.SetLumaTable();
  return renderer;
}

bool FixedRenderer::FindTaps(FixedTables& tables) {
  // Grey needs no chroma.
  if (from_->family == ColorFamily::kYuv && to_->family == ColorFamily::kGrey) {
    stored_.count = 1;
  }
  for (int i = 0; i < stored_.count; ++i) {
    const auto p = static_cast<size_t>(i);
    const Axes axes = MakeAxes(*plan_, stored_.planes[p], *from_, transposed_);
    planes_[p].along = tables.taps.Get(axes.along, MakeFixedTaps);
    planes_[p].down = tables.taps.Get(axes.down, MakeFixedTaps);
    if (planes_[p].along == nullptr || planes_[p].down == nullptr) return false;
  }
  return FitsScratch();
}

bool FixedRenderer::FitsScratch() const {
  size_t bytes = 0;
  for (int i = 0; i < stored_.count; ++i) {
    const auto p = static_cast<size_t>(i);
    bytes += PlaneSampler::ScratchBytes(stored_.planes[p], transposed_,
                                        *planes_[p].along, *planes_[p].down);
  }
  return bytes <= kMaxScratchBytes;
}

void FixedRenderer::SetLumaTable() {
  const YuvToRgbCoefficients k = GetYuvToRgbCoefficients(plan_->source.color);
  yuv_ = MakeFixedYuv(k, fraction_);
  for (int v = 0; v < 256; ++v) {
    const double grey = std::floor((v - k.y_offset) * k.y_scale + 0.5);
    luma_[static_cast<size_t>(v)] =
        static_cast<uint8_t>(std::clamp(grey, 0.0, 255.0));
  }
}

// Same size with chroma at half the width, nothing to filter: the pixels read
// the chroma row where it lies.
bool FixedRenderer::half_chroma() const {
  if (stored_.count < 2) return false;
  const Plane& luma = planes_[0];
  const Plane& chroma = planes_[1];
  return stored_.planes[1].chroma && luma.along->identity &&
         luma.down->count == 1 && chroma.along->doubled &&
         chroma.down->count == 1;
}

// One band on one thread.
class FixedRenderer::Band {
 public:
  explicit Band(const FixedRenderer& r)
      : r_(r),
        plan_(*r.plan_),
        to_(*r.to_),
        elements_(*r.elements_),
        half_(r.half_chroma()),
        content_(r.plan_->placement.destination),
        width_(static_cast<size_t>(content_.width)),
        arena_(ThreadArena()) {
    arena_.Reset();
    for (size_t i = 0; i < static_cast<size_t>(r.stored_.count); ++i) {
      samplers_[i].emplace(r.stored_.planes[i], r.transposed_,
                           *r.planes_[i].along, *r.planes_[i].down,
                           half_ && i > 0, arena_);
    }
    for (uint8_t*& row : bytes_) row = arena_.Take<uint8_t>(width_);
    for (int16_t*& row : words_) row = arena_.Take<int16_t>(width_);
    if (!elements_.plain()) {
      for (std::byte*& row : packed_) {
        row = arena_.Take<std::byte>(width_ * elements_.element_bytes());
      }
    }
    pixel_bytes_ = elements_.element_bytes() *
                   (is_planar() ? size_t{1} : size_t{to_.channels});
    if (plan_.has_padding) MakePadding();
  }

  // As Render for a row without padding, in pieces where a row is made in one
  // step.
  void RenderPieces(int y, PieceDone done) {
    const auto width = static_cast<int>(width_);
    if (to_.family != ColorFamily::kRgb || !elements_.plain()) {
      Render(y);
      done(y, 0, width);
      return;
    }
    Sample(y - content_.y);
    const PixelInput in = Input();
    const PixelOutput out = PlainOutput(y);
    for (int x = 0; x < width; x += kPiecePixels) {
      const int end = std::min(width, x + kPiecePixels);
      PixelOutput piece = out;
      for (uint8_t*& row : piece.rows) {
        if (row != nullptr) row += static_cast<size_t>(x) * pixel_bytes_;
      }
      WritePixels(AdvancePixels(in, static_cast<size_t>(x)),
                  static_cast<size_t>(end - x), piece);
      done(y, x, end);
    }
  }

  void RenderAll(int begin, int end) {
    const int top = std::clamp(content_.y, begin, end);
    const int bottom = std::clamp(content_.y + content_.height, begin, end);
    PadOutside(begin, top);
    PadOutside(bottom, end);
    for (int y = top; y < bottom; ++y) Render(y);
  }

  // Rows without content.
  void PadOutside(int begin, int end) const {
    for (size_t p = 0; p < padding_.size(); ++p) {
      if (padding_[p] != nullptr) PadRows(p, begin, end);
    }
  }

  // A row of the content, with what is left and right of it.
  void Render(int y) {
    if (plan_.has_padding) PadSides(y);
    Sample(y - content_.y);
    if (to_.family == ColorFamily::kGrey) {
      WriteGrey(y);
    } else {
      WriteColor(y);
    }
  }

 private:
  void Sample(int row) {
    for (std::optional<PlaneSampler>& sampler : samplers_) {
      if (sampler) sampler->Sample(row);
    }
  }

  bool is_planar() const {
    return to_.family == ColorFamily::kGrey || to_.is_planar_rgb();
  }
  size_t channels() const { return to_.channels; }
  // Plane of channel `c`, for planar destinations.
  int plane_of(size_t c) const {
    return to_.family == ColorFamily::kGrey ? 0 : to_.channel_order[c];
  }
  std::byte* Out(int plane, int y) const {
    return r_.destination_->row(plane, y) +
           static_cast<size_t>(content_.x) * pixel_bytes_;
  }

  // One destination row of padding per plane.
  void MakePadding() {
    const std::array<double, kMaxChannels> pad = PadValues(plan_);
    const auto width = static_cast<size_t>(plan_.destination.width);
    const size_t element = elements_.element_bytes();
    for (size_t c = 0; c < channels(); ++c) {
      const auto value = static_cast<uint8_t>(std::floor(pad[c] + 0.5));
      const uint32_t bits = elements_.bits(c, value);
      const auto plane = static_cast<size_t>(plane_of(c));
      const size_t at = is_planar() ? plane : 0;
      if (padding_[at] == nullptr) {
        padding_[at] = arena_.Take<std::byte>(width * pixel_bytes_);
      }
      std::byte* to = padding_[at] + (is_planar() ? 0 : plane * element);
      for (size_t x = 0; x < width; ++x, to += pixel_bytes_) {
        memcpy(to, &bits, element);
      }
    }
  }

  void PadSides(int y) const {
    const auto width = static_cast<size_t>(plan_.destination.width);
    const auto left = static_cast<size_t>(content_.x);
    const size_t right = left + width_;
    for (size_t p = 0; p < padding_.size(); ++p) {
      if (padding_[p] == nullptr) continue;
      std::byte* row = r_.destination_->row(static_cast<int>(p), y);
      memcpy(row, padding_[p], left * pixel_bytes_);
      memcpy(row + right * pixel_bytes_, padding_[p] + right * pixel_bytes_,
             (width - right) * pixel_bytes_);
    }
  }

  // Whole rows [begin, end) of padding of one plane; at once where its rows
  // touch and hold one byte only.
  void PadRows(size_t plane, int begin, int end) const {
    if (begin >= end) return;
    const size_t row_bytes =
        static_cast<size_t>(plan_.destination.width) * pixel_bytes_;
    const std::byte* pad = padding_[plane];
    const auto p = static_cast<int>(plane);
    if (r_.destination_->desc.planes[plane].stride_bytes == row_bytes &&
        memcmp(pad, pad + 1, row_bytes - 1) == 0) {
      memset(r_.destination_->row(p, begin), static_cast<int>(pad[0]),
             row_bytes * static_cast<size_t>(end - begin));
      return;
    }
    for (int y = begin; y < end; ++y) {
      memcpy(r_.destination_->row(p, y), pad, row_bytes);
    }
  }

  // Row `i` of a sampler as bytes.
  const uint8_t* Bytes(size_t sampler, size_t i, uint8_t* scratch) const {
    const PlaneSampler& s = *samplers_[sampler];
    if (!s.staged()) return static_cast<const uint8_t*>(s.row(i));
    RoundRow(static_cast<const int16_t*>(s.row(i)), r_.fraction_, width_,
             scratch);
    return scratch;
  }

  // Row `i` of a sampler as staged samples.
  const int16_t* Words(size_t sampler, size_t i, int16_t* scratch) const {
    const PlaneSampler& s = *samplers_[sampler];
    if (s.staged()) return static_cast<const int16_t*>(s.row(i));
    const auto* row = static_cast<const uint8_t*>(s.row(i));
    const int16_t one = r_.fraction_ == kLobeFraction
                            ? int16_t{1 << 13}
                            : std::numeric_limits<int16_t>::max();
    FilterRows(&row, &one, 1, width_, scratch);
    return scratch;
  }

  PixelInput YuvInput() const {
    PixelInput in;
    in.yuv = r_.yuv_;
    const bool pairs = r_.stored_.planes[1].channels == 2;
    if (half_) {
      in.source =
          pairs ? PixelSource::kYuvHalfPacked : PixelSource::kYuvHalfPlanar;
      in.v_first = r_.stored_.v_first;
      in.rows[0] = samplers_[0]->row(0);
      in.rows[1] = samplers_[1]->row(0);
      if (!pairs) in.rows[2] = samplers_[2]->row(0);
      return in;
    }
    // Where U and V are: sampler and row.
    const size_t u_row = r_.stored_.v_first ? 1 : 0;
    const size_t v_row = pairs ? 1 - u_row : 0;
    const size_t v_sampler = pairs ? 1 : 2;
    const bool staged = samplers_[0]->staged() || samplers_[1]->staged();
    if (staged) {
      in.source = PixelSource::kYuvStaged;
      in.rows[0] = Words(0, 0, words_[0]);
      in.rows[1] = Words(1, u_row, words_[1]);
      in.rows[2] = Words(v_sampler, v_row, words_[2]);
    } else {
      in.source = PixelSource::kYuv;
      in.yuv = byte_yuv();
      in.rows[0] = samplers_[0]->row(0);
      in.rows[1] = samplers_[1]->row(u_row);
      in.rows[2] = samplers_[v_sampler]->row(v_row);
    }
    return in;
  }

  // Bytes are centred with the plain fraction whatever the filter.
  FixedYuv byte_yuv() const {
    if (r_.fraction_ == kPlainFraction) return r_.yuv_;
    return MakeFixedYuv(GetYuvToRgbCoefficients(plan_.source.color),
                        kPlainFraction);
  }

  PixelInput Input() const {
    PixelInput in;
    switch (r_.from_->family) {
      case ColorFamily::kYuv:
        in = YuvInput();
        if (half_) in.yuv = byte_yuv();
        return in;
      case ColorFamily::kGrey:
        in.rows[0] = Bytes(0, 0, bytes_[4]);
        in.rows[1] = in.rows[0];
        in.rows[2] = in.rows[0];
        return in;
      case ColorFamily::kRgb:
        break;
    }
    if (r_.from_->is_planar_rgb()) {
      for (size_t c = 0; c < static_cast<size_t>(r_.stored_.count); ++c) {
        in.rows[c] = Bytes(c, 0, bytes_[4 + c]);
      }
      return in;
    }
    in.source = PixelSource::kRgbx;
    in.rows[0] = samplers_[0]->row(0);
    in.bgr = r_.stored_.bgr;
    in.has_alpha = r_.from_->has_alpha;
    return in;
  }

  void WriteGrey(int y) {
    std::byte* out = Out(0, y);
    if (r_.from_->family == ColorFamily::kRgb) {
      PixelOutput grey;
      grey.layout = PixelLayout::kGrey;
      grey.rows[0] =
          elements_.plain() ? reinterpret_cast<uint8_t*>(out) : bytes_[0];
      grey.flip = elements_.flip();
      WritePixels(Input(), width_, grey);
      if (!elements_.plain()) elements_.Row(0, bytes_[0], width_, out);
      return;
    }
    const uint8_t* row = Bytes(0, 0, bytes_[1]);
    if (r_.from_->family == ColorFamily::kYuv) {
      for (size_t x = 0; x < width_; ++x) bytes_[0][x] = r_.luma_[row[x]];
      row = bytes_[0];
    }
    if (elements_.plain() && elements_.flip() == 0) {
      memcpy(out, row, width_);
    } else {
      elements_.Row(0, row, width_, out);
    }
  }

  PixelLayout PackedLayout() const {
    const bool bgr = to_.channel_order[0] != 0;
    if (to_.has_alpha) return bgr ? PixelLayout::kBgra : PixelLayout::kRgba;
    return bgr ? PixelLayout::kBgr : PixelLayout::kRgb;
  }

  // Where row `y` of plain elements goes.
  PixelOutput PlainOutput(int y) const {
    PixelOutput out;
    out.flip = elements_.flip();
    if (!is_planar()) {
      out.layout = PackedLayout();
      out.rows[0] = reinterpret_cast<uint8_t*>(Out(0, y));
      return out;
    }
    out.layout = PixelLayout::kPlanes;
    for (size_t c = 0; c < channels(); ++c) {
      out.rows[c] = reinterpret_cast<uint8_t*>(Out(plane_of(c), y));
    }
    return out;
  }

  void WriteColor(int y) {
    const PixelInput in = Input();
    if (elements_.plain()) {
      WritePixels(in, width_, PlainOutput(y));
      return;
    }
    PixelOutput out;
    // Values first, then each channel's elements.
    out.layout = PixelLayout::kPlanes;
    for (size_t c = 0; c < channels(); ++c) out.rows[c] = bytes_[c];
    WritePixels(in, width_, out);
    for (size_t c = 0; c < channels(); ++c) {
      elements_.Row(c, bytes_[c], width_,
                    is_planar() ? Out(plane_of(c), y) : packed_[c]);
    }
    if (!is_planar()) PackElements(Out(0, y));
  }

  void PackElements(std::byte* out) const {
    const bool bgr = to_.channel_order[0] != 0;
    const std::array<const std::byte*, kMaxChannels> rows = {
        packed_[bgr ? 2 : 0], packed_[1], packed_[bgr ? 0 : 2], packed_[3]};
    if (elements_.element_bytes() > 1) {
      InterleaveElements(rows, static_cast<int>(channels()),
                         elements_.element_bytes(), width_, out);
      return;
    }
    PixelInput in;
    for (size_t c = 0; c < channels(); ++c) in.rows[c] = rows[c];
    PixelOutput pixels;
    pixels.layout = to_.has_alpha ? PixelLayout::kRgba : PixelLayout::kRgb;
    pixels.rows[0] = reinterpret_cast<uint8_t*>(out);
    WritePixels(in, width_, pixels);
  }

  const FixedRenderer& r_;
  const ConvertPlan& plan_;
  const PixelFormatInfo& to_;
  const ElementTable& elements_;
  const bool half_;
  const Rect content_;
  const size_t width_;  // of the content
  size_t pixel_bytes_ = 1;
  RowArena& arena_;
  std::array<std::optional<PlaneSampler>, 4> samplers_;
  // 0..3: results; 4..7: rounded inputs.
  std::array<uint8_t*, 8> bytes_ = {};
  std::array<int16_t*, 3> words_ = {};
  std::array<std::byte*, 4> packed_ = {};
  std::array<std::byte*, 4> padding_ = {};
};

void FixedRenderer::RenderRows(int begin, int end) const {
  Band band(*this);
  band.RenderAll(begin, end);
}

FixedRenderer::RowRange FixedRenderer::SourceRows(int plane, int y) const {
  const FixedTaps& down = *planes_[static_cast<size_t>(plane)].down;
  const auto row = static_cast<size_t>(y - plan_->placement.destination.y);
  const int first = down.begin + down.first[row];
  return {first, first + down.count - 1};
}

void FixedRenderer::RenderWhenReady(
    bool bottom_up, absl::FunctionRef<bool(int y)> ready) const {
  Band band(*this);
  const Rect& content = plan_->placement.destination;
  const int end = content.y + content.height;
  band.PadOutside(0, content.y);
  band.PadOutside(end, plan_->destination.height);
  for (int i = 0; i < content.height; ++i) {
    const int y = bottom_up ? end - 1 - i : content.y + i;
    if (!ready(y)) return;
    band.Render(y);
  }
}

void FixedRenderer::RenderEach(int begin, int end,
                               absl::FunctionRef<bool(int y)> wanted,
                               PieceDone done) const {
  Band band(*this);
  for (int y = begin; y < end; ++y) {
    if (wanted(y)) band.RenderPieces(y, done);
  }
}

}  // namespace preprocd
