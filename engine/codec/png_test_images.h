// PNG files made for tests, and surgery on their chunks. Only tests use this.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_PNG_TEST_IMAGES_H_
#define ENGINE_CODEC_PNG_TEST_IMAGES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/codec/png_header.h"

namespace preprocd {

struct PngRecipe {
  int width = 8;
  int height = 8;
  int bit_depth = 8;
  PngColorType color_type = PngColorType::kRgb;
  bool interlaced = false;
  std::vector<std::array<uint8_t, 3>> palette;
  std::vector<uint8_t> palette_alpha;  // tRNS of a palette
  std::vector<uint16_t> transparent;   // tRNS of grey (1) or rgb (3)
};

// `rows` holds every row as the file stores it (packed bits, big endian).
// Aborts on a recipe that the library refuses: a broken test.
std::vector<std::byte> MakePng(const PngRecipe& recipe,
                               const std::vector<uint8_t>& rows);

// Bytes of one stored row.
size_t PngRowBytes(const PngRecipe& recipe);

struct PngChunk {
  std::string type;
  std::vector<std::byte> body;
};
// Chunks of a whole file, and the file of chunks with right checksums.
std::vector<PngChunk> SplitPng(const std::vector<std::byte>& file);
std::vector<std::byte> JoinPng(const std::vector<PngChunk>& chunks);
// Offset of the first chunk of `type` (of its length field) in the file.
size_t FindChunk(const std::vector<std::byte>& file, const std::string& type);

// A zlib stream of `raw`.
std::vector<std::byte> Deflate(const std::vector<uint8_t>& raw);

}  // namespace preprocd

#endif  // ENGINE_CODEC_PNG_TEST_IMAGES_H_
