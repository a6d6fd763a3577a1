// Bytes of a picture as the client must count them: to make a buffer for it,
// to write it to a file.
// Thread-safety: safe (no state).
// Source: the comments of PixelFormat in proto/preproc/v1/image.proto.
#ifndef CLIENT_CLI_PIXEL_LAYOUT_H_
#define CLIENT_CLI_PIXEL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "preproc/v1/image.pb.h"

namespace preprocd::cli {

namespace v1 = ::preproc::v1;

// One plane of a format: a row has ceil(width / x_step) groups of `elements`
// elements, and there are ceil(height / y_step) rows.
struct PlaneShape {
  int x_step;
  int y_step;
  int elements;
};

// Empty for a format that this client does not know.
std::span<const PlaneShape> PlanesOf(v1::PixelFormat format);

// Bytes per element; unspecified is u8.
int BytesOf(v1::DataType dtype);

// Bytes and number of a plane's rows. REQUIRES: plane < PlanesOf().size().
uint64_t RowBytes(const v1::ImageLayout& layout, size_t plane);
uint64_t RowCount(const v1::ImageLayout& layout, size_t plane);

// Bytes of the picture without gaps; nothing for an unknown format, a size
// below 1, or more than 64 bits.
std::optional<uint64_t> TightBytes(const v1::ImageLayout& layout);

// Planes that follow each other from `offset_bytes` on with the first plane's
// `stride_bytes` (0 = tight); the others' strides keep its proportion.
void SetPlanes(v1::ImageLayout& layout, uint64_t offset_bytes,
               uint64_t stride_bytes);

// The picture's bytes without gaps, copied from memory that `layout`
// describes.
// Errors: kOutOfRange  a plane ends outside `memory`
absl::StatusOr<std::vector<std::byte>> GatherTight(
    const v1::ImageLayout& layout, std::span<const std::byte> memory);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_PIXEL_LAYOUT_H_
