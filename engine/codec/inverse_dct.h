// The accurate integer inverse DCT, for two neighbouring blocks at a time.
// Owns: nothing. Thread-safety: safe (no state).
// Source: libjpeg's jidctint.c (Loeffler, Ligtenberg, Moschytz 1989, 13-bit
// constants, two more bits kept between the passes), in the 16- and 32-bit
// arithmetic of libjpeg-turbo's vector code, so that even coefficients no
// encoder writes give the library's samples. Every Highway target gives the
// same bytes.
#ifndef ENGINE_CODEC_INVERSE_DCT_H_
#define ENGINE_CODEC_INVERSE_DCT_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace preprocd {

inline constexpr int kDctSize = 8;
inline constexpr int kDctCoefficients = 64;

// Coefficients of two blocks, row by row: eight of the left block, eight of
// the right one.
struct alignas(64) DctPair {
  static constexpr int kRowStep = 2 * kDctSize;
  std::array<int16_t, 2 * kDctCoefficients> values = {};
};

// Position of the k-th coefficient in zigzag order inside a block: row * 8 +
// column.
inline constexpr std::array<uint8_t, kDctCoefficients> kZigzagToNatural = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,
    12, 19, 26, 33, 40, 48, 41, 34, 27, 20, 13, 6,  7,  14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// The quantisation table of one component in the layout of a pair.
// `zigzag` are the 64 values as in the file; products wrap to 16 bits.
DctPair MakeQuantiser(const std::array<uint16_t, kDctCoefficients>& zigzag);

// Writes `block_count` blocks from left to right: 8 rows of 8 * block_count
// samples at `out`. `pairs` holds ceil(block_count / 2) pairs, which are zero
// afterwards. `extents[i]` is at least the zigzag position of block i's last
// coefficient that is not zero (an entry for each block of each pair).
void InverseDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int block_count, uint8_t* out,
                   size_t stride_bytes);

}  // namespace preprocd

#endif  // ENGINE_CODEC_INVERSE_DCT_H_
