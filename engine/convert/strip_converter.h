// What a backend offers beside Converter when it can convert a picture while
// it is being decoded.
// Owns: nothing. Thread-safety: safe.
// Alternative: decoding to memory first and converting from there, which
// Converter does. It holds the frame (12 MB for 4K) and reads it back from
// memory; the strips are converted while they are in cache.
#ifndef ENGINE_CONVERT_STRIP_CONVERTER_H_
#define ENGINE_CONVERT_STRIP_CONVERTER_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "engine/convert/convert_plan.h"
#include "engine/convert/converter.h"
#include "engine/exec/row_pool.h"
#include "engine/image/strip_source.h"

namespace preprocd {

struct StripConvertReport {
  uint64_t bytes_copied = 0;
  // Time spent in the source and beside it; with two threads both run at
  // once.
  int64_t source_ns = 0;
  int64_t convert_ns = 0;
};

class StripConverter {
 public:
  virtual ~StripConverter() = default;

  // Reads all strips of `source` and writes the bytes that Converter::Convert
  // would write from the whole picture. Nothing when the plan cannot be run
  // row by row (pictures turned by 90 degrees need columns; see the backend);
  // then nothing was read or written.
  // REQUIRES: as Converter::Convert; `source` has the planes of plan.source
  // and no strip of it was read.
  // Errors: those of Converter::Convert and StripSource::Read; the
  // destination holds unspecified pixels then (a copied buffer is untouched).
  virtual absl::StatusOr<std::optional<StripConvertReport>> ConvertStrips(
      const ConvertPlan& plan, StripSource& source,
      const PictureBuffers& destination, RowPool& pool) = 0;
};

}  // namespace preprocd

#endif  // ENGINE_CONVERT_STRIP_CONVERTER_H_
