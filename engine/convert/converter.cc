#include "engine/convert/converter.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/memory/borrowed_buffer.h"

namespace preprocd {
namespace {

// True when `buffer` is the memory of an earlier one and needs no mapping of
// its own. Two private copies of one file would overwrite each other's planes
// when they are written back.
bool SharesMapping(const Buffer& buffer, const Buffer& earlier, Access access) {
  return buffer.identity() == earlier.identity() &&
         buffer.size_bytes() == earlier.size_bytes() &&
         (access == Access::kRead || buffer.writable());
}

// `bytes[i]` is buffer i's memory, held by one of `mappings`.
absl::Status MapAll(const PictureBuffers& picture, Access access,
                    std::array<Mapping, kMaxPlanes>& mappings,
                    std::array<std::span<std::byte>, kMaxPlanes>& bytes) {
  PREPROCD_CHECK(picture.count >= 0 && picture.count <= kMaxPlanes);
  const auto count = static_cast<size_t>(picture.count);
  for (size_t i = 0; i < count; ++i) {
    Buffer& buffer = *picture.buffers[i];
    size_t earlier = 0;
    while (earlier < i &&
           !SharesMapping(buffer, *picture.buffers[earlier], access)) {
      ++earlier;
    }
    if (earlier == i) {
      ASSIGN_OR_RETURN(mappings[i], buffer.Map(access));
      bytes[i] = mappings[i].bytes();
    } else {
      bytes[i] = bytes[earlier];
    }
  }
  return absl::OkStatus();
}

uint64_t SumCopied(const std::array<Mapping, kMaxPlanes>& mappings) {
  uint64_t sum = 0;
  for (const Mapping& mapping : mappings) sum += mapping.bytes_copied();
  return sum;
}

// Buffers mapped once for several converts, which see borrowed ones.
class HeldBuffers {
 public:
  HeldBuffers() = default;
  HeldBuffers(const HeldBuffers&) = delete;
  HeldBuffers& operator=(const HeldBuffers&) = delete;
  // Whoever did not finish has failed.
  ~HeldBuffers() {
    for (Mapping& mapping : mappings_) mapping.Abandon();
  }

  absl::Status Map(const PictureBuffers& picture, Access access) {
    std::array<std::span<std::byte>, kMaxPlanes> bytes = {};
    RETURN_IF_ERROR(MapAll(picture, access, mappings_, bytes));
    picture_.count = picture.count;
    for (size_t i = 0; i < static_cast<size_t>(picture.count); ++i) {
      picture_.buffers[i] = &borrowed_[i].emplace(bytes[i], access);
    }
    return absl::OkStatus();
  }
  absl::Status Finish() {
    absl::Status result;
    for (Mapping& mapping : mappings_) {
      absl::Status status = mapping.Finish();
      if (result.ok()) result = std::move(status);
    }
    return result;
  }
  const PictureBuffers& picture() const { return picture_; }
  uint64_t bytes_copied() const { return SumCopied(mappings_); }

 private:
  std::array<Mapping, kMaxPlanes> mappings_;
  std::array<std::optional<BorrowedBuffer>, kMaxPlanes> borrowed_;
  PictureBuffers picture_;
};

// The first error of several threads.
class FirstError {
 public:
  bool happened() const { return happened_.load(std::memory_order_relaxed); }
  void Set(absl::Status status) {
    const std::lock_guard lock(mutex_);
    if (status_.ok()) status_ = std::move(status);
    happened_.store(true, std::memory_order_relaxed);
  }
  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::atomic<bool> happened_ = false;
  std::mutex mutex_;
  absl::Status status_;  // guarded by mutex_
};

}  // namespace

// Whether a written byte is in the owner's memory at once: a copy is written
// back later, a dma-buf needs its closing sync.
bool WritesThrough(const PictureBuffers& picture) {
  for (size_t i = 0; i < static_cast<size_t>(picture.count); ++i) {
    const BufferKind kind = picture.buffers[i]->kind();
    if (kind != BufferKind::kMemfd && kind != BufferKind::kHeap) return false;
  }
  return true;
}

absl::Status MappedSource::Map(const ImageDesc& desc,
                               const PictureBuffers& picture) {
  std::array<std::span<std::byte>, kMaxPlanes> bytes = {};
  RETURN_IF_ERROR(
      PrefixField(MapAll(picture, Access::kRead, mappings_, bytes), "source."));
  std::array<std::span<const std::byte>, kMaxPlanes> spans = {};
  std::copy(bytes.begin(), bytes.end(), spans.begin());
  absl::StatusOr<ConstImageView> view = MakeConstImageView(
      desc, std::span(spans.data(), static_cast<size_t>(picture.count)));
  if (!view.ok()) return PrefixField(view.status(), "source.");
  view_ = *view;
  return absl::OkStatus();
}

uint64_t MappedSource::bytes_copied() const { return SumCopied(mappings_); }

MappedDestination::~MappedDestination() { Abandon(); }

absl::Status MappedDestination::Map(const ImageDesc& desc,
                                    const PictureBuffers& picture) {
  std::array<std::span<std::byte>, kMaxPlanes> bytes = {};
  absl::Status status = MapAll(picture, Access::kReadWrite, mappings_, bytes);
  if (status.ok()) {
    absl::StatusOr<ImageView> view = MakeImageView(
        desc, std::span(bytes.data(), static_cast<size_t>(picture.count)));
    if (view.ok()) view_ = *view;
    status = view.status();
  }
  if (!status.ok()) Abandon();
  return PrefixField(std::move(status), "destination.");
}

absl::Status MappedDestination::Finish() {
  absl::Status result = absl::OkStatus();
  for (Mapping& mapping : mappings_) {
    absl::Status status = mapping.Finish();
    if (result.ok()) result = std::move(status);
  }
  return result;
}

void MappedDestination::Abandon() {
  for (Mapping& mapping : mappings_) mapping.Abandon();
}

uint64_t MappedDestination::bytes_copied() const {
  return SumCopied(mappings_);
}

absl::StatusOr<uint64_t> Converter::ConvertMany(
    std::span<const ConvertPlan> plans, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& pool,
    PictureFinished finished) {
  HeldBuffers from;
  RETURN_IF_ERROR(PrefixField(from.Map(source, Access::kRead), "source."));
  HeldBuffers to;
  RETURN_IF_ERROR(
      PrefixField(to.Map(destination, Access::kReadWrite), "destination."));
  const bool visible = WritesThrough(destination);
  FirstError error;
  const auto convert = [&](size_t index) {
    if (error.happened()) return;
    const absl::StatusOr<uint64_t> copied =
        Convert(plans[index], from.picture(), to.picture(), pool);
    if (!copied.ok()) {
      error.Set(copied.status());
    } else if (visible) {
      finished(index);
    }
  };
  // Whole pictures to threads as long as every thread gets as many; the rows
  // of the rest are split, so that no thread is idle at the end.
  const size_t whole =
      plans.size() - plans.size() % static_cast<size_t>(pool.threads());
  pool.ParallelRows(static_cast<int>(whole), 1, [&](int begin, int end) {
    for (int i = begin; i < end; ++i) convert(static_cast<size_t>(i));
  });
  for (size_t i = whole; i < plans.size(); ++i) convert(i);
  RETURN_IF_ERROR(error.status());
  RETURN_IF_ERROR(to.Finish());
  for (size_t i = 0; !visible && i < plans.size(); ++i) finished(i);
  return from.bytes_copied() + to.bytes_copied();
}

}  // namespace preprocd
