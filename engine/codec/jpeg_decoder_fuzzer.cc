// Any bytes, JPEG or nearly so: a status or a picture, never a
// crash, and no byte of the destination left as it was.
#include <cstddef>
#include <cstdint>
#include <span>

#include "engine/codec/decoder_fuzzing.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  preprocd::FuzzDecoder(std::as_bytes(std::span(data, size)));
  return 0;
}
