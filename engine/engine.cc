#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <iterator>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/convert/shrunk_plan.h"
#include "engine/convert/strip_converter.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/exec/row_pool.h"
#include "engine/masks/materialize.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

// What is kept for the next call. More calls at once make their own and drop
// them afterwards.
constexpr size_t kMaxKeptDecoders = 16;
constexpr size_t kMaxKeptBuffers = 8;
constexpr uint64_t kMaxKeptBytes = 256ull << 20;
constexpr uint64_t kMinScratchBytes = 1ull << 20;

// Image bytes carry no field of their own; the request's is "source".
absl::Status UnderSource(absl::Status status) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || !detail->field.empty()) return status;
  detail->field = "source";
  return MakeError(status.code(), *std::move(detail),
                   absl::StrCat("source: ", status.message()));
}

// Adds the time from construction to destruction.
class StageTimer {
 public:
  explicit StageTimer(int64_t& total) : total_(total), start_(MonotonicNs()) {}
  StageTimer(const StageTimer&) = delete;
  StageTimer& operator=(const StageTimer&) = delete;
  ~StageTimer() { total_ += MonotonicNs() - start_; }

 private:
  int64_t& total_;
  const int64_t start_;
};

// Decoders and scratch memory that are not in use. Thread-safety: safe.
class WorkShelf {
 public:
  std::unique_ptr<ImageDecoder> TakeDecoder();
  void Return(std::unique_ptr<ImageDecoder> decoder);
  // A heap buffer of at least `size_bytes`, whatever its content.
  absl::StatusOr<std::shared_ptr<Buffer>> TakeBuffer(uint64_t size_bytes);
  void Return(std::shared_ptr<Buffer> buffer);

 private:
  // Guards all that follows. std::mutex, which ThreadSanitizer understands;
  // Debian's Abseil is built without its annotations.
  std::mutex mutex_;
  std::vector<std::unique_ptr<ImageDecoder>> decoders_;
  std::vector<std::shared_ptr<Buffer>> buffers_;
  uint64_t kept_bytes_ = 0;
};

std::unique_ptr<ImageDecoder> WorkShelf::TakeDecoder() {
  {
    const std::lock_guard lock(mutex_);
    if (!decoders_.empty()) {
      std::unique_ptr<ImageDecoder> decoder = std::move(decoders_.back());
      decoders_.pop_back();
      return decoder;
    }
  }
  return std::make_unique<ImageDecoder>();
}

void WorkShelf::Return(std::unique_ptr<ImageDecoder> decoder) {
  const std::lock_guard lock(mutex_);
  if (decoders_.size() < kMaxKeptDecoders) {
    decoders_.push_back(std::move(decoder));
  }
}

absl::StatusOr<std::shared_ptr<Buffer>> WorkShelf::TakeBuffer(
    uint64_t size_bytes) {
  {
    const std::lock_guard lock(mutex_);
    const auto smaller = [](const std::shared_ptr<Buffer>& a,
                            const std::shared_ptr<Buffer>& b) {
      return a->size_bytes() < b->size_bytes();
    };
    std::sort(buffers_.begin(), buffers_.end(), smaller);
    const auto found = std::find_if(
        buffers_.begin(), buffers_.end(),
        [&](const auto& b) { return b->size_bytes() >= size_bytes; });
    if (found != buffers_.end()) {
      std::shared_ptr<Buffer> buffer = std::move(*found);
      buffers_.erase(found);
      kept_bytes_ -= buffer->size_bytes();
      return buffer;
    }
  }
  // Powers of two let pictures of similar size share; pages that are never
  // touched cost nothing.
  const uint64_t rounded =
      std::bit_ceil(std::max(size_bytes, kMinScratchBytes));
  return AllocateBuffer(AllocatorKind::kHeap, rounded, "decode scratch");
}

void WorkShelf::Return(std::shared_ptr<Buffer> buffer) {
  const std::lock_guard lock(mutex_);
  if (buffers_.size() >= kMaxKeptBuffers ||
      kept_bytes_ + buffer->size_bytes() > kMaxKeptBytes) {
    return;
  }
  kept_bytes_ += buffer->size_bytes();
  buffers_.push_back(std::move(buffer));
}

// A decoder taken from the shelf, back there at the end.
class DecoderLoan {
 public:
  explicit DecoderLoan(WorkShelf& shelf)
      : shelf_(shelf), decoder_(shelf.TakeDecoder()) {}
  DecoderLoan(const DecoderLoan&) = delete;
  DecoderLoan& operator=(const DecoderLoan&) = delete;
  ~DecoderLoan() { shelf_.Return(std::move(decoder_)); }
  ImageDecoder* operator->() const { return decoder_.get(); }

 private:
  WorkShelf& shelf_;
  std::unique_ptr<ImageDecoder> decoder_;
};

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Bytes of plane `plane` in its buffer; nothing when they do not fit 64 bits
// (validation answers that).
std::optional<Extent> PlaneExtent(const ImageDesc& desc, int plane) {
  const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
  const auto rows =
      static_cast<uint64_t>(PlaneRows(desc.format, plane, desc.height));
  const std::optional<uint64_t> last =
      CheckedMulAdd(p.stride_bytes, rows - 1, p.offset_bytes);
  if (!last) return std::nullopt;
  const std::optional<uint64_t> end = CheckedAdd(
      *last, PlaneRowBytes(desc.format, desc.dtype, plane, desc.width));
  if (!end) return std::nullopt;
  return Extent{p.offset_bytes, *end};
}

bool ShareBuffer(const PlaneDesc& a, const PictureBuffers& a_buffers,
                 const PlaneDesc& b, const PictureBuffers& b_buffers) {
  if (a.buffer_index >= static_cast<uint32_t>(a_buffers.count) ||
      b.buffer_index >= static_cast<uint32_t>(b_buffers.count)) {
    return false;
  }
  return a_buffers.buffers[a.buffer_index]->identity() ==
         b_buffers.buffers[b.buffer_index]->identity();
}

// Refuses a destination that shares bytes with the source.
absl::Status CheckNoOverlap(const ImageDesc& source_desc,
                            const PictureBuffers& source,
                            const ImageDesc& destination_desc,
                            const PictureBuffers& destination) {
  const int source_planes = GetPixelFormatInfo(source_desc.format).plane_count;
  const int planes = GetPixelFormatInfo(destination_desc.format).plane_count;
  for (int s = 0; s < source_planes; ++s) {
    for (int d = 0; d < planes; ++d) {
      if (!ShareBuffer(source_desc.planes[static_cast<size_t>(s)], source,
                       destination_desc.planes[static_cast<size_t>(d)],
                       destination)) {
        continue;
      }
      const std::optional<Extent> from = PlaneExtent(source_desc, s);
      const std::optional<Extent> to = PlaneExtent(destination_desc, d);
      if (!from || !to || from->end <= to->begin || to->end <= from->begin) {
        continue;
      }
      return InvalidField(
          ErrorReason::kBufferOverlap, "destination",
          absl::StrCat("destination: plane ", d, " bytes [", to->begin, ", ",
                       to->end, ") overlap source plane ", s, " bytes [",
                       from->begin, ", ", from->end, ") of the same buffer"));
    }
  }
  return absl::OkStatus();
}

int ThreadsOrCores(int threads) {
  if (threads > 0) return threads;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace

struct Engine::State {
  explicit State(int threads) : pool(threads) {}

  // The converter of the plan's backend; null when the plan has none of ours.
  Converter* Find(absl::string_view name) const {
    for (size_t i = 0; i < converters.size(); ++i) {
      if (capabilities[i].name == name) return converters[i].get();
    }
    return nullptr;
  }

  // In the order they are tried; capabilities[i] is converters[i]'s with its
  // rank rewritten when the options gave an order.
  std::vector<std::unique_ptr<Converter>> converters;
  std::vector<Capabilities> capabilities;
  std::vector<const Capabilities*> capability_pointers;
  RowPool pool;
  WorkShelf shelf;
};

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options) {
  auto state = std::make_unique<State>(ThreadsOrCores(options.row_threads));
  std::vector<std::unique_ptr<Converter>> all =
      MakeBackends(options.backend_settings);
  if (options.backends.empty()) {
    // By rank; those that must be named come last.
    const auto order = [](const std::unique_ptr<Converter>& converter) {
      return static_cast<unsigned>(converter->capabilities().rank);
    };
    std::stable_sort(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return order(a) < order(b);
    });
    state->converters = std::move(all);
  }
  for (const std::string& name : options.backends) {
    const auto found = std::find_if(
        all.begin(), all.end(), [&](const std::unique_ptr<Converter>& c) {
          return c != nullptr && c->capabilities().name == name;
        });
    if (found == all.end()) {
      return InvalidField(ErrorReason::kBackendUnknown, "backends",
                          absl::StrCat("backends: no backend is called ", name,
                                       ", or it is named twice"));
    }
    state->converters.push_back(std::move(*found));
  }
  for (const std::unique_ptr<Converter>& converter : state->converters) {
    Capabilities capabilities = converter->capabilities();
    if (!options.backends.empty()) {
      capabilities.rank = static_cast<int>(state->capabilities.size());
    }
    state->capabilities.push_back(std::move(capabilities));
  }
  for (const Capabilities& capabilities : state->capabilities) {
    state->capability_pointers.push_back(&capabilities);
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

std::span<const Capabilities* const> Engine::backends() const {
  return state_->capability_pointers;
}

std::vector<BackendStatus> Engine::status() const {
  std::vector<BackendStatus> all;
  for (const std::unique_ptr<Converter>& converter : state_->converters) {
    const Capabilities& c = converter->capabilities();
    all.push_back(
        {c.name, c.available, converter->health(), converter->counters()});
  }
  return all;
}

absl::StatusOr<ConvertPlan> Engine::Plan(const ImageDesc& source,
                                         const ImageDesc& destination,
                                         const ConvertSpec& spec,
                                         bool from_jpeg) const {
  ASSIGN_OR_RETURN(ConvertPlan plan,
                   PlanConvert(source, destination, spec, from_jpeg));
  RETURN_IF_ERROR(SelectBackend(backends(), spec, plan));
  return plan;
}

absl::StatusOr<ImageDesc> Engine::DecodedDesc(const ImageInfo& info,
                                              PixelFormat destination_format) {
  PixelFormat format = PixelFormat::kRgb;
  const bool coded_planes =
      info.file_format == FileFormat::kJpeg && info.color_space == "ycbcr" &&
      (info.subsampling == "4:2:0" || info.subsampling == "4:2:2" ||
       info.subsampling == "4:4:4");
  const bool wants_alpha = destination_format != PixelFormat::kUnspecified &&
                           GetPixelFormatInfo(destination_format).has_alpha;
  if (info.has_alpha && wants_alpha) {
    format = PixelFormat::kRgba;
  } else if (info.color_space == "grey") {
    format = PixelFormat::kGrey;
  } else if (coded_planes) {
    format = info.native_format;
  }
  ASSIGN_OR_RETURN(ImageDesc desc,
                   MakeImageDesc(format, DType::kU8, info.width, info.height));
  desc.color = info.color;
  return desc;
}

absl::Status Engine::Convert(const ConvertPlan& plan,
                             const PictureBuffers& source,
                             const PictureBuffers& destination,
                             WorkReport& report) {
  RETURN_IF_ERROR(
      CheckNoOverlap(plan.source, source, plan.destination, destination));
  const StageTimer timer(report.convert_ns);
  ASSIGN_OR_RETURN(
      const uint64_t copied,
      ConvertWithFailover(
          plan, source, destination, state_->pool,
          [this](absl::string_view name) { return state_->Find(name); },
          report.failover));
  report.bytes_copied += copied;
  return absl::OkStatus();
}

absl::Status Engine::ConvertBatch(std::span<const ConvertPlan> plans,
                                  const PictureBuffers& source,
                                  const PictureBuffers& destination,
                                  PictureFinished finished,
                                  WorkReport& report) {
  PREPROCD_CHECK(!plans.empty());
  for (const ConvertPlan& plan : plans) {
    PREPROCD_ENSURE(plan.backend == plans[0].backend);
    RETURN_IF_ERROR(
        CheckNoOverlap(plan.source, source, plan.destination, destination));
  }
  const StageTimer timer(report.convert_ns);
  ASSIGN_OR_RETURN(
      const uint64_t copied,
      ConvertManyWithFailover(
          plans, source, destination, state_->pool, finished,
          [this](absl::string_view name) { return state_->Find(name); },
          report.failover));
  report.bytes_copied += copied;
  return absl::OkStatus();
}

absl::Status Engine::DecodeAndConvertBatch(EncodedBytes bytes,
                                           const DecodeOptions& decode,
                                           std::span<const ConvertPlan> plans,
                                           const PictureBuffers& destination,
                                           PictureFinished finished,
                                           WorkReport& report) {
  PREPROCD_CHECK(!plans.empty());
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> scratch,
                   state_->shelf.TakeBuffer(RequiredBytes(plans[0].source)));
  PictureBuffers picture;
  picture.buffers[0] = scratch.get();
  picture.count = 1;
  WorkReport decoded;
  absl::Status status =
      Decode(bytes, decode, plans[0].source, picture, decoded).status();
  report.decode_ns += decoded.decode_ns;
  std::move(decoded.warnings.begin(), decoded.warnings.end(),
            std::back_inserter(report.warnings));
  if (status.ok()) {
    status = ConvertBatch(plans, picture, destination, finished, report);
  }
  state_->shelf.Return(std::move(scratch));
  return status;
}

absl::Status Engine::DecodeAndConvert(EncodedBytes bytes,
                                      const DecodeOptions& decode,
                                      const ConvertPlan& plan,
                                      const PictureBuffers& destination,
                                      WorkReport& report,
                                      DecodeScaling scaling) {
  if (scaling == DecodeScaling::kFull) {
    return DecodeAtSize(bytes, decode, plan, destination, report);
  }
  const int shrink = LargestShrink(plan);
  const PixelFormat format = ShrunkFormat(plan.source.format, shrink);
  const bool jpeg = bytes.size() > 1 && bytes[0] == std::byte{0xFF};
  if (shrink == 1 || !jpeg || format == PixelFormat::kUnspecified) {
    report.warnings.push_back("fast_scale: decoded at full size");
    return DecodeAtSize(bytes, decode, plan, destination, report);
  }
  ASSIGN_OR_RETURN(const ConvertPlan small, ShrunkPlan(plan, shrink, format));
  DecodeOptions shrinking = decode;
  shrinking.shrink = shrink;
  report.warnings.push_back(
      absl::StrCat("fast_scale: decoded at 1/", shrink, " of its size"));
  return DecodeAtSize(bytes, shrinking, small, destination, report);
}

absl::Status Engine::DecodeAtSize(EncodedBytes bytes,
                                  const DecodeOptions& decode,
                                  const ConvertPlan& plan,
                                  const PictureBuffers& destination,
                                  WorkReport& report) {
  ASSIGN_OR_RETURN(const bool fused,
                   DecodeIntoConvert(bytes, decode, plan, destination, report));
  if (fused) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> scratch,
                   state_->shelf.TakeBuffer(RequiredBytes(plan.source)));
  PictureBuffers picture;
  picture.buffers[0] = scratch.get();
  picture.count = 1;
  WorkReport decoded;
  absl::Status status =
      Decode(bytes, decode, plan.source, picture, decoded).status();
  report.decode_ns += decoded.decode_ns;
  for (std::string& warning : decoded.warnings) {
    report.warnings.push_back(std::move(warning));
  }
  if (status.ok()) status = Convert(plan, picture, destination, report);
  state_->shelf.Return(std::move(scratch));
  return status;
}

absl::StatusOr<bool> Engine::DecodeIntoConvert(
    EncodedBytes bytes, const DecodeOptions& decode, const ConvertPlan& plan,
    const PictureBuffers& destination, WorkReport& report) {
  Converter* converter = state_->Find(plan.backend);
  PREPROCD_ENSURE(converter != nullptr);
  if (converter->strips() == nullptr) return false;
  const DecoderLoan decoder(state_->shelf);
  absl::StatusOr<StripSource*> source =
      decoder->BeginStrips(bytes, decode, plan.source);
  if (!source.ok()) return UnderSource(std::move(source).status());
  if (*source == nullptr) return false;
  absl::StatusOr<std::optional<StripConvertReport>> converted =
      converter->strips()->ConvertStrips(plan, **source, destination,
                                         state_->pool);
  if (!converted.ok()) return UnderSource(std::move(converted).status());
  if (!*converted) return false;
  absl::StatusOr<DecodeResult> result = decoder->FinishStrips();
  if (!result.ok()) return UnderSource(std::move(result).status());
  report.decode_ns += (*converted)->source_ns;
  report.convert_ns += (*converted)->convert_ns;
  report.bytes_copied += (*converted)->bytes_copied;
  report.warnings.insert(report.warnings.end(), result->warnings.begin(),
                         result->warnings.end());
  return true;
}

absl::StatusOr<DecodeResult> Engine::Decode(EncodedBytes bytes,
                                            const DecodeOptions& options,
                                            const ImageDesc& desc,
                                            const PictureBuffers& destination,
                                            WorkReport& report) {
  const StageTimer timer(report.decode_ns);
  MappedDestination mapped;
  RETURN_IF_ERROR(mapped.Map(desc, destination));
  std::unique_ptr<ImageDecoder> decoder = state_->shelf.TakeDecoder();
  absl::StatusOr<DecodeResult> result =
      decoder->Decode(bytes, options, mapped.view());
  state_->shelf.Return(std::move(decoder));
  if (!result.ok()) {
    mapped.Abandon();
    return UnderSource(std::move(result).status());
  }
  RETURN_IF_ERROR(mapped.Finish());
  report.bytes_copied += mapped.bytes_copied();
  report.warnings.insert(report.warnings.end(), result->warnings.begin(),
                         result->warnings.end());
  return result;
}

absl::Status Engine::EncodeJpegFile(const ImageDesc& desc,
                                    const PictureBuffers& source,
                                    const JpegEncodeOptions& options,
                                    std::vector<std::byte>& out,
                                    WorkReport& report) {
  const StageTimer timer(report.encode_ns);
  MappedSource mapped;
  RETURN_IF_ERROR(mapped.Map(desc, source));
  RETURN_IF_ERROR(EncodeJpeg(mapped.view(), options, out));
  report.bytes_copied += mapped.bytes_copied();
  return absl::OkStatus();
}

absl::Status Engine::EncodePngFile(const ImageDesc& desc,
                                   const PictureBuffers& source,
                                   const PngEncodeOptions& options,
                                   std::vector<std::byte>& out,
                                   WorkReport& report) {
  const StageTimer timer(report.encode_ns);
  MappedSource mapped;
  RETURN_IF_ERROR(mapped.Map(desc, source));
  RETURN_IF_ERROR(EncodePng(mapped.view(), options, out));
  report.bytes_copied += mapped.bytes_copied();
  return absl::OkStatus();
}

absl::Status Engine::Materialize(MaskWorkspace& workspace,
                                 std::span<std::byte> out, WorkReport& report) {
  const StageTimer timer(report.convert_ns);
  return MaterializeMasks(workspace, out, state_->pool);
}

absl::Status Engine::Draw(const DrawnMasks& masks, const DrawStyle& style,
                          Backdrop backdrop, const ImageDesc& background_desc,
                          const PictureBuffers& background,
                          const ImageDesc& desc,
                          const PictureBuffers& destination,
                          WorkReport& report) {
  const bool over_picture = backdrop == Backdrop::kPicture;
  RETURN_IF_ERROR(CheckDraw(desc, over_picture ? &background_desc : nullptr,
                            style, masks.objects));
  MappedSource below;
  if (over_picture) {
    RETURN_IF_ERROR(
        CheckNoOverlap(background_desc, background, desc, destination));
    RETURN_IF_ERROR(below.Map(background_desc, background));
    report.bytes_copied += below.bytes_copied();
  }
  const StageTimer timer(report.convert_ns);
  MappedDestination mapped;
  RETURN_IF_ERROR(mapped.Map(desc, destination));
  DrawMasks(masks, style, backdrop, over_picture ? &below.view() : nullptr,
            mapped.view(), state_->pool);
  RETURN_IF_ERROR(mapped.Finish());
  report.bytes_copied += mapped.bytes_copied();
  return absl::OkStatus();
}

}  // namespace preprocd
