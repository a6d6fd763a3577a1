// Decodes JPEG and PNG files: headers only (PeekImage) or pixels into a
// caller's picture (ImageDecoder).
// Owns: reusable scratch. Thread-safety: compatible; one decoder per thread.
// Limits: kMaxImageAxis, kMaxDecodedPixels, kMaxEncodedBytes, kMaxJpegScans,
// kMaxPngAncillaryChunks; all checked before anything is allocated.
// Source: ITU-T T.81 (JPEG), T.871 (JFIF), W3C PNG 3rd edition, EXIF 2.32.
//
// Choices where files or decoders differ:
//   CMYK, YCCK  ink values are taken as inverted (255 = no ink, as Adobe
//               writes them), R = round(C * K / 255); a file without the
//               Adobe marker is read alike, with a warning.
//   RGB-coded   told as libjpeg does: JFIF marker = YCbCr, else the Adobe
//               transform, else component ids R G B.
//   height 0    taken from the DNL segment behind the first scan.
//   no DHT      baseline frames use the tables of T.81 K.3 (motion JPEG).
//   no EOI      a complete picture with a warning (arithmetic coding: refused
//               as truncated, because a cut cannot be told apart there).
//   stray bytes before markers: skipped with a warning in headers and, up to
//               16 at a place, in scans; more there is damage.
//   tail        bytes behind EOI or IEND are not read.
//   ICC, gamma  never change values; a broken profile is a warning.
//   EXIF        a malformed block is a warning; what can be read of it counts.
//   DNL         another height behind the scan than in the frame header is a
//               warning; the frame header counts.
#ifndef ENGINE_CODEC_IMAGE_DECODER_H_
#define ENGINE_CODEC_IMAGE_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/image/color_encoding.h"
#include "engine/image/image_desc.h"
#include "engine/image/orientation.h"
#include "engine/image/pixel_format.h"
#include "engine/image/strip_source.h"

namespace preprocd {

enum class FileFormat : uint8_t { kJpeg = 1, kPng = 2 };
absl::string_view FileFormatName(FileFormat format);  // "jpeg" "png"

// What a file's headers say.
struct ImageInfo {
  FileFormat file_format = FileFormat::kJpeg;
  int width = 0;   // stored pixels, before orientation
  int height = 0;  // stored pixels, before orientation
  int components = 0;
  int bit_depth = 8;
  std::string subsampling;  // "4:2:0" ...; empty when it does not apply
  std::string process;      // "baseline" "progressive" ...; PNG: "interlaced"
  std::string color_space;  // "grey" "ycbcr" "rgb" "cmyk" "ycck" "palette" ...
  bool has_alpha = false;   // PNG alpha channel or tRNS
  Orientation orientation = Orientation::kNormal;
  bool has_orientation = false;
  bool has_icc = false;  // an ICC profile, broken or not; never applied
  ColorEncoding color;   // JPEG: BT.601 full
  // What a native decode gives: nv12, nv16, nv24, grey, rgb or rgba.
  PixelFormat native_format = PixelFormat::kUnspecified;
};

// Reads headers only; no pixel work, no allocation that depends on the
// picture's size. Formats are told by magic bytes, never by names.
// Errors: kInvalidArgument IMAGE_FORMAT     empty or not a known format
//                          IMAGE_TRUNCATED  ends inside the headers
//                          IMAGE_CORRUPT    headers contradict themselves
//                          TOO_LARGE        axis, pixels or bytes
//         kUnimplemented   IMAGE_UNSUPPORTED  12-bit, lossless, ... JPEG
absl::StatusOr<ImageInfo> PeekImage(std::span<const std::byte> bytes);

struct DecodeOptions {
  // JPEG chroma for rgb destinations: triangle (libjpeg's "fancy", default)
  // or replicated.
  bool fancy_chroma = true;
  // Give what could be read of a damaged or truncated file, with a warning.
  bool lenient = false;
  // 1, 2, 4 or 8: a JPEG's picture in 1/shrink of its size (rounded up), as
  // libjpeg's scale_num gives it, for less work; see reduced_dct.h for its
  // error. Only to ShrunkFormat.
  int shrink = 1;
};

// The format of a picture decoded with `shrink` from a file whose coded planes
// are those of `native` (nv12 becomes nv24: chroma is shrunk less);
// kUnspecified where files are not shrunk.
PixelFormat ShrunkFormat(PixelFormat native, int shrink);

struct DecodeResult {
  ImageInfo info;
  // Sentences for the reply: oddities that cost nothing, choices made where a
  // file leaves one, and the damage of a file that was read leniently.
  std::vector<std::string> warnings;
  int rows_good = 0;  // stored rows decoded from undamaged data
};

// Formats that `info`'s file can be decoded to, besides its native one:
// JPEG: grey rgb rgba bgr bgra nv12 nv16 nv24; PNG: grey rgb rgba bgr bgra.
// nv formats of the file's own subsampling hold the coded samples; for others
// chroma is replicated and averaged (nv24: upsampled as for rgb). Grey is the
// coded luma, or BT.601 luma of RGB-coded pixels.
bool CanDecodeTo(const ImageInfo& info, PixelFormat format);

class ImageDecoder {
 public:
  ImageDecoder();
  ~ImageDecoder();
  ImageDecoder(const ImageDecoder&) = delete;
  ImageDecoder& operator=(const ImageDecoder&) = delete;

  // Decodes into `destination`, whose size must be the file's (after
  // shrinking) and whose dtype is u8; any stride. JPEG uses the accurate
  // integer DCT. PNG alpha is dropped for rgb (never composited) and 255 where
  // the file has none; 16-bit PNG becomes 8-bit by v = (x * 255 + 32895) >> 16.
  // After an error the destination holds unspecified pixels; a lenient decode
  // fills rows that it could not read with mid grey. Errors: those of
  // PeekImage; kInvalidArgument IMAGE_TRUNCATED / IMAGE_CORRUPT with the number
  // of good rows in the message; FORMAT_PAIR when CanDecodeTo is false or
  // `shrink` does not lead there; GEOMETRY_INVALID when sizes differ.
  absl::StatusOr<DecodeResult> Decode(std::span<const std::byte> bytes,
                                      const DecodeOptions& options,
                                      const ImageView& destination);

  // Starts a decode that gives the coded planes strip by strip instead of a
  // picture in memory: for JPEG files whose native planes are those of
  // `desc.format` (grey, nv12, nv16, nv24). Null when Decode has to be used;
  // nothing was started then. The source is this object's and lives until the
  // next call; `bytes` must stay as long.
  // Errors: as Decode.
  absl::StatusOr<StripSource*> BeginStrips(std::span<const std::byte> bytes,
                                           const DecodeOptions& options,
                                           const ImageDesc& desc);
  // What Decode would have returned. REQUIRES: all strips were read.
  // Errors: as Decode, for what is wrong behind the last strip.
  absl::StatusOr<DecodeResult> FinishStrips();

 private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch_;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_IMAGE_DECODER_H_
