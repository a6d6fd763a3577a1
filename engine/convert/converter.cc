#include "engine/convert/converter.h"

#include <span>
#include <utility>

#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status MapAll(const PictureBuffers& picture, Access access,
                    std::array<Mapping, kMaxPlanes>& mappings,
                    absl::string_view prefix) {
  for (int i = 0; i < picture.count; ++i) {
    const auto index = static_cast<size_t>(i);
    absl::StatusOr<Mapping> mapping = picture.buffers[index]->Map(access);
    if (!mapping.ok()) return PrefixField(mapping.status(), prefix);
    mappings[index] = *std::move(mapping);
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
  RETURN_IF_ERROR(MapAll(picture, Access::kRead, mappings_, "source."));
  std::array<std::span<const std::byte>, kMaxPlanes> spans = {};
  for (size_t i = 0; i < mappings_.size(); ++i) spans[i] = mappings_[i].bytes();
  absl::StatusOr<ConstImageView> view = MakeConstImageView(
      desc, std::span(spans.data(), static_cast<size_t>(picture.count)));
  if (!view.ok()) return PrefixField(view.status(), "source.");
  view_ = *view;
  return absl::OkStatus();
}

uint64_t MappedSource::bytes_copied() const { return SumCopied(mappings_); }

absl::Status MappedDestination::Map(const ImageDesc& desc,
                                    const PictureBuffers& picture) {
  RETURN_IF_ERROR(
      MapAll(picture, Access::kReadWrite, mappings_, "destination."));
  std::array<std::span<std::byte>, kMaxPlanes> spans = {};
  for (size_t i = 0; i < mappings_.size(); ++i) spans[i] = mappings_[i].bytes();
  absl::StatusOr<ImageView> view = MakeImageView(
      desc, std::span(spans.data(), static_cast<size_t>(picture.count)));
  if (!view.ok()) {
    Abandon();
    return PrefixField(view.status(), "destination.");
  }
  view_ = *view;
  return absl::OkStatus();
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
