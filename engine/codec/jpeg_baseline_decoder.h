// Decodes plain sequential Huffman-coded JPEG files strip by strip: the fast
// path for what cameras and most programs write. It knows no damage: at the
// first thing that is odd it gives up, and the library decides what it was.
// Owns: scratch of constant size, kept between files; nothing is allocated
// after the first. Borrows the file's bytes. Thread-safety: compatible.
// Source: ITU-T T.81 F.2.
#ifndef ENGINE_CODEC_JPEG_BASELINE_DECODER_H_
#define ENGINE_CODEC_JPEG_BASELINE_DECODER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "engine/codec/inverse_dct.h"
#include "engine/codec/jpeg_entropy_window.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/jpeg_huffman.h"
#include "engine/codec/jpeg_mcu_decoder.h"
#include "engine/codec/jpeg_scan_tables.h"
#include "engine/codec/jpeg_strip_decoder.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {

class JpegBaselineDecoder {
 public:
  JpegBaselineDecoder();
  ~JpegBaselineDecoder();
  JpegBaselineDecoder(const JpegBaselineDecoder&) = delete;
  JpegBaselineDecoder& operator=(const JpegBaselineDecoder&) = delete;

  // False when the file is not of this kind (or memory is out). One or three
  // components, sampling factors 1 and 2, one scan, 8 bit.
  bool Open(std::span<const std::byte> bytes, const JpegHeader& header,
            int shrink = 1);

  // The next strip, as JpegStripDecoder::Next; planes without data are
  // decoded, not written. False: the data are odd, the decoder cannot go on,
  // and the targets hold unspecified samples.
  bool Next(const JpegStripTargets& targets);

  // After Open, before the first Next: Next leaves the inverse DCT of up to
  // `strips` strips to Complete. See JpegStripDecoder::Defer.
  // Errors: kResourceExhausted
  absl::Status Defer(int strips);
  // May run beside Next. Does nothing for strips that are not waiting.
  void Complete(int strip);

  enum class End : uint8_t {
    kMarker,    // EOI behind the data, or behind a DNL with the frame's height
    kNoMarker,  // the file ends behind the data
    kOdd,       // anything else
  };
  // What follows the last strip.
  End Finish();

 private:
  static constexpr int kMaxMcuBlocks = 10;
  static constexpr int kMaxFactor = 2;

  // One row of blocks of a group.
  struct BlockRow {
    size_t component = 0;
    int row = 0;            // inside the MCU
    size_t first_pair = 0;  // among the coefficients
    size_t first_extent = 0;
    int columns = 0;  // blocks to an MCU
    // Blocks of the plane; those that only fill up the last MCU of a row or
    // column are dropped.
    int blocks_across = 0;
    int blocks_down = 0;
    int block_size = kDctSize;  // samples that a block gives, each way
  };
  struct Scratch;
  // Coefficients and extents of a group of MCUs.
  struct Group {
    DctPair* pairs = nullptr;
    uint8_t* extents = nullptr;
  };
  // A strip whose inverse DCT is left for later.
  struct Waiting {
    int strip = -1;
    JpegStripTargets targets = {};
  };
  static constexpr int kMaxWaiting = 8;

  Group GroupOf(int strip, int index) const;
  bool EndsBehindHeight() const;
  bool BuildLookups();
  void PlaceBlocks(int shrink);
  bool DecodeGroup(int mcus, const Group& group);
  bool Restart();
  void TransformGroup(int strip, int first_mcu, int mcus, const Group& group,
                      const JpegStripTargets& targets);

  JpegHeader header_;
  int mcus_per_row_ = 0;
  int mcu_rows_ = 0;
  int next_row_ = 0;
  int until_restart_ = 0;
  uint8_t next_restart_ = 0;
  BitBuffer buffer_;
  std::array<int, 3> dc_ = {};
  int mcu_blocks_ = 0;
  std::array<McuBlock, kMaxMcuBlocks> blocks_ = {};
  int block_rows_ = 0;
  std::array<BlockRow, 3 * kMaxFactor> rows_ = {};
  JpegEntropyWindow window_;
  std::unique_ptr<Scratch> scratch_;
  int deferred_ = 0;  // slots of waiting_
  std::array<Waiting, kMaxWaiting> waiting_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_JPEG_BASELINE_DECODER_H_
