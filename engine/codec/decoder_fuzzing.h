// What the decoder fuzzers do with one input: peek, decode strictly and
// leniently to a format that the input chooses, compare. Aborts when the
// decoder breaks a promise. Only fuzzers use this.
// Thread-safety: safe (no state).
#ifndef ENGINE_CODEC_DECODER_FUZZING_H_
#define ENGINE_CODEC_DECODER_FUZZING_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/base/check.h"
#include "engine/codec/image_decoder.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// Larger pictures teach nothing new and make a fuzzer slow.
inline constexpr int64_t kMaxFuzzedPixels = 1 << 16;

inline int Shrunk(int size, int shrink) { return (size + shrink - 1) / shrink; }

struct FuzzedPicture {
  std::vector<std::byte> memory;
  bool decoded = false;
  int rows_good = 0;
};

inline FuzzedPicture DecodeFuzzed(std::span<const std::byte> bytes,
                                  const ImageInfo& info, PixelFormat format,
                                  const DecodeOptions& options, int fill) {
  const ImageDesc desc =
      MakeImageDesc(format, DType::kU8, Shrunk(info.width, options.shrink),
                    Shrunk(info.height, options.shrink))
          .value();
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

// The strips of a file, whose inverse DCTs come one strip later, against what
// Decode gave: equal samples, equal judgement.
inline void FuzzStrips(std::span<const std::byte> bytes, const ImageInfo& info,
                       PixelFormat format, const DecodeOptions& options,
                       const FuzzedPicture& whole) {
  const ImageDesc desc =
      MakeImageDesc(format, DType::kU8, Shrunk(info.width, options.shrink),
                    Shrunk(info.height, options.shrink))
          .value();
  ImageDecoder decoder;
  const absl::StatusOr<StripSource*> begun =
      decoder.BeginStrips(bytes, options, desc);
  if (!begun.ok()) {
    PREPROCD_CHECK(!whole.decoded);
    return;
  }
  if (*begun == nullptr) return;
  StripSource& source = **begun;
  std::array<std::vector<uint8_t>, kMaxStripPlanes> planes;
  StripTargets targets;
  for (int i = 0; i < source.plane_count(); ++i) {
    const StripPlane plane = source.plane(i);
    const auto p = static_cast<size_t>(i);
    targets[p].stride_bytes = static_cast<size_t>(plane.row_bytes);
    planes[p].resize(targets[p].stride_bytes *
                     static_cast<size_t>(plane.strip_rows) *
                     static_cast<size_t>(source.strip_count()));
    targets[p].data = planes[p].data();
  }
  constexpr int kWaiting = 2;
  PREPROCD_CHECK(source.Defer(kWaiting).ok());
  bool good = true;
  int completed = 0;
  for (int strip = 0; good && strip < source.strip_count(); ++strip) {
    if (strip - completed == kWaiting) source.Complete(completed++);
    good = source.Read(targets).ok();
    for (int i = 0; i < source.plane_count(); ++i) {
      PlaneTarget& target = targets[static_cast<size_t>(i)];
      target.data +=
          target.stride_bytes * static_cast<size_t>(source.plane(i).strip_rows);
    }
  }
  while (good && completed < source.strip_count()) source.Complete(completed++);
  good = good && decoder.FinishStrips().ok();
  PREPROCD_CHECK(good == whole.decoded);
  if (!good) return;
  const int width = source.plane(0).width;
  for (int y = 0; y < source.plane(0).height; ++y) {
    const auto row = static_cast<size_t>(y);
    PREPROCD_CHECK(
        std::memcmp(planes[0].data() +
                        row * static_cast<size_t>(source.plane(0).row_bytes),
                    whole.memory.data() +
                        row * static_cast<size_t>(desc.planes[0].stride_bytes),
                    static_cast<size_t>(width)) == 0);
  }
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
  // Decode answers where a file cannot be shrunk to the format.
  constexpr std::array kShrinks = {1, 1, 2, 1, 4, 1, 8};
  if (info->file_format == FileFormat::kJpeg) {
    options.shrink = kShrinks[bytes.size() % kShrinks.size()];
  }
  const FuzzedPicture strict = DecodeFuzzed(bytes, *info, format, options, 0);
  options.lenient = true;
  const FuzzedPicture zeros = DecodeFuzzed(bytes, *info, format, options, 0);
  const FuzzedPicture ones = DecodeFuzzed(bytes, *info, format, options, 255);
  PREPROCD_CHECK(zeros.decoded == ones.decoded);
  FuzzStrips(bytes, *info, format, options, zeros);
  options.lenient = false;
  FuzzStrips(bytes, *info, format, options, strict);
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
