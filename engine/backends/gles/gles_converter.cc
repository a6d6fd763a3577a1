#include "engine/backends/gles/gles_converter.h"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/backends/gles/gl_policy.h"
#include "engine/backends/gles/gl_renderer.h"
#include "engine/backends/gles/gl_worker_pool.h"
#include "engine/backends/gles/job_builder.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/memory/buffer_release.h"

namespace preprocd {
namespace {

constexpr int kRank = 50;
constexpr int kSoftwareRank = 150;  // behind the cpu backend

// Pictures beyond this many bytes on one side are left to backends that
// stream rows.
constexpr uint64_t kMaxPictureBytes = 512ull << 20;
// Results of one job; batches are cut into jobs.
constexpr uint64_t kMaxJobResultBytes = 64ull << 20;
// Copies of fewer bytes are not worth a second thread.
constexpr uint64_t kMinBytesOfCopyBand = 256 << 10;

uint64_t PictureBytes(const ImageDesc& desc) {
  uint64_t bytes = 0;
  const int planes = GetPixelFormatInfo(desc.format).plane_count;
  for (int p = 0; p < planes; ++p) {
    bytes += PlaneRowBytes(desc.format, desc.dtype, p, desc.width) *
             static_cast<uint64_t>(PlaneRows(desc.format, p, desc.height));
  }
  return bytes;
}

// What the sets cannot say; see Capabilities::decline.
std::optional<std::string> Decline(const ConvertPlan& plan) {
  const PixelFormatInfo& to = GetPixelFormatInfo(plan.destination.format);
  if (to.family == ColorFamily::kYuv && plan.normalize) {
    return absl::StrCat("destination ", to.name,
                        " takes no normalisation or quantisation");
  }
  for (const ImageDesc* desc : {&plan.source, &plan.destination}) {
    const uint64_t bytes = PictureBytes(*desc);
    if (bytes > kMaxPictureBytes) {
      return absl::StrCat("a picture of ", bytes, " bytes > ",
                          kMaxPictureBytes);
    }
  }
  return std::nullopt;
}

Capabilities MakeCapabilities() {
  using enum PixelFormat;
  Capabilities c;
  c.name = "gl";
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

// Software rasterisers generate code; where that is forbidden they end the
// process at their first draw.
bool MayGenerateCode() {
  constexpr size_t kBytes = 4096;
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  munmap(page, kBytes);
  return true;
}

bool HasDmaBuf(const PictureBuffers& picture) {
  return std::any_of(
      picture.buffers.begin(), picture.buffers.begin() + picture.count,
      [](const Buffer* b) { return b->kind() == BufferKind::kDmaBuf; });
}

// Copies rows; large ones on several threads.
void CopyRows(const std::byte* from, uint64_t from_stride, std::byte* to,
              uint64_t to_stride, uint64_t row_bytes, int rows, RowPool& pool) {
  const auto copy = [&](int begin, int end) {
    if (from_stride == row_bytes && to_stride == row_bytes) {
      memcpy(to + static_cast<uint64_t>(begin) * row_bytes,
             from + static_cast<uint64_t>(begin) * row_bytes,
             static_cast<uint64_t>(end - begin) * row_bytes);
      return;
    }
    for (auto y = static_cast<uint64_t>(begin); y < static_cast<uint64_t>(end);
         ++y) {
      memcpy(to + y * to_stride, from + y * from_stride, row_bytes);
    }
  };
  if (row_bytes * static_cast<uint64_t>(rows) < 2 * kMinBytesOfCopyBand) {
    copy(0, rows);
    return;
  }
  const auto min_rows = std::max<uint64_t>(1, kMinBytesOfCopyBand / row_bytes);
  pool.ParallelRows(rows, static_cast<int>(min_rows), copy);
}

void FillUpload(const RenderJob& job, const ConstImageView& view,
                std::span<std::byte> upload, RowPool& pool) {
  for (size_t p = 0; p < static_cast<size_t>(job.source.plane_count); ++p) {
    const TexelRect& window = job.windows[p];
    const auto texel =
        static_cast<uint64_t>(TexelBytes(job.source.planes[p].format));
    CopyRows(view.row(static_cast<int>(p), window.y) +
                 static_cast<uint64_t>(window.x) * texel,
             view.desc.planes[p].stride_bytes,
             upload.data() + job.staged[p].offset_bytes,
             job.staged[p].row_bytes,
             static_cast<uint64_t>(window.width) * texel, window.height, pool);
  }
}

// One mapping of the destination's buffers, as each plan of a batch sees it.
class BatchDestination {
 public:
  absl::Status Map(const ConvertPlan& first, const PictureBuffers& picture) {
    RETURN_IF_ERROR(mapped_.Map(first.destination, picture));
    const ImageView& view = mapped_.view();
    const int planes = GetPixelFormatInfo(view.desc.format).plane_count;
    for (size_t p = 0; p < static_cast<size_t>(planes); ++p) {
      const PlaneDesc& plane = view.desc.planes[p];
      bases_[plane.buffer_index] = view.planes[p] - plane.offset_bytes;
    }
    return absl::OkStatus();
  }
  // REQUIRES: a description that was validated; buffers that the first plan
  // has, too.
  void Take(const RenderTarget& target, std::span<const std::byte> result,
            RowPool& pool) const {
    for (size_t p = 0; p < static_cast<size_t>(target.plan.target_count); ++p) {
      const TargetPlane& plane = target.plan.targets[p];
      const StagedPlane& staged = target.staged[p];
      CopyRows(result.data() + staged.offset_bytes, staged.row_bytes,
               bases_[plane.buffer_index] + plane.offset_bytes,
               plane.stride_bytes, plane.row_bytes, plane.rows, pool);
    }
  }
  absl::Status Finish() { return mapped_.Finish(); }
  uint64_t bytes_copied() const { return mapped_.bytes_copied(); }

 private:
  MappedDestination mapped_;
  std::array<std::byte*, kMaxPlanes> bases_ = {};
};

absl::Status Validate(const ImageDesc& desc, const PictureBuffers& picture,
                      absl::string_view prefix) {
  std::array<uint64_t, kMaxPlanes> sizes = {};
  for (size_t i = 0; i < static_cast<size_t>(picture.count); ++i) {
    sizes[i] = picture.buffers[i]->size_bytes();
  }
  return PrefixField(
      ValidateImageDesc(
          desc, std::span(sizes.data(), static_cast<size_t>(picture.count))),
      prefix);
}

}  // namespace

struct GlesConverter::Impl : BufferReleaseObserver {
  explicit Impl(const GlSettings& chosen) : settings(chosen), pool(chosen) {
    AddBufferReleaseObserver(this);
  }
  ~Impl() override { RemoveBufferReleaseObserver(this); }

  // A session that ends takes its buffers' images with it.
  void OnBufferReleased(const BufferIdentity& identity) override {
    pool.Forget(identity);
  }

  void BringUp();
  void Describe(const GlFeatures& features);
  absl::StatusOr<uint64_t> Run(std::span<const ConvertPlan> plans,
                               const PictureBuffers& source,
                               const PictureBuffers& destination, RowPool& rows,
                               PictureFinished finished);
  absl::StatusOr<uint64_t> Attempt(GlWorkerPool::Lease& lease,
                                   std::span<const ConvertPlan> plans,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   bool may_import, RowPool& rows,
                                   PictureFinished finished);

  const GlSettings settings;
  Capabilities capabilities = MakeCapabilities();
  GlWorkerPool pool;
};

void GlesConverter::Impl::Describe(const GlFeatures& f) {
  Capabilities& c = capabilities;
  c.max_axis = std::min(c.max_axis, f.max_texture);
  if (!f.render_float32) c.precisions = {Precision::kEightBit};
  c.detail = absl::StrCat(f.renderer, ", ", f.version, ", ", f.platform,
                          ", zero-copy ",
                          f.import_memfd || f.import_dma_buf ? "yes" : "no",
                          " (", f.import_detail, ")");
  c.rank = kRank;
  if (f.software) c.rank = settings.rank_software ? kSoftwareRank : -1;
}

void GlesConverter::Impl::BringUp() {
  Capabilities& c = capabilities;
  c.available = false;
  if (!settings.enabled) {
    c.detail = "switched off by the configuration";
    return;
  }
  const EglSurvey survey = SurveyEgl();
  if (!survey.libraries) {
    c.detail = survey.detail;
    return;
  }
  const bool wants_software = settings.device == "software";
  const bool listed = survey.hardware || survey.software;
  if (listed && !absl::StrContains(survey.detail, settings.device)) {
    c.detail = absl::StrCat("gl.device: \"", settings.device,
                            "\" is none of: ", survey.detail);
    return;
  }
  if (!survey.hardware || wants_software) {
    if (!MayGenerateCode()) {
      c.detail =
          "only a software rasteriser, and this process may not generate "
          "code (MemoryDenyWriteExecute)";
      return;
    }
    // Costs some 50 ms and 100 MB of libraries: not before it is asked for.
    c.available = true;
    c.rank = settings.rank_software ? kSoftwareRank : -1;
    c.detail = "software rasteriser, only when named, starts when first used";
    return;
  }
  const absl::Status started = pool.Start();
  if (!started.ok()) {
    c.detail = std::string(started.message());
    return;
  }
  c.available = true;
  Describe(*pool.features());
}

absl::StatusOr<uint64_t> GlesConverter::Impl::Attempt(
    GlWorkerPool::Lease& lease, std::span<const ConvertPlan> plans,
    const PictureBuffers& source, const PictureBuffers& destination,
    bool may_import, RowPool& rows, PictureFinished finished) {
  GlWorker& worker = lease.worker();
  GlWorker::Slot& slot = lease.slot();
  RenderJob& job = slot.job;
  const GlFeatures& features = worker.features();
  const JobSettings job_settings = {features, worker.traits(), settings,
                                    may_import};
  MappedSource from;
  BatchDestination to;
  bool maps_target = false;
  bool visible = WritesThrough(destination);
  for (size_t begin = 0; begin < plans.size();) {
    const std::span<const ConvertPlan> rest = plans.subspan(begin);
    const std::span<const ConvertPlan> part =
        rest.first(PlansWithin(rest, kMaxJobResultBytes));
    BuildJob(plans, part, source, destination, job_settings, job);
    job.source_is_there = begin > 0;
    if (begin == 0) {
      // A software rasteriser is the processor: device memory it reads or
      // writes needs the processor's sync around it.
      const bool syncs_source = features.software && HasDmaBuf(source);
      const bool syncs_target = features.software && HasDmaBuf(destination);
      if (!job.import_source || syncs_source) {
        RETURN_IF_ERROR(from.Map(plans[0].source, source));
      }
      maps_target = !job.import_target || syncs_target;
      if (maps_target) RETURN_IF_ERROR(to.Map(plans[0], destination));
      if (job.import_target && syncs_target) visible = false;
    }
    RETURN_IF_ERROR(worker.Reserve(slot, job.upload_bytes, job.result_bytes));
    if (!job.import_source && !job.source_is_there) {
      FillUpload(job, from.view(), slot.upload, rows);
    }
    RETURN_IF_ERROR(worker.Run(slot));
    for (size_t i = 0; i < part.size(); ++i) {
      if (!job.import_target) to.Take(job.targets[i], slot.result, rows);
      if (visible) finished(begin + i);
    }
    begin += part.size();
  }
  if (maps_target) RETURN_IF_ERROR(to.Finish());
  for (size_t i = 0; !visible && i < plans.size(); ++i) finished(i);
  return from.bytes_copied() + to.bytes_copied();
}

absl::StatusOr<uint64_t> GlesConverter::Impl::Run(
    std::span<const ConvertPlan> plans, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& rows,
    PictureFinished finished) {
  RETURN_IF_ERROR(Validate(plans[0].source, source, "source."));
  for (const ConvertPlan& plan : plans) {
    RETURN_IF_ERROR(Validate(plan.destination, destination, "destination."));
  }
  ASSIGN_OR_RETURN(GlWorkerPool::Lease lease, pool.Acquire());
  absl::StatusOr<uint64_t> copied = Attempt(
      lease, plans, source, destination, /*may_import=*/true, rows, finished);
  if (copied.ok() || !IsImportRefusal(copied.status())) return copied;
  ++pool.mutable_counters().import_refusals;
  return Attempt(lease, plans, source, destination, /*may_import=*/false, rows,
                 finished);
}

GlesConverter::GlesConverter(const GlSettings& settings)
    : impl_(std::make_unique<Impl>(settings)) {
  impl_->BringUp();
}
GlesConverter::~GlesConverter() = default;

const Capabilities& GlesConverter::capabilities() const {
  return impl_->capabilities;
}

absl::StatusOr<uint64_t> GlesConverter::Convert(
    const ConvertPlan& plan, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& pool) {
  return impl_->Run({&plan, 1}, source, destination, pool, [](size_t) {});
}

absl::StatusOr<uint64_t> GlesConverter::ConvertMany(
    std::span<const ConvertPlan> plans, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& pool,
    PictureFinished finished) {
  if (plans.empty()) return 0;
  return impl_->Run(plans, source, destination, pool, finished);
}

const GlCounters& GlesConverter::counts() const {
  return impl_->pool.counters();
}

std::vector<BackendCounter> GlesConverter::counters() const {
  const GlCounters& n = counts();
  return {{"converts", n.converts},
          {"failures", n.failures},
          {"uploads", n.uploads},
          {"downloads", n.downloads},
          {"imports", n.imports},
          {"import_hits", n.import_hits},
          {"import_refusals", n.import_refusals},
          {"import_evictions", n.import_evictions},
          {"programs", n.programs},
          {"tables", n.tables},
          {"textures", n.textures},
          {"staging_growths", n.staging_growths},
          {"workers_started", n.workers_started},
          {"workers_lost", n.workers_lost},
          {"resets", n.resets}};
}

const GlFeatures* GlesConverter::features() const {
  return impl_->pool.features();
}

std::string GlesConverter::health() const { return impl_->pool.health(); }

std::unique_ptr<Converter> MakeGlesConverter(const GlSettings& settings) {
  return std::make_unique<GlesConverter>(settings);
}

}  // namespace preprocd
