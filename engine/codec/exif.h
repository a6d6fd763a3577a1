// Finds the orientation in an EXIF (TIFF) block. Reads untrusted bytes.
// Thread-safety: safe (no state).
// Source: EXIF 2.32 / TIFF 6.0, IFD0 tag 0x0112.
#ifndef ENGINE_CODEC_EXIF_H_
#define ENGINE_CODEC_EXIF_H_

#include <cstddef>
#include <optional>
#include <span>

#include "engine/image/orientation.h"

namespace preprocd {

// `tiff` begins with "II*\0" or "MM\0*" (without the "Exif\0\0" prefix).
// Nothing when there is no valid orientation; malformed blocks are nothing,
// never an error: metadata must not stop a picture from being decoded. Only
// the first IFD counts (the second describes a thumbnail); of several
// orientation entries in it the first counts. Types SHORT and LONG, count 1.
std::optional<Orientation> ReadExifOrientation(std::span<const std::byte> tiff);

// False when the block contradicts itself: no TIFF header, a directory or
// entries outside it, an orientation entry without a valid value. What can be
// read of such a block still counts.
bool IsWellFormedExif(std::span<const std::byte> tiff);

}  // namespace preprocd

#endif  // ENGINE_CODEC_EXIF_H_
