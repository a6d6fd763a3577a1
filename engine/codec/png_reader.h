// Decodes the pixels of one PNG file by libpng into a caller's picture.
// Colour chunks (gAMA, cHRM, sRGB, iCCP) are not read: stored values are the
// answer. The first picture of an animation is its IDAT picture.
// Owns: scratch, kept between calls. Thread-safety: compatible.
// Source: W3C PNG 3rd edition.
#ifndef ENGINE_CODEC_PNG_READER_H_
#define ENGINE_CODEC_PNG_READER_H_

#include <cstddef>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/png_header.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class PngReader {
 public:
  PngReader();
  ~PngReader();
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // `header` is ReadPngHeader's for `bytes`; `picture` has the file's size and
  // a format that CanDecodeTo allows. Fills warnings and rows_good.
  // Damage: wrong CRC of IDAT, PLTE or tRNS, bad or short compressed data,
  // wrong Adler-32, unknown filter. Not damage: a wrong CRC of another
  // ancillary chunk, data behind the compressed stream or behind IEND, a
  // missing IEND.
  // Errors: kInvalidArgument IMAGE_TRUNCATED, IMAGE_CORRUPT;
  //         kResourceExhausted
  absl::Status Read(std::span<const std::byte> bytes, const PngHeader& header,
                    const DecodeOptions& options, const ImageView& picture,
                    DecodeResult& result);

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_PNG_READER_H_
