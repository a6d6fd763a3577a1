// Undoes the filter of one PNG row. Every Highway target gives the same bytes.
// Owns: nothing. Thread-safety: safe (no state).
// Source: W3C PNG 3rd edition, 9.2.
#ifndef ENGINE_CODEC_PNG_UNFILTER_H_
#define ENGINE_CODEC_PNG_UNFILTER_H_

#include <cstddef>
#include <cstdint>

namespace preprocd {

enum class PngFilter : uint8_t {
  kNone = 0,
  kSub = 1,
  kUp = 2,
  kAverage = 3,
  kPaeth = 4,
};

// What may be read behind `filtered` and `above` and is written behind `out`.
inline constexpr size_t kPngRowPadding = 16;

// `above` is the unfiltered row before, zeros for the first one.
// `pixel_bytes` is 1..8. The three rows must not overlap.
void UnfilterPngRow(PngFilter filter, size_t pixel_bytes,
                    const uint8_t* filtered, const uint8_t* above,
                    size_t row_bytes, uint8_t* out);

}  // namespace preprocd

#endif  // ENGINE_CODEC_PNG_UNFILTER_H_
