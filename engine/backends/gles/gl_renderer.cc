#include "engine/backends/gles/gl_renderer.h"

#include <epoxy/gl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

// Fewer would make the images of one job push each other out.
constexpr size_t kMinCachedImages = 2 * kMaxPlanes;

struct GlFormat {
  GLenum internal_format;
  GLenum format;
};
GlFormat FormatOf(TexelFormat format) {
  switch (format) {
    case TexelFormat::kR8:
      return {GL_R8, GL_RED};
    case TexelFormat::kRg8:
      return {GL_RG8, GL_RG};
    case TexelFormat::kRgb8:
      return {GL_RGB8, GL_RGB};
    case TexelFormat::kRgba8:
      break;
  }
  return {GL_RGBA8, GL_RGBA};
}

void BindTexture(int unit, GLenum target, unsigned texture) {
  glActiveTexture(GL_TEXTURE0 + static_cast<GLenum>(unit));
  glBindTexture(target, texture);
}

void UseNearest() {
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
}

int UnrolledTaps(int count) { return count <= kMaxUnrolledTaps ? count : 0; }

// Address of staging bytes: a pointer, or an offset into the bound buffer.
void* Staged(std::byte* memory, unsigned buffer, uint64_t offset) {
  return buffer != 0 ? reinterpret_cast<void*>(offset) : memory + offset;
}

int64_t RoundDown(int64_t value, int64_t step) { return value / step * step; }

// Tiles start at multiples of this, so that bytes and chroma blocks of a
// plane start at texels in every layout.
constexpr int kTileColumns = 16;
constexpr int kTileRows = 2;

// Bytes of plane `plane` before pixel column `x`, a multiple of kTileColumns.
uint64_t BytesBefore(const RenderPlan& plan, size_t plane, int x) {
  return x == 0 ? 0
                : PlaneRowBytes(plan.format, plan.dtype,
                                static_cast<int>(plane), x);
}
int RowsBefore(const RenderPlan& plan, size_t plane, int y) {
  return y == 0 ? 0 : PlaneRows(plan.format, static_cast<int>(plane), y);
}

// `why`, marked as something that an upload may answer.
absl::Status Refusal(const absl::Status& why) {
  ErrorDetail unknown;
  unknown.reason = ErrorReason::kBackendFailed;
  ErrorDetail detail = GetErrorDetail(why).value_or(unknown);
  detail.field = "import";
  detail.backend = "gl";
  return MakeError(why.code(), std::move(detail), why.message());
}

}  // namespace

bool IsImportRefusal(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail && detail->field == "import";
}

GlRenderer::GlRenderer(const EglDisplayFacts& display,
                       const GlFeatures& features, size_t cached_imports,
                       GlCounters& counters)
    : display_(display),
      features_(features),
      counters_(counters),
      source_images_(std::max(cached_imports, kMinCachedImages)),
      target_images_(std::max(cached_imports, kMinCachedImages)) {
  glDisable(GL_DITHER);
  glDisable(GL_BLEND);
  glDisable(GL_DEPTH_TEST);
  glEnable(GL_SCISSOR_TEST);
  glPixelStorei(GL_UNPACK_ALIGNMENT, 4);
  glPixelStorei(GL_PACK_ALIGNMENT, 4);
}

void GlRenderer::Forget(const BufferIdentity& identity) {
  const size_t dropped =
      source_images_.Forget(identity) + target_images_.Forget(identity);
  counters_.import_evictions += dropped;
}

void GlRenderer::ForgetAll() {
  counters_.import_evictions += source_images_.size() + target_images_.size();
  source_images_.Clear();
  target_images_.Clear();
}

absl::Status GlRenderer::Render(const RenderJob& job, SourceTextures& textures,
                                const StagingAccess& staging,
                                FetchDescriptor fetch_descriptor) {
  const uint64_t programs = programs_.linked();
  const uint64_t tables = tables_.made();
  absl::Status status = ImportAll(job, fetch_descriptor);
  if (status.ok()) {
    status = PrepareSource(job, textures, staging, fetch_descriptor);
  }
  for (size_t i = 0; status.ok() && i < job.targets.size(); ++i) {
    status = RenderTargetPlan(job, job.targets[i], staging);
  }
  if (status.ok()) status = AwaitDevice();
  const std::string error = TakeGlErrors();
  if (status.ok() && !error.empty()) status = GlFailure(error);
  if (status.ok()) counters_.converts += job.targets.size();
  counters_.programs += programs_.linked() - programs;
  counters_.tables += tables_.made() - tables;
  return status;
}

absl::Status GlRenderer::AwaitDevice() {
  const GLsync fence = glFenceSync(GL_SYNC_GPU_COMMANDS_COMPLETE, 0);
  if (fence == nullptr) return GlFailure("no fence");
  constexpr GLuint64 kSliceNs = 100'000'000;
  GLenum result = GL_TIMEOUT_EXPIRED;
  // The caller watches the time.
  while (result == GL_TIMEOUT_EXPIRED) {
    result = glClientWaitSync(fence, GL_SYNC_FLUSH_COMMANDS_BIT, kSliceNs);
    if (ReadResetStatus(features_) != ResetStatus::kNone) {
      was_reset_ = true;
      result = GL_WAIT_FAILED;
    }
  }
  glDeleteSync(fence);
  if (result == GL_WAIT_FAILED) return GlFailure("the device was reset");
  return absl::OkStatus();
}

// --- sources -------------------------------------------------------------

absl::StatusOr<ImportedImage*> GlRenderer::FindImage(
    ImageCache<ImportedImage>& cache, const RenderJob& job,
    const PlaneImport& plane, bool external, FetchDescriptor fetch_descriptor) {
  ImportedImage* image = cache.Find(plane.key);
  if (image != nullptr) {
    ++counters_.import_hits;
    if (!image->status().ok()) return image->status();
    return image;
  }
  PREPROCD_CHECK(job.descriptors.size() == 2 * kMaxPlanes);
  ImportRequest request;
  request.key = plane.key;
  request.fd = fetch_descriptor(plane.descriptor);
  request.second_fd = external ? fetch_descriptor(plane.second_descriptor) : -1;
  request.external = external;
  if (request.fd < 0) return GlFailure("the caller has given up");
  ++counters_.imports;
  glActiveTexture(GL_TEXTURE0 + kScratchUnit);
  const uint64_t evictions = cache.counts().evictions;
  absl::StatusOr<ImportedImage> made =
      ImportedImage::Create(display_, features_, request);
  if (!made.ok()) {
    absl::Status refusal = Refusal(made.status());
    cache.Insert(plane.key, ImportedImage::Refused(refusal));
    return refusal;
  }
  ImportedImage& kept = cache.Insert(plane.key, *std::move(made));
  counters_.import_evictions += cache.counts().evictions - evictions;
  return &kept;
}

absl::Status GlRenderer::ImportAll(const RenderJob& job,
                                   FetchDescriptor fetch_descriptor) {
  plane_textures_.fill(0);
  if (job.import_source) {
    const bool external = job.source.fetch == PixelFetch::kExternal;
    const int planes = external ? 1 : job.source.plane_count;
    for (size_t p = 0; p < static_cast<size_t>(planes); ++p) {
      const PlaneImport& plane = job.source_imports[p];
      ASSIGN_OR_RETURN(
          ImportedImage* const image,
          FindImage(source_images_, job, plane, external, fetch_descriptor));
      plane_textures_[p] = image->texture();
      plane_origins_[p] = {plane.x, plane.y};
    }
  }
  if (!job.import_target) return absl::OkStatus();
  for (const RenderTarget& target : job.targets) {
    for (size_t p = 0; p < static_cast<size_t>(target.plan.target_count); ++p) {
      ASSIGN_OR_RETURN(ImportedImage* const image,
                       FindImage(target_images_, job, target.imports[p], false,
                                 fetch_descriptor));
      const absl::StatusOr<unsigned> frame_buffer = image->FrameBuffer();
      if (frame_buffer.ok()) continue;
      return Refusal(frame_buffer.status());
    }
  }
  return absl::OkStatus();
}

absl::Status GlRenderer::PrepareSource(const RenderJob& job,
                                       SourceTextures& textures,
                                       const StagingAccess& staging,
                                       FetchDescriptor) {
  if (job.import_source) return absl::OkStatus();
  if (!job.source_is_there) Upload(job, textures, staging);
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    plane_textures_[p] = textures.planes[p].id;
    plane_origins_[p] = {-job.windows[p].x, -job.windows[p].y};
  }
  return absl::OkStatus();
}

void GlRenderer::Upload(const RenderJob& job, SourceTextures& textures,
                        const StagingAccess& staging) {
  ++counters_.uploads;
  glBindBuffer(GL_PIXEL_UNPACK_BUFFER, staging.upload_buffer);
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    const TexelRect& window = job.windows[p];
    const TexelFormat format = job.source.planes[p].format;
    SourceTextures::Texture& texture = textures.planes[p];
    if (texture.id == 0 || texture.format != format ||
        texture.width < window.width || texture.height < window.height) {
      if (texture.id != 0) glDeleteTextures(1, &texture.id);
      glGenTextures(1, &texture.id);
      BindTexture(kScratchUnit, GL_TEXTURE_2D, texture.id);
      UseNearest();
      texture.format = format;
      texture.width = window.width;
      texture.height = window.height;
      glTexStorage2D(GL_TEXTURE_2D, 1, FormatOf(format).internal_format,
                     window.width, window.height);
      ++counters_.textures;
    }
    BindTexture(kScratchUnit, GL_TEXTURE_2D, texture.id);
    glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, window.width, window.height,
                    FormatOf(format).format, GL_UNSIGNED_BYTE,
                    Staged(staging.upload, staging.upload_buffer,
                           job.staged[p].offset_bytes));
  }
  glBindBuffer(GL_PIXEL_UNPACK_BUFFER, 0);
}

// --- targets -------------------------------------------------------------

absl::StatusOr<GlRenderer::Target*> GlRenderer::GetTarget(Purpose purpose,
                                                          int width,
                                                          int height) {
  Target& target = targets_[purpose];
  if (target.texture != 0 && target.width >= width && target.height >= height) {
    return &target;
  }
  const bool is_float = purpose == kAlongFloat || purpose == kPixelsFloat;
  const int64_t bytes = is_float ? 16 : 4;
  const int wider = std::max(width, target.width);
  const int higher = std::max(height, target.height);
  if (int64_t{wider} * higher * bytes <= kMaxTargetBytes) {
    width = wider;
    height = higher;
  }
  if (target.texture != 0) {
    glDeleteFramebuffers(1, &target.frame_buffer);
    glDeleteTextures(1, &target.texture);
  }
  GLenum format = GL_RGBA8;
  if (is_float) format = features_.render_float32 ? GL_RGBA32F : GL_RGBA16F;
  if (purpose == kRedBytes) format = GL_R8;
  target = {};
  glGenTextures(1, &target.texture);
  BindTexture(kScratchUnit, GL_TEXTURE_2D, target.texture);
  UseNearest();
  glTexStorage2D(GL_TEXTURE_2D, 1, format, width, height);
  glGenFramebuffers(1, &target.frame_buffer);
  glBindFramebuffer(GL_FRAMEBUFFER, target.frame_buffer);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D,
                         target.texture, 0);
  ++counters_.textures;
  target.width = width;
  target.height = height;
  if (glCheckFramebufferStatus(GL_FRAMEBUFFER) != GL_FRAMEBUFFER_COMPLETE) {
    glDeleteFramebuffers(1, &target.frame_buffer);
    glDeleteTextures(1, &target.texture);
    target = {};
    return GlFailure(absl::StrCat("a target of ", width, "x", height,
                                  " is not complete: ", TakeGlErrors()));
  }
  return &target;
}

GlRenderer::Area GlRenderer::TileSize(const RenderPlan& plan,
                                      int count_y) const {
  int64_t width = plan.width;
  for (size_t p = 0; p < static_cast<size_t>(plan.target_count); ++p) {
    const auto row_texels =
        static_cast<int64_t>((plan.targets[p].row_bytes + 3) / 4);
    if (row_texels > features_.max_texture) {
      width = std::min(width, RoundDown(int64_t{features_.max_texture} *
                                            plan.width / row_texels,
                                        kTileColumns));
    }
  }
  constexpr int64_t kPixelBytes = 16;  // of the largest intermediate
  const double scale = plan.shapes.two_axes
                           ? static_cast<double>(plan.taps_y.source_extent) /
                                 plan.taps_y.destination_extent
                           : 1;
  const int64_t rows_above = plan.shapes.two_axes ? count_y : 0;
  const int64_t least_rows =
      rows_above + static_cast<int64_t>(scale * kTileRows) + 1;
  const int64_t most_width = std::max<int64_t>(
      RoundDown(kMaxTargetBytes / kPixelBytes / least_rows, kTileColumns),
      kTileColumns);
  width = std::min(width, most_width);
  const int64_t rows = kMaxTargetBytes / kPixelBytes / width;
  int64_t height = std::min<int64_t>(
      rows, static_cast<int64_t>(static_cast<double>(rows - rows_above) /
                                 std::max(scale, 1.0)));
  height = std::min<int64_t>(height, features_.max_texture);
  height = std::max<int64_t>(RoundDown(height, kTileRows), kTileRows);
  return {0, 0, static_cast<int>(width),
          static_cast<int>(std::min<int64_t>(height, plan.height))};
}

absl::Status GlRenderer::RenderTargetPlan(const RenderJob& job,
                                          const RenderTarget& target,
                                          const StagingAccess& staging) {
  const RenderPlan& plan = target.plan;
  const bool no_intermediate = plan.shapes.last == PassShape::kDirect &&
                               !plan.shapes.two_axes && job.import_target;
  const Area step = no_intermediate ? Area{0, 0, plan.width, plan.height}
                                    : TileSize(plan, plan.count_y);
  for (int y = 0; y < plan.height; y += step.height) {
    for (int x = 0; x < plan.width; x += step.width) {
      const Area tile = {x, y, std::min(step.width, plan.width - x),
                         std::min(step.height, plan.height - y)};
      RETURN_IF_ERROR(RenderTile(job, target, tile, staging));
    }
  }
  if (!job.import_target) ++counters_.downloads;
  return absl::OkStatus();
}

absl::StatusOr<GlRenderer::Canvas> GlRenderer::ImportedCanvas(
    const RenderTarget& target, size_t plane, const Area& part) {
  const PlaneImport& import = target.imports[plane];
  ImportedImage* const image = target_images_.Find(import.key);
  if (image == nullptr || !image->status().ok()) {
    return GlFailure("an import was pushed out by the same job");
  }
  ASSIGN_OR_RETURN(const unsigned frame_buffer, image->FrameBuffer());
  Canvas canvas;
  canvas.frame_buffer = frame_buffer;
  canvas.area = {import.x + part.x, import.y + part.y, part.width, part.height};
  canvas.origin_x = canvas.area.x;
  canvas.origin_y = canvas.area.y;
  return canvas;
}

absl::Status GlRenderer::RenderTile(const RenderJob& job,
                                    const RenderTarget& target,
                                    const Area& tile,
                                    const StagingAccess& staging) {
  const RenderPlan& plan = target.plan;
  const bool direct = plan.shapes.last == PassShape::kDirect;
  if (direct && job.import_target) {
    ASSIGN_OR_RETURN(const Canvas canvas, ImportedCanvas(target, 0, tile));
    return DrawPixels(job, plan, tile, canvas);
  }
  const bool one = direct && plan.targets[0].channels == 1;
  const bool fractions = !plan.eight_bits && features_.render_float32;
  const Purpose purpose =
      one ? kRedBytes : (fractions ? kPixelsFloat : kPixelsBytes);
  ASSIGN_OR_RETURN(Target* const pixels,
                   GetTarget(purpose, tile.width, tile.height));
  Canvas canvas;
  canvas.frame_buffer = pixels->frame_buffer;
  canvas.area = {0, 0, tile.width, tile.height};
  RETURN_IF_ERROR(DrawPixels(job, plan, tile, canvas));
  if (!direct) {
    return PackTile(target, tile, *pixels, staging, job.import_target);
  }
  const StagedPlane& staged = target.staged[0];
  const uint64_t texel_bytes = one ? 1 : 4;
  glBindFramebuffer(GL_FRAMEBUFFER, pixels->frame_buffer);
  glBindBuffer(GL_PIXEL_PACK_BUFFER, staging.result_buffer);
  glPixelStorei(GL_PACK_ROW_LENGTH,
                static_cast<GLint>(staged.row_bytes / texel_bytes));
  glReadPixels(0, 0, tile.width, tile.height, one ? GL_RED : GL_RGBA,
               GL_UNSIGNED_BYTE,
               Staged(staging.result, staging.result_buffer,
                      staged.offset_bytes +
                          static_cast<uint64_t>(tile.y) * staged.row_bytes +
                          static_cast<uint64_t>(tile.x) * texel_bytes));
  glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
  return absl::OkStatus();
}

absl::Status GlRenderer::PackTile(const RenderTarget& target, const Area& tile,
                                  const Target& pixels,
                                  const StagingAccess& staging,
                                  bool import_target) {
  const RenderPlan& plan = target.plan;
  for (size_t p = 0; p < static_cast<size_t>(plan.target_count); ++p) {
    const bool four = !import_target || target.four_bytes[p];
    const uint64_t unit = four ? 4 : 1;
    const uint64_t bytes_before = BytesBefore(plan, p, tile.x);
    const uint64_t bytes =
        BytesBefore(plan, p, tile.x + tile.width) - bytes_before;
    Area part;
    part.x = static_cast<int>(bytes_before / unit);
    part.y = RowsBefore(plan, p, tile.y);
    part.width = static_cast<int>((bytes + unit - 1) / unit);
    part.height = RowsBefore(plan, p, tile.y + tile.height) - part.y;
    Canvas canvas;
    if (import_target) {
      ASSIGN_OR_RETURN(canvas, ImportedCanvas(target, p, part));
    } else {
      ASSIGN_OR_RETURN(Target* const packed,
                       GetTarget(kPackedBytes, part.width, part.height));
      canvas.frame_buffer = packed->frame_buffer;
      canvas.area = {0, 0, part.width, part.height};
    }
    PackVariant variant;
    variant.kind = plan.pack;
    variant.element_bytes = static_cast<uint8_t>(plan.element_bytes);
    variant.channels = static_cast<uint8_t>(plan.targets[p].channels);
    variant.four_bytes = four;
    variant.fractions = !plan.eight_bits && features_.render_float32;
    ASSIGN_OR_RETURN(const Program* const program, programs_.Get(variant));
    glUseProgram(program->id);
    SetPacking(plan, plan.targets[p], tile, *program);
    BindTexture(kPixelsUnit, GL_TEXTURE_2D, pixels.texture);
    glUniform2i(program->at(Uniform::kTargetOrigin), canvas.origin_x,
                canvas.origin_y);
    glBindFramebuffer(GL_FRAMEBUFFER, canvas.frame_buffer);
    glViewport(canvas.area.x, canvas.area.y, part.width, part.height);
    glScissor(canvas.area.x, canvas.area.y, part.width, part.height);
    glDrawArrays(GL_TRIANGLES, 0, 3);
    if (import_target) continue;
    const StagedPlane& staged = target.staged[p];
    glBindBuffer(GL_PIXEL_PACK_BUFFER, staging.result_buffer);
    glPixelStorei(GL_PACK_ROW_LENGTH, static_cast<GLint>(staged.row_bytes / 4));
    glReadPixels(0, 0, part.width, part.height, GL_RGBA, GL_UNSIGNED_BYTE,
                 Staged(staging.result, staging.result_buffer,
                        staged.offset_bytes +
                            static_cast<uint64_t>(part.y) * staged.row_bytes +
                            bytes_before));
    glBindBuffer(GL_PIXEL_PACK_BUFFER, 0);
  }
  return absl::OkStatus();
}

void GlRenderer::SetPacking(const RenderPlan& plan, const TargetPlane& plane,
                            const Area& tile, const Program& program) {
  glUniform1i(program.at(Uniform::kWidth), tile.width);
  glUniform4iv(program.at(Uniform::kOrder), 1, plane.order.data());
  if (plan.pack == PackKind::kTable) {
    BindTexture(kElementsUnit, GL_TEXTURE_2D,
                tables_.Elements(plan.elements).texture);
  }
  if (plan.pack == PackKind::kYuv) {
    glUniform2i(program.at(Uniform::kSize), tile.width, tile.height);
    glUniform4iv(program.at(Uniform::kComponent), 1, plane.component.data());
    glUniform4iv(program.at(Uniform::kStep), 1, plane.step.data());
    glUniform4iv(program.at(Uniform::kAdd), 1, plane.add.data());
    glUniform2i(program.at(Uniform::kBlockShift), plan.block_x_shift,
                plan.block_y_shift);
    glUniform1i(program.at(Uniform::kChromaRows), plane.chroma_rows ? 1 : 0);
  }
  if (plan.pack == PackKind::kFormula) {
    const ElementFormula formula = MakeElementFormula(plan.elements);
    std::array<GLint, 4> modes = {};
    for (size_t c = 0; c < 4; ++c) {
      modes[c] = static_cast<GLint>(formula.mode[c]);
    }
    glUniform4iv(program.at(Uniform::kFormulaMode), 1, modes.data());
    glUniform4fv(program.at(Uniform::kFormulaScale), 1, formula.scale.data());
    glUniform4fv(program.at(Uniform::kFormulaOffset), 1, formula.offset.data());
    glUniform4uiv(program.at(Uniform::kFormulaFlip), 1, formula.flip.data());
    glUniform3f(program.at(Uniform::kFormulaRange), formula.zero_point,
                formula.low, formula.high);
  }
}

// --- pixels --------------------------------------------------------------

SampleOutput GlRenderer::OutputOf(const RenderPlan& plan) const {
  if (!plan.eight_bits) {
    return features_.render_float32 ? SampleOutput::kValues
                                    : SampleOutput::kBytes;
  }
  if (plan.shapes.last == PassShape::kDirect && plan.pack == PackKind::kTable) {
    return SampleOutput::kTable;
  }
  return SampleOutput::kBytes;
}

void GlRenderer::ClearPadding(const RenderPlan& plan, const Canvas& canvas) {
  std::array<float, 4> color = plan.pad;
  if (plan.shapes.last == PassShape::kDirect) {
    const bool table = plan.pack == PackKind::kTable;
    for (size_t position = 0; position < 4; ++position) {
      const auto channel = static_cast<size_t>(plan.direct_order[position]);
      float value = plan.pad[channel];
      if (table) {
        const auto index = channel * 256 + static_cast<size_t>(value);
        value = static_cast<float>(tables_.Elements(plan.elements).bits[index] &
                                   0xffU);
      }
      color[position] = value;
    }
  }
  const bool fractions = !plan.eight_bits && features_.render_float32;
  const float unit = fractions ? 1.0F : 255.0F;
  glScissor(canvas.area.x, canvas.area.y, canvas.area.width,
            canvas.area.height);
  glClearColor(color[0] / unit, color[1] / unit, color[2] / unit,
               color[3] / unit);
  glClear(GL_COLOR_BUFFER_BIT);
}

absl::Status GlRenderer::DrawPixels(const RenderJob& job,
                                    const RenderPlan& plan, const Area& tile,
                                    const Canvas& canvas) {
  const int x0 = std::max(tile.x, plan.placed.x);
  const int y0 = std::max(tile.y, plan.placed.y);
  const int x1 =
      std::min(tile.x + tile.width, plan.placed.x + plan.placed.width);
  const int y1 =
      std::min(tile.y + tile.height, plan.placed.y + plan.placed.height);
  const bool covered = x1 - x0 == tile.width && y1 - y0 == tile.height;
  if (!covered) {
    glBindFramebuffer(GL_FRAMEBUFFER, canvas.frame_buffer);
    ClearPadding(plan, canvas);
  }
  if (x1 <= x0 || y1 <= y0) return absl::OkStatus();
  // In pixels of what is placed.
  const Area content = {x0 - plan.placed.x, y0 - plan.placed.y, x1 - x0,
                        y1 - y0};
  Canvas part = canvas;
  part.area = {canvas.origin_x + x0 - tile.x, canvas.origin_y + y0 - tile.y,
               content.width, content.height};
  part.origin_x = part.area.x - content.x;
  part.origin_y = part.area.y - content.y;
  return plan.shapes.two_axes ? DrawTwoAxes(job, plan, content, part)
                              : DrawOneAxis(job, plan, content, part);
}

SampleVariant GlRenderer::BaseVariant(const RenderJob& job,
                                      const RenderPlan& plan) const {
  const PixelFormatInfo& from = GetPixelFormatInfo(job.source.format);
  SampleVariant variant;
  variant.fetch = job.source.fetch;
  variant.fancy = plan.fancy && job.source.fetch != PixelFetch::kExternal;
  variant.biased = job.source.biased;
  variant.alpha = from.has_alpha;
  variant.luma_first = job.source.format == PixelFormat::kYuyv;
  variant.taps_x = static_cast<uint8_t>(UnrolledTaps(plan.count_x));
  variant.taps_y = static_cast<uint8_t>(UnrolledTaps(plan.count_y));
  variant.output = OutputOf(plan);
  return variant;
}

void GlRenderer::SetSampling(const RenderJob& job, const RenderPlan& plan,
                             const Program& program) {
  const bool external = job.source.fetch == PixelFetch::kExternal;
  std::array<GLint, 2 * kMaxPlanes> origins = {};
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    origins[2 * p] = plane_origins_[p][0];
    origins[2 * p + 1] = plane_origins_[p][1];
    if (plane_textures_[p] == 0) continue;
    BindTexture(kPlaneUnit + static_cast<int>(p),
                external ? GL_TEXTURE_EXTERNAL_OES : GL_TEXTURE_2D,
                plane_textures_[p]);
  }
  if (external) {
    glUniform2i(program.at(Uniform::kSize), job.source.planes[0].width,
                job.source.planes[0].height);
  }
  glUniform2iv(program.at(Uniform::kPlaneOrigin), kMaxPlanes, origins.data());
  glUniform4iv(program.at(Uniform::kChromaBounds), 1,
               plan.chroma_bounds.data());
  glUniform2i(program.at(Uniform::kChromaShift), job.source.chroma_x_shift,
              job.source.chroma_y_shift);
  glUniform4iv(program.at(Uniform::kOrient), 1, plan.orient.data());
  glUniform2i(program.at(Uniform::kCorner), plan.corner[0], plan.corner[1]);
  BindTexture(kTapsXUnit, GL_TEXTURE_2D, tables_.Taps(plan.taps_x).texture);
  glUniform1i(program.at(Uniform::kCountX), plan.count_x);
}

void GlRenderer::SetColour(const RenderPlan& plan, const Program& program) {
  BindTexture(kTapsYUnit, GL_TEXTURE_2D, tables_.Taps(plan.taps_y).texture);
  glUniform1i(program.at(Uniform::kCountY), plan.count_y);
  const ColourSteps& c = plan.colour;
  glUniformMatrix4fv(program.at(Uniform::kFirstMatrix), 1, GL_FALSE,
                     c.first.data());
  glUniform4fv(program.at(Uniform::kFirstOffset), 1, c.first_offset.data());
  glUniformMatrix4fv(program.at(Uniform::kSecondMatrix), 1, GL_FALSE,
                     c.second.data());
  glUniform4fv(program.at(Uniform::kSecondOffset), 1, c.second_offset.data());
  if (OutputOf(plan) != SampleOutput::kTable) return;
  BindTexture(kElementsUnit, GL_TEXTURE_2D,
              tables_.Elements(plan.elements).texture);
  glUniform4iv(program.at(Uniform::kOrder), 1, plan.direct_order.data());
}

absl::Status GlRenderer::DrawOneAxis(const RenderJob& job,
                                     const RenderPlan& plan,
                                     const Area& content,
                                     const Canvas& canvas) {
  SampleVariant variant = BaseVariant(job, plan);
  variant.stage = SampleStage::kWhole;
  ASSIGN_OR_RETURN(const Program* const program, programs_.Get(variant));
  glUseProgram(program->id);
  SetSampling(job, plan, *program);
  SetColour(plan, *program);
  glUniform2i(program->at(Uniform::kTargetOrigin), canvas.origin_x,
              canvas.origin_y);
  glBindFramebuffer(GL_FRAMEBUFFER, canvas.frame_buffer);
  glViewport(canvas.area.x, canvas.area.y, content.width, content.height);
  glScissor(canvas.area.x, canvas.area.y, content.width, content.height);
  glDrawArrays(GL_TRIANGLES, 0, 3);
  return absl::OkStatus();
}

absl::Status GlRenderer::DrawTwoAxes(const RenderJob& job,
                                     const RenderPlan& plan,
                                     const Area& content,
                                     const Canvas& canvas) {
  const TapTable& taps_y = tables_.Taps(plan.taps_y);
  const int first_row = taps_y.first[static_cast<size_t>(content.y)];
  const int end_row =
      taps_y.first[static_cast<size_t>(content.y + content.height - 1)] +
      taps_y.count;
  const int rows = end_row - first_row;
  ASSIGN_OR_RETURN(
      Target* const between,
      GetTarget(plan.rounds ? kAlongBytes : kAlongFloat, content.width, rows));
  SampleVariant along = BaseVariant(job, plan);
  along.stage = SampleStage::kAlong;
  along.rounds = plan.rounds;
  if (along.rounds) along.taps_x = 0;
  along.taps_y = 0;
  along.output = SampleOutput::kValues;
  ASSIGN_OR_RETURN(const Program* const first, programs_.Get(along));
  glUseProgram(first->id);
  SetSampling(job, plan, *first);
  glUniform2i(first->at(Uniform::kTargetOrigin), -content.x, -first_row);
  glBindFramebuffer(GL_FRAMEBUFFER, between->frame_buffer);
  glViewport(0, 0, content.width, rows);
  glScissor(0, 0, content.width, rows);
  glDrawArrays(GL_TRIANGLES, 0, 3);

  SampleVariant down;
  down.stage = SampleStage::kDown;
  down.taps_y = static_cast<uint8_t>(UnrolledTaps(plan.count_y));
  down.output = OutputOf(plan);
  ASSIGN_OR_RETURN(const Program* const second, programs_.Get(down));
  glUseProgram(second->id);
  BindTexture(kPlaneUnit, GL_TEXTURE_2D, between->texture);
  SetColour(plan, *second);
  glUniform2i(second->at(Uniform::kFirstRow), content.x, first_row);
  glUniform1f(second->at(Uniform::kScale), plan.rounds ? 255.0F : 1.0F);
  glUniform2i(second->at(Uniform::kTargetOrigin), canvas.origin_x,
              canvas.origin_y);
  glBindFramebuffer(GL_FRAMEBUFFER, canvas.frame_buffer);
  glViewport(canvas.area.x, canvas.area.y, content.width, content.height);
  glScissor(canvas.area.x, canvas.area.y, content.width, content.height);
  glDrawArrays(GL_TRIANGLES, 0, 3);
  return absl::OkStatus();
}

}  // namespace preprocd
