// The shaders of the GL backend as text: one sampling definition and one
// packing definition, specialised by small values.
// Thread-safety: safe (no state).
// Source: DESIGN section 5; GLSL ES 3.00.
#ifndef ENGINE_BACKENDS_GLES_SHADER_SOURCE_H_
#define ENGINE_BACKENDS_GLES_SHADER_SOURCE_H_

#include <cstdint>
#include <string>

#include "engine/backends/gles/render_plan.h"

namespace preprocd {

// What a sampling pass does.
enum class SampleStage : uint8_t {
  kWhole,  // both axes and colour
  kAlong,  // along the rows only; colour later
  kDown,   // down the columns of what kAlong made, and colour
};
enum class SampleOutput : uint8_t {
  kValues,  // fractions, 0..255
  kBytes,   // rounded, 0..1
  kTable,   // rounded and looked up: one byte per channel, 0..1
};

// Taps per axis that are written out; more are looped over, which keeps
// programs small: drivers take longer to compile than to run them.
inline constexpr int kMaxUnrolledTaps = 2;

struct SampleVariant {
  SampleStage stage = SampleStage::kWhole;
  PixelFetch fetch = PixelFetch::kGrey;
  SampleOutput output = SampleOutput::kBytes;
  uint8_t taps_x = 0;  // 0 = a uniform's number of taps
  uint8_t taps_y = 0;
  bool fancy = false;
  bool biased = false;
  bool alpha = false;       // the fourth component is alpha
  bool luma_first = false;  // kYuvPairs: y u y v
  bool rounds = false;      // kAlong: 22-bit weights, rounded to 8 bits
  bool operator==(const SampleVariant&) const = default;
};

struct PackVariant {
  PackKind kind = PackKind::kBytes;
  uint8_t element_bytes = 1;
  uint8_t channels = 1;  // of a pixel in the plane
  // Four bytes of the plane per texel, or one.
  bool four_bytes = true;
  // The pixels are fractions 0..255 instead of bytes 0..1.
  bool fractions = false;
  bool operator==(const PackVariant&) const = default;
};

// One triangle that covers the viewport.
std::string VertexShader();
std::string SampleShader(const SampleVariant& variant);
std::string PackShader(const PackVariant& variant);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_SHADER_SOURCE_H_
