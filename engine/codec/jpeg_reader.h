// Decodes the pixels of one JPEG file by libjpeg-turbo into a caller's
// picture: accurate integer DCT, rows or planes written where they belong.
// Owns: scratch, kept between calls. The library's decoder itself is made
// anew for every file, because tables of one file must never serve another.
// Thread-safety: compatible.
// Limits: kMaxJpegScans.
#ifndef ENGINE_CODEC_JPEG_READER_H_
#define ENGINE_CODEC_JPEG_READER_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class JpegReader {
 public:
  JpegReader();
  ~JpegReader();
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // `header` is ReadJpegHeader's for `bytes`; `picture` has the file's size
  // and a format that CanDecodeTo allows. Fills warnings and rows_good.
  // Errors: kInvalidArgument IMAGE_TRUNCATED, IMAGE_CORRUPT, TOO_LARGE
  //         (scans); kUnimplemented IMAGE_UNSUPPORTED; kResourceExhausted
  absl::Status Read(std::span<const std::byte> bytes, const JpegHeader& header,
                    const DecodeOptions& options, const ImageView& picture,
                    DecodeResult& result);

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_READER_H_
