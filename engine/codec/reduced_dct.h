// Inverse DCTs that give a block at 1/2, 1/4 or 1/8 of its size: JPEG decoding
// at a smaller size for less work.
// Owns: nothing. Thread-safety: safe (no state).
// Source: libjpeg's jidctred.c (the 8-point transform of jidctint.c of which
// only the outputs of the smaller block are kept, higher coefficients
// dropped); 13-bit constants, two more bits kept between the passes. Equal to
// libjpeg-turbo's scale_num 4, 2 and 1 of 8. Every Highway target gives the
// same bytes.
// Error: the kept frequencies are exact, the dropped ones are not folded in;
// against the exact average of each 2x2 (4x4, 8x8) pixels a smooth picture
// differs by 1 of 255, hard edges ring by up to some 10 of 255.
#ifndef ENGINE_CODEC_REDUCED_DCT_H_
#define ENGINE_CODEC_REDUCED_DCT_H_

#include <cstddef>
#include <cstdint>

#include "engine/codec/inverse_dct.h"

namespace preprocd {

// As InverseDctRow, but writes `size` rows of size * block_count samples.
// REQUIRES: size is 4, 2 or 1.
void ReducedDctRow(DctPair* pairs, const uint8_t* extents,
                   const DctPair& quantiser, int size, int block_count,
                   uint8_t* out, size_t stride_bytes);

}  // namespace preprocd

#endif  // ENGINE_CODEC_REDUCED_DCT_H_
