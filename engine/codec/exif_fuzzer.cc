// Any bytes as a TIFF block: nothing or an orientation of 1..8.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/base/check.h"
#include "engine/codec/exif.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto block = std::as_bytes(std::span(data, size));
  const auto found = preprocd::ReadExifOrientation(block);
  (void)preprocd::IsWellFormedExif(block);
  if (found) {
    const int value = static_cast<int>(*found);
    PREPROCD_CHECK(value >= 1 && value <= 8);
  }
  return 0;
}
