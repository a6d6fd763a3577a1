#include "engine/codec/jpeg_plane_reader.h"

#include <algorithm>

#include "engine/base/status_macros.h"
#include "engine/codec/row_color.h"

namespace preprocd {
namespace {

bool IsNv(PixelFormat format) {
  return format == PixelFormat::kNv12 || format == PixelFormat::kNv16 ||
         format == PixelFormat::kNv24;
}

uint8_t* RowOf(const ImageView& picture, int plane, int y) {
  return reinterpret_cast<uint8_t*>(picture.row(plane, y));
}

void FillChroma(const ImageView& picture) {
  constexpr uint8_t kNoColor = 128;
  const ImageDesc& desc = picture.desc;
  const size_t row_bytes =
      PlaneRowBytes(desc.format, desc.dtype, 1, desc.width);
  for (int y = 0; y < PlaneRows(desc.format, 1, desc.height); ++y) {
    std::fill_n(RowOf(picture, 1, y), row_bytes, kNoColor);
  }
}

}  // namespace

bool JpegPlaneReader::Takes(const JpegHeader& header, PixelFormat format,
                            int shrink) {
  const bool grey = header.color == JpegColor::kGrey;
  if (format == PixelFormat::kGrey) {
    if (grey) return true;
    // Luma may be the coarser plane; it then has to be enlarged.
    return header.color == JpegColor::kYcc &&
           header.components[0].h == header.max_h &&
           header.components[0].v == header.max_v;
  }
  if (!IsNv(format)) return false;
  if (grey) return true;
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  const JpegHeader::Ratio wanted = {1 << info.chroma_x_shift,
                                    1 << info.chroma_y_shift};
  if (shrink == 1) return header.chroma_ratio() == wanted;
  for (int c = 0; c < header.component_count; ++c) {
    const JpegPlane plane = JpegPlaneOf(header, c, shrink);
    const JpegHeader::Ratio ratio = {plane.x_ratio, plane.y_ratio};
    if (ratio != (c == 0 ? JpegHeader::Ratio{1, 1} : wanted)) return false;
  }
  return header.chroma_ratio().x > 0;
}

absl::Status JpegPlaneReader::ReserveScratch(bool chroma) {
  const size_t planes = chroma ? kMaxJpegPlanes : 1;
  size_t bytes = 0;
  staging_ = {};
  for (size_t c = 0; c < planes; ++c) {
    const JpegPlane& plane = decoder_.plane(static_cast<int>(c));
    staging_[c].stride_bytes = static_cast<size_t>(plane.coded_width);
    bytes += staging_[c].stride_bytes * static_cast<size_t>(plane.strip_rows);
  }
  RETURN_IF_ERROR(scratch_.Reserve(bytes));
  uint8_t* next = scratch_.data();
  for (size_t c = 0; c < planes; ++c) {
    const JpegPlane& plane = decoder_.plane(static_cast<int>(c));
    staging_[c].data = next;
    next += staging_[c].stride_bytes * static_cast<size_t>(plane.strip_rows);
  }
  return absl::OkStatus();
}

absl::Status JpegPlaneReader::ReadStrip(const ImageView& picture, bool chroma) {
  const JpegPlane& luma = decoder_.plane(0);
  const int first = decoder_.next_strip() * luma.strip_rows;
  // Straight to the picture where it holds whole blocks.
  const bool in_place = luma.coded_width == picture.desc.width &&
                        first + luma.strip_rows <= picture.desc.height;
  JpegStripTargets targets = staging_;
  if (in_place) {
    targets[0] = {RowOf(picture, 0, first),
                  static_cast<size_t>(picture.desc.planes[0].stride_bytes)};
  }
  ASSIGN_OR_RETURN(const JpegStrip strip, decoder_.Next(targets));
  for (int y = 0; y < strip.planes[0].rows && !in_place; ++y) {
    std::copy_n(
        staging_[0].data + static_cast<size_t>(y) * staging_[0].stride_bytes,
        picture.desc.width, RowOf(picture, 0, first + y));
  }
  if (!chroma) return absl::OkStatus();
  const JpegPlane& plane = decoder_.plane(1);
  for (int y = 0; y < strip.planes[1].rows; ++y) {
    const size_t at = static_cast<size_t>(y) * staging_[1].stride_bytes;
    InterleaveChroma(staging_[1].data + at, staging_[2].data + at, plane.width,
                     RowOf(picture, 1, strip.planes[1].first_row + y));
  }
  return absl::OkStatus();
}

absl::Status JpegPlaneReader::Read(std::span<const std::byte> bytes,
                                   const JpegHeader& header,
                                   const DecodeOptions& options,
                                   const ImageView& picture,
                                   DecodeResult& result) {
  RETURN_IF_ERROR(decoder_.Begin(bytes, header, options));
  const bool nv = IsNv(picture.desc.format);
  const bool chroma = nv && header.color == JpegColor::kYcc;
  RETURN_IF_ERROR(ReserveScratch(chroma));
  if (nv && !chroma) FillChroma(picture);
  while (decoder_.next_strip() < decoder_.strip_count()) {
    RETURN_IF_ERROR(ReadStrip(picture, chroma));
  }
  return decoder_.Finish(result);
}

}  // namespace preprocd
