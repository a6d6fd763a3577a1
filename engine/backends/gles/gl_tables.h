// Tap tables and element tables as textures of one context.
// Thread-safety: belongs to the context's thread.
// Limits: kMaxTapTables, kMaxElementTables; the least recently used goes.
#ifndef ENGINE_BACKENDS_GLES_GL_TABLES_H_
#define ENGINE_BACKENDS_GLES_GL_TABLES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/gles/element_bits.h"
#include "engine/backends/gles/render_plan.h"

namespace preprocd {

inline constexpr size_t kMaxTapTables = 64;
inline constexpr size_t kMaxElementTables = 32;

// Column d holds, in texels of four floats from the top: the first tap's
// index, then the weights.
struct TapTable {
  TapsKey key;
  unsigned texture = 0;
  int count = 0;
  std::vector<int> first;  // for bands
  uint64_t used = 0;
};

struct ElementTexture {
  GlElementStage stage;
  unsigned texture = 0;  // 256 x 4 texels of 32 bits
  ElementBitsTable bits = {};
  uint64_t used = 0;
};

class GlTableCache {
 public:
  // Valid until the third next call. No allocation when it is there.
  const TapTable& Taps(const TapsKey& key);
  const ElementTexture& Elements(const GlElementStage& stage);
  uint64_t made() const { return made_; }

 private:
  std::vector<TapTable> taps_;
  std::vector<ElementTexture> elements_;
  uint64_t clock_ = 0;
  uint64_t made_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_TABLES_H_
