// Decodes JPEG files to pictures that hold the coded samples themselves: nv12,
// nv16 and nv24 for files of that sampling, and grey. Luma goes straight to
// the destination, nothing is converted or resampled.
// Owns: scratch of a strip, kept between calls. Thread-safety: compatible.
#ifndef ENGINE_CODEC_JPEG_PLANE_READER_H_
#define ENGINE_CODEC_JPEG_PLANE_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/jpeg_strip_decoder.h"
#include "engine/codec/scratch_bytes.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class JpegPlaneReader {
 public:
  // Grey from grey files and YCbCr files whose luma is not subsampled, nv
  // formats from YCbCr files of the same chroma ratio (after shrinking) and,
  // with chroma of 128, from grey files.
  static bool Takes(const JpegHeader& header, PixelFormat format,
                    int shrink = 1);

  // REQUIRES: Takes(header, picture's format); picture of the file's size.
  // Errors: as JpegStripDecoder.
  absl::Status Read(std::span<const std::byte> bytes, const JpegHeader& header,
                    const DecodeOptions& options, const ImageView& picture,
                    DecodeResult& result);

 private:
  absl::Status ReserveScratch(bool chroma);
  absl::Status ReadStrip(const ImageView& picture, bool chroma);

  JpegStripDecoder decoder_;
  ScratchBytes scratch_;
  JpegStripTargets staging_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_PLANE_READER_H_
