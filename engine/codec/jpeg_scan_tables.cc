#include "engine/codec/jpeg_scan_tables.h"

#include <algorithm>

namespace preprocd {
namespace {

constexpr uint8_t kSof0 = 0xC0;
constexpr uint8_t kSof1 = 0xC1;
constexpr uint8_t kDht = 0xC4;
constexpr uint8_t kSos = 0xDA;
constexpr uint8_t kDqt = 0xDB;
constexpr uint8_t kDri = 0xDD;
constexpr uint8_t kApp0 = 0xE0;
constexpr uint8_t kApp15 = 0xEF;
constexpr uint8_t kCom = 0xFE;
constexpr size_t kCoefficients = 64;

// T.81 K.3.3: symbols in the order of their codes.
constexpr uint8_t kDcCounts[2][16] = {
    {0, 1, 5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0},
    {0, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0}};
constexpr uint8_t kAcCounts[2][16] = {
    {0, 2, 1, 3, 3, 2, 4, 3, 5, 5, 4, 4, 0, 0, 1, 0x7D},
    {0, 2, 1, 2, 4, 4, 3, 4, 7, 5, 4, 4, 0, 1, 2, 0x77}};
constexpr uint8_t kAcSymbols[2][162] = {
    {0x01, 0x02, 0x03, 0x00, 0x04, 0x11, 0x05, 0x12, 0x21, 0x31, 0x41, 0x06,
     0x13, 0x51, 0x61, 0x07, 0x22, 0x71, 0x14, 0x32, 0x81, 0x91, 0xA1, 0x08,
     0x23, 0x42, 0xB1, 0xC1, 0x15, 0x52, 0xD1, 0xF0, 0x24, 0x33, 0x62, 0x72,
     0x82, 0x09, 0x0A, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x25, 0x26, 0x27, 0x28,
     0x29, 0x2A, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44, 0x45,
     0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58, 0x59,
     0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74, 0x75,
     0x76, 0x77, 0x78, 0x79, 0x7A, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89,
     0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A, 0xA2, 0xA3,
     0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4, 0xB5, 0xB6,
     0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7, 0xC8, 0xC9,
     0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA, 0xE1, 0xE2,
     0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF1, 0xF2, 0xF3, 0xF4,
     0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA},
    {0x00, 0x01, 0x02, 0x03, 0x11, 0x04, 0x05, 0x21, 0x31, 0x06, 0x12, 0x41,
     0x51, 0x07, 0x61, 0x71, 0x13, 0x22, 0x32, 0x81, 0x08, 0x14, 0x42, 0x91,
     0xA1, 0xB1, 0xC1, 0x09, 0x23, 0x33, 0x52, 0xF0, 0x15, 0x62, 0x72, 0xD1,
     0x0A, 0x16, 0x24, 0x34, 0xE1, 0x25, 0xF1, 0x17, 0x18, 0x19, 0x1A, 0x26,
     0x27, 0x28, 0x29, 0x2A, 0x35, 0x36, 0x37, 0x38, 0x39, 0x3A, 0x43, 0x44,
     0x45, 0x46, 0x47, 0x48, 0x49, 0x4A, 0x53, 0x54, 0x55, 0x56, 0x57, 0x58,
     0x59, 0x5A, 0x63, 0x64, 0x65, 0x66, 0x67, 0x68, 0x69, 0x6A, 0x73, 0x74,
     0x75, 0x76, 0x77, 0x78, 0x79, 0x7A, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87,
     0x88, 0x89, 0x8A, 0x92, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99, 0x9A,
     0xA2, 0xA3, 0xA4, 0xA5, 0xA6, 0xA7, 0xA8, 0xA9, 0xAA, 0xB2, 0xB3, 0xB4,
     0xB5, 0xB6, 0xB7, 0xB8, 0xB9, 0xBA, 0xC2, 0xC3, 0xC4, 0xC5, 0xC6, 0xC7,
     0xC8, 0xC9, 0xCA, 0xD2, 0xD3, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8, 0xD9, 0xDA,
     0xE2, 0xE3, 0xE4, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEA, 0xF2, 0xF3, 0xF4,
     0xF5, 0xF6, 0xF7, 0xF8, 0xF9, 0xFA}};

void UseTypical(size_t index, bool ac, HuffmanSpec& spec) {
  if (spec.present) return;
  spec.present = true;
  const uint8_t* counts = ac ? kAcCounts[index] : kDcCounts[index];
  std::copy_n(counts, 16, spec.counts.begin() + 1);
  if (ac) {
    std::copy(std::begin(kAcSymbols[index]), std::end(kAcSymbols[index]),
              spec.symbols.begin());
  } else {
    for (uint8_t i = 0; i < 12; ++i) spec.symbols[i] = i;
  }
}

// One segment's body, read from its front. Reading past the end gives zeros
// and is remembered.
class Body {
 public:
  explicit Body(std::span<const std::byte> bytes) : bytes_(bytes) {}
  bool empty() const { return bytes_.empty(); }
  bool overrun() const { return overrun_; }
  uint8_t Next8() {
    if (bytes_.empty()) {
      overrun_ = true;
      return 0;
    }
    const auto value = std::to_integer<uint8_t>(bytes_.front());
    bytes_ = bytes_.subspan(1);
    return value;
  }
  uint16_t Next16() {
    const int high = Next8();
    return static_cast<uint16_t>(high << 8 | Next8());
  }

 private:
  std::span<const std::byte> bytes_;
  bool overrun_ = false;
};

bool ReadQuantisers(Body body, JpegScanTables& tables) {
  while (!body.empty()) {
    const uint8_t kind = body.Next8();
    const size_t index = kind & 15;
    if (kind >> 4 > 1 || index >= JpegScanTables::kTables) return false;
    JpegScanTables::Quantiser& table = tables.quantisers[index];
    table.present = true;
    for (size_t k = 0; k < kCoefficients; ++k) {
      table.zigzag[k] = kind >> 4 != 0 ? body.Next16() : body.Next8();
    }
  }
  return !body.overrun();
}

bool ReadHuffman(Body body, JpegScanTables& tables) {
  while (!body.empty()) {
    const uint8_t kind = body.Next8();
    const size_t index = kind & 15;
    if (kind >> 4 > 1 || index >= JpegScanTables::kTables) return false;
    HuffmanSpec& spec = kind >> 4 != 0 ? tables.ac[index] : tables.dc[index];
    spec = {};
    spec.present = true;
    size_t total = 0;
    for (size_t l = 1; l <= 16; ++l) total += spec.counts[l] = body.Next8();
    if (total > spec.symbols.size()) return false;
    for (size_t i = 0; i < total; ++i) spec.symbols[i] = body.Next8();
  }
  return !body.overrun();
}

bool ReadFrame(Body body, int count, JpegScanTables& tables) {
  for (int i = 0; i < 6; ++i) body.Next8();
  for (size_t c = 0; c < static_cast<size_t>(count); ++c) {
    body.Next16();
    tables.components[c].quantiser = body.Next8();
    if (tables.components[c].quantiser >= JpegScanTables::kTables) {
      return false;
    }
  }
  return !body.overrun() && body.empty();
}

bool ReadScan(Body body, const JpegHeader& header, JpegScanTables& tables) {
  if (body.Next8() != header.component_count) return false;
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    if (body.Next8() != header.components[c].id) return false;
    const uint8_t selectors = body.Next8();
    tables.components[c].dc = selectors >> 4;
    tables.components[c].ac = selectors & 15;
    if (selectors >> 4 >= 4 || (selectors & 15) >= 4) return false;
  }
  const bool plain =
      body.Next8() == 0 && body.Next8() == 63 && body.Next8() == 0;
  return plain && body.empty() && !body.overrun();
}

// Two components of one name are told apart by the library's own rules.
bool HasDistinctIds(const JpegHeader& header) {
  const auto& c = header.components;
  return header.component_count == 1 ||
         (c[0].id != c[1].id && c[0].id != c[2].id && c[1].id != c[2].id);
}

bool IsPlain(const JpegHeader& header) {
  // The library warns of an unknown transform.
  const bool odd_adobe = header.component_count == 3 && header.has_adobe &&
                         !header.has_jfif && header.adobe_transform > 1;
  return (header.component_count == 1 || header.component_count == 3) &&
         !header.progressive && !header.arithmetic && !odd_adobe &&
         header.stray_bytes == 0 && !header.height_from_dnl &&
         HasDistinctIds(header);
}

bool ReadSegment(uint8_t marker, Body body, const JpegHeader& header,
                 JpegScanTables& tables) {
  switch (marker) {
    case kSof0:
    case kSof1:
      return ReadFrame(body, header.component_count, tables);
    case kDht:
      return ReadHuffman(body, tables);
    case kDqt:
      return ReadQuantisers(body, tables);
    case kDri:
      tables.restart_interval = body.Next16();
      return body.empty() && !body.overrun();
    default:
      return marker == kCom || (marker >= kApp0 && marker <= kApp15);
  }
}

bool HasItsTables(const JpegHeader& header, JpegScanTables& tables) {
  for (size_t i = 0; i < 2; ++i) {
    UseTypical(i, false, tables.dc[i]);
    UseTypical(i, true, tables.ac[i]);
  }
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    const JpegScanTables::Component& component = tables.components[c];
    if (!tables.quantisers[component.quantiser].present ||
        !tables.dc[component.dc].present || !tables.ac[component.ac].present) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool ReadJpegScanTables(std::span<const std::byte> bytes,
                        const JpegHeader& header, JpegScanTables& tables) {
  if (!IsPlain(header)) return false;
  tables = {};
  size_t at = 2;
  while (true) {
    if (bytes.size() - at < 4 || bytes[at] != std::byte{0xFF}) return false;
    while (at < bytes.size() && bytes[at] == std::byte{0xFF}) ++at;
    if (bytes.size() - at < 3) return false;
    const auto marker = std::to_integer<uint8_t>(bytes[at]);
    const size_t length = std::to_integer<size_t>(bytes[at + 1]) << 8 |
                          std::to_integer<size_t>(bytes[at + 2]);
    ++at;
    if (length < 2 || bytes.size() - at < length) return false;
    const Body body(bytes.subspan(at + 2, length - 2));
    at += length;
    if (marker == kSos) {
      tables.data_offset = at;
      return ReadScan(body, header, tables) && HasItsTables(header, tables);
    }
    if (!ReadSegment(marker, body, header, tables)) return false;
  }
}

}  // namespace preprocd
