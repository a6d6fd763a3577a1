// Decodes plain JPEG files to rgb, rgba, bgr and bgra, chroma upsampling and
// colour conversion following each strip while it is in cache. The pixels are
// libjpeg's.
// Owns: scratch of a strip, kept between calls. Thread-safety: compatible.
#ifndef ENGINE_CODEC_JPEG_PIXEL_READER_H_
#define ENGINE_CODEC_JPEG_PIXEL_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_baseline_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/scratch_bytes.h"
#include "engine/codec/ycc_rows.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class JpegPixelReader {
 public:
  // False when the file is not of a kind that this reads, or anything about it
  // is odd: then the library has to read it from its beginning, and `picture`
  // holds unspecified pixels. Fills warnings and rows_good otherwise.
  // `picture` has the file's size; rgb, rgba, bgr or bgra.
  bool Read(std::span<const std::byte> bytes, const JpegHeader& header,
            const DecodeOptions& options, const ImageView& picture,
            DecodeResult& result);

 private:
  // Rows of one plane: those of the strip before that are still needed, then
  // the strip's own.
  struct Plane {
    uint8_t* data = nullptr;
    size_t stride = 0;
    int kept_rows = 0;  // capacity for rows of the strip before
    int strip_rows = 0;
    int width = 0;
    int height = 0;
    const uint8_t* row(int y, int strip_first) const {
      return data + static_cast<size_t>(y - strip_first + kept_rows) * stride;
    }
  };
  enum class Upsampling : uint8_t { kNone, kReplicate, kTriangle };

  bool Prepare(const JpegHeader& header, const DecodeOptions& options);
  void ConvertRows(const ImageView& picture, int strip, int first, int last);
  const uint8_t* ChromaRow(size_t plane, int strip, int y);
  void KeepRows();

  JpegBaselineDecoder decoder_;
  ScratchBytes scratch_;
  std::array<Plane, kMaxJpegPlanes> planes_ = {};
  size_t plane_count_ = 0;
  int x_ratio_ = 1;
  int y_ratio_ = 1;
  Upsampling upsampling_ = Upsampling::kNone;
  ChromaSums sums_;
  // Chroma rows as wide as luma; grey files have one of 128 for both.
  std::array<uint8_t*, kMaxJpegPlanes> wide_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_PIXEL_READER_H_
