#include "client/cli/npy_file.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/exit_code.h"
#include "client/cli/pixel_layout.h"
#include "engine/base/checked_math.h"

namespace preprocd::cli {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY\x01\x00", 8);
constexpr size_t kAlignment = 64;

absl::Status NoArray(const std::string& path, absl::string_view what) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(path, ": ", what)),
                    kReasonFile);
}

// What stands behind `key` in the header's dict.
absl::string_view ValueOf(absl::string_view dict, absl::string_view key) {
  const size_t at = dict.find(key);
  if (at == absl::string_view::npos) return {};
  return absl::StripLeadingAsciiWhitespace(dict.substr(at + key.size()));
}

v1::DataType DTypeOf(absl::string_view descr) {
  for (const v1::DataType dtype :
       {v1::DATA_TYPE_U8, v1::DATA_TYPE_I8, v1::DATA_TYPE_U16,
        v1::DATA_TYPE_I16, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32}) {
    if (absl::StartsWith(descr, absl::StrCat("'", NpyDescr(dtype), "'"))) {
      return dtype;
    }
  }
  return v1::DATA_TYPE_UNSPECIFIED;
}

// "(2, 3)..." or "(2,)...": the sizes; false when it is neither.
bool ParseShape(absl::string_view text, std::vector<int64_t>& shape) {
  const size_t end = text.find(')');
  if (!absl::StartsWith(text, "(") || end == absl::string_view::npos) {
    return false;
  }
  for (const absl::string_view part :
       absl::StrSplit(text.substr(1, end - 1), ',', absl::SkipWhitespace())) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(part, &size) || size < 0) return false;
    shape.push_back(size);
  }
  return true;
}

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

absl::StatusOr<NpyArray> ParseNpy(const std::string& path,
                                  absl::string_view bytes) {
  if (!absl::StartsWith(bytes, kMagic.substr(0, 6)) || bytes.size() < 12) {
    return NoArray(path, "is no .npy file");
  }
  const auto byte = [bytes](size_t i) {
    return static_cast<size_t>(static_cast<unsigned char>(bytes[i]));
  };
  const bool wide = byte(6) >= 2;
  const size_t begin = wide ? 12 : 10;
  size_t length = byte(8) | byte(9) << 8;
  if (wide) length |= byte(10) << 16 | byte(11) << 24;
  if (length > bytes.size() - begin) return NoArray(path, "ends in its header");
  const absl::string_view dict = bytes.substr(begin, length);
  NpyArray array;
  array.dtype = DTypeOf(ValueOf(dict, "'descr':"));
  if (array.dtype == v1::DATA_TYPE_UNSPECIFIED) {
    return NoArray(path, "has an element type other than u1 i1 u2 i2 f2 f4");
  }
  if (!absl::StartsWith(ValueOf(dict, "'fortran_order':"), "False")) {
    return NoArray(path, "is not in C order");
  }
  if (!ParseShape(ValueOf(dict, "'shape':"), array.shape)) {
    return NoArray(path, "has no shape");
  }
  array.data_offset = begin + length;
  uint64_t size = static_cast<uint64_t>(BytesOf(array.dtype));
  for (const int64_t axis : array.shape) {
    const auto product = CheckedMul(size, static_cast<uint64_t>(axis));
    if (!product) return NoArray(path, "has an impossible shape");
    size = *product;
  }
  if (size > bytes.size() - array.data_offset) {
    return NoArray(path, "has fewer data than its shape says");
  }
  return array;
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
