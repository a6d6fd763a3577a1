#include "engine/convert/converter.h"

#include <algorithm>
#include <span>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

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

}  // namespace

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

}  // namespace preprocd
