// Linked programs of one context, kept by their variant.
// Thread-safety: belongs to the context's thread.
// Limits: kMaxPrograms; beyond it the least recently used one goes.
#ifndef ENGINE_BACKENDS_GLES_GL_PROGRAM_H_
#define ENGINE_BACKENDS_GLES_GL_PROGRAM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/gles/shader_source.h"

namespace preprocd {

inline constexpr size_t kMaxPrograms = 128;

enum class Uniform : uint8_t {
  kTargetOrigin,
  kPlaneOrigin,
  kChromaBounds,
  kChromaShift,
  kOrient,
  kCorner,
  kCountX,
  kCountY,
  kFirstRow,
  kScale,
  kFirstMatrix,
  kFirstOffset,
  kSecondMatrix,
  kSecondOffset,
  kOrder,
  kWidth,
  kSize,
  kComponent,
  kStep,
  kAdd,
  kBlockShift,
  kChromaRows,
  kFormulaMode,
  kFormulaScale,
  kFormulaOffset,
  kFormulaFlip,
  kFormulaRange,
};
inline constexpr size_t kUniformCount = 27;

// Texture units, the same in every program.
inline constexpr int kPlaneUnit = 0;  // .. 3
inline constexpr int kTapsXUnit = 4;
inline constexpr int kTapsYUnit = 5;
inline constexpr int kElementsUnit = 6;
inline constexpr int kPixelsUnit = 7;
// No program reads it: what is made is bound here, so that it displaces none.
inline constexpr int kScratchUnit = 8;

struct Program {
  unsigned id = 0;
  std::array<int, kUniformCount> locations = {};
  int at(Uniform uniform) const {
    return locations[static_cast<size_t>(uniform)];
  }
};

class ProgramCache {
 public:
  // The linked program of `variant`, valid until the next call.
  // Errors: kUnavailable BACKEND_FAILED  the driver's log in the message
  absl::StatusOr<const Program*> Get(const SampleVariant& variant);
  absl::StatusOr<const Program*> Get(const PackVariant& variant);
  uint64_t linked() const { return linked_; }

 private:
  using Key = std::variant<SampleVariant, PackVariant>;
  struct Entry {
    Key key;
    Program program;
    uint64_t used = 0;
  };
  absl::StatusOr<const Program*> Find(const Key& key);
  std::vector<Entry> entries_;
  uint64_t clock_ = 0;
  uint64_t linked_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_PROGRAM_H_
