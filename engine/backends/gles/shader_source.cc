#include "engine/backends/gles/shader_source.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace preprocd {
namespace {

constexpr absl::string_view kHead = R"(#version 300 es
precision highp float;
precision highp int;
precision highp sampler2D;
precision highp usampler2D;
)";

constexpr absl::string_view kExternalHead = R"(#version 300 es
#extension GL_OES_EGL_image_external_essl3 : require
precision highp float;
precision highp int;
precision highp sampler2D;
precision highp usampler2D;
precision highp samplerExternalOES;
)";

// `at` of plane_origin is the texel that holds the plane's first one.
constexpr absl::string_view kSourceUniforms = R"(
uniform ivec2 plane_origin[4];
uniform ivec4 chroma_bounds;
uniform ivec2 chroma_shift;
vec4 bytes_of(sampler2D plane, ivec2 at) {
  return texelFetch(plane, at, 0) * 255.0;
}
)";

// Signed bytes: the value is the byte with its highest bit flipped.
constexpr absl::string_view kBiasedSourceUniforms = R"(
uniform ivec2 plane_origin[4];
uniform ivec4 chroma_bounds;
uniform ivec2 chroma_shift;
vec4 flipped(vec4 v) {
  vec4 byte = floor(v + 0.5);
  return byte + mix(vec4(128.0), vec4(-128.0),
                    greaterThanEqual(byte, vec4(128.0)));
}
vec4 bytes_of(sampler2D plane, ivec2 at) {
  return flipped(texelFetch(plane, at, 0) * 255.0);
}
)";

// Plain or centred-triangle chroma at pixel p; chroma(c) reads one sample.
constexpr absl::string_view kReplicate = R"(
vec2 chroma_at(ivec2 p) { return chroma(p >> chroma_shift); }
)";
constexpr absl::string_view kFancy = R"(
vec2 chroma_at(ivec2 p) {
  ivec2 near = p >> chroma_shift;
  ivec2 far = clamp(near + ((p & 1) * 2 - 1) * chroma_shift,
                    chroma_bounds.xy, chroma_bounds.zw);
  vec2 w = vec2(chroma_shift) * 0.25;
  return mix(mix(chroma(near), chroma(ivec2(far.x, near.y)), w.x),
             mix(chroma(ivec2(near.x, far.y)), chroma(far), w.x), w.y);
}
)";

// pixel_at(p): stored pixel p of the whole picture in stored order, 0..255.
std::string FetchCode(const SampleVariant& v) {
  switch (v.fetch) {
    case PixelFetch::kGrey:
      return R"(uniform sampler2D plane0;
vec4 pixel_at(ivec2 p) {
  return vec4(bytes_of(plane0, p + plane_origin[0]).r, 0.0, 0.0, 0.0);
}
)";
    case PixelFetch::kRgba:
    case PixelFetch::kRgbTexel:
      return R"(uniform sampler2D plane0;
vec4 pixel_at(ivec2 p) { return bytes_of(plane0, p + plane_origin[0]); }
)";
    case PixelFetch::kRgbBytes:
      return R"(uniform sampler2D plane0;
vec4 pixel_at(ivec2 p) {
  ivec2 at = ivec2(p.x * 3, p.y) + plane_origin[0];
  return vec4(bytes_of(plane0, at).r, bytes_of(plane0, at + ivec2(1, 0)).r,
              bytes_of(plane0, at + ivec2(2, 0)).r, 0.0);
}
)";
    case PixelFetch::kPlanar:
      return absl::StrCat(R"(uniform sampler2D plane0, plane1, plane2, plane3;
vec4 pixel_at(ivec2 p) {
  return vec4(bytes_of(plane0, p + plane_origin[0]).r,
              bytes_of(plane1, p + plane_origin[1]).r,
              bytes_of(plane2, p + plane_origin[2]).r,
)",
                          v.alpha
                              ? "bytes_of(plane3, p + plane_origin[3]).r);\n}\n"
                              : "0.0);\n}\n");
    case PixelFetch::kSemiPlanar:
      return absl::StrCat(R"(uniform sampler2D plane0, plane1;
vec2 chroma(ivec2 c) { return bytes_of(plane1, c + plane_origin[1]).rg; }
)",
                          v.fancy ? kFancy : kReplicate, R"(
vec4 pixel_at(ivec2 p) {
  return vec4(bytes_of(plane0, p + plane_origin[0]).r, chroma_at(p), 0.0);
}
)");
    case PixelFetch::kThreePlane:
      return absl::StrCat(R"(uniform sampler2D plane0, plane1, plane2;
vec2 chroma(ivec2 c) {
  return vec2(bytes_of(plane1, c + plane_origin[1]).r,
              bytes_of(plane2, c + plane_origin[2]).r);
}
)",
                          v.fancy ? kFancy : kReplicate, R"(
vec4 pixel_at(ivec2 p) {
  return vec4(bytes_of(plane0, p + plane_origin[0]).r, chroma_at(p), 0.0);
}
)");
    case PixelFetch::kYuvPairs: {
      // y0 u y1 v, or u y0 v y1.
      const absl::string_view luma = v.luma_first
                                         ? "((p.x & 1) == 0 ? pair.r : pair.b)"
                                         : "((p.x & 1) == 0 ? pair.g : pair.a)";
      const absl::string_view chroma = v.luma_first ? "ga" : "rb";
      if (!v.fancy) {
        return absl::StrCat(R"(uniform sampler2D plane0;
vec4 pixel_at(ivec2 p) {
  vec4 pair = bytes_of(plane0, ivec2(p.x >> 1, p.y) + plane_origin[0]);
  return vec4()",
                            luma, ", pair.", chroma, ", 0.0);\n}\n");
      }
      return absl::StrCat(R"(uniform sampler2D plane0;
vec2 chroma(ivec2 c) { return bytes_of(plane0, c + plane_origin[0]).)",
                          chroma, ";\n}\n", kFancy, R"(
vec4 pixel_at(ivec2 p) {
  vec4 pair = bytes_of(plane0, ivec2(p.x >> 1, p.y) + plane_origin[0]);
  return vec4()",
                          luma, ", chroma_at(p), 0.0);\n}\n");
    }
    case PixelFetch::kExternal:
      break;
  }
  // Mesa takes the texel's coordinates for the smaller chroma plane as they
  // are, so this samples at the centre, with the nearest filter.
  return R"(uniform samplerExternalOES plane0;
uniform ivec2 size;
vec4 pixel_at(ivec2 p) {
  return texture(plane0, (vec2(p) + 0.5) / vec2(size)) * 255.0;
}
)";
}

std::string UprightCode(const SampleVariant& v) {
  return absl::StrCat(R"(
uniform ivec4 orient;
uniform ivec2 corner;
vec4 upright(ivec2 o) {
  vec4 v = pixel_at(orient.xz * o.x + orient.yw * o.y + corner);
)",
                      // Alpha is never biased.
                      v.biased && v.alpha ? "  v.a = flipped(v).a;\n" : "",
                      "  return v;\n}\n");
}

// A table's texel n holds its numbers 4n .. 4n+3: first tap, then weights.
std::string AxisCode(absl::string_view axis, int taps) {
  std::string code = absl::StrCat("uniform sampler2D taps_", axis, ";\n");
  if (taps == 0) {
    return absl::StrCat(code, "uniform int count_", axis, ";\nfloat weight_",
                        axis, "(int d, int k) {\n  return texelFetch(taps_",
                        axis,
                        ", ivec2(d, (k + 1) >> 2), 0)[(k + 1) & 3];\n}\n");
  }
  return code;
}

// Reads the written-out weights of one axis into w<axis>[].
std::string WeightsCode(absl::string_view axis, absl::string_view d, int taps) {
  std::string code =
      absl::StrCat("  vec4 t", axis, " = texelFetch(taps_", axis, ", ivec2(", d,
                   ", 0), 0);\n  int first_", axis, " = int(t", axis, ".r);\n");
  if (taps == 0) return code;
  absl::StrAppend(&code, "  float w", axis, "[", taps, "];\n");
  constexpr absl::string_view kComponents = "gba";
  for (int k = 0; k < taps; ++k) {
    absl::StrAppend(&code, "  w", axis, "[", k, "] = t", axis, ".",
                    kComponents.substr(static_cast<size_t>(k), 1), ";\n");
  }
  return code;
}

// One row of taps along x, as an expression list that adds to `sum`.
std::string AlongCode(const SampleVariant& v, absl::string_view sum,
                      absl::string_view y) {
  std::string code;
  if (v.taps_x == 0) {
    return absl::StrCat("  for (int i = 0; i < count_x; ++i) {\n    ", sum,
                        " += weight_x(d.x, i) * upright(ivec2(first_x + i, ", y,
                        "));\n  }\n");
  }
  for (int i = 0; i < v.taps_x; ++i) {
    absl::StrAppend(&code, "  ", sum, " += wx[", i, "] * upright(ivec2(first_x",
                    " + ", i, ", ", y, "));\n");
  }
  return code;
}

std::string WholeCode(const SampleVariant& v) {
  std::string code = absl::StrCat("vec4 filtered(ivec2 d) {\n",
                                  WeightsCode("x", "d.x", v.taps_x),
                                  WeightsCode("y", "d.y", v.taps_y));
  if (v.taps_x == 1 && v.taps_y == 1) {
    return absl::StrCat(code,
                        "  return upright(ivec2(first_x, first_y));\n}\n");
  }
  absl::StrAppend(&code, "  vec4 sum = vec4(0.0);\n");
  if (v.taps_y == 0) {
    absl::StrAppend(&code, "  for (int j = 0; j < count_y; ++j) {\n",
                    "  vec4 row = vec4(0.0);\n",
                    AlongCode(v, "row", "first_y + j"),
                    "  sum += weight_y(d.y, j) * row;\n  }\n");
  }
  for (int j = 0; j < v.taps_y; ++j) {
    absl::StrAppend(&code, "  {\n  vec4 row = vec4(0.0);\n",
                    AlongCode(v, "row", absl::StrCat("first_y + ", j)),
                    "  sum += wy[", j, "] * row;\n  }\n");
  }
  return absl::StrCat(code, "  return sum;\n}\n");
}

// Sums of 22-bit weights times bytes stay below 2^31: exact in integers.
std::string AlongStage(const SampleVariant& v) {
  if (!v.rounds) {
    return absl::StrCat("vec4 filtered(ivec2 d) {\n",
                        WeightsCode("x", "d.x", v.taps_x),
                        "  vec4 sum = vec4(0.0);\n", AlongCode(v, "sum", "d.y"),
                        "  return sum;\n}\n");
  }
  return R"(vec4 filtered(ivec2 d) {
  int first_x = int(texelFetch(taps_x, ivec2(d.x, 0), 0).r);
  ivec4 sum = ivec4(1 << 21);
  for (int i = 0; i < count_x; ++i) {
    int w = int(floor(weight_x(d.x, i) * 4194304.0 + 0.5));
    sum += w * ivec4(upright(ivec2(first_x + i, d.y)) + 0.5);
  }
  return clamp(vec4(sum >> 22), 0.0, 255.0) * (1.0 / 255.0);
}
)";
}

std::string DownStage(const SampleVariant& v) {
  std::string code = absl::StrCat(R"(uniform sampler2D plane0;
uniform ivec2 first_row;
uniform float scale;
vec4 row_at(int x, int y) {
  return texelFetch(plane0, ivec2(x, y) - first_row, 0) * scale;
}
vec4 filtered(ivec2 d) {
)",
                                  WeightsCode("y", "d.y", v.taps_y),
                                  "  vec4 sum = vec4(0.0);\n");
  if (v.taps_y == 0) {
    absl::StrAppend(&code, R"(  for (int j = 0; j < count_y; ++j) {
    sum += weight_y(d.y, j) * row_at(d.x, first_y + j);
  }
)");
  }
  for (int j = 0; j < v.taps_y; ++j) {
    absl::StrAppend(&code, "  sum += wy[", j, "] * row_at(d.x, first_y + ", j,
                    ");\n");
  }
  return absl::StrCat(code, "  return sum;\n}\n");
}

constexpr absl::string_view kColour = R"(
uniform mat4 first_matrix, second_matrix;
uniform vec4 first_offset, second_offset;
vec4 coloured(vec4 v) {
  v = first_matrix * clamp(v, 0.0, 255.0) + first_offset;
  return second_matrix * clamp(v, 0.0, 255.0) + second_offset;
}
)";

std::string OutputCode(SampleOutput output) {
  switch (output) {
    case SampleOutput::kValues:
      return "  result = coloured(filtered(d));\n";
    case SampleOutput::kBytes:
      return "  result = floor(clamp(coloured(filtered(d)), 0.0, 255.0) + 0.5)"
             " * (1.0 / 255.0);\n";
    case SampleOutput::kTable:
      break;
  }
  return R"(  ivec4 v = ivec4(clamp(coloured(filtered(d)), 0.0, 255.0) + 0.5);
  result = vec4(uvec4(texelFetch(elements, ivec2(v.r, order.r), 0).r,
                      texelFetch(elements, ivec2(v.g, order.g), 0).r,
                      texelFetch(elements, ivec2(v.b, order.b), 0).r,
                      texelFetch(elements, ivec2(v.a, order.a), 0).r) & 255u)
           * (1.0 / 255.0);
)";
}

// --- packing -----------------------------------------------------------

// Byte b of the plane's row y, for b of four in a row or for one.
std::string PackMain(bool four_bytes) {
  if (four_bytes) {
    return R"(void main() {
  ivec2 at = ivec2(gl_FragCoord.xy) - target_origin;
  result = vec4(texel(at.x, at.y)) * (1.0 / 255.0);
}
)";
  }
  return R"(void main() {
  ivec2 at = ivec2(gl_FragCoord.xy) - target_origin;
  result = vec4(float(texel(at.x >> 2, at.y)[at.x & 3]) * (1.0 / 255.0));
}
)";
}

// element(e, y): the bits of element e of the plane's row y.
std::string TexelCode(int element_bytes) {
  switch (element_bytes) {
    case 4:
      return R"(uvec4 texel(int t, int y) {
  uint e = element(t, y);
  return uvec4(e, e >> 8u, e >> 16u, e >> 24u) & 255u;
}
)";
    case 2:
      return R"(uvec4 texel(int t, int y) {
  uint e = element(2 * t, y);
  uint f = element(2 * t + 1, y);
  return uvec4(e, e >> 8u, f, f >> 8u) & 255u;
}
)";
    default:
      return R"(uvec4 texel(int t, int y) {
  return uvec4(element(4 * t, y), element(4 * t + 1, y),
               element(4 * t + 2, y), element(4 * t + 3, y)) & 255u;
}
)";
  }
}

constexpr absl::string_view kFormulaCode = R"(
uniform ivec4 formula_mode;
uniform vec4 formula_scale, formula_offset;
uniform uvec4 formula_flip;
uniform vec3 formula_range;
// Nearest even of a float's upper bits, `drop` bits dropped.
uint narrowed(uint bits, uint drop) {
  uint odd = (bits >> drop) & 1u;
  return (bits + ((1u << (drop - 1u)) - 1u) + odd) >> drop;
}
uint half_bits(float v) {
  uint sign = floatBitsToUint(v) >> 16u & 0x8000u;
  float m = abs(v);
  if (m < 6.103515625e-5) {
    return sign | uint(roundEven(m * 16777216.0));
  }
  if (m >= 65520.0) return sign | 0x7c00u;
  return sign | (narrowed(floatBitsToUint(m), 13u) - (112u << 10u));
}
uint element_of(float v, int c) {
  float e = v * formula_scale[c] + formula_offset[c];
  int mode = formula_mode[c];
  if (mode == 0) return floatBitsToUint(e);
  if (mode == 1) return half_bits(e);
  if (mode == 2) return narrowed(floatBitsToUint(e), 16u);
  if (mode == 3) {
    float q = clamp(roundEven(e) + formula_range.x, formula_range.y,
                    formula_range.z);
    return uint(int(q));
  }
  return uint(floor(e + 0.5)) ^ formula_flip[c];
}
)";

std::string ElementCode(const PackVariant& v) {
  std::string code;
  if (v.kind == PackKind::kFormula) absl::StrAppend(&code, kFormulaCode);
  if (v.kind == PackKind::kTable) {
    absl::StrAppend(&code, "uniform usampler2D elements;\n");
  }
  absl::StrAppend(&code, "uniform int width;\nuniform ivec4 order;\n",
                  "uint element(int e, int y) {\n  int pixel = e / ",
                  v.channels, ";\n  int c = order[e - pixel * ", v.channels,
                  "];\n  float v = texelFetch(pixels, "
                  "ivec2(min(pixel, width - 1), y), 0)[c]",
                  v.fractions ? ";\n" : " * 255.0;\n",
                  "  v = clamp(v, 0.0, 255.0);\n");
  switch (v.kind) {
    case PackKind::kTable:
      return absl::StrCat(
          code,
          "  return texelFetch(elements, ivec2(int(v + 0.5), c), 0).r;\n}\n");
    case PackKind::kFormula:
      return absl::StrCat(code, "  return element_of(v, c);\n}\n");
    default:
      return absl::StrCat(code, "  return uint(v + 0.5);\n}\n");
  }
}

// Chroma is the mean of the pixels of its block that exist.
std::string YuvTexelCode(bool fractions) {
  return absl::StrCat(R"(uniform ivec2 size;
uniform ivec4 component, step, add;
uniform ivec2 block_shift;
uniform bool chroma_rows;
vec3 yuv(ivec2 p) {
  return texelFetch(pixels, min(p, size - 1), 0).rgb)",
                      fractions ? "" : " * 255.0", R"(;
}
float chroma_mean(ivec2 c, int which) {
  ivec2 last = (size - 1) >> block_shift;
  ivec2 low = min(c, last) << block_shift;
  ivec2 high = min(low + (ivec2(1) << block_shift), size);
  float sum = 0.0;
  for (int y = low.y; y < high.y; ++y) {
    for (int x = low.x; x < high.x; ++x) sum += yuv(ivec2(x, y))[which];
  }
  return sum / float((high.x - low.x) * (high.y - low.y));
}
uvec4 texel(int t, int y) {
  vec4 v;
  for (int k = 0; k < 4; ++k) {
    int at = step[k] * t + add[k];
    int row = chroma_rows || component[k] == 0 ? y : y >> block_shift.y;
    v[k] = component[k] == 0 ? yuv(ivec2(at, y)).r
                             : chroma_mean(ivec2(at, row), component[k]);
  }
  return uvec4(floor(clamp(v, 0.0, 255.0) + 0.5));
}
)");
}

}  // namespace

std::string VertexShader() {
  return R"(#version 300 es
void main() {
  vec2 corner = vec2(gl_VertexID == 1 ? 3.0 : -1.0,
                     gl_VertexID == 2 ? 3.0 : -1.0);
  gl_Position = vec4(corner, 0.0, 1.0);
}
)";
}

std::string SampleShader(const SampleVariant& v) {
  const bool reads = v.stage != SampleStage::kDown;
  const bool along = v.stage != SampleStage::kDown;
  const bool down = v.stage != SampleStage::kAlong;
  std::string code(reads && v.fetch == PixelFetch::kExternal ? kExternalHead
                                                             : kHead);
  absl::StrAppend(&code, "out vec4 result;\nuniform ivec2 target_origin;\n");
  if (reads) {
    absl::StrAppend(&code, v.biased ? kBiasedSourceUniforms : kSourceUniforms,
                    FetchCode(v), UprightCode(v));
  }
  if (along) absl::StrAppend(&code, AxisCode("x", v.taps_x));
  if (down) absl::StrAppend(&code, AxisCode("y", v.taps_y));
  switch (v.stage) {
    case SampleStage::kWhole:
      absl::StrAppend(&code, WholeCode(v));
      break;
    case SampleStage::kAlong:
      absl::StrAppend(&code, AlongStage(v));
      break;
    case SampleStage::kDown:
      absl::StrAppend(&code, DownStage(v));
      break;
  }
  if (down) absl::StrAppend(&code, kColour);
  if (v.output == SampleOutput::kTable) {
    absl::StrAppend(&code, "uniform usampler2D elements;\n",
                    "uniform ivec4 order;\n");
  }
  return absl::StrCat(
      code,
      "void main() {\n  ivec2 d = ivec2(gl_FragCoord.xy) - target_origin;\n",
      v.stage == SampleStage::kAlong ? "  result = filtered(d);\n"
                                     : OutputCode(v.output),
      "}\n");
}

std::string PackShader(const PackVariant& v) {
  return absl::StrCat(
      kHead,
      "out vec4 result;\nuniform ivec2 target_origin;\n"
      "uniform sampler2D pixels;\n",
      v.kind == PackKind::kYuv
          ? YuvTexelCode(v.fractions)
          : absl::StrCat(ElementCode(v), TexelCode(v.element_bytes)),
      PackMain(v.four_bytes));
}

}  // namespace preprocd
