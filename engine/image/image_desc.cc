#include "engine/image/image_desc.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

absl::Status CheckAxis(int value, absl::string_view field) {
  if (value <= 0) {
    return InvalidField(ErrorReason::kGeometryInvalid, field,
                        absl::StrCat(field, " ", value, " < 1"));
  }
  if (value > kMaxImageAxis) {
    return InvalidField(ErrorReason::kTooLarge, field,
                        absl::StrCat(field, " ", value, " > ", kMaxImageAxis));
  }
  return absl::OkStatus();
}

absl::Status CheckFormat(const ImageDesc& desc) {
  const auto format = static_cast<int>(desc.format);
  if (format < 1 || format >= kPixelFormatCount) {
    return InvalidField("format",
                        absl::StrCat("format ", format, " is not known"));
  }
  const auto dtype = static_cast<int>(desc.dtype);
  if (dtype < 1 || dtype >= kDTypeCount) {
    return InvalidField("dtype",
                        absl::StrCat("dtype ", dtype, " is not known"));
  }
  RETURN_IF_ERROR(CheckAxis(desc.width, "width"));
  return CheckAxis(desc.height, "height");
}

std::string PlaneField(int plane, absl::string_view name) {
  return absl::StrCat("planes[", plane, "].", name);
}

// End of the plane's last row, or nothing on overflow.
std::optional<uint64_t> PlaneEnd(const ImageDesc& desc, int plane) {
  const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
  const auto rows =
      static_cast<uint64_t>(PlaneRows(desc.format, plane, desc.height));
  const uint64_t row_bytes =
      PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
  const std::optional<uint64_t> last =
      CheckedMulAdd(p.stride_bytes, rows - 1, p.offset_bytes);
  if (!last) return std::nullopt;
  return CheckedAdd(*last, row_bytes);
}

// Field names are only made for errors: validation is on the hot path.
absl::Status StrideError(int plane, uint64_t stride, absl::string_view why,
                         uint64_t bound) {
  const std::string field = PlaneField(plane, "stride_bytes");
  return InvalidField(field, absl::StrCat(field, " ", stride, why, bound));
}

absl::Status OffsetError(int plane, uint64_t offset, uint64_t element) {
  const std::string field = PlaneField(plane, "offset_bytes");
  return InvalidField(field, absl::StrCat(field, " ", offset,
                                          " is not a multiple of ", element));
}

// The plane begins behind its buffer's end; tells how much it needs.
absl::Status BeginError(int plane, uint64_t offset, std::optional<uint64_t> end,
                        uint64_t size) {
  const std::string field = PlaneField(plane, "offset_bytes");
  return InvalidField(
      ErrorReason::kBufferTooSmall, field,
      absl::StrCat(field, " ", offset, " is behind the buffer's ", size,
                   " bytes; the plane ends at ",
                   end ? absl::StrCat(*end) : "an offset beyond 64 bits"));
}

// Says all that is needed to see whose reckoning is wrong: allocators pad
// rows and heights in their own ways.
absl::Status EndError(const ImageDesc& desc, int plane,
                      std::optional<uint64_t> end, uint64_t size) {
  const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
  const std::string field = absl::StrCat("planes[", plane, "]");
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferTooSmall;
  detail.field = field;
  detail.got = end ? absl::StrCat(*end) : "overflow";
  detail.limit = absl::StrCat(size);
  return MakeError(
      absl::StatusCode::kInvalidArgument, detail,
      absl::StrCat(field, " of ", GetPixelFormatInfo(desc.format).name, " ",
                   desc.width, "x", desc.height, " from ", p.offset_bytes,
                   " with stride ", p.stride_bytes, " ends at ",
                   end ? absl::StrCat(*end) : "an offset beyond 64 bits",
                   ", after the buffer's ", size, " bytes"));
}

absl::Status ValidatePlane(const ImageDesc& desc, int plane,
                           std::span<const uint64_t> buffer_sizes) {
  const PlaneDesc& p = desc.planes[static_cast<size_t>(plane)];
  if (p.buffer_index >= buffer_sizes.size()) {
    const std::string field = PlaneField(plane, "buffer_index");
    return InvalidField(field, absl::StrCat(field, " ", p.buffer_index, " >= ",
                                            buffer_sizes.size(), " buffers"));
  }
  const auto element = static_cast<uint64_t>(DTypeSize(desc.dtype));
  const uint64_t row_bytes =
      PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
  if (p.stride_bytes < row_bytes) {
    return StrideError(plane, p.stride_bytes, " < ", row_bytes);
  }
  if (p.stride_bytes % element != 0) {
    return StrideError(plane, p.stride_bytes, " is not a multiple of ",
                       element);
  }
  if (p.offset_bytes % element != 0) {
    return OffsetError(plane, p.offset_bytes, element);
  }
  const uint64_t size = buffer_sizes[p.buffer_index];
  const std::optional<uint64_t> end = PlaneEnd(desc, plane);
  if (p.offset_bytes >= size) {
    return BeginError(plane, p.offset_bytes, end, size);
  }
  if (!end || *end > size) return EndError(desc, plane, end, size);
  return absl::OkStatus();
}

template <typename Byte, typename View>
absl::StatusOr<View> MakeView(const ImageDesc& desc,
                              std::span<const std::span<Byte>> buffers) {
  std::array<uint64_t, kMaxPlanes> sizes = {};
  const size_t count = std::min(buffers.size(), sizes.size());
  for (size_t i = 0; i < count; ++i) sizes[i] = buffers[i].size();
  RETURN_IF_ERROR(ValidateImageDesc(desc, std::span(sizes.data(), count)));
  View view;
  view.desc = desc;
  const size_t planes = GetPixelFormatInfo(desc.format).plane_count;
  for (size_t i = 0; i < planes; ++i) {
    view.planes[i] = buffers[desc.planes[i].buffer_index].data() +
                     desc.planes[i].offset_bytes;
  }
  return view;
}

}  // namespace

uint64_t PlaneRowBytes(PixelFormat format, DType dtype, int plane, int width) {
  const PlaneInfo& info =
      GetPixelFormatInfo(format).planes[static_cast<size_t>(plane)];
  const auto units = static_cast<uint64_t>(CeilDiv(width, info.unit_width));
  return units * info.unit_elements * static_cast<uint64_t>(DTypeSize(dtype));
}

int PlaneRows(PixelFormat format, int plane, int height) {
  const PlaneInfo& info =
      GetPixelFormatInfo(format).planes[static_cast<size_t>(plane)];
  return CeilDiv(height, 1 << info.vertical_shift);
}

absl::StatusOr<ImageDesc> MakeImageDesc(PixelFormat format, DType dtype,
                                        int width, int height,
                                        uint64_t stride_alignment) {
  ImageDesc desc;
  desc.format = format;
  desc.dtype = dtype;
  desc.width = width;
  desc.height = height;
  RETURN_IF_ERROR(CheckFormat(desc));
  if (stride_alignment == 0) {
    return InvalidField("stride_alignment", "stride_alignment 0 < 1");
  }
  uint64_t offset = 0;
  const int planes = GetPixelFormatInfo(format).plane_count;
  for (int plane = 0; plane < planes; ++plane) {
    const std::optional<uint64_t> stride = CheckedAlignUp(
        PlaneRowBytes(format, dtype, plane, width), stride_alignment);
    if (!stride) {
      return InvalidField("stride_alignment", "stride_alignment is too large");
    }
    const std::optional<uint64_t> next = CheckedMulAdd(
        *stride, static_cast<uint64_t>(PlaneRows(format, plane, height)),
        offset);
    if (!next) {
      return InvalidField("stride_alignment", "stride_alignment is too large");
    }
    desc.planes[static_cast<size_t>(plane)] = {0, offset, *stride};
    offset = *next;
  }
  return desc;
}

uint64_t RequiredBytes(const ImageDesc& desc, uint32_t buffer_index) {
  uint64_t required = 0;
  const int planes = GetPixelFormatInfo(desc.format).plane_count;
  for (int plane = 0; plane < planes; ++plane) {
    if (desc.planes[static_cast<size_t>(plane)].buffer_index != buffer_index) {
      continue;
    }
    required = std::max(required, PlaneEnd(desc, plane).value_or(0));
  }
  return required;
}

absl::Status ValidateImageDesc(const ImageDesc& desc,
                               std::span<const uint64_t> buffer_sizes) {
  RETURN_IF_ERROR(CheckFormat(desc));
  const int planes = GetPixelFormatInfo(desc.format).plane_count;
  for (int plane = 0; plane < planes; ++plane) {
    RETURN_IF_ERROR(ValidatePlane(desc, plane, buffer_sizes));
  }
  return absl::OkStatus();
}

bool PlanesOverlap(const ImageDesc& a, const ImageDesc& b) {
  const int a_planes = GetPixelFormatInfo(a.format).plane_count;
  const int b_planes = GetPixelFormatInfo(b.format).plane_count;
  for (int i = 0; i < a_planes; ++i) {
    const PlaneDesc& p = a.planes[static_cast<size_t>(i)];
    for (int j = 0; j < b_planes; ++j) {
      const PlaneDesc& q = b.planes[static_cast<size_t>(j)];
      if (p.buffer_index != q.buffer_index) continue;
      if (p.offset_bytes < PlaneEnd(b, j).value_or(UINT64_MAX) &&
          q.offset_bytes < PlaneEnd(a, i).value_or(UINT64_MAX)) {
        return true;
      }
    }
  }
  return false;
}

ConstImageView ImageView::as_const() const {
  ConstImageView view;
  view.desc = desc;
  std::copy(planes.begin(), planes.end(), view.planes.begin());
  return view;
}

absl::StatusOr<ConstImageView> MakeConstImageView(
    const ImageDesc& desc,
    std::span<const std::span<const std::byte>> buffers) {
  return MakeView<const std::byte, ConstImageView>(desc, buffers);
}

absl::StatusOr<ImageView> MakeImageView(
    const ImageDesc& desc, std::span<const std::span<std::byte>> buffers) {
  return MakeView<std::byte, ImageView>(desc, buffers);
}

}  // namespace preprocd
