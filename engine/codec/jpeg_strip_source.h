// The strips of a JPEG file as StripSource: the planes of a native format, for
// whoever converts them while they are in cache.
// Owns: the decoder's scratch, kept between files. Borrows the file's bytes
// from Begin to Finish. Thread-safety: see StripSource.
#ifndef ENGINE_CODEC_JPEG_STRIP_SOURCE_H_
#define ENGINE_CODEC_JPEG_STRIP_SOURCE_H_

#include <cstddef>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/jpeg_strip_decoder.h"
#include "engine/image/pixel_format.h"
#include "engine/image/strip_source.h"

namespace preprocd {

class JpegStripSource : public StripSource {
 public:
  // True when the file's coded planes are those of `format`: grey, or an nv
  // format of the same chroma ratio (after shrinking).
  static bool Takes(const JpegHeader& header, PixelFormat format, int shrink);

  // REQUIRES: Takes(header, format).
  // Errors: as JpegStripDecoder::Begin.
  absl::Status Begin(std::span<const std::byte> bytes, const JpegHeader& header,
                     const DecodeOptions& options, PixelFormat format);
  // Errors: as JpegStripDecoder::Finish. REQUIRES: all strips were read.
  absl::Status Finish(DecodeResult& result) { return decoder_.Finish(result); }

  int plane_count() const override { return plane_count_; }
  StripPlane plane(int index) const override;
  int strip_count() const override { return decoder_.strip_count(); }
  absl::Status Defer(int strips) override { return decoder_.Defer(strips); }
  absl::Status Read(const StripTargets& targets) override {
    return decoder_.Next(targets).status();
  }
  void Complete(int strip) override { decoder_.Complete(strip); }

 private:
  JpegStripDecoder decoder_;
  int plane_count_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_STRIP_SOURCE_H_
