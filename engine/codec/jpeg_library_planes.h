// Strips of coded samples by libjpeg-turbo: what the decoder of our own does
// not take, and how damage is judged.
// Owns: the library's decoder while a file is open. Borrows the file's bytes
// and header. Thread-safety: compatible. Included by jpeg_*.cc only.
#ifndef ENGINE_CODEC_JPEG_LIBRARY_PLANES_H_
#define ENGINE_CODEC_JPEG_LIBRARY_PLANES_H_

#include <array>
#include <cstddef>
#include <span>

#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/jpeg_source.h"
#include "engine/codec/jpeg_strip_decoder.h"

namespace preprocd {

class JpegLibraryPlanes {
 public:
  // Each step: false when the decode ended there; damage() of source() says
  // why. A lenient decode goes on while the library can.
  bool Open(std::span<const std::byte> bytes, const JpegHeader& header,
            const DecodeOptions& options);
  bool Next(const JpegStripTargets& targets);
  bool Finish() { return source_.Finish(*header_); }
  void Close() { source_.Close(); }

  const JpegSource& source() const { return source_; }

 private:
  // Most sample rows of one component in a strip.
  static constexpr size_t kMaxRows = MAX_SAMP_FACTOR * DCTSIZE;

  JpegSource source_;
  const JpegHeader* header_ = nullptr;
  int shrink_ = 1;
  std::array<std::array<JSAMPROW, kMaxRows>, kMaxJpegPlanes> rows_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_LIBRARY_PLANES_H_
