#include "engine/backends/gles/job_builder.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "engine/backends/gles/image_import.h"
#include "engine/base/check.h"

namespace preprocd {
namespace {

uint64_t AlignFour(uint64_t bytes) { return (bytes + 3) / 4 * 4; }

uint32_t FourccOf(TexelFormat format) {
  switch (format) {
    case TexelFormat::kR8:
      return kFourccR8;
    case TexelFormat::kRg8:
      return kFourccGr88;
    default:
      return kFourccAbgr8888;
  }
}

bool AllImportable(const PictureBuffers& picture, const JobSettings& s) {
  if (!s.may_import) return false;
  for (size_t i = 0; i < static_cast<size_t>(picture.count); ++i) {
    if (LowerPicture(picture.buffers[i]->kind(), s.features, s.traits,
                     s.settings) != GlTransfer::kZeroCopy) {
      return false;
    }
  }
  return true;
}

std::optional<PlaneImport> ImportOf(const Buffer& buffer, uint64_t offset,
                                    uint64_t stride, uint64_t row_bytes,
                                    int rows, TexelFormat format, int block,
                                    const JobSettings& s) {
  if (format == TexelFormat::kRgb8) return std::nullopt;
  if (format != TexelFormat::kRgba8 && !s.features.import_r8) {
    return std::nullopt;
  }
  const std::optional<ImportWindow> window =
      ChooseImport(buffer.size_bytes(), offset, stride, row_bytes, rows,
                   TexelBytes(format), block, s.features.max_texture, s.traits);
  if (!window) return std::nullopt;
  PlaneImport plane;
  plane.key.identity = buffer.identity();
  plane.key.offset_bytes = window->offset_bytes;
  plane.key.stride_bytes = stride;
  plane.key.width = window->width;
  plane.key.height = window->height;
  plane.key.fourcc = FourccOf(format);
  plane.key.modifier = kModifierLinear;
  plane.buffer_bytes = buffer.size_bytes();
  plane.x = window->x;
  plane.y = window->y;
  return plane;
}

// The driver's conversion stands for ours only where the definition leaves
// the least room: rgb destinations at eight bits, no fancy chroma.
bool WantsExternal(std::span<const ConvertPlan> plans, const JobSettings& s) {
  const ImageDesc& source = plans[0].source;
  if (s.traits.yuv_path != GlYuvPath::kExternalSampler ||
      !s.features.import_nv12 || source.format != PixelFormat::kNv12 ||
      source.dtype != DType::kU8 || source.width % 2 != 0 ||
      source.height % 2 != 0) {
    return false;
  }
  return std::ranges::all_of(plans, [](const ConvertPlan& plan) {
    return GetPixelFormatInfo(plan.destination.format).family ==
               ColorFamily::kRgb &&
           plan.precision == Precision::kEightBit &&
           plan.chroma != ChromaUpsampling::kFancy;
  });
}

PlaneImport ExternalImport(const ImageDesc& desc,
                           const PictureBuffers& picture) {
  const Buffer& luma = *picture.buffers[desc.planes[0].buffer_index];
  const Buffer& chroma = *picture.buffers[desc.planes[1].buffer_index];
  PlaneImport plane;
  plane.key.identity = luma.identity();
  plane.key.offset_bytes = desc.planes[0].offset_bytes;
  plane.key.stride_bytes = desc.planes[0].stride_bytes;
  plane.key.second_identity = chroma.identity();
  plane.key.second_offset_bytes = desc.planes[1].offset_bytes;
  plane.key.second_stride_bytes = desc.planes[1].stride_bytes;
  plane.key.width = desc.width;
  plane.key.height = desc.height;
  plane.key.fourcc = kFourccNv12;
  plane.key.modifier = kModifierLinear;
  plane.key.colour_hints = static_cast<uint32_t>(desc.color.matrix);
  if (desc.color.range == ColorRange::kFull) {
    plane.key.colour_hints |= kHintFullRange;
  }
  plane.buffer_bytes = luma.size_bytes();
  plane.descriptor = static_cast<int>(desc.planes[0].buffer_index);
  plane.second_descriptor = static_cast<int>(desc.planes[1].buffer_index);
  return plane;
}

// False when a plane cannot be imported.
bool ImportSource(const ImageDesc& desc, const PictureBuffers& picture,
                  const JobSettings& s, RenderJob& job) {
  if (job.source.fetch == PixelFetch::kExternal) {
    job.source_imports[0] = ExternalImport(desc, picture);
    return true;
  }
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    const PlaneDesc& plane = desc.planes[p];
    const SourcePlane& layout = job.source.planes[p];
    const std::optional<PlaneImport> import =
        ImportOf(*picture.buffers[plane.buffer_index], plane.offset_bytes,
                 plane.stride_bytes, layout.row_bytes, layout.height,
                 layout.format, /*block=*/1, s);
    if (!import) return false;
    job.source_imports[p] = *import;
    job.source_imports[p].descriptor = static_cast<int>(plane.buffer_index);
  }
  return true;
}

void StageSource(const Rect& read, RenderJob& job) {
  uint64_t offset = 0;
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    job.windows[p] = PlaneWindow(job.source, static_cast<int>(p), read);
    StagedPlane& staged = job.staged[p];
    staged.offset_bytes = offset;
    staged.row_bytes = AlignFour(
        static_cast<uint64_t>(job.windows[p].width) *
        static_cast<uint64_t>(TexelBytes(job.source.planes[p].format)));
    staged.rows = job.windows[p].height;
    offset += staged.row_bytes * static_cast<uint64_t>(staged.rows);
  }
  job.upload_bytes = offset;
}

bool ImportTarget(const PictureBuffers& picture, const JobSettings& s,
                  RenderTarget& target) {
  const RenderPlan& plan = target.plan;
  const bool direct = plan.shapes.last == PassShape::kDirect;
  for (size_t p = 0; p < static_cast<size_t>(plan.target_count); ++p) {
    const TargetPlane& plane = plan.targets[p];
    const Buffer& buffer = *picture.buffers[plane.buffer_index];
    if (!buffer.writable()) return false;
    std::optional<PlaneImport> import;
    const bool bytes_only = direct && plane.channels == 1;
    if (!bytes_only) {
      import = ImportOf(buffer, plane.offset_bytes, plane.stride_bytes,
                        plane.row_bytes, plane.rows, TexelFormat::kRgba8,
                        s.traits.target_block, s);
    }
    target.four_bytes[p] = import.has_value();
    if (!import && (bytes_only || !direct)) {
      import = ImportOf(buffer, plane.offset_bytes, plane.stride_bytes,
                        plane.row_bytes, plane.rows, TexelFormat::kR8,
                        s.traits.target_block, s);
    }
    if (!import) return false;
    target.imports[p] = *import;
    target.imports[p].descriptor =
        kMaxPlanes + static_cast<int>(plane.buffer_index);
  }
  return true;
}

void StageTarget(RenderTarget& target, uint64_t& offset) {
  for (size_t p = 0; p < static_cast<size_t>(target.plan.target_count); ++p) {
    StagedPlane& staged = target.staged[p];
    staged.offset_bytes = offset;
    staged.row_bytes = AlignFour(target.plan.targets[p].row_bytes);
    staged.rows = target.plan.targets[p].rows;
    offset += staged.row_bytes * static_cast<uint64_t>(staged.rows);
  }
}

}  // namespace

void BuildJob(std::span<const ConvertPlan> all,
              std::span<const ConvertPlan> part, const PictureBuffers& source,
              const PictureBuffers& destination, const JobSettings& s,
              RenderJob& job) {
  PREPROCD_CHECK(!part.empty());
  const ImageDesc& desc = all[0].source;
  job.import_source = AllImportable(source, s);
  const bool external = job.import_source && WantsExternal(all, s);
  job.source = LayOutSource(desc, s.features.max_texture, external);
  if (job.import_source) {
    job.import_source = ImportSource(desc, source, s, job);
  }
  Rect read = {};
  for (const ConvertPlan& plan : all) read = Unite(read, ReadRect(plan));
  job.import_target = AllImportable(destination, s);
  job.targets.resize(part.size());
  int64_t reads = 0;
  for (size_t i = 0; i < part.size(); ++i) {
    RenderTarget& target = job.targets[i];
    target.plan = MakeRenderPlan(part[i], job.source, s.features);
    reads += target.plan.reads;
    job.import_target =
        job.import_target && ImportTarget(destination, s, target);
  }
  job.upload_bytes = 0;
  if (!job.import_source) StageSource(read, job);
  job.result_bytes = 0;
  if (!job.import_target) {
    for (RenderTarget& target : job.targets) {
      target.four_bytes.fill(true);
      StageTarget(target, job.result_bytes);
    }
  }
  job.descriptors.fill(-1);
  for (size_t i = 0; i < static_cast<size_t>(source.count); ++i) {
    job.descriptors[i] = source.buffers[i]->fd();
  }
  for (size_t i = 0; i < static_cast<size_t>(destination.count); ++i) {
    job.descriptors[kMaxPlanes + i] = destination.buffers[i]->fd();
  }
  job.stall_limit_ms = StallLimitMs(s.settings, s.features.software, reads);
}

size_t PlansWithin(std::span<const ConvertPlan> plans, uint64_t most_bytes) {
  uint64_t bytes = 0;
  for (size_t i = 0; i < plans.size(); ++i) {
    const ImageDesc& desc = plans[i].destination;
    const int planes = GetPixelFormatInfo(desc.format).plane_count;
    for (int p = 0; p < planes; ++p) {
      bytes +=
          AlignFour(PlaneRowBytes(desc.format, desc.dtype, p, desc.width)) *
          static_cast<uint64_t>(PlaneRows(desc.format, p, desc.height));
    }
    if (bytes > most_bytes && i > 0) return i;
  }
  return plans.size();
}

}  // namespace preprocd
