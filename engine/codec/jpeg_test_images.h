// JPEG files made for tests: every flavour that libjpeg-turbo can write, and
// surgery on their marker segments. Only tests use this.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_JPEG_TEST_IMAGES_H_
#define ENGINE_CODEC_JPEG_TEST_IMAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/codec/jpeg_header.h"

namespace preprocd {

using Bytes = std::vector<std::byte>;
using Samples = std::vector<uint8_t>;

struct JpegRecipe {
  int width = 16;
  int height = 16;
  // How the file stores its components. Samples are given in that coding,
  // interleaved, except that kYcc takes R G B unless `samples_are_ycc`.
  JpegColor color = JpegColor::kYcc;
  bool samples_are_ycc = false;
  struct Factors {
    int h = 1;
    int v = 1;
  };
  std::array<Factors, 4> sampling = {};
  int quality = 90;
  bool progressive = false;
  bool arithmetic = false;
  bool one_scan_per_component = false;
  bool optimised_tables = false;
  int restart_interval = 0;  // MCUs
  std::optional<bool> jfif;
  std::optional<bool> adobe;
};

JpegRecipe::Factors Luma(int h, int v);

// Aborts on a recipe that the library refuses: a broken test.
Bytes MakeJpeg(const JpegRecipe& recipe, const Samples& samples);

// A colourful picture with edges and gradients, R G B interleaved.
Samples TestCardRgb(int width, int height);

// What libjpeg-turbo itself gives with djpeg's defaults: R G B (or grey).
// Aborts when it fails.
Samples DecodeByLibrary(const Bytes& file, bool grey, bool fancy = true);

// The coded samples of every component as jpeg_read_raw_data gives them, cut
// to ceil(size * factor / largest factor), at 1/shrink of the size. Aborts when
// it fails.
struct RawPlanes {
  std::array<Samples, 3> samples;
};
RawPlanes RawPlanesByLibrary(const Bytes& file, int shrink = 1);

// Offset of the first segment with `marker` (FF xx), walking by lengths up to
// the first scan. Aborts when there is none.
size_t FindSegment(const Bytes& file, uint8_t marker);
// Without any of the segments with `marker` before or between scans.
Bytes WithoutSegments(const Bytes& file, uint8_t marker);
Bytes WithInserted(const Bytes& file, size_t offset,
                   std::span<const std::byte> extra);
Bytes Segment(uint8_t marker, const std::vector<int>& body);
Bytes ToBytes(const std::vector<int>& values);

// A TIFF block whose first IFD says `orientation`.
Bytes TiffWithOrientation(int orientation, bool big_endian);
// The APP1 segment around a TIFF block.
Bytes ExifSegment(const Bytes& tiff);

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_TEST_IMAGES_H_
