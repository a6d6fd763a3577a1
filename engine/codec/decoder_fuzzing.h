// What the decoder fuzzers do with one input: peek, decode strictly and
// leniently to a format that the input chooses, compare. Aborts when the
// decoder breaks a promise. Only fuzzers use this.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_DECODER_FUZZING_H_
#define ENGINE_CODEC_DECODER_FUZZING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/codec/image_decoder.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Larger pictures teach nothing new and make a fuzzer slow.
inline constexpr int64_t kMaxFuzzedPixels = 1 << 16;

struct FuzzedPicture {
  std::vector<std::byte> memory;
  bool decoded = false;
  int rows_good = 0;
};

inline FuzzedPicture DecodeFuzzed(std::span<const std::byte> bytes,
                                  const ImageInfo& info, PixelFormat format,
                                  const DecodeOptions& options, int fill) {
  const ImageDesc desc =
      MakeImageDesc(format, DType::kU8, info.width, info.height).value();
  FuzzedPicture picture;
  picture.memory.assign(RequiredBytes(desc), static_cast<std::byte>(fill));
  const std::span<std::byte> span(picture.memory);
  ImageDecoder decoder;
  const auto result = decoder.Decode(
      bytes, options, MakeImageView(desc, std::span(&span, 1)).value());
  picture.decoded = result.ok();
  if (result.ok()) picture.rows_good = result->rows_good;
  return picture;
}

inline void FuzzDecoder(std::span<const std::byte> bytes) {
  constexpr std::array kFormats = {PixelFormat::kRgb,  PixelFormat::kGrey,
                                   PixelFormat::kRgba, PixelFormat::kBgra,
                                   PixelFormat::kNv12, PixelFormat::kNv16,
                                   PixelFormat::kNv24, PixelFormat::kBgr};
  const auto info = PeekImage(bytes);
  if (!info.ok()) return;
  if (int64_t{info->width} * info->height > kMaxFuzzedPixels) return;
  // Files end with a fixed marker, so the choice hangs on their length.
  const PixelFormat format = kFormats[bytes.size() % kFormats.size()];
  if (!CanDecodeTo(*info, format)) return;
  DecodeOptions options;
  options.fancy_chroma = bytes.size() % 3 != 0;
  const FuzzedPicture strict = DecodeFuzzed(bytes, *info, format, options, 0);
  options.lenient = true;
  const FuzzedPicture zeros = DecodeFuzzed(bytes, *info, format, options, 0);
  const FuzzedPicture ones = DecodeFuzzed(bytes, *info, format, options, 255);
  PREPROCD_CHECK(zeros.decoded == ones.decoded);
  if (strict.decoded) {
    // What a strict decode accepts is whole, and leniency changes nothing.
    PREPROCD_CHECK(zeros.decoded && strict.rows_good == info->height);
    PREPROCD_CHECK(strict.memory == zeros.memory);
  }
  // Every byte is written: none of the memory's past shows.
  if (zeros.decoded) PREPROCD_CHECK(zeros.memory == ones.memory);
}

}  // namespace preprocd

#endif  // ENGINE_CODEC_DECODER_FUZZING_H_
