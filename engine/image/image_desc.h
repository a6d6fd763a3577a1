// Where the pixels of one picture lie inside one or more byte buffers, and
// the proof that they fit. Views of memory carry the description along.
// Owns: nothing. Thread-safety: compatible (values only).
// Limits: kMaxImageAxis, kMaxPlanes.
#ifndef ENGINE_IMAGE_IMAGE_DESC_H_
#define ENGINE_IMAGE_IMAGE_DESC_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/image/color_encoding.h"
#include "engine/image/pixel_format.h"

namespace preprocd {

struct PlaneDesc {
  // Which of the picture's buffers holds this plane (index into the list
  // given beside the description).
  uint32_t buffer_index = 0;
  // First byte of the plane's first row, from the start of that buffer.
  uint64_t offset_bytes = 0;
  // Bytes from one row to the next.
  uint64_t stride_bytes = 0;
  bool operator==(const PlaneDesc&) const = default;
};

struct ImageDesc {
  PixelFormat format = PixelFormat::kUnspecified;
  DType dtype = DType::kU8;
  int width = 0;   // pixels
  int height = 0;  // pixels
  ColorEncoding color;
  // Entries past the format's plane count are ignored.
  std::array<PlaneDesc, kMaxPlanes> planes = {};
};

// Bytes that one row of plane `plane` occupies, without padding.
// REQUIRES: known format and dtype, 0 < width <= kMaxImageAxis.
uint64_t PlaneRowBytes(PixelFormat format, DType dtype, int plane, int width);
// Rows of plane `plane`: ceil(height / 2^vertical_shift).
int PlaneRows(PixelFormat format, int plane, int height);

// A description whose planes follow each other in buffer 0, every stride
// rounded up to `stride_alignment` bytes (1 = tight).
// Errors: kInvalidArgument  unknown format or dtype, size outside 1..kMax
absl::StatusOr<ImageDesc> MakeImageDesc(PixelFormat format, DType dtype,
                                        int width, int height,
                                        uint64_t stride_alignment = 1);

// Bytes from the buffer's start to the end of the last row of the last plane
// in `buffer_index`. REQUIRES: a description that passed ValidateImageDesc or
// came from MakeImageDesc.
uint64_t RequiredBytes(const ImageDesc& desc, uint32_t buffer_index = 0);

// Proves that every row of every plane lies inside its buffer:
// offset + stride * (rows - 1) + row bytes <= size, overflow-safe; strides at
// least the row bytes; strides and offsets multiples of the element size.
// `buffer_sizes[i]` is the size in bytes of buffer i.
// Errors, all kInvalidArgument with the field: FIELD_INVALID (format, dtype,
// buffer_index), GEOMETRY_INVALID (zero or negative size), TOO_LARGE (axis),
// BUFFER_TOO_SMALL (a plane ends outside its buffer, or sizes overflow).
absl::Status ValidateImageDesc(const ImageDesc& desc,
                               std::span<const uint64_t> buffer_sizes);

// True when a byte of `a` may also be a byte of `b`, both in the same memory
// (buffer identity is the caller's concern): compares plane extents.
bool PlanesOverlap(const ImageDesc& a, const ImageDesc& b);

// A picture in mapped memory. `planes[i]` points at plane i's first row.
// The memory is borrowed and must stay mapped while the view is used.
struct ConstImageView {
  ImageDesc desc;
  std::array<const std::byte*, kMaxPlanes> planes = {};

  const std::byte* row(int plane, int y) const {
    const auto p = static_cast<size_t>(plane);
    return planes[p] + static_cast<uint64_t>(y) * desc.planes[p].stride_bytes;
  }
};

struct ImageView {
  ImageDesc desc;
  std::array<std::byte*, kMaxPlanes> planes = {};

  std::byte* row(int plane, int y) const {
    const auto p = static_cast<size_t>(plane);
    return planes[p] + static_cast<uint64_t>(y) * desc.planes[p].stride_bytes;
  }
  ConstImageView as_const() const;
};

// Views of a described picture in one or more mapped buffers.
// Errors: those of ValidateImageDesc.
absl::StatusOr<ConstImageView> MakeConstImageView(
    const ImageDesc& desc, std::span<const std::span<const std::byte>> buffers);
absl::StatusOr<ImageView> MakeImageView(
    const ImageDesc& desc, std::span<const std::span<std::byte>> buffers);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_IMAGE_DESC_H_
