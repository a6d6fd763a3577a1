// What the GL backend adds to its own shader: a frame through the backend
// beside the same draw and read-back in a few lines of GLES, alternating, so
// that both see the same machine. NV12 1080p -> RGBA 640x640, bilinear.
// Prints lowest and median milliseconds of both and the ratio of the lowest;
// with --limit, exit code 1 when the ratio is above it. Exit code 77 without
// GL.
#include <epoxy/gl.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/backends/gles/gl_tables.h"
#include "engine/backends/gles/gles_converter.h"
#include "engine/backends/gles/shader_source.h"
#include "engine/convert/planner.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

constexpr int kSide = 640;

unsigned Compile(GLenum kind, const std::string& source) {
  const unsigned shader = glCreateShader(kind);
  const char* text = source.c_str();
  glShaderSource(shader, 1, &text, nullptr);
  glCompileShader(shader);
  return shader;
}

// The bare program: set up once, then a draw and a read-back per frame.
class BareFrame {
 public:
  BareFrame(const ConvertPlan& plan, const std::byte* pixels) {
    GlFeatures features;
    features.max_texture = 8192;
    features.render_float32 = true;
    const SourceLayout layout = LayOutSource(plan.source, 8192, false);
    const RenderPlan render = MakeRenderPlan(plan, layout, features);
    SampleVariant variant;
    variant.fetch = layout.fetch;
    variant.taps_x = static_cast<uint8_t>(render.count_x);
    variant.taps_y = static_cast<uint8_t>(render.count_y);
    program_ = glCreateProgram();
    glAttachShader(program_, Compile(GL_VERTEX_SHADER, VertexShader()));
    glAttachShader(program_,
                   Compile(GL_FRAGMENT_SHADER, SampleShader(variant)));
    glLinkProgram(program_);
    glUseProgram(program_);
    Texture(0, GL_R8, GL_RED, 1920, 1080, pixels);
    Texture(1, GL_RG8, GL_RG, 960, 540, pixels + 1920 * 1080);
    // Making a table binds it: both before either has its unit.
    const unsigned taps_x = tables_.Taps(render.taps_x).texture;
    const unsigned taps_y = tables_.Taps(render.taps_y).texture;
    glActiveTexture(GL_TEXTURE4);
    glBindTexture(GL_TEXTURE_2D, taps_x);
    glActiveTexture(GL_TEXTURE5);
    glBindTexture(GL_TEXTURE_2D, taps_y);
    glUniform1i(At("plane0"), 0);
    glUniform1i(At("plane1"), 1);
    glUniform1i(At("taps_x"), 4);
    glUniform1i(At("taps_y"), 5);
    glUniform4iv(At("chroma_bounds"), 1, render.chroma_bounds.data());
    glUniform2i(At("chroma_shift"), 1, 1);
    glUniform4iv(At("orient"), 1, render.orient.data());
    const ColourSteps& c = render.colour;
    glUniformMatrix4fv(At("first_matrix"), 1, GL_FALSE, c.first.data());
    glUniform4fv(At("first_offset"), 1, c.first_offset.data());
    glUniformMatrix4fv(At("second_matrix"), 1, GL_FALSE, c.second.data());
    glUniform4fv(At("second_offset"), 1, c.second_offset.data());
    Texture(6, GL_RGBA8, GL_RGBA, kSide, kSide, nullptr);
    unsigned frame_buffer = 0;
    glGenFramebuffers(1, &frame_buffer);
    glBindFramebuffer(GL_FRAMEBUFFER, frame_buffer);
    glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D,
                           textures_.back(), 0);
    glViewport(0, 0, kSide, kSide);
  }

  void Run(std::byte* out) {
    glDrawArrays(GL_TRIANGLES, 0, 3);
    glReadPixels(0, 0, kSide, kSide, GL_RGBA, GL_UNSIGNED_BYTE, out);
  }

 private:
  int At(const char* name) const {
    return glGetUniformLocation(program_, name);
  }
  void Texture(unsigned unit, GLenum internal, GLenum format, int width,
               int height, const std::byte* pixels) {
    glActiveTexture(GL_TEXTURE0 + unit);
    glGenTextures(1, &textures_.emplace_back());
    glBindTexture(GL_TEXTURE_2D, textures_.back());
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
    glTexParameteri(GL_TEXTURE_2D, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
    glTexStorage2D(GL_TEXTURE_2D, 1, internal, width, height);
    if (pixels == nullptr) return;
    glTexSubImage2D(GL_TEXTURE_2D, 0, 0, 0, width, height, format,
                    GL_UNSIGNED_BYTE, pixels);
  }
  unsigned program_ = 0;
  std::vector<unsigned> textures_;
  GlTableCache tables_;
};

struct Times {
  std::vector<double> ms;
  double lowest() const { return *std::min_element(ms.begin(), ms.end()); }
  double median() {
    std::nth_element(ms.begin(), ms.begin() + static_cast<long>(ms.size() / 2),
                     ms.end());
    return ms[ms.size() / 2];
  }
  template <typename Work>
  void Add(Work&& work) {
    const int64_t start = MonotonicNs();
    work();
    ms.push_back(static_cast<double>(MonotonicNs() - start) / 1e6);
  }
};

struct Memory {
  std::shared_ptr<Buffer> buffer;
  PictureBuffers picture;
  std::byte* bytes = nullptr;
};
Memory MakeMemory(const ImageDesc& desc) {
  Memory memory;
  memory.buffer =
      *AllocateBuffer(AllocatorKind::kMemfd, RequiredBytes(desc), "bench");
  memory.picture.buffers[0] = memory.buffer.get();
  memory.picture.count = 1;
  memory.bytes = memory.buffer->Map(Access::kReadWrite)->bytes().data();
  return memory;
}

int Run(int repeat, double limit) {
  GlSettings settings;
  if (!ApplyGlEnvironment(
           [](const char* name) -> const char* { return getenv(name); },
           settings)
           .ok()) {
    return 2;
  }
  GlesConverter gl(settings);
  if (!gl.capabilities().available) {
    printf("skipped: %s\n", gl.capabilities().detail.c_str());
    return 77;
  }
  const ImageDesc from_desc =
      *MakeImageDesc(PixelFormat::kNv12, DType::kU8, 1920, 1080);
  const ImageDesc to_desc =
      *MakeImageDesc(PixelFormat::kRgba, DType::kU8, kSide, kSide);
  ConvertSpec spec;
  spec.filter = Filter::kBilinear;
  const ConvertPlan plan = *PlanConvert(from_desc, to_desc, spec, false);
  const Memory from = MakeMemory(from_desc);
  const Memory to = MakeMemory(to_desc);
  for (uint64_t i = 0; i < RequiredBytes(from_desc); ++i) {
    from.bytes[i] = static_cast<std::byte>(i * 7 + i / 1920);
  }
  RowPool pool(2);
  const auto convert = [&] {
    const auto ran = gl.Convert(plan, from.picture, to.picture, pool);
    if (ran.ok()) return;
    printf("%s\n", std::string(ran.status().message()).c_str());
    exit(1);
  };
  convert();
  // The backend's display is open now; this thread gets a context of its own.
  const auto display = OpenEglDisplay(settings);
  if (!display.ok() || !MakeContextCurrent(**display).ok()) return 1;
  BareFrame bare(plan, from.bytes);
  std::vector<std::byte> out(size_t{kSide} * kSide * 4);
  bare.Run(out.data());
  if (!std::equal(out.begin(), out.end(), to.bytes)) {
    const auto at = std::mismatch(out.begin(), out.end(), to.bytes);
    printf("the two frames differ at byte %td: %d and %d; GL: %s\n",
           at.first - out.begin(), std::to_integer<int>(*at.first),
           std::to_integer<int>(*at.second), TakeGlErrors().c_str());
    return 1;
  }
  Times bare_times;
  Times backend_times;
  for (int i = 0; i < repeat; ++i) {
    bare_times.Add([&] { bare.Run(out.data()); });
    backend_times.Add(convert);
  }
  const double ratio = backend_times.lowest() / bare_times.lowest();
  printf("%s on %s, zero-copy %s\n", gl.features()->version.c_str(),
         gl.features()->renderer.c_str(),
         gl.counts().uploads == 0 ? "yes" : "no");
  printf("bare    lowest %.2f ms, median %.2f ms\n", bare_times.lowest(),
         bare_times.median());
  printf("backend lowest %.2f ms, median %.2f ms\n", backend_times.lowest(),
         backend_times.median());
  printf("ratio of the lowest %.3f\n", ratio);
  return limit > 0 && ratio > limit ? 1 : 0;
}

}  // namespace
}  // namespace preprocd

int main(int argc, char** argv) {
  CLI::App app("What the GL backend adds to its own shader", "gl_overhead");
  int repeat = 30;
  double limit = 0;
  app.add_option("--repeat", repeat, "frames of each kind")
      ->check(CLI::Range(1, 100000));
  app.add_option("--limit", limit, "highest ratio that exits 0; 0 = any");
  CLI11_PARSE(app, argc, argv);
  return preprocd::Run(repeat, limit);
}
