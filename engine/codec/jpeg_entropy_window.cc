#include "engine/codec/jpeg_entropy_window.h"

#include <algorithm>
#include <cstring>

#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr auto kFF = std::byte{0xFF};

}  // namespace

absl::Status JpegEntropyWindow::Begin(std::span<const std::byte> data,
                                      BitBuffer& buffer) {
  // What lies behind the end may be read as bits.
  if (memory_.data() == nullptr) {
    RETURN_IF_ERROR(
        memory_.Reserve(kWindowBytes + kMcuBytes + sizeof(uint64_t)));
    memset(memory_.data(), 0, kWindowBytes + kMcuBytes + sizeof(uint64_t));
  }
  left_ = data;
  BeginSegment(buffer);
  return absl::OkStatus();
}

void JpegEntropyWindow::BeginSegment(BitBuffer& buffer) {
  end_ = memory_.data();
  segment_ended_ = false;
  marker_ = kFileEnd;
  buffer = {memory_.data(), 0, 0};
  Unstuff();
}

bool JpegEntropyWindow::Fill(BitBuffer& buffer) {
  if (!Inside(buffer)) return false;
  if (segment_ended_) {
    // The last MCUs. Whoever reads on is caught here the next time.
    mark_ = memory_.data() + kWindowBytes;
    return true;
  }
  // Not past the end here: the mark lies an MCU before it.
  const auto rest = static_cast<size_t>(end_ - buffer.at);
  memmove(memory_.data(), buffer.at, rest);
  buffer.at = memory_.data();
  end_ = memory_.data() + rest;
  Unstuff();
  return true;
}

void JpegEntropyWindow::EndSegment() {
  segment_ended_ = true;
  size_t at = 0;
  // Any number of FF may stand before a marker's code.
  while (at < left_.size() && left_[at] == kFF) ++at;
  marker_ = at < left_.size() ? std::to_integer<int>(left_[at]) : kFileEnd;
  left_ = left_.subspan(std::min(at + 1, left_.size()));
}

void JpegEntropyWindow::Unstuff() {
  const uint8_t* stop = memory_.data() + kWindowBytes;
  while (end_ < stop) {
    const size_t count =
        std::min(left_.size(), static_cast<size_t>(stop - end_));
    if (count == 0) {
      EndSegment();
      break;
    }
    const void* found = memchr(left_.data(), 0xFF, count);
    const size_t plain =
        found == nullptr
            ? count
            : static_cast<size_t>(static_cast<const std::byte*>(found) -
                                  left_.data());
    memcpy(end_, left_.data(), plain);
    end_ += plain;
    left_ = left_.subspan(plain);
    if (plain == count) continue;
    if (left_.size() < 2 || left_[1] != std::byte{0}) {
      EndSegment();
      break;
    }
    *end_++ = 0xFF;
    left_ = left_.subspan(2);
  }
  mark_ =
      segment_ended_
          ? end_
          : end_ - std::min<size_t>(static_cast<size_t>(end_ - memory_.data()),
                                    kMcuBytes);
}

bool JpegEntropyWindow::AtSegmentEnd(BitBuffer& buffer) {
  if (!segment_ended_ && !Fill(buffer)) return false;
  if (!segment_ended_) return false;
  const ptrdiff_t left =
      (end_ - buffer.at) * 8 + static_cast<ptrdiff_t>(buffer.count);
  return left >= 0 && left < 8;
}

}  // namespace preprocd
