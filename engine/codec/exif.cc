#include "engine/codec/exif.h"

#include <cstdint>

namespace preprocd {
namespace {

constexpr uint16_t kOrientationTag = 0x0112;
constexpr uint16_t kTypeShort = 3;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;

class TiffReader {
 public:
  TiffReader(std::span<const std::byte> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  bool Has(size_t offset, size_t count) const {
    return offset <= bytes_.size() && count <= bytes_.size() - offset;
  }
  // REQUIRES: Has(offset, 2).
  uint16_t U16(size_t offset) const {
    const auto a = static_cast<unsigned>(bytes_[offset]);
    const auto b = static_cast<unsigned>(bytes_[offset + 1]);
    return static_cast<uint16_t>(big_endian_ ? a << 8 | b : b << 8 | a);
  }
  // REQUIRES: Has(offset, 4).
  uint32_t U32(size_t offset) const {
    const uint32_t first = U16(offset);
    const uint32_t second = U16(offset + 2);
    return big_endian_ ? first << 16 | second : second << 16 | first;
  }

 private:
  const std::span<const std::byte> bytes_;
  const bool big_endian_;
};

}  // namespace

std::optional<Orientation> ReadExifOrientation(
    std::span<const std::byte> tiff) {
  if (tiff.size() < kHeaderBytes) return std::nullopt;
  const bool little = tiff[0] == std::byte{'I'} && tiff[1] == std::byte{'I'};
  const bool big = tiff[0] == std::byte{'M'} && tiff[1] == std::byte{'M'};
  if (!little && !big) return std::nullopt;
  const TiffReader reader(tiff, big);
  if (reader.U16(2) != 42) return std::nullopt;
  const size_t directory = reader.U32(4);
  if (!reader.Has(directory, 2)) return std::nullopt;
  const size_t entries = reader.U16(directory);
  // The first directory only (the second describes the thumbnail), and its
  // first valid entry wins.
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (!reader.Has(entry, kEntryBytes)) return std::nullopt;
    if (reader.U16(entry) != kOrientationTag) continue;
    if (reader.U16(entry + 2) != kTypeShort || reader.U32(entry + 4) != 1) {
      continue;
    }
    const auto orientation = OrientationFromExif(reader.U16(entry + 8));
    if (orientation) return orientation;
  }
  return std::nullopt;
}

}  // namespace preprocd
