// Entropy-coded data of a scan, piece by piece, with the stuffed zeros taken
// out, so that a bit buffer can be refilled without looking at the bytes.
// Owns: the window. Borrows the file's bytes. Thread-safety: compatible.
// Source: ITU-T T.81 B.1.1.5, F.1.2.3.
#ifndef ENGINE_CODEC_JPEG_ENTROPY_WINDOW_H_
#define ENGINE_CODEC_JPEG_ENTROPY_WINDOW_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/jpeg_huffman.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {

class JpegEntropyWindow {
 public:
  // More than one MCU can use, whatever its bits: 10 blocks of 64 symbols of
  // 31 bits.
  static constexpr size_t kMcuBytes = 2560;

  // Begins behind the scan header.
  // Errors: kResourceExhausted
  absl::Status Begin(std::span<const std::byte> data, BitBuffer& buffer);

  // While `buffer.at` is not past the mark, kMcuBytes may be read there;
  // then Fill is due.
  const uint8_t* mark() const { return mark_; }
  // Brings in more bytes; moves what `buffer` has not loaded to the front.
  // False when bits behind the segment's end were used.
  bool Fill(BitBuffer& buffer);

  // True while `buffer` has used no bits behind the segment's end. Bits
  // behind the end are unspecified, reading them is harmless.
  bool Inside(const BitBuffer& buffer) const {
    return (buffer.at - end_) * 8 <= static_cast<ptrdiff_t>(buffer.count);
  }
  // True when all but padding bits of the segment are used up; marker() is
  // what ends it.
  bool AtSegmentEnd(BitBuffer& buffer);
  // The marker behind the segment (0 for a stuffed byte after fill bytes), or
  // kFileEnd.
  static constexpr int kFileEnd = -1;
  int marker() const { return marker_; }
  // What follows that marker's code.
  std::span<const std::byte> behind_marker() const { return left_; }
  // Goes on behind that marker; the buffer begins anew.
  void BeginSegment(BitBuffer& buffer);

 private:
  static constexpr size_t kWindowBytes = 32 << 10;

  void Unstuff();
  void EndSegment();

  ScratchBytes memory_;
  std::span<const std::byte> left_;  // not brought in yet
  uint8_t* end_ = nullptr;
  const uint8_t* mark_ = nullptr;
  bool segment_ended_ = false;
  int marker_ = kFileEnd;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_ENTROPY_WINDOW_H_
