#include "engine/engine.h"

#include <algorithm>
#include <array>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/registry.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/exec/row_pool.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

// Decoded pictures kept for the next decode. More than one per executor
// thread is never in use at once, and few threads decode at the same time.
constexpr size_t kMaxIdleScratch = 4;
// A scratch much larger than what is asked for is not worth keeping busy.
constexpr uint64_t kMaxScratchWaste = 4;

// Buffers of decoded pictures, reused by size so that the steady state does
// not allocate.
class ScratchPool {
 public:
  absl::StatusOr<std::shared_ptr<Buffer>> Take(uint64_t size_bytes) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      size_t best = idle_.size();
      for (size_t i = 0; i < idle_.size(); ++i) {
        const uint64_t have = idle_[i]->size_bytes();
        if (have < size_bytes || have / kMaxScratchWaste > size_bytes) continue;
        if (best == idle_.size() || have < idle_[best]->size_bytes()) best = i;
      }
      if (best != idle_.size()) {
        std::shared_ptr<Buffer> taken = std::move(idle_[best]);
        idle_.erase(idle_.begin() + static_cast<ptrdiff_t>(best));
        return taken;
      }
    }
    return AllocateBuffer(AllocatorKind::kHeap, size_bytes, "decoded");
  }

  void Return(std::shared_ptr<Buffer> buffer) {
    std::shared_ptr<Buffer> dropped;  // unmapped after the lock
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.size() == kMaxIdleScratch) {
      dropped = std::move(idle_.front());
      idle_.erase(idle_.begin());
    }
    idle_.push_back(std::move(buffer));
  }

 private:
  std::mutex mutex_;
  std::vector<std::shared_ptr<Buffer>> idle_;
};

// Decoders keep scratch of their own; one is lent per running decode.
class DecoderPool {
 public:
  std::unique_ptr<ImageDecoder> Take() {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.empty()) return std::make_unique<ImageDecoder>();
    std::unique_ptr<ImageDecoder> taken = std::move(idle_.back());
    idle_.pop_back();
    return taken;
  }
  void Return(std::unique_ptr<ImageDecoder> decoder) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (idle_.size() < kMaxIdleScratch) idle_.push_back(std::move(decoder));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<ImageDecoder>> idle_;
};

absl::Status CheckOverlap(const ConvertPlan& plan, const PictureBuffers& source,
                          const PictureBuffers& destination) {
  for (int i = 0; i < source.count; ++i) {
    for (int j = 0; j < destination.count; ++j) {
      const auto a = static_cast<size_t>(i);
      const auto b = static_cast<size_t>(j);
      if (source.buffers[a]->identity() != destination.buffers[b]->identity()) {
        continue;
      }
      // Same memory: compare the planes that lie in it as if in one buffer.
      ImageDesc from = plan.source;
      ImageDesc to = plan.destination;
      for (PlaneDesc& plane : from.planes) {
        plane.buffer_index = plane.buffer_index == a ? 0 : 1;
      }
      for (PlaneDesc& plane : to.planes) {
        plane.buffer_index = plane.buffer_index == b ? 0 : 2;
      }
      if (PlanesOverlap(from, to)) {
        return InvalidField(ErrorReason::kBufferOverlap, "destination",
                            "destination overlaps the source");
      }
    }
  }
  return absl::OkStatus();
}

PictureBuffers OneBuffer(Buffer& buffer) {
  PictureBuffers picture;
  picture.buffers[0] = &buffer;
  picture.count = 1;
  return picture;
}

}  // namespace

struct Engine::State {
  explicit State(int row_threads) : pool(row_threads) {}

  std::vector<std::unique_ptr<Converter>> converters;
  std::vector<const Capabilities*> capabilities;
  RowPool pool;
  ScratchPool scratch;
  DecoderPool decoders;

  absl::StatusOr<Converter*> Find(const std::string& name) const {
    for (const std::unique_ptr<Converter>& converter : converters) {
      if (converter->capabilities().name == name) return converter.get();
    }
    return InvalidField(
        ErrorReason::kBackendUnknown, "options.backends",
        absl::StrCat("options.backends: no backend is called ", name));
  }
};

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(
    const EngineOptions& options) {
  int threads = options.row_threads;
  if (threads <= 0) {
    threads =
        static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  }
  auto state = std::make_unique<State>(threads);
  std::vector<std::unique_ptr<Converter>> made = MakeBackends();
  if (options.backends.empty()) {
    state->converters = std::move(made);
  }
  for (const std::string& name : options.backends) {
    const auto found =
        std::find_if(made.begin(), made.end(), [&name](const auto& converter) {
          return converter != nullptr && converter->capabilities().name == name;
        });
    if (found == made.end()) {
      return InvalidField(
          ErrorReason::kBackendUnknown, "backends",
          absl::StrCat("backends: ", name, " is unknown or named twice"));
    }
    state->converters.push_back(std::move(*found));
  }
  for (const std::unique_ptr<Converter>& converter : state->converters) {
    state->capabilities.push_back(&converter->capabilities());
  }
  return std::unique_ptr<Engine>(new Engine(std::move(state)));
}

Engine::Engine(std::unique_ptr<State> state) : state_(std::move(state)) {}
Engine::~Engine() = default;

std::span<const Capabilities* const> Engine::backends() const {
  return state_->capabilities;
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
  if (info.native_format == PixelFormat::kGrey) format = PixelFormat::kGrey;
  const bool wants_alpha = GetPixelFormatInfo(destination_format).has_alpha;
  if (info.has_alpha && wants_alpha) format = PixelFormat::kRgba;
  ASSIGN_OR_RETURN(ImageDesc desc,
                   MakeImageDesc(format, DType::kU8, info.width, info.height));
  desc.color = info.color;
  return desc;
}

absl::Status Engine::Convert(const ConvertPlan& plan,
                             const PictureBuffers& source,
                             const PictureBuffers& destination,
                             WorkReport& report) {
  RETURN_IF_ERROR(CheckOverlap(plan, source, destination));
  ASSIGN_OR_RETURN(Converter * converter, state_->Find(plan.backend));
  const int64_t start_ns = MonotonicNs();
  ASSIGN_OR_RETURN(const uint64_t copied,
                   converter->Convert(plan, source, destination, state_->pool));
  report.convert_ns += MonotonicNs() - start_ns;
  report.bytes_copied += copied;
  return absl::OkStatus();
}

absl::Status Engine::DecodeAndConvert(EncodedBytes bytes,
                                      const DecodeOptions& decode,
                                      const ConvertPlan& plan,
                                      const PictureBuffers& destination,
                                      WorkReport& report) {
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> scratch,
                   state_->scratch.Take(RequiredBytes(plan.source)));
  const PictureBuffers decoded = OneBuffer(*scratch);
  absl::Status status =
      Decode(bytes, decode, plan.source, decoded, report).status();
  if (status.ok()) status = Convert(plan, decoded, destination, report);
  state_->scratch.Return(std::move(scratch));
  return status;
}

absl::StatusOr<DecodeResult> Engine::Decode(EncodedBytes bytes,
                                            const DecodeOptions& options,
                                            const ImageDesc& desc,
                                            const PictureBuffers& destination,
                                            WorkReport& report) {
  MappedDestination to;
  RETURN_IF_ERROR(to.Map(desc, destination));
  const int64_t start_ns = MonotonicNs();
  std::unique_ptr<ImageDecoder> decoder = state_->decoders.Take();
  absl::StatusOr<DecodeResult> result =
      decoder->Decode(bytes, options, to.view());
  state_->decoders.Return(std::move(decoder));
  report.decode_ns += MonotonicNs() - start_ns;
  if (!result.ok()) {
    to.Abandon();
    return result;
  }
  RETURN_IF_ERROR(to.Finish());
  report.bytes_copied += to.bytes_copied();
  report.warnings.insert(report.warnings.end(), result->warnings.begin(),
                         result->warnings.end());
  return result;
}

absl::Status Engine::EncodeJpegFile(const ImageDesc& desc,
                                    const PictureBuffers& source,
                                    const JpegEncodeOptions& options,
                                    std::vector<std::byte>& out,
                                    WorkReport& report) {
  MappedSource from;
  RETURN_IF_ERROR(from.Map(desc, source));
  const int64_t start_ns = MonotonicNs();
  RETURN_IF_ERROR(EncodeJpeg(from.view(), options, out));
  report.encode_ns += MonotonicNs() - start_ns;
  report.bytes_copied += from.bytes_copied();
  return absl::OkStatus();
}

absl::Status Engine::EncodePngFile(const ImageDesc& desc,
                                   const PictureBuffers& source,
                                   const PngEncodeOptions& options,
                                   std::vector<std::byte>& out,
                                   WorkReport& report) {
  MappedSource from;
  RETURN_IF_ERROR(from.Map(desc, source));
  const int64_t start_ns = MonotonicNs();
  RETURN_IF_ERROR(EncodePng(from.view(), options, out));
  report.encode_ns += MonotonicNs() - start_ns;
  report.bytes_copied += from.bytes_copied();
  return absl::OkStatus();
}

}  // namespace preprocd
