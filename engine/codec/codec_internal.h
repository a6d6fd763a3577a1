// What the readers of the two formats share with image_decoder.cc.
// Thread-safety: compatible.
#ifndef ENGINE_CODEC_CODEC_INTERNAL_H_
#define ENGINE_CODEC_CODEC_INTERNAL_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/codec/image_decoder.h"

namespace preprocd {

// How a read ended, filled in by the C callbacks of a library. Plain data:
// the library's longjmp crosses frames that hold it.
struct ReadOutcome {
  bool truncated = false;  // input ended before the picture did
  bool corrupt = false;    // the library met damaged data
  int rows_good = 0;       // rows finished before the first damage
  char message[200] = {};  // the library's words for the first damage
  bool benign = false;     // odd bytes outside the picture's data
  char benign_message[200] = {};
  bool fatal = false;  // the library gave up
  bool no_memory = false;
};

// Both: decode into `destination` (u8, the file's size). Scratch is reused.
void ReadJpegPixels(std::span<const std::byte> bytes, const ImageInfo& info,
                    const DecodeOptions& options, const ImageView& destination,
                    std::vector<std::byte>& scratch, ReadOutcome& outcome);
void ReadPngPixels(std::span<const std::byte> bytes, const ImageInfo& info,
                   const ImageView& destination,
                   std::vector<std::byte>& scratch, ReadOutcome& outcome);

// BT.601 full-range luma, rounded half up: (299 r + 587 g + 114 b + 500) /
// 1000.
inline uint8_t LumaOf(unsigned r, unsigned g, unsigned b) {
  return static_cast<uint8_t>((299 * r + 587 * g + 114 * b + 500) / 1000);
}

}  // namespace preprocd

#endif  // ENGINE_CODEC_CODEC_INTERNAL_H_
