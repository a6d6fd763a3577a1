#include "engine/codec/exif.h"

#include <cstdint>

namespace preprocd {
namespace {

constexpr uint32_t kOrientationTag = 0x0112;
constexpr uint32_t kTypeShort = 3;
constexpr uint32_t kTypeLong = 4;
constexpr size_t kHeaderBytes = 8;
constexpr size_t kEntryBytes = 12;

// Integers of either byte order inside a block; every read is checked.
class TiffBytes {
 public:
  TiffBytes(std::span<const std::byte> bytes, bool big_endian)
      : bytes_(bytes), big_endian_(big_endian) {}

  std::optional<uint32_t> Read16(size_t offset) const {
    return Read(offset, 2);
  }
  std::optional<uint32_t> Read32(size_t offset) const {
    return Read(offset, 4);
  }

 private:
  std::optional<uint32_t> Read(size_t offset, size_t count) const {
    if (offset > bytes_.size() || bytes_.size() - offset < count) {
      return std::nullopt;
    }
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i) {
      const size_t at = big_endian_ ? offset + i : offset + count - 1 - i;
      value = value << 8 | std::to_integer<uint32_t>(bytes_[at]);
    }
    return value;
  }

  std::span<const std::byte> bytes_;
  bool big_endian_;
};

// The value of the entry at `offset`, when its type and count are legal.
std::optional<Orientation> EntryValue(const TiffBytes& tiff, size_t offset) {
  const std::optional<uint32_t> type = tiff.Read16(offset + 2);
  const std::optional<uint32_t> count = tiff.Read32(offset + 4);
  if (!type || !count || *count != 1) return std::nullopt;
  std::optional<uint32_t> value;
  if (*type == kTypeShort) value = tiff.Read16(offset + 8);
  if (*type == kTypeLong) value = tiff.Read32(offset + 8);
  if (!value || *value > 8) return std::nullopt;
  return OrientationFromExif(static_cast<int>(*value));
}

struct Directory {
  TiffBytes bytes;
  size_t first_entry = 0;
  uint32_t entries = 0;
};

std::optional<Directory> FirstDirectory(std::span<const std::byte> tiff) {
  if (tiff.size() < kHeaderBytes) return std::nullopt;
  const auto first = std::to_integer<char>(tiff[0]);
  if (first != std::to_integer<char>(tiff[1])) return std::nullopt;
  if (first != 'I' && first != 'M') return std::nullopt;
  const TiffBytes bytes(tiff, first == 'M');
  if (bytes.Read16(2) != 42u) return std::nullopt;
  const std::optional<uint32_t> offset = bytes.Read32(4);
  if (!offset) return std::nullopt;
  const std::optional<uint32_t> entries = bytes.Read16(*offset);
  if (!entries) return std::nullopt;
  return Directory{bytes, size_t{*offset} + 2, *entries};
}

}  // namespace

std::optional<Orientation> ReadExifOrientation(
    std::span<const std::byte> tiff) {
  const std::optional<Directory> directory = FirstDirectory(tiff);
  if (!directory) return std::nullopt;
  for (uint32_t i = 0; i < directory->entries; ++i) {
    const size_t entry = directory->first_entry + i * kEntryBytes;
    const std::optional<uint32_t> tag = directory->bytes.Read16(entry);
    if (!tag) return std::nullopt;
    // The first of several wins; what follows it is not read.
    if (*tag == kOrientationTag) return EntryValue(directory->bytes, entry);
  }
  return std::nullopt;
}

bool IsWellFormedExif(std::span<const std::byte> tiff) {
  const std::optional<Directory> directory = FirstDirectory(tiff);
  if (!directory) return false;
  if ((tiff.size() - directory->first_entry) / kEntryBytes <
      directory->entries) {
    return false;
  }
  // A directory inside the header, or one that names itself as the next.
  const size_t start = directory->first_entry - 2;
  const size_t end = directory->first_entry + directory->entries * kEntryBytes;
  if (start < kHeaderBytes || directory->bytes.Read32(end) == start) {
    return false;
  }
  for (uint32_t i = 0; i < directory->entries; ++i) {
    const size_t entry = directory->first_entry + i * kEntryBytes;
    if (directory->bytes.Read16(entry) == kOrientationTag &&
        !EntryValue(directory->bytes, entry)) {
      return false;
    }
  }
  return true;
}

}  // namespace preprocd
