#include "engine/backends/cpu/strip_renderer.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <mutex>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/backends/cpu/row_arena.h"
#include "engine/base/status_macros.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/image/orientation.h"

namespace preprocd {
namespace {

// Strips that the decoder may be ahead of the conversion.
constexpr int kAhead = 4;
// Fewer strips than this are done before another thread is awake.
constexpr int kMinSharedStrips = 12;
// A wake-up through the kernel takes as long as a strip.
constexpr int kSpinPauses = 2000;

void Pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// What a thread keeps for its next picture.
struct StripScratch {
  RowArena ring;
  // Per row of the content in rendering order: the strips it needs.
  std::vector<int> first_strip;  // no later row needs one before it
  std::vector<int> last_strip;
};

StripScratch& ThreadStripScratch() {
  thread_local StripScratch scratch;
  return scratch;
}

// Planes of `source` with nowhere to lie yet.
StoredPlanes PlanesOf(const StripSource& source) {
  StoredPlanes stored;
  stored.count = source.plane_count();
  for (int i = 0; i < stored.count; ++i) {
    stored.planes[static_cast<size_t>(i)].chroma = i > 0;
  }
  return stored;
}

class StripPipeline {
 public:
  StripPipeline(const ConvertPlan& plan, StripSource& source,
                StripScratch& scratch)
      : plan_(plan), source_(source), scratch_(scratch) {
    const OrientationMap o =
        GetOrientationMap(plan.orientation, plan.source_rect.size());
    bottom_up_ = o.yy < 0;
  }

  // Which strips each row needs. Strips held at once, none ahead.
  int FindNeeds(const FixedRenderer& renderer);
  // False when the ring would be too large.
  bool PlaceRing(int strips, int planes, StoredPlanes& stored);
  // Reads, completes and converts everything, on one thread or two.
  absl::Status RunAlone(const FixedRenderer& renderer);
  absl::Status RunShared(const FixedRenderer& renderer, RowPool& pool);

  StripConvertReport report() const {
    StripConvertReport report;
    report.source_ns = read_ns_ + complete_ns_;
    report.convert_ns = convert_ns_;
    return report;
  }

 private:
  StripTargets TargetsOf(int strip) const;
  bool ReadOne();
  void CompleteOne();
  void Produce(const FixedRenderer& renderer);
  void Consume(const FixedRenderer& renderer, bool pulls);
  bool NextStrip(bool pulls);
  bool ClaimConversion() { return !claimed_.exchange(true); }
  bool MayRead() const {
    return read_ - released_ < ring_strips_ && read_ - completed_ < kAhead;
  }
  void Publish(std::atomic<int>& progress, int value);
  void WaitFor(absl::FunctionRef<bool()> condition);

  const ConvertPlan& plan_;
  StripSource& source_;
  StripScratch& scratch_;
  bool bottom_up_ = false;
  int ring_strips_ = 0;
  int planes_ = 0;
  std::array<uint8_t*, kMaxStripPlanes> ring_ = {};
  std::array<size_t, kMaxStripPlanes> stride_ = {};
  int first_needed_ = 0;
  int last_needed_ = 0;

  // Each is written by one thread, under the mutex, and read by both.
  std::atomic<int> read_ = 0;       // strips read
  std::atomic<int> completed_ = 0;  // strips completed
  std::atomic<int> released_ = 0;   // strips whose rows nobody needs
  std::atomic<bool> failed_ = false;
  std::atomic<bool> claimed_ = false;
  std::atomic<bool> producing_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  absl::Status status_;  // the reading thread's, read after both have ended

  // The reading thread's, then the converting thread's; strips_ns_ is all of
  // its time beside the conversion, waiting included.
  int64_t read_ns_ = 0;
  int64_t complete_ns_ = 0;
  int64_t strips_ns_ = 0;
  int64_t convert_ns_ = 0;
};

int StripPipeline::FindNeeds(const FixedRenderer& renderer) {
  const Rect& content = plan_.placement.destination;
  const auto rows = static_cast<size_t>(content.height);
  planes_ = renderer.plane_count();
  std::vector<int>& first = scratch_.first_strip;
  std::vector<int>& last = scratch_.last_strip;
  first.assign(rows, std::numeric_limits<int>::max());
  last.assign(rows, 0);
  for (size_t i = 0; i < rows; ++i) {
    const auto step = static_cast<int>(i);
    const int y =
        bottom_up_ ? content.y + content.height - 1 - step : content.y + step;
    for (int p = 0; p < planes_; ++p) {
      const FixedRenderer::RowRange range = renderer.SourceRows(p, y);
      const int strip_rows = source_.plane(p).strip_rows;
      first[i] = std::min(first[i], range.first / strip_rows);
      last[i] = std::max(last[i], range.last / strip_rows);
    }
  }
  for (size_t i = rows - 1; i > 0; --i) {
    first[i - 1] = std::min(first[i - 1], first[i]);
  }
  int held = 0;
  for (size_t i = 0; i < rows; ++i) {
    last_needed_ = std::max(last_needed_, last[i]);
    held = std::max(held, last_needed_ - first[i] + 1);
  }
  first_needed_ = first[0];
  return held;
}

bool StripPipeline::PlaceRing(int strips, int planes, StoredPlanes& stored) {
  constexpr size_t kLine = 64;
  size_t total = 0;
  for (int i = 0; i < planes; ++i) {
    const StripPlane plane = source_.plane(i);
    // An odd number of lines, so that rows do not compete for cache ways.
    const size_t lines = (static_cast<size_t>(plane.row_bytes) + kLine) / kLine;
    stride_[static_cast<size_t>(i)] = (lines | 1) * kLine;
    total += stride_[static_cast<size_t>(i)] *
             static_cast<size_t>(plane.strip_rows * strips);
  }
  if (total > kMaxRingBytes) return false;
  ring_strips_ = strips;
  scratch_.ring.Reset();
  for (int i = 0; i < planes; ++i) {
    const auto p = static_cast<size_t>(i);
    StoredPlane& to = stored.planes[p];
    to.ring_rows = source_.plane(i).strip_rows * strips;
    to.stride = static_cast<ptrdiff_t>(stride_[p]);
    ring_[p] = scratch_.ring.Take<uint8_t>(stride_[p] *
                                           static_cast<size_t>(to.ring_rows));
    to.base = ring_[p];
  }
  return true;
}

// Strips that no row needs are read and not written.
StripTargets StripPipeline::TargetsOf(int strip) const {
  StripTargets targets;
  if (strip < first_needed_ || strip > last_needed_) return targets;
  for (int i = 0; i < planes_; ++i) {
    const auto p = static_cast<size_t>(i);
    const int row = strip % ring_strips_ * source_.plane(i).strip_rows;
    targets[p] = {ring_[p] + static_cast<size_t>(row) * stride_[p], stride_[p]};
  }
  return targets;
}

void StripPipeline::Publish(std::atomic<int>& progress, int value) {
  {
    const std::lock_guard lock(mutex_);
    progress.store(value);
  }
  changed_.notify_one();
}

void StripPipeline::WaitFor(absl::FunctionRef<bool()> condition) {
  for (int i = 0; i < kSpinPauses; ++i) {
    if (condition()) return;
    Pause();
  }
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, condition);
}

bool StripPipeline::ReadOne() {
  const int64_t start = MonotonicNs();
  const int strip = read_;
  absl::Status status = source_.Read(TargetsOf(strip));
  read_ns_ += MonotonicNs() - start;
  if (!status.ok()) {
    status_ = std::move(status);
    {
      const std::lock_guard lock(mutex_);
      failed_ = true;
    }
    changed_.notify_one();
    return false;
  }
  Publish(read_, strip + 1);
  return true;
}

void StripPipeline::CompleteOne() {
  const int64_t start = MonotonicNs();
  const int strip = completed_;
  source_.Complete(strip);
  complete_ns_ += MonotonicNs() - start;
  Publish(completed_, strip + 1);
}

// One more strip completed; false when the source failed.
bool StripPipeline::NextStrip(bool pulls) {
  const int64_t start = MonotonicNs();
  if (pulls && read_ == completed_ && !ReadOne()) return false;
  const auto arrived = [this] { return read_ > completed_ || failed_; };
  if (!arrived()) WaitFor(arrived);
  const bool good = read_ > completed_;
  if (good) CompleteOne();
  strips_ns_ += MonotonicNs() - start;
  return good;
}

// Converts everything. `pulls`: this thread also reads.
void StripPipeline::Consume(const FixedRenderer& renderer, bool pulls) {
  const int64_t start = MonotonicNs();
  size_t next = 0;
  bool good = true;
  renderer.RenderWhenReady(bottom_up_, [&](int) {
    const int first = scratch_.first_strip[next];
    const int last = scratch_.last_strip[next];
    ++next;
    if (first != released_) Publish(released_, first);
    while (completed_ <= last) {
      if (!NextStrip(pulls)) return good = false;
    }
    return true;
  });
  if (good) Publish(released_, source_.strip_count());
  while (good && completed_ < source_.strip_count()) good = NextStrip(pulls);
  convert_ns_ = MonotonicNs() - start - strips_ns_;
}

// Reads everything; converts, too, when no other thread came for that.
void StripPipeline::Produce(const FixedRenderer& renderer) {
  while (read_ < source_.strip_count()) {
    if (!MayRead()) {
      if (ClaimConversion()) return Consume(renderer, /*pulls=*/true);
      WaitFor([this] { return MayRead(); });
    }
    if (!ReadOne()) return;
  }
  if (ClaimConversion()) Consume(renderer, /*pulls=*/true);
}

absl::Status StripPipeline::RunAlone(const FixedRenderer& renderer) {
  Consume(renderer, /*pulls=*/true);
  return status_;
}

absl::Status StripPipeline::RunShared(const FixedRenderer& renderer,
                                      RowPool& pool) {
  pool.ParallelRows(2, 1, [&](int, int) {
    if (!producing_.exchange(true)) {
      Produce(renderer);
    } else if (ClaimConversion()) {
      Consume(renderer, /*pulls=*/false);
    }
  });
  return status_;
}

}  // namespace

absl::StatusOr<std::optional<StripConvertReport>> RenderFromStrips(
    const ConvertPlan& plan, StripSource& source, const ImageView& destination,
    FixedTables& tables, RowPool& pool) {
  const OrientationMap o =
      GetOrientationMap(plan.orientation, plan.source_rect.size());
  if (o.xx == 0) return std::optional<StripConvertReport>();
  StoredPlanes stored = PlanesOf(source);
  StripScratch& scratch = ThreadStripScratch();
  StripPipeline pipeline(plan, source, scratch);
  int held = 0;
  int planes = 0;
  {
    const auto shape = FixedRenderer::Make(plan, stored, destination, tables);
    if (!shape) return std::optional<StripConvertReport>();
    held = pipeline.FindNeeds(*shape);
    planes = shape->plane_count();
  }
  const bool shared =
      pool.threads() > 1 && source.strip_count() >= kMinSharedStrips;
  if (!pipeline.PlaceRing(held + (shared ? kAhead : 0), planes, stored)) {
    return std::optional<StripConvertReport>();
  }
  RETURN_IF_ERROR(source.Defer(shared ? kAhead : 0));
  const auto renderer = FixedRenderer::Make(plan, stored, destination, tables);
  if (!renderer) return std::optional<StripConvertReport>();
  if (shared) {
    RETURN_IF_ERROR(pipeline.RunShared(*renderer, pool));
  } else {
    RETURN_IF_ERROR(pipeline.RunAlone(*renderer));
  }
  return pipeline.report();
}

}  // namespace preprocd
