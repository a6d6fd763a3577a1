#include "engine/backends/cpu/cpu_converter.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/fixed_renderer.h"
#include "engine/backends/cpu/row_sampler.h"
#include "engine/backends/cpu/row_source.h"
#include "engine/backends/cpu/row_writer.h"
#include "engine/backends/cpu/strip_renderer.h"
#include "engine/backends/cpu/table_cache.h"
#include "engine/backends/cpu/tile_strips.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/convert/strip_converter.h"

namespace preprocd {
namespace {

// Splitting fewer rows, or fewer pixels (read or written, whichever is more),
// costs more in wake-ups than it saves.
constexpr int kMinBandRows = 16;
constexpr int64_t kMinBandPixels = 64 * 1024;

// What the sets cannot say; see Capabilities::decline.
std::optional<std::string> Decline(const ConvertPlan& plan) {
  const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
  if (to.family == ColorFamily::kYuv && plan.normalize) {
    return absl::StrCat("destination ", to.name,
                        " takes no normalisation or quantisation");
  }
  return std::nullopt;
}

Capabilities MakeCapabilities() {
  using enum PixelFormat;
  Capabilities c;
  c.name = "cpu";
  c.rank = 100;
  c.detail = "streaming rows";
  c.sources = {kGrey,      kRgb,        kRgba, kBgr,  kBgra, kPlanarRgb,
               kPlanarBgr, kPlanarRgba, kNv12, kNv21, kNv16, kNv24,
               kI420,      kYuyv,       kUyvy, kVyuy};
  c.destinations = c.sources;
  c.source_dtypes = {DType::kU8, DType::kI8};
  c.destination_dtypes = {DType::kU8,  DType::kI8,   DType::kU16, DType::kI16,
                          DType::kF16, DType::kBf16, DType::kF32};
  c.filters = {Filter::kNearest, Filter::kBilinear, Filter::kBilinearAa,
               Filter::kArea,    Filter::kBicubic,  Filter::kBicubicAa,
               Filter::kLanczos3};
  c.orientations = {
      Orientation::kNormal,          Orientation::kMirror,
      Orientation::kRotate180,       Orientation::kMirrorRotate180,
      Orientation::kMirrorRotate270, Orientation::kRotate90,
      Orientation::kMirrorRotate90,  Orientation::kRotate270};
  c.fits = {Fit::kStretch, Fit::kLetterbox, Fit::kCover, Fit::kPlace};
  c.precisions = {Precision::kEightBit, Precision::kFull};
  c.numerics = {Numerics::kDefault};
  c.decline = Decline;
  return c;
}

BandScratch& ThreadScratch() {
  thread_local BandScratch scratch;
  return scratch;
}

// One convert: renders bands of destination rows.
class Renderer {
 public:
  Renderer(const ConvertPlan& plan, const ConstImageView& source,
           const ImageView& destination, const FloatTaps& taps_x,
           const FloatTaps& taps_y)
      : plan_(plan),
        to_(GetPixelFormatInfo(plan.destination.format)),
        taps_x_(taps_x),
        taps_y_(taps_y),
        source_(plan, source),
        color_(plan),
        writer_(plan, destination),
        pad_(PadValues(plan)) {}

  // Destination rows [begin, end); for subsampled destinations `begin` is a
  // multiple of the chroma block.
  void RenderRows(int begin, int end) const {
    BandScratch& scratch = ThreadScratch();
    const auto width = static_cast<size_t>(plan_.destination.width);
    // The unpadded values start at the placement's left edge, so a row is
    // completed by filling both sides.
    if (scratch.values.size() < width * kMaxChannels) {
      scratch.values.resize(width * kMaxChannels);
    }
    std::array<float*, kMaxChannels> rows = {};
    for (size_t c = 0; c < rows.size(); ++c) {
      rows[c] = scratch.values.data() + c * width;
    }
    RowSampler sampler(source_, taps_x_, taps_y_, scratch);
    if (to_.family == ColorFamily::kYuv) {
      RenderYuv(begin, end, rows, sampler, scratch);
      return;
    }
    for (int y = begin; y < end; ++y) {
      RenderValues(y, rows, sampler);
      writer_.Write(y, rows, scratch);
    }
  }

 private:
  void RenderValues(int y, const std::array<float*, kMaxChannels>& rows,
                    RowSampler& sampler) const {
    const Rect& r = plan_.placement.destination;
    const bool inside = y >= r.y && y < r.y + r.height;
    if (inside) {
      std::array<float*, kMaxChannels> content = {};
      for (size_t c = 0; c < rows.size(); ++c) content[c] = rows[c] + r.x;
      sampler.Sample(y - r.y, content);
      color_.Apply(content, r.width);
    }
    if (!plan_.has_padding) return;
    const int left = inside ? r.x : plan_.destination.width;
    const int right = inside ? r.x + r.width : plan_.destination.width;
    for (size_t c = 0; c < rows.size(); ++c) {
      const auto value = static_cast<float>(pad_[c]);
      std::fill(rows[c], rows[c] + left, value);
      std::fill(rows[c] + right, rows[c] + plan_.destination.width, value);
    }
  }

  void RenderYuv(int begin, int end,
                 const std::array<float*, kMaxChannels>& rows,
                 RowSampler& sampler, BandScratch& scratch) const {
    const auto width = static_cast<size_t>(plan_.destination.width);
    if (scratch.chroma.size() < width * 2) scratch.chroma.resize(width * 2);
    float* u = scratch.chroma.data();
    float* v = u + width;
    const int block = 1 << to_.chroma_y_shift;
    for (int y0 = begin; y0 < end; y0 += block) {
      const int y1 = std::min(end, y0 + block);
      std::fill_n(u, 2 * width, 0.0f);
      for (int y = y0; y < y1; ++y) {
        RenderValues(y, rows, sampler);
        writer_.WriteLuma(y, rows[0]);
        for (size_t x = 0; x < width; ++x) {
          u[x] += rows[1][x];
          v[x] += rows[2][x];
        }
      }
      writer_.WriteChroma(y0 >> to_.chroma_y_shift, u, v, y1 - y0);
    }
  }

  const ConvertPlan& plan_;
  const PixelFormatInfo& to_;
  const FloatTaps& taps_x_;
  const FloatTaps& taps_y_;
  const RowSource source_;
  const RowColor color_;
  const RowWriter writer_;
  const std::array<double, kMaxChannels> pad_;
};

// True when the destination is a rectangle of the source, byte for byte.
bool IsRowCopy(const ConvertPlan& plan) {
  const PixelFormatInfo& info = GetPixelFormatInfo(plan.source.format);
  return plan.source.format == plan.destination.format &&
         plan.source.dtype == plan.destination.dtype && plan.same_size &&
         !plan.has_padding && !plan.normalize &&
         plan.orientation == Orientation::kNormal &&
         info.family != ColorFamily::kYuv;
}

void CopyRows(const ConvertPlan& plan, const ConstImageView& source,
              const ImageView& destination, RowPool& pool) {
  const PixelFormatInfo& info = GetPixelFormatInfo(plan.source.format);
  const Rect& from = plan.shown_stored;
  for (int plane = 0; plane < info.plane_count; ++plane) {
    const size_t unit = info.planes[static_cast<size_t>(plane)].unit_elements;
    const size_t offset = static_cast<size_t>(from.x) * unit;
    const size_t bytes = static_cast<size_t>(from.width) * unit;
    pool.ParallelRows(from.height, 4 * kMinBandRows, [&](int begin, int end) {
      for (int y = begin; y < end; ++y) {
        memcpy(destination.row(plane, y),
               source.row(plane, from.y + y) + offset, bytes);
      }
    });
  }
}

// Destination rows that are worth a thread of their own.
int MinBandRows(const ConvertPlan& plan) {
  const Rect& shown = plan.placement.shown;
  const int64_t pixels =
      std::max(int64_t{shown.width} * shown.height,
               int64_t{plan.destination.width} * plan.destination.height);
  const int64_t height = plan.destination.height;
  return static_cast<int>(std::clamp<int64_t>(kMinBandPixels * height / pixels,
                                              kMinBandRows, kMaxImageAxis));
}

class CpuConverter : public Converter, public StripConverter {
 public:
  const Capabilities& capabilities() const override { return capabilities_; }

  absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   RowPool& pool) override {
    MappedSource from;
    RETURN_IF_ERROR(from.Map(plan.source, source));
    MappedDestination to;
    RETURN_IF_ERROR(to.Map(plan.destination, destination));
    if (IsRowCopy(plan)) {
      CopyRows(plan, from.view(), to.view(), pool);
    } else {
      Render(plan, from.view(), to.view(), pool);
    }
    RETURN_IF_ERROR(to.Finish());
    return from.bytes_copied() + to.bytes_copied();
  }

  absl::StatusOr<uint64_t> ConvertMany(std::span<const ConvertPlan> plans,
                                       const PictureBuffers& source,
                                       const PictureBuffers& destination,
                                       RowPool& pool,
                                       PictureFinished finished) override {
    if (CanShareStrips(plans) && WritesThrough(destination)) {
      MappedSource from;
      RETURN_IF_ERROR(from.Map(plans[0].source, source));
      const auto to = std::make_unique<MappedDestination[]>(plans.size());
      std::vector<ImageView> tiles(plans.size());
      for (size_t i = 0; i < plans.size(); ++i) {
        RETURN_IF_ERROR(to[i].Map(plans[i].destination, destination));
        tiles[i] = to[i].view();
      }
      if (RenderStrips(plans, from.view(), tiles, fixed_tables_, pool,
                       finished)) {
        for (size_t i = 0; i < plans.size(); ++i) {
          RETURN_IF_ERROR(to[i].Finish());
        }
        return from.bytes_copied();
      }
    }
    return Converter::ConvertMany(plans, source, destination, pool, finished);
  }

  StripConverter* strips() override { return this; }

  absl::StatusOr<std::optional<StripConvertReport>> ConvertStrips(
      const ConvertPlan& plan, StripSource& source,
      const PictureBuffers& destination, RowPool& pool) override {
    MappedDestination to;
    RETURN_IF_ERROR(to.Map(plan.destination, destination));
    ASSIGN_OR_RETURN(
        std::optional<StripConvertReport> report,
        RenderFromStrips(plan, source, to.view(), fixed_tables_, pool));
    if (!report) return report;
    RETURN_IF_ERROR(to.Finish());
    report->bytes_copied = to.bytes_copied();
    return report;
  }

 private:
  void Render(const ConvertPlan& plan, const ConstImageView& source,
              const ImageView& destination, RowPool& pool) {
    const auto fixed =
        FixedRenderer::Make(plan, source, destination, fixed_tables_);
    if (fixed) {
      pool.ParallelRows(
          plan.destination.height, MinBandRows(plan),
          [&](int begin, int end) { fixed->RenderRows(begin, end); });
      return;
    }
    const Placement& p = plan.placement;
    FloatTapsRequest x;
    x.filter = plan.filter;
    x.area_blends = plan.filter == Filter::kArea &&
                    AreaBlends(p.shown.size(), p.destination.size());
    FloatTapsRequest y = x;
    x.source_extent = p.shown.width;
    x.destination_extent = p.destination.width;
    x.rounds = plan.precision != Precision::kFull &&
               RoundsBetweenAxes(plan.filter,
                                 GetPixelFormatInfo(plan.source.format).family);
    y.source_extent = p.shown.height;
    y.destination_extent = p.destination.height;
    const auto taps_x = taps_.Get(x, MakeFloatTaps);
    const auto taps_y = taps_.Get(y, MakeFloatTaps);
    const Renderer renderer(plan, source, destination, *taps_x, *taps_y);
    const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
    const int block = 1 << to.chroma_y_shift;
    const int height = plan.destination.height;
    pool.ParallelRows((height + block - 1) / block, MinBandRows(plan) / block,
                      [&](int begin, int end) {
                        renderer.RenderRows(begin * block,
                                            std::min(height, end * block));
                      });
  }

  const Capabilities capabilities_ = MakeCapabilities();
  TableCache<FloatTapsRequest, FloatTaps> taps_;
  FixedTables fixed_tables_;
};

}  // namespace

std::unique_ptr<Converter> MakeCpuConverter() {
  return std::make_unique<CpuConverter>();
}

}  // namespace preprocd
