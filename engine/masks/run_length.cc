#include "engine/masks/run_length.h"

#include <cstddef>

namespace preprocd {

void RunLengths(const uint8_t* pixels, const Rect& bounds, Size size,
                std::vector<uint32_t>& counts) {
  counts.clear();
  const auto height = static_cast<uint32_t>(size.height);
  const auto width = static_cast<size_t>(bounds.width);
  uint32_t run_start = 0;
  bool inside = false;
  for (int x = 0; x < bounds.width; ++x) {
    const uint8_t* p = pixels + x;
    // Position of the column's first pixel; below 2^28.
    const uint32_t column = static_cast<uint32_t>(bounds.x + x) * height;
    uint32_t at = column + static_cast<uint32_t>(bounds.y);
    // Rows above the box are 0.
    if (inside && bounds.y > 0) {
      counts.push_back(column - run_start);
      run_start = column;
      inside = false;
    }
    for (int y = 0; y < bounds.height; ++y, ++at, p += width) {
      if ((*p != 0) == inside) continue;
      counts.push_back(at - run_start);
      run_start = at;
      inside = !inside;
    }
    if (inside && bounds.y + bounds.height < size.height) {
      counts.push_back(at - run_start);
      run_start = at;
      inside = false;
    }
  }
  const uint32_t right =
      static_cast<uint32_t>(bounds.x + bounds.width) * height;
  const uint32_t end = static_cast<uint32_t>(size.width) * height;
  if (inside && right < end) {
    counts.push_back(right - run_start);
    run_start = right;
  }
  if (run_start < end || counts.empty()) counts.push_back(end - run_start);
}

std::string CompressRunLengths(std::span<const uint32_t> counts) {
  std::string text;
  text.reserve(counts.size() * 2);
  for (size_t i = 0; i < counts.size(); ++i) {
    int64_t value = counts[i];
    if (i > 2) value -= counts[i - 2];
    bool more = true;
    while (more) {
      auto group = static_cast<unsigned>(value & 0x1f);
      value >>= 5;
      // The top bit of the last group is the sign.
      more = (group & 0x10u) != 0 ? value != -1 : value != 0;
      if (more) group |= 0x20u;
      text.push_back(static_cast<char>(group + 48));
    }
  }
  return text;
}

}  // namespace preprocd
