#include "client/cli/npy_file.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/pixel_layout.h"

namespace preprocd::cli {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlignment = 64;

}  // namespace

absl::string_view NpyDescr(v1::DataType dtype) {
  switch (dtype) {
    case v1::DATA_TYPE_I8:
      return "|i1";
    case v1::DATA_TYPE_U16:
    case v1::DATA_TYPE_BF16:
      return "<u2";
    case v1::DATA_TYPE_I16:
      return "<i2";
    case v1::DATA_TYPE_F16:
      return "<f2";
    case v1::DATA_TYPE_F32:
      return "<f4";
    default:
      return "|u1";
  }
}

std::string NpyHeader(v1::DataType dtype, const std::vector<int64_t>& shape) {
  std::string dict = absl::StrCat(
      "{'descr': '", NpyDescr(dtype), "', 'fortran_order': False, 'shape': (",
      absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
  const size_t before = kMagic.size() + 2;
  const size_t unpadded = before + dict.size() + 1;
  dict.append((kAlignment - unpadded % kAlignment) % kAlignment, ' ');
  dict += '\n';
  const auto length = static_cast<uint16_t>(dict.size());
  std::string header(kMagic);
  header += static_cast<char>(length & 0xFF);
  header += static_cast<char>(length >> 8);
  return header + dict;
}

std::vector<int64_t> NpyShape(const v1::ImageLayout& layout,
                              bool channels_first) {
  const auto planes = PlanesOf(layout.format());
  const int64_t width = layout.width();
  const int64_t height = layout.height();
  const auto bytes = static_cast<int64_t>(TightBytes(layout).value_or(0));
  if (planes.empty()) return {bytes};
  const bool full_size =
      std::all_of(planes.begin(), planes.end(), [](const PlaneShape& plane) {
        return plane.x_step == 1 && plane.y_step == 1;
      });
  const bool equal_planes =
      std::all_of(planes.begin(), planes.end(), [&](const PlaneShape& plane) {
        return plane.elements == planes[0].elements;
      });
  if (planes.size() == 1 && full_size) {
    if (channels_first && planes[0].elements == 1) return {1, height, width};
    return {height, width, planes[0].elements};
  }
  if (full_size && equal_planes) {
    return {static_cast<int64_t>(planes.size()), height, width};
  }
  if (planes.size() == 1) {  // Packed 4:2:2: two bytes per pixel.
    if (width % 2 == 0) return {height, width, 2};
    return {height, static_cast<int64_t>(RowBytes(layout, 0))};
  }
  if (bytes % width == 0 && width % 2 == 0) return {bytes / width, width};
  return {bytes};
}

}  // namespace preprocd::cli
