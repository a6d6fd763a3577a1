#include "engine/image/batch_layout.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

int PlaneCount(const ImageDesc& desc) {
  return GetPixelFormatInfo(desc.format).plane_count;
}

struct Extent {
  uint64_t begin = 0;
  uint64_t end = 0;
};

// Bytes of a plane in its buffer. REQUIRES: a validated description.
Extent ExtentOf(const ImageDesc& desc, int plane) {
  const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
  const auto rows =
      static_cast<uint64_t>(PlaneRows(desc.format, plane, desc.height));
  return {p.offset_bytes,
          p.offset_bytes + p.stride_bytes * (rows - 1) +
              PlaneRowBytes(desc.format, desc.dtype, plane, desc.width)};
}

// From the first to behind the last byte of a picture.
uint64_t SpanOf(const ImageDesc& desc) {
  Extent all = ExtentOf(desc, 0);
  for (int plane = 1; plane < PlaneCount(desc); ++plane) {
    const Extent extent = ExtentOf(desc, plane);
    all.begin = std::min(all.begin, extent.begin);
    all.end = std::max(all.end, extent.end);
  }
  return all.end - all.begin;
}

// Whether two planes of any two pictures share a byte. Rows that lie in
// another picture's row padding count as shared.
bool ElementsOverlap(const BatchLayout& batch) {
  std::vector<Extent> extents;
  for (int plane = 0; plane < PlaneCount(batch.first); ++plane) {
    const Extent extent = ExtentOf(batch.first, plane);
    for (int i = 0; i < batch.count; ++i) {
      const uint64_t shift = batch.stride_bytes * static_cast<uint64_t>(i);
      extents.push_back({extent.begin + shift, extent.end + shift});
    }
  }
  std::sort(extents.begin(), extents.end(),
            [](const Extent& a, const Extent& b) { return a.begin < b.begin; });
  for (size_t i = 1; i < extents.size(); ++i) {
    if (extents[i].begin < extents[i - 1].end) return true;
  }
  return false;
}

absl::Status TooSmall(const BatchLayout& batch, std::optional<uint64_t> end,
                      uint64_t size) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferTooSmall;
  detail.got = absl::StrCat(size);
  detail.limit = end ? absl::StrCat(*end) : "overflow";
  return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                   absl::StrCat(batch.count, " pictures need ",
                                end ? absl::StrCat(*end) : "more than 2^64",
                                " bytes, the buffer has ", size));
}

absl::Status CheckEnd(const BatchLayout& batch, uint64_t size) {
  uint64_t end = 0;
  for (int plane = 0; plane < PlaneCount(batch.first); ++plane) {
    const std::optional<uint64_t> last = CheckedMulAdd(
        batch.stride_bytes, static_cast<uint64_t>(batch.count - 1),
        ExtentOf(batch.first, plane).end);
    if (!last) return TooSmall(batch, std::nullopt, size);
    end = std::max(end, *last);
  }
  return end > size ? TooSmall(batch, end, size) : absl::OkStatus();
}

}  // namespace

uint64_t TightBatchStride(const ImageDesc& first) {
  uint64_t begin = UINT64_MAX;
  uint64_t end = 0;
  for (int plane = 0; plane < PlaneCount(first); ++plane) {
    const PlaneDesc& p = first.planes[static_cast<size_t>(plane)];
    const auto rows =
        static_cast<uint64_t>(PlaneRows(first.format, plane, first.height));
    begin = std::min(begin, p.offset_bytes);
    end = std::max(end, p.offset_bytes + p.stride_bytes * rows);
  }
  return end - begin;
}

ImageDesc BatchElement(const BatchLayout& batch, int index) {
  ImageDesc element = batch.first;
  const uint64_t shift = batch.stride_bytes * static_cast<uint64_t>(index);
  for (int plane = 0; plane < PlaneCount(element); ++plane) {
    element.planes[static_cast<size_t>(plane)].offset_bytes += shift;
  }
  return element;
}

uint64_t RequiredBytes(const BatchLayout& batch) {
  const ImageDesc last = BatchElement(batch, batch.count - 1);
  return RequiredBytes(last, last.planes[0].buffer_index);
}

absl::Status ValidateBatch(const BatchLayout& batch,
                           std::span<const uint64_t> buffer_sizes) {
  RETURN_IF_ERROR(ValidateImageDesc(batch.first, buffer_sizes));
  if (batch.count < 1) {
    return InvalidField(ErrorReason::kGeometryInvalid, "count",
                        absl::StrCat("count ", batch.count, " < 1"));
  }
  if (batch.count > kMaxBatchElements) {
    return InvalidField(
        ErrorReason::kTooLarge, "count",
        absl::StrCat("count ", batch.count, " > ", kMaxBatchElements));
  }
  const uint32_t buffer = batch.first.planes[0].buffer_index;
  if (batch.count == 1) return absl::OkStatus();
  for (int plane = 1; plane < PlaneCount(batch.first); ++plane) {
    if (batch.first.planes[static_cast<size_t>(plane)].buffer_index != buffer) {
      return InvalidField("planes",
                          "planes of a batch lie in more than one buffer");
    }
  }
  const auto element = static_cast<uint64_t>(DTypeSize(batch.first.dtype));
  if (batch.stride_bytes % element != 0) {
    return InvalidField("stride_bytes",
                        absl::StrCat("stride_bytes ", batch.stride_bytes,
                                     " is not a multiple of ", element));
  }
  RETURN_IF_ERROR(CheckEnd(batch, buffer_sizes[buffer]));
  if (batch.stride_bytes >= SpanOf(batch.first)) return absl::OkStatus();
  if (!ElementsOverlap(batch)) return absl::OkStatus();
  return InvalidField("stride_bytes",
                      absl::StrCat("stride_bytes ", batch.stride_bytes,
                                   " lets pictures of the batch overlap"));
}

}  // namespace preprocd
