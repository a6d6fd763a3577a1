#include "engine/backends/gles/gl_program.h"

#include <epoxy/gl.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

// In the order of Uniform.
constexpr std::array<const char*, kUniformCount> kUniformNames = {
    "target_origin",  "plane_origin",  "chroma_bounds", "chroma_shift",
    "orient",         "corner",        "count_x",       "count_y",
    "first_row",      "scale",         "first_matrix",  "first_offset",
    "second_matrix",  "second_offset", "order",         "width",
    "size",           "component",     "step",          "add",
    "block_shift",    "chroma_rows",   "formula_mode",  "formula_scale",
    "formula_offset", "formula_flip",  "formula_range"};
static_assert(static_cast<size_t>(Uniform::kFormulaRange) + 1 == kUniformCount);

struct Sampler {
  const char* name;
  int unit;
};
constexpr Sampler kSamplers[] = {
    {"plane0", kPlaneUnit},      {"plane1", kPlaneUnit + 1},
    {"plane2", kPlaneUnit + 2},  {"plane3", kPlaneUnit + 3},
    {"taps_x", kTapsXUnit},      {"taps_y", kTapsYUnit},
    {"elements", kElementsUnit}, {"pixels", kPixelsUnit}};

constexpr GLsizei kMaxLogBytes = 1024;

absl::StatusOr<GLuint> Compile(GLenum kind, const std::string& source) {
  const GLuint shader = glCreateShader(kind);
  const char* text = source.c_str();
  glShaderSource(shader, 1, &text, nullptr);
  glCompileShader(shader);
  GLint compiled = GL_FALSE;
  glGetShaderiv(shader, GL_COMPILE_STATUS, &compiled);
  if (compiled == GL_TRUE) return shader;
  std::array<char, kMaxLogBytes> log = {};
  glGetShaderInfoLog(shader, kMaxLogBytes, nullptr, log.data());
  glDeleteShader(shader);
  return GlFailure(absl::StrCat("a shader does not compile: ", log.data()));
}

absl::StatusOr<Program> Link(const std::string& fragment_source) {
  ASSIGN_OR_RETURN(const GLuint vertex,
                   Compile(GL_VERTEX_SHADER, VertexShader()));
  const absl::StatusOr<GLuint> fragment =
      Compile(GL_FRAGMENT_SHADER, fragment_source);
  if (!fragment.ok()) {
    glDeleteShader(vertex);
    return fragment.status();
  }
  Program program;
  program.id = glCreateProgram();
  glAttachShader(program.id, vertex);
  glAttachShader(program.id, *fragment);
  glLinkProgram(program.id);
  glDeleteShader(vertex);
  glDeleteShader(*fragment);
  GLint linked = GL_FALSE;
  glGetProgramiv(program.id, GL_LINK_STATUS, &linked);
  if (linked != GL_TRUE) {
    std::array<char, kMaxLogBytes> log = {};
    glGetProgramInfoLog(program.id, kMaxLogBytes, nullptr, log.data());
    glDeleteProgram(program.id);
    return GlFailure(absl::StrCat("a program does not link: ", log.data()));
  }
  glUseProgram(program.id);
  for (size_t i = 0; i < kUniformCount; ++i) {
    program.locations[i] = glGetUniformLocation(program.id, kUniformNames[i]);
  }
  for (const Sampler& sampler : kSamplers) {
    glUniform1i(glGetUniformLocation(program.id, sampler.name), sampler.unit);
  }
  return program;
}

}  // namespace

absl::StatusOr<const Program*> ProgramCache::Find(const Key& key) {
  for (Entry& entry : entries_) {
    if (entry.key == key) {
      entry.used = ++clock_;
      return &entry.program;
    }
  }
  ASSIGN_OR_RETURN(const Program program,
                   Link(std::holds_alternative<SampleVariant>(key)
                            ? SampleShader(std::get<SampleVariant>(key))
                            : PackShader(std::get<PackVariant>(key))));
  ++linked_;
  if (entries_.size() == kMaxPrograms) {
    const auto oldest = std::min_element(
        entries_.begin(), entries_.end(),
        [](const Entry& a, const Entry& b) { return a.used < b.used; });
    glDeleteProgram(oldest->program.id);
    entries_.erase(oldest);
  }
  entries_.push_back({key, program, ++clock_});
  return &entries_.back().program;
}

absl::StatusOr<const Program*> ProgramCache::Get(const SampleVariant& variant) {
  return Find(Key(variant));
}

absl::StatusOr<const Program*> ProgramCache::Get(const PackVariant& variant) {
  return Find(Key(variant));
}

}  // namespace preprocd
