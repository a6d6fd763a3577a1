#include "engine/codec/jpeg_scan_budget.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/codec/decode_status.h"

namespace preprocd {
namespace {

constexpr int64_t kFreeVisits = 2'000'000;
constexpr int64_t kVisitsPerByte = 16;
constexpr uint8_t kTem = 0x01;
constexpr uint8_t kRst0 = 0xD0;
constexpr uint8_t kEoi = 0xD9;
constexpr uint8_t kSos = 0xDA;
constexpr uint8_t kDnl = 0xDC;

int64_t BlocksOf(const JpegHeader& header, const JpegComponent& component) {
  const auto blocks = [](int64_t size, int factor, int largest) {
    const int64_t samples = (size * factor + largest - 1) / largest;
    return (samples + 7) / 8;
  };
  return blocks(header.width, component.h, header.max_h) *
         blocks(header.height, component.v, header.max_v);
}

struct Scans {
  int count = 0;
  int64_t visits = 0;
  bool ended = false;  // by EOI
  JpegScanFacts facts;
};

int64_t VisitsOf(std::span<const std::byte> body, const JpegHeader& header) {
  int64_t visits = 0;
  const auto count = static_cast<size_t>(header.component_count);
  for (size_t i = 1; i < body.size(); i += 2) {
    for (size_t c = 0; c < count; ++c) {
      if (std::to_integer<int>(body[i]) == header.components[c].id) {
        visits += BlocksOf(header, header.components[c]);
      }
    }
  }
  return visits;
}

// Follows the markers, through entropy-coded data too. What is malformed ends
// the walk: the library will say so.
Scans CountScans(std::span<const std::byte> bytes, const JpegHeader& header) {
  Scans scans;
  size_t at = 2;
  while (scans.count <= kMaxJpegScans && at < bytes.size()) {
    const void* found = memchr(bytes.data() + at, 0xFF, bytes.size() - at);
    if (found == nullptr) return scans;
    at = static_cast<size_t>(static_cast<const std::byte*>(found) -
                             bytes.data()) +
         1;
    if (at == bytes.size()) return scans;
    const auto marker = std::to_integer<uint8_t>(bytes[at]);
    if (marker == 0xFF) continue;
    ++at;
    scans.ended = marker == kEoi;
    if (scans.ended) return scans;
    const bool alone =
        marker == 0 || marker == kTem || (marker >= kRst0 && marker < kEoi);
    if (alone) continue;
    if (bytes.size() - at < 2) return scans;
    const size_t length = std::to_integer<size_t>(bytes[at]) << 8 |
                          std::to_integer<size_t>(bytes[at + 1]);
    if (length < 2 || bytes.size() - at < length) return scans;
    if (marker == kSos && length >= 3) {
      ++scans.count;
      const size_t components = std::to_integer<size_t>(bytes[at + 2]);
      const size_t most = std::min(length - 3, 2 * components);
      scans.visits += VisitsOf(bytes.subspan(at + 2, most + 1), header);
    }
    if (marker == kDnl && length == 4 && scans.count == 1) {
      scans.facts.height_behind_scan = std::to_integer<int>(bytes[at + 2])
                                           << 8 |
                                       std::to_integer<int>(bytes[at + 3]);
    }
    at += length;
  }
  return scans;
}

}  // namespace

void JpegScanFacts::AppendNotes(const JpegHeader& header,
                                std::vector<std::string>& notes) const {
  if (height_behind_scan == 0 || height_behind_scan == header.height) return;
  notes.push_back(absl::StrCat("JPEG names a height of ", height_behind_scan,
                               " behind its scan; the frame header's ",
                               header.height, " counts"));
}

absl::StatusOr<JpegScanFacts> CheckJpegScanBudget(
    std::span<const std::byte> bytes, const JpegHeader& header) {
  const Scans scans = CountScans(bytes, header);
  if (scans.count > kMaxJpegScans) {
    return ImageTooLarge("JPEG scans", kMaxJpegScans + 1, kMaxJpegScans);
  }
  if (!header.progressive && scans.count <= 1) return scans.facts;
  const auto size = static_cast<int64_t>(bytes.size());
  if (scans.count > kFreeJpegScans &&
      scans.visits > kFreeVisits + kVisitsPerByte * size) {
    return ImageTooLarge("JPEG scans for its size", scans.count,
                         kFreeJpegScans);
  }
  int64_t blocks = 0;
  for (size_t c = 0; c < static_cast<size_t>(header.component_count); ++c) {
    blocks += BlocksOf(header, header.components[c]);
  }
  if (header.arithmetic) {
    const int64_t limit =
        std::max(kFreeArithmeticBlocks, kArithmeticBlocksPerByte * size);
    if (blocks <= limit) return scans.facts;
    return ImageTooLarge("arithmetic-coded JPEG blocks for its size", blocks,
                         limit);
  }
  if (size * 8 >= blocks) return scans.facts;
  const std::string message =
      absl::StrCat("JPEG ", scans.ended ? "is damaged" : "ends early",
                   ", 0 of ", header.height, " rows are good (", size,
                   " bytes for ", blocks, " blocks)");
  return BadImage(
      scans.ended ? ErrorReason::kImageCorrupt : ErrorReason::kImageTruncated,
      message);
}

}  // namespace preprocd
