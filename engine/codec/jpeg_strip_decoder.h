// Decodes a JPEG file strip by strip into planes of coded samples, without
// colour conversion or chroma resampling and without ever holding the frame: a
// row source for whoever converts while the strip is still in cache.
// Owns: scratch, kept between files. Borrows the file's bytes from Begin to
// Finish. Thread-safety: compatible; one decoder per thread.
// Limits: those of ImageDecoder.
// Source: ITU-T T.81; accurate integer inverse DCT as libjpeg's jidctint.c.
//
//   RETURN_IF_ERROR(decoder.Begin(bytes, header, options));
//   while (decoder.next_strip() < decoder.strip_count()) {
//     // Memory of the caller's choice: a strip buffer, a ring of rows, or the
//     // picture itself.
//     ASSIGN_OR_RETURN(const JpegStrip strip, decoder.Next(targets));
//     ... rows strip.planes[i].first_row .. + rows of plane i are there ...
//   }
//   RETURN_IF_ERROR(decoder.Finish(result));
#ifndef ENGINE_CODEC_JPEG_STRIP_DECODER_H_
#define ENGINE_CODEC_JPEG_STRIP_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/image/strip_source.h"

namespace preprocd {

inline constexpr int kMaxJpegPlanes = kMaxStripPlanes;

// Shape of one plane: Y, Cb, Cr (or the one of grey, or R, G, B when the
// file codes those).
struct JpegPlane {
  // Samples of the picture: ceil(size * factor / largest factor), of the size
  // that DecodeOptions::shrink leaves.
  int width = 0;
  int height = 0;
  // Samples that a block of 8x8 coefficients gives, each way: 8, or less when
  // shrinking. Chroma is shrunk less where the smaller picture has room for
  // it, as libjpeg does: 4:2:0 becomes 4:4:4.
  int block_size = 8;
  // Columns that Next writes in every row: `width` rounded up to whole blocks.
  // The columns behind `width` hold the file's padding.
  int coded_width = 0;
  // Rows of a strip (block_size * vertical factor); Next writes no more.
  int strip_rows = 0;
  // Picture pixels to a sample: 1, 2 or 4.
  int x_ratio = 1;
  int y_ratio = 1;
};

// REQUIRES: 0 <= index < header.component_count; shrink is 1, 2, 4 or 8.
JpegPlane JpegPlaneOf(const JpegHeader& header, int index, int shrink = 1);

// REQUIRES: stride_bytes >= JpegPlane::coded_width and strip_rows writable
// rows of coded_width bytes; no alignment. Without data the plane is decoded,
// not transformed: grey from a colour file needs no chroma.
using JpegStripTargets = StripTargets;

// What one call of Next gave: an iMCU row.
struct JpegStrip {
  // Rows of the file's picture that the strip covers, whatever the shrink:
  // [first_row, first_row + rows).
  int first_row = 0;
  int rows = 0;
  // Rows of each plane, counted from the plane's own top; rows below the
  // plane's height are not counted, though they may have been written.
  struct PlaneRows {
    int first_row = 0;
    int rows = 0;
  };
  std::array<PlaneRows, kMaxJpegPlanes> planes = {};
};

class JpegStripDecoder {
 public:
  JpegStripDecoder();
  ~JpegStripDecoder();
  JpegStripDecoder(const JpegStripDecoder&) = delete;
  JpegStripDecoder& operator=(const JpegStripDecoder&) = delete;

  // Grey, YCbCr and RGB files of any process and sampling that ReadJpegHeader
  // accepts; ink (CMYK, YCCK) is not given as planes.
  static bool Supports(const JpegHeader& header);

  // Starts a file, ending one that was left unfinished. `header` is
  // ReadJpegHeader's for `bytes`; both must stay until Finish. `options.
  // fancy_chroma` says nothing here. Files of several scans are read whole
  // first (coefficients in memory that the library owns).
  // REQUIRES: Supports(header).
  // Errors: as ImageDecoder::Decode.
  absl::Status Begin(std::span<const std::byte> bytes, const JpegHeader& header,
                     const DecodeOptions& options);

  // Right after Begin: from now on Next only decodes, and Complete makes the
  // samples; at most `strips` strips wait for it. See StripSource::Defer.
  // Errors: kResourceExhausted
  absl::Status Defer(int strips);
  // Finishes what Next left. May run beside Next, which must not be given the
  // targets of a strip that is not completed. REQUIRES: after Defer, strips in
  // order; does nothing otherwise.
  void Complete(int strip);

  // Valid from Begin on.
  int plane_count() const;
  const JpegPlane& plane(int index) const;
  int strip_count() const;
  // Index of the strip that Next gives.
  int next_strip() const;

  // Decodes the next strip into `targets` (entries past plane_count are
  // ignored). A strict decode returns only rows of undamaged data; a lenient
  // one gives what the library makes of damage, and mid grey where it gave up.
  // REQUIRES: next_strip() < strip_count().
  // Errors: kInvalidArgument IMAGE_TRUNCATED, IMAGE_CORRUPT with the number of
  // good rows, TOO_LARGE (scans); after one the file cannot be continued.
  absl::StatusOr<JpegStrip> Next(const JpegStripTargets& targets);

  // Reads what follows the last strip; fills warnings and rows_good.
  // REQUIRES: all strips were given.
  // Errors: as Next (a strict decode of a file damaged behind its pixels).
  absl::Status Finish(DecodeResult& result);

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_STRIP_DECODER_H_
