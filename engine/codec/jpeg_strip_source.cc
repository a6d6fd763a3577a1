#include "engine/codec/jpeg_strip_source.h"

#include "engine/codec/jpeg_plane_reader.h"

namespace preprocd {

bool JpegStripSource::Takes(const JpegHeader& header, PixelFormat format,
                            int shrink) {
  if (!JpegStripDecoder::Supports(header)) return false;
  // A grey file has no chroma planes to give.
  const bool grey_file = header.color == JpegColor::kGrey;
  return (!grey_file || format == PixelFormat::kGrey) &&
         JpegPlaneReader::Takes(header, format, shrink);
}

absl::Status JpegStripSource::Begin(std::span<const std::byte> bytes,
                                    const JpegHeader& header,
                                    const DecodeOptions& options,
                                    PixelFormat format) {
  plane_count_ = format == PixelFormat::kGrey ? 1 : header.component_count;
  return decoder_.Begin(bytes, header, options);
}

StripPlane JpegStripSource::plane(int index) const {
  const JpegPlane& plane = decoder_.plane(index);
  return {plane.width, plane.height, plane.coded_width, plane.strip_rows};
}

}  // namespace preprocd
