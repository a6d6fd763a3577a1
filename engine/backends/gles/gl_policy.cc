#include "engine/backends/gles/gl_policy.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace preprocd {
namespace {

using enum GlSerialisation;
using enum GlYuvPath;
using enum GlTransfer;

// Sources: hal.md 2.4 and 6.4 for devices, measured here for software. Rows
// are tried in order.
constexpr RendererTraits kRenderers[] = {
    {"llvmpipe", true, kLifecycle, kTexelFetch, true, 1, 1, 4, kMemory, 1},
    {"softpipe", true, kLifecycle, kTexelFetch, true, 1, 1, 4, kMemory, 1},
    {"swr", true, kLifecycle, kTexelFetch, true, 1, 1, 4, kMemory, 1},
    // Races between contexts; point-like sampling of stored YUV costs twelve
    // times the driver's own; float targets render wrongly.
    {"vivante", false, kFull, kExternalSampler, false, 64, 64, 1, kPbo, 1},
    {"gc7000", false, kFull, kExternalSampler, false, 64, 64, 1, kPbo, 1},
    // Parallel contexts gave wrong bytes.
    {"virgl", false, kFull, kTexelFetch, true, 64, 64, 1, kPbo, 1},
    {"virtio", false, kFull, kTexelFetch, true, 64, 64, 1, kPbo, 1},
    {"paravirtual", false, kFull, kTexelFetch, true, 64, 64, 1, kPbo, 1},
    // Samples zeros from unaligned offsets, refuses other pitches.
    {"mali", false, kLifecycle, kTexelFetch, true, 64, 64, 1, kPbo, 2},
    {"v3d", false, kLifecycle, kTexelFetch, true, 64, 1, 1, kPbo, 2},
    {"tegra", false, kLifecycle, kTexelFetch, true, 64, 64, 1, kPbo, 2},
    {"", false, kLifecycle, kTexelFetch, true, 64, 64, 1, kPbo, 1},
};

// More reads than this in one pass cost more than an intermediate.
constexpr int kMaxTapsOfOnePass = 16;

bool FillsBlocks(const ImportWindow& window, uint64_t width, uint64_t height,
                 int block) {
  const auto b = static_cast<uint64_t>(block);
  return static_cast<uint64_t>(window.x) % b == 0 &&
         static_cast<uint64_t>(window.y) % b == 0 && width % b == 0 &&
         height % b == 0;
}

}  // namespace

const RendererTraits& TraitsOfRenderer(absl::string_view renderer) {
  const std::string lower = absl::AsciiStrToLower(renderer);
  return *std::find_if(std::begin(kRenderers), std::end(kRenderers),
                       [&lower](const RendererTraits& row) {
                         return absl::StrContains(lower, row.match);
                       });
}

RendererTraits ResolveTraits(absl::string_view renderer,
                             const GlSettings& settings) {
  RendererTraits traits = TraitsOfRenderer(renderer);
  if (settings.serialisation) traits.serialisation = *settings.serialisation;
  if (settings.yuv_path) traits.yuv_path = *settings.yuv_path;
  if (settings.transfer && *settings.transfer != kZeroCopy) {
    traits.upload = *settings.transfer;
  }
  if (settings.workers > 0) traits.workers = settings.workers;
  return traits;
}

GlTransfer LowerPicture(BufferKind kind, const GlFeatures& features,
                        const RendererTraits& traits,
                        const GlSettings& settings) {
  const bool allowed =
      !settings.transfer || *settings.transfer == GlTransfer::kZeroCopy;
  if (allowed && features.can_import(kind)) return GlTransfer::kZeroCopy;
  return traits.upload;
}

PassShapes ShapePasses(const ConvertPlan& plan, int taps_x, int taps_y,
                       bool rounds, const GlFeatures& features) {
  PassShapes shapes;
  const bool many =
      taps_x * taps_y > kMaxTapsOfOnePass || taps_x > 4 || taps_y > 4;
  const bool keeps_fraction =
      plan.precision == Precision::kFull
          ? features.render_float32
          : features.render_float32 || features.render_half;
  // Without a target that keeps fractions one pass does all taps.
  shapes.two_axes = (rounds && taps_x > 1) || (many && keeps_fraction);
  const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
  const bool bytes = DTypeSize(plan.destination.dtype) == 1 &&
                     plan.precision != Precision::kFull;
  const bool four =
      to.family == ColorFamily::kRgb && !to.is_planar_rgb() && to.channels == 4;
  const bool one = to.family == ColorFamily::kGrey && features.read_red;
  shapes.last =
      bytes && (four || one) ? PassShape::kDirect : PassShape::kPacked;
  return shapes;
}

std::optional<ImportWindow> ChooseImport(
    uint64_t buffer_bytes, uint64_t offset_bytes, uint64_t stride_bytes,
    uint64_t row_bytes, int rows, int texel_bytes, int block, int max_texture,
    const RendererTraits& traits) {
  const auto texel = static_cast<uint64_t>(texel_bytes);
  const auto largest = static_cast<uint64_t>(max_texture);
  const auto pitch = static_cast<uint64_t>(traits.pitch_alignment);
  const auto aligned = static_cast<uint64_t>(traits.offset_alignment);
  const auto height = static_cast<uint64_t>(rows);
  if (stride_bytes == 0 || stride_bytes % texel != 0 ||
      stride_bytes % pitch != 0 || row_bytes % texel != 0) {
    return std::nullopt;
  }
  const uint64_t column = offset_bytes % stride_bytes;
  const uint64_t row = offset_bytes / stride_bytes;
  ImportWindow window;
  // Texels of a whole raster end where a stride ends; the last row of a
  // tight picture may lie past the last whole stride.
  const uint64_t raster_rows = std::min(buffer_bytes / stride_bytes, largest);
  if (column % texel == 0 && column + row_bytes <= stride_bytes &&
      stride_bytes / texel <= largest && row + height <= raster_rows) {
    window.width = static_cast<int>(stride_bytes / texel);
    window.height = static_cast<int>(raster_rows);
    window.x = static_cast<int>(column / texel);
    window.y = static_cast<int>(row);
    if (!FillsBlocks(window, row_bytes / texel, height, block)) {
      return std::nullopt;
    }
    return window;
  }
  // The picture alone, from an aligned offset at or before its first byte.
  const uint64_t rest = offset_bytes % aligned;
  const uint64_t base = offset_bytes - rest;
  const uint64_t width_bytes = row_bytes + rest;
  if (rest % texel != 0 || width_bytes > stride_bytes ||
      width_bytes / texel > largest || height > largest) {
    return std::nullopt;
  }
  if (base + stride_bytes * (height - 1) + width_bytes > buffer_bytes) {
    return std::nullopt;
  }
  window.offset_bytes = base;
  window.width = static_cast<int>(width_bytes / texel);
  window.height = rows;
  window.x = static_cast<int>(rest / texel);
  if (!FillsBlocks(window, row_bytes / texel, height, block)) {
    return std::nullopt;
  }
  return window;
}

int64_t StallLimitMs(const GlSettings& settings, bool software, int64_t taps) {
  // Two cores read some 20 million texels a second in the worst programs.
  constexpr int64_t kTapsPerMs = 10'000;
  return settings.stall_ms + (software ? taps / kTapsPerMs : 0);
}

}  // namespace preprocd
