// What a file of several scans would cost before any of it is decoded: such a
// file's coefficients are kept in memory, and every scan visits their blocks,
// so a few bytes can ask for much of both.
// Thread-safety: safe (no state). No allocation.
// Source: ITU-T T.81 B.2.3, G.1.2.
#ifndef ENGINE_CODEC_JPEG_SCAN_BUDGET_H_
#define ENGINE_CODEC_JPEG_SCAN_BUDGET_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/codec/jpeg_header.h"

namespace preprocd {

// Scans that are always allowed; encoders write about ten.
inline constexpr int kFreeJpegScans = 32;

// 32 MiB of coefficients, 4K in 4:2:0; and how many blocks each byte of a
// larger arithmetic-coded file of several scans may stand for.
inline constexpr int64_t kFreeArithmeticBlocks = 1 << 18;
inline constexpr int64_t kArithmeticBlocksPerByte = 128;

struct JpegScanFacts {
  // Height that a DNL segment behind the first scan names; 0 without one.
  int height_behind_scan = 0;

  // The reply's sentence about it, when it is not the picture's.
  void AppendNotes(const JpegHeader& header,
                   std::vector<std::string>& notes) const;
};

// Sequential files of one scan always pass: they are decoded strip by strip.
// Refused are others with
//   more than kMaxJpegScans scans,
//   more than kFreeJpegScans and more visits of blocks than
//     2'000'000 + 16 * bytes,
//   fewer bits than blocks (Huffman coding needs one for each block's DC
//     coefficient): the coefficients would be memory for nothing,
//   if arithmetic-coded (which needs next to no bits for empty blocks): more
//     than kFreeArithmeticBlocks and kArithmeticBlocksPerByte * bytes.
// `header` is ReadJpegHeader's for `bytes`.
// Errors: kInvalidArgument TOO_LARGE (scans, blocks); IMAGE_TRUNCATED or, when
// the file has its end marker, IMAGE_CORRUPT (bits)
absl::StatusOr<JpegScanFacts> CheckJpegScanBudget(
    std::span<const std::byte> bytes, const JpegHeader& header);

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_SCAN_BUDGET_H_
