// Decodes PNG files whose rows fit in memory: the compressed data are inflated
// at once by libdeflate and the filters undone in vectors. It knows no damage:
// at the first thing that is odd it gives up, and libpng decides what it was.
// Owns: scratch, kept between calls. Thread-safety: compatible.
// Limits: kMaxRowBytes for all rows together; larger files are libpng's, which
// reads row by row. Between files at most kMaxKeptBytes of each scratch stay.
// Source: W3C PNG 3rd edition; RFC 1950.
#ifndef ENGINE_CODEC_PNG_MEMORY_READER_H_
#define ENGINE_CODEC_PNG_MEMORY_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/codec/png_header.h"
#include "engine/codec/scratch_bytes.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class PngMemoryReader {
 public:
  static constexpr size_t kMaxRowBytes = 64 << 20;
  // 1080p in rgba; larger files pay for their pages each time.
  static constexpr size_t kMaxKeptBytes = 9 << 20;

  PngMemoryReader();
  ~PngMemoryReader();
  PngMemoryReader(const PngMemoryReader&) = delete;
  PngMemoryReader& operator=(const PngMemoryReader&) = delete;

  // False when the file is not of a kind that this reads (interlaced, less
  // than 8 bits, a transparent colour that is asked for), or when anything
  // about it is odd; `picture` holds unspecified pixels then. All checksums up
  // to the last IDAT are right when it is true.
  // `header` is ReadPngHeader's for `bytes`; `picture` is of the file's size,
  // grey, rgb, rgba, bgr or bgra.
  bool Read(std::span<const std::byte> bytes, const PngHeader& header,
            const ImageView& picture);

 private:
  struct Inflater;

  bool Takes(const PngHeader& header, PixelFormat format) const;
  bool ReadAll(std::span<const std::byte> bytes, const ImageView& picture);
  bool GatherChunks(std::span<const std::byte> bytes);
  bool ReadPalette(std::span<const std::byte> body);
  bool ReadTransparency(std::span<const std::byte> body);
  bool Inflate();
  bool PlaceRows(const ImageView& picture);
  const uint8_t* ToBytes(const uint8_t* row);
  void PlaceRow(const uint8_t* row, const ImageView& picture, int y);

  const PngHeader* header_ = nullptr;
  size_t pixel_bytes_ = 0;
  size_t row_bytes_ = 0;  // without the filter's byte
  std::unique_ptr<Inflater> inflater_;
  std::span<const std::byte> compressed_;
  ScratchBytes joined_;  // IDAT bodies, when there are several
  ScratchBytes filtered_;
  ScratchBytes rows_;  // two rows, and one of 8-bit samples
  bool has_palette_ = false;
  std::array<std::array<uint8_t, 4>, 256> palette_ = {};  // R G B A
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_PNG_MEMORY_READER_H_
