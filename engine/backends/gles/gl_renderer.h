// Runs render jobs on the current context: source textures, sampling passes,
// packing, read-back, one fence per job.
// Owns: programs, tables, images and textures of one context; never freed
// when the context is lost. Thread-safety: belongs to the context's thread.
// Limits: an intermediate is at most kMaxTargetBytes; larger pictures are
// rendered in parts.
#ifndef ENGINE_BACKENDS_GLES_GL_RENDERER_H_
#define ENGINE_BACKENDS_GLES_GL_RENDERER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_counters.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_program.h"
#include "engine/backends/gles/gl_tables.h"
#include "engine/backends/gles/image_cache.h"
#include "engine/backends/gles/image_import.h"
#include "engine/backends/gles/render_job.h"

namespace preprocd {

inline constexpr int64_t kMaxTargetBytes = 64 << 20;

// Textures that hold one slot's uploaded source.
struct SourceTextures {
  struct Texture {
    unsigned id = 0;
    TexelFormat format = TexelFormat::kR8;
    int width = 0;
    int height = 0;
  };
  std::array<Texture, kMaxPlanes> planes;
};

// Staging memory as GL addresses it: memory, or offsets into bound buffers.
struct StagingAccess {
  unsigned upload_buffer = 0;  // GL_PIXEL_UNPACK_BUFFER, 0 = memory
  unsigned result_buffer = 0;  // GL_PIXEL_PACK_BUFFER, 0 = memory
  std::byte* upload = nullptr;
  std::byte* result = nullptr;
};

class GlRenderer {
 public:
  GlRenderer(const EglDisplayFacts& display, const GlFeatures& features,
             size_t cached_imports, GlCounters& counters);

  // Renders every target of `job` and returns when the device has finished.
  // `fetch_descriptor(i)` gives descriptor i of the job, or -1 when the
  // caller has given up; asked for only when an image must be made.
  // Errors: kUnavailable BACKEND_FAILED; those of ImportedImage::Create, for
  // which IsImportRefusal is true and nothing was written.
  using FetchDescriptor = absl::FunctionRef<int(int index)>;
  absl::Status Render(const RenderJob& job, SourceTextures& textures,
                      const StagingAccess& staging,
                      FetchDescriptor fetch_descriptor);

  // The driver reported a reset, which it does once; the context is of no use
  // any more.
  bool was_reset() const { return was_reset_; }

  // Drops the images of a buffer that is gone.
  void Forget(const BufferIdentity& identity);
  void ForgetAll();

 private:
  struct Target {
    unsigned texture = 0;
    unsigned frame_buffer = 0;
    int width = 0;
    int height = 0;
  };
  enum Purpose : uint8_t {
    kAlongFloat,
    kAlongBytes,
    kPixelsFloat,
    kPixelsBytes,
    kPackedBytes,
    kRedBytes,
    kPurposeCount,
  };
  struct Area {
    int x = 0;
    int y = 0;
    int width = 0;
    int height = 0;
  };
  // Where a pass draws: `area` of the frame buffer; texel (0, 0) of what it
  // computes lies at `origin`.
  struct Canvas {
    unsigned frame_buffer = 0;
    Area area;
    int origin_x = 0;
    int origin_y = 0;
  };

  absl::Status PrepareSource(const RenderJob& job, SourceTextures& textures,
                             const StagingAccess& staging,
                             FetchDescriptor fetch_descriptor);
  absl::Status ImportAll(const RenderJob& job,
                         FetchDescriptor fetch_descriptor);
  absl::StatusOr<ImportedImage*> FindImage(ImageCache<ImportedImage>& cache,
                                           const RenderJob& job,
                                           const PlaneImport& plane,
                                           bool external,
                                           FetchDescriptor fetch_descriptor);
  void Upload(const RenderJob& job, SourceTextures& textures,
              const StagingAccess& staging);
  absl::Status RenderTargetPlan(const RenderJob& job,
                                const RenderTarget& target,
                                const StagingAccess& staging);
  Area TileSize(const RenderPlan& plan, int count_y) const;
  absl::Status RenderTile(const RenderJob& job, const RenderTarget& target,
                          const Area& tile, const StagingAccess& staging);
  absl::Status DrawPixels(const RenderJob& job, const RenderPlan& plan,
                          const Area& tile, const Canvas& canvas);
  absl::Status DrawOneAxis(const RenderJob& job, const RenderPlan& plan,
                           const Area& content, const Canvas& canvas);
  absl::Status DrawTwoAxes(const RenderJob& job, const RenderPlan& plan,
                           const Area& content, const Canvas& canvas);
  absl::Status PackTile(const RenderTarget& target, const Area& tile,
                        const Target& pixels, const StagingAccess& staging,
                        bool import_target);
  absl::StatusOr<Canvas> ImportedCanvas(const RenderTarget& target,
                                        size_t plane, const Area& part);
  absl::StatusOr<Target*> GetTarget(Purpose purpose, int width, int height);
  void SetSampling(const RenderJob& job, const RenderPlan& plan,
                   const Program& program);
  void SetColour(const RenderPlan& plan, const Program& program);
  void SetPacking(const RenderPlan& plan, const TargetPlane& plane,
                  const Area& tile, const Program& program);
  void ClearPadding(const RenderPlan& plan, const Canvas& canvas);
  SampleVariant BaseVariant(const RenderJob& job, const RenderPlan& plan) const;
  SampleOutput OutputOf(const RenderPlan& plan) const;
  absl::Status AwaitDevice();

  const EglDisplayFacts& display_;
  const GlFeatures features_;
  GlCounters& counters_;
  ProgramCache programs_;
  GlTableCache tables_;
  ImageCache<ImportedImage> source_images_;
  ImageCache<ImportedImage> target_images_;
  std::array<Target, kPurposeCount> targets_ = {};
  bool was_reset_ = false;
  // Of the job that runs.
  std::array<unsigned, kMaxPlanes> plane_textures_ = {};
  std::array<std::array<int, 2>, kMaxPlanes> plane_origins_ = {};
};

// True when the device refused to import a picture and an upload may do.
bool IsImportRefusal(const absl::Status& status);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_RENDERER_H_
