#include "engine/codec/jpeg_pixel_reader.h"

#include <algorithm>
#include <cstring>

#include "engine/codec/jpeg_source.h"

namespace preprocd {
namespace {

constexpr uint8_t kNoColor = 128;

size_t RowStride(const JpegPlane& plane) {
  return static_cast<size_t>(plane.coded_width) + kRowPadding;
}

}  // namespace

bool JpegPixelReader::Prepare(const JpegHeader& header,
                              const DecodeOptions& options) {
  plane_count_ = static_cast<size_t>(header.component_count);
  const JpegPlane chroma = JpegPlaneOf(header, header.component_count - 1);
  x_ratio_ = chroma.x_ratio;
  y_ratio_ = chroma.y_ratio;
  // As libjpeg: chroma of one or two columns has no triangle across.
  const bool narrow = x_ratio_ == 2 && chroma.width <= 2;
  upsampling_ = x_ratio_ * y_ratio_ == 1          ? Upsampling::kNone
                : options.fancy_chroma && !narrow ? Upsampling::kTriangle
                                                  : Upsampling::kReplicate;
  const bool needs_neighbours =
      upsampling_ == Upsampling::kTriangle && y_ratio_ == 2;
  size_t bytes = 0;
  for (size_t c = 0; c < plane_count_; ++c) {
    Plane& plane = planes_[c];
    const JpegPlane shape = JpegPlaneOf(header, static_cast<int>(c));
    plane.width = shape.width;
    plane.height = shape.height;
    plane.strip_rows = shape.strip_rows;
    plane.stride = RowStride(shape);
    plane.kept_rows = !needs_neighbours ? 0 : c == 0 ? 1 : 2;
    bytes +=
        plane.stride * static_cast<size_t>(plane.kept_rows + plane.strip_rows);
  }
  const size_t wide = RowStride(JpegPlaneOf(header, 0)) + kRowPadding;
  const size_t sums = (RowStride(chroma) + 2 * kRowPadding) * sizeof(uint16_t);
  if (!scratch_.Reserve(sums + bytes + 2 * wide).ok()) return false;
  // Padding is read, and must be the same in every run.
  memset(scratch_.data(), kNoColor, sums + bytes + 2 * wide);
  uint8_t* next = scratch_.data();
  // Memory from new[] suits every fundamental type.
  sums_.data = reinterpret_cast<uint16_t*>(next);
  next += sums;
  for (size_t c = 0; c < plane_count_; ++c) {
    planes_[c].data = next;
    next += planes_[c].stride *
            static_cast<size_t>(planes_[c].kept_rows + planes_[c].strip_rows);
  }
  wide_ = {nullptr, next, next + wide};
  return true;
}

// Chroma for luma row `y`, as wide as luma.
const uint8_t* JpegPixelReader::ChromaRow(size_t c, int strip, int y) {
  if (plane_count_ == 1) return wide_[c];
  const Plane& plane = planes_[c];
  const int first = strip * plane.strip_rows;
  const int middle = y / y_ratio_;
  const uint8_t* near = plane.row(middle, first);
  if (upsampling_ == Upsampling::kNone) return near;
  if (upsampling_ == Upsampling::kReplicate) {
    if (x_ratio_ == 1) return near;
    ReplicateAcross(near, plane.width, wide_[c]);
    return wide_[c];
  }
  if (y_ratio_ == 1) {
    TriangleAcross(near, plane.width, sums_, wide_[c]);
    return wide_[c];
  }
  const bool upper = y % 2 == 0;
  const int other =
      std::clamp(upper ? middle - 1 : middle + 1, 0, plane.height - 1);
  const uint8_t* far = plane.row(other, first);
  if (x_ratio_ == 1) {
    TriangleDown(near, far, upper, plane.width, wide_[c]);
  } else {
    TriangleAcrossAndDown(near, far, plane.width, sums_, wide_[c]);
  }
  return wide_[c];
}

void JpegPixelReader::ConvertRows(const ImageView& picture, int strip,
                                  int first, int last) {
  const Plane& luma = planes_[0];
  for (int y = first; y < last; ++y) {
    const uint8_t* cb = ChromaRow(1, strip, y);
    const uint8_t* cr = ChromaRow(2, strip, y);
    YccRowToPixels(luma.row(y, strip * luma.strip_rows), cb, cr,
                   picture.desc.width, picture.desc.format,
                   reinterpret_cast<uint8_t*>(picture.row(0, y)));
  }
}

// The strip's last rows become those of the strip before.
void JpegPixelReader::KeepRows() {
  for (size_t c = 0; c < plane_count_; ++c) {
    const Plane& plane = planes_[c];
    memmove(plane.data,
            plane.data + static_cast<size_t>(plane.strip_rows) * plane.stride,
            static_cast<size_t>(plane.kept_rows) * plane.stride);
  }
}

bool JpegPixelReader::Read(std::span<const std::byte> bytes,
                           const JpegHeader& header,
                           const DecodeOptions& options,
                           const ImageView& picture, DecodeResult& result) {
  const JpegHeader::Ratio ratio = header.chroma_ratio();
  const bool good_ratio = ratio.x >= 1 && ratio.x <= 2 && ratio.y <= 2;
  if (header.color != JpegColor::kGrey && !good_ratio) return false;
  if (!decoder_.Open(bytes, header)) return false;
  if (!Prepare(header, options)) return false;
  JpegStripTargets targets;
  for (size_t c = 0; c < plane_count_; ++c) {
    const Plane& plane = planes_[c];
    targets[c] = {
        plane.data + static_cast<size_t>(plane.kept_rows) * plane.stride,
        plane.stride};
  }
  const int strip_rows = planes_[0].strip_rows;
  const int height = header.height;
  int next_row = 0;
  for (int strip = 0; strip * strip_rows < height; ++strip) {
    if (!decoder_.Next(targets)) return false;
    const int end = std::min((strip + 1) * strip_rows, height);
    // The last row may need chroma from the strip below.
    const int last = end == height ? end : end - planes_[0].kept_rows;
    ConvertRows(picture, strip, next_row, last);
    next_row = last;
    KeepRows();
  }
  const JpegBaselineDecoder::End end = decoder_.Finish();
  if (end == JpegBaselineDecoder::End::kOdd) return false;
  if (end == JpegBaselineDecoder::End::kNoMarker) {
    result.warnings.push_back(JpegSource::kNoEndNote);
  }
  result.rows_good = height;
  return true;
}

}  // namespace preprocd
