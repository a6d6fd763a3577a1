#include "client/cli/pixel_layout.h"

#include <array>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace preprocd::cli {
namespace {

constexpr std::array<PlaneShape, 1> kOne = {{{1, 1, 1}}};
constexpr std::array<PlaneShape, 1> kPacked3 = {{{1, 1, 3}}};
constexpr std::array<PlaneShape, 1> kPacked4 = {{{1, 1, 4}}};
constexpr std::array<PlaneShape, 3> kPlanar3 = {
    {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};
constexpr std::array<PlaneShape, 4> kPlanar4 = {
    {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}};
constexpr std::array<PlaneShape, 2> kNv12 = {{{1, 1, 1}, {2, 2, 2}}};
constexpr std::array<PlaneShape, 2> kNv16 = {{{1, 1, 1}, {2, 1, 2}}};
constexpr std::array<PlaneShape, 2> kNv24 = {{{1, 1, 1}, {1, 1, 2}}};
constexpr std::array<PlaneShape, 3> kI420 = {{{1, 1, 1}, {2, 2, 1}, {2, 2, 1}}};
constexpr std::array<PlaneShape, 1> kPacked422 = {{{2, 1, 4}}};

uint64_t DividedUp(int32_t value, int step) {
  return (static_cast<uint64_t>(value) + static_cast<uint64_t>(step) - 1) /
         static_cast<uint64_t>(step);
}

}  // namespace

std::span<const PlaneShape> PlanesOf(v1::PixelFormat format) {
  switch (format) {
    case v1::PIXEL_FORMAT_GREY:
      return kOne;
    case v1::PIXEL_FORMAT_RGB:
    case v1::PIXEL_FORMAT_BGR:
      return kPacked3;
    case v1::PIXEL_FORMAT_RGBA:
    case v1::PIXEL_FORMAT_BGRA:
      return kPacked4;
    case v1::PIXEL_FORMAT_PLANAR_RGB:
    case v1::PIXEL_FORMAT_PLANAR_BGR:
      return kPlanar3;
    case v1::PIXEL_FORMAT_PLANAR_RGBA:
      return kPlanar4;
    case v1::PIXEL_FORMAT_NV12:
    case v1::PIXEL_FORMAT_NV21:
      return kNv12;
    case v1::PIXEL_FORMAT_NV16:
      return kNv16;
    case v1::PIXEL_FORMAT_NV24:
      return kNv24;
    case v1::PIXEL_FORMAT_I420:
      return kI420;
    case v1::PIXEL_FORMAT_YUYV:
    case v1::PIXEL_FORMAT_UYVY:
    case v1::PIXEL_FORMAT_VYUY:
      return kPacked422;
    default:
      return {};
  }
}

int BytesOf(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_U16:
    case v1::DATA_TYPE_I16:
    case v1::DATA_TYPE_F16:
    case v1::DATA_TYPE_BF16:
      return 2;
    case v1::DATA_TYPE_F32:
      return 4;
    default:
      return 1;
  }
}

uint64_t RowBytes(const v1::ImageLayout& layout, size_t plane) {
  const PlaneShape& shape = PlanesOf(layout.format())[plane];
  return DividedUp(layout.width(), shape.x_step) *
         static_cast<uint64_t>(shape.elements * BytesOf(layout.dtype()));
}

uint64_t RowCount(const v1::ImageLayout& layout, size_t plane) {
  return DividedUp(layout.height(), PlanesOf(layout.format())[plane].y_step);
}

std::optional<uint64_t> TightBytes(const v1::ImageLayout& layout) {
  const size_t planes = PlanesOf(layout.format()).size();
  if (planes == 0 || layout.width() < 1 || layout.height() < 1) {
    return std::nullopt;
  }
  std::optional<uint64_t> total = 0;
  for (size_t plane = 0; plane < planes && total; ++plane) {
    total =
        CheckedMulAdd(RowBytes(layout, plane), RowCount(layout, plane), *total);
  }
  return total;
}

void SetPlanes(v1::ImageLayout& layout, uint64_t offset_bytes,
               uint64_t stride_bytes) {
  layout.clear_planes();
  const std::span<const PlaneShape> shapes = PlanesOf(layout.format());
  for (size_t i = 0; i < shapes.size(); ++i) {
    v1::Plane& plane = *layout.add_planes();
    uint64_t stride = RowBytes(layout, i);
    if (stride_bytes != 0) {
      // Two interleaved chroma samples per two luma samples: the same
      // stride; one: half of it.
      const auto x_step = static_cast<uint64_t>(shapes[i].x_step);
      const auto elements = static_cast<uint64_t>(shapes[i].elements);
      stride = i == 0 ? stride_bytes
                      : (stride_bytes + x_step - 1) / x_step * elements;
    }
    plane.set_offset_bytes(offset_bytes);
    plane.set_stride_bytes(stride);
    // Wrong numbers stay wrong: the daemon answers for them.
    offset_bytes += stride * RowCount(layout, i);
  }
}

absl::StatusOr<std::vector<std::byte>> GatherTight(
    const v1::ImageLayout& layout, std::span<const std::byte> memory) {
  const std::optional<uint64_t> size = TightBytes(layout);
  if (!size) return absl::OutOfRangeError("the picture's size is not usable");
  std::vector<std::byte> gathered;
  uint64_t next = 0;  // where a plane without a place begins
  const size_t planes = PlanesOf(layout.format()).size();
  for (size_t i = 0; i < planes; ++i) {
    const uint64_t row_bytes = RowBytes(layout, i);
    uint64_t offset = next;
    uint64_t stride = row_bytes;
    if (static_cast<int>(i) < layout.planes_size()) {
      const v1::Plane& plane = layout.planes(static_cast<int>(i));
      offset = plane.offset_bytes();
      if (plane.stride_bytes() != 0) stride = plane.stride_bytes();
    }
    const uint64_t rows = RowCount(layout, i);
    const auto last = CheckedMulAdd(stride, rows - 1, offset);
    const auto end = last ? CheckedAdd(*last, row_bytes) : std::nullopt;
    if (!end || *end > memory.size()) {
      return absl::OutOfRangeError(absl::StrCat(
          "plane ", i, " ends outside the ", memory.size(), " bytes"));
    }
    for (uint64_t row = 0; row < rows; ++row) {
      const auto bytes = memory.subspan(offset + row * stride, row_bytes);
      gathered.insert(gathered.end(), bytes.begin(), bytes.end());
    }
    next = *end;
  }
  return gathered;
}

}  // namespace preprocd::cli
