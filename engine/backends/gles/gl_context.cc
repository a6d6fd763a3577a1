#include "engine/backends/gles/gl_context.h"

#include <epoxy/egl.h>
#include <epoxy/gl.h>

#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/gles/gl_policy.h"
#include "engine/backends/gles/image_import.h"
#include "engine/base/error_detail.h"
#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

// Bring-up of several contexts at once has crashed drivers.
Mutex& LifecycleMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}

EGLConfig ChooseConfig(EGLDisplay display, bool none_needed) {
  if (none_needed) return EGL_NO_CONFIG_KHR;
  constexpr std::array<EGLint, 3> kWanted = {EGL_RENDERABLE_TYPE,
                                             EGL_OPENGL_ES3_BIT_KHR, EGL_NONE};
  EGLConfig config = nullptr;
  EGLint count = 0;
  if (!eglChooseConfig(display, kWanted.data(), &config, 1, &count)) {
    return nullptr;
  }
  return count > 0 ? config : nullptr;
}

EGLContext CreateContext(const EglDisplayFacts& facts, EGLConfig config,
                         EGLint minor, bool robust) {
  std::array<EGLint, 9> attributes = {EGL_CONTEXT_MAJOR_VERSION_KHR, 3,
                                      EGL_CONTEXT_MINOR_VERSION_KHR, minor,
                                      EGL_NONE};
  if (robust) {
    attributes[4] = EGL_CONTEXT_OPENGL_ROBUST_ACCESS_EXT;
    attributes[5] = EGL_TRUE;
    attributes[6] = EGL_CONTEXT_OPENGL_RESET_NOTIFICATION_STRATEGY_EXT;
    attributes[7] = EGL_LOSE_CONTEXT_ON_RESET_EXT;
    attributes[8] = EGL_NONE;
  }
  return eglCreateContext(facts.display, config, EGL_NO_CONTEXT,
                          attributes.data());
}

std::string GlString(GLenum name) {
  const auto* value = reinterpret_cast<const char*>(glGetString(name));
  return value != nullptr ? value : "";
}

// Whether a texture of `format` is a complete colour target, and what reading
// it back natively takes.
struct TargetProbe {
  bool complete = false;
  GLint read_format = 0;
  GLint read_type = 0;
};
TargetProbe ProbeTarget(GLenum format) {
  TargetProbe probe;
  GLuint texture = 0;
  GLuint frame_buffer = 0;
  glGenTextures(1, &texture);
  glBindTexture(GL_TEXTURE_2D, texture);
  glTexStorage2D(GL_TEXTURE_2D, 1, format, 4, 4);
  glGenFramebuffers(1, &frame_buffer);
  glBindFramebuffer(GL_FRAMEBUFFER, frame_buffer);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D,
                         texture, 0);
  probe.complete =
      glCheckFramebufferStatus(GL_FRAMEBUFFER) == GL_FRAMEBUFFER_COMPLETE;
  if (probe.complete) {
    glGetIntegerv(GL_IMPLEMENTATION_COLOR_READ_FORMAT, &probe.read_format);
    glGetIntegerv(GL_IMPLEMENTATION_COLOR_READ_TYPE, &probe.read_type);
  }
  glBindFramebuffer(GL_FRAMEBUFFER, 0);
  glDeleteFramebuffers(1, &frame_buffer);
  glDeleteTextures(1, &texture);
  TakeGlErrors();
  return probe;
}

// --- imports -----------------------------------------------------------

constexpr int kProbeSide = 64;

uint8_t ProbeByte(size_t i, int round) {
  return static_cast<uint8_t>(i * 7 + i / 251 +
                              static_cast<size_t>(round) * 31);
}

void Fill(std::span<std::byte> bytes, int round) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = std::byte{ProbeByte(i, round)};
  }
}

absl::Status FillBuffer(Buffer& buffer, int round) {
  ASSIGN_OR_RETURN(Mapping mapping, buffer.Map(Access::kWrite));
  Fill(mapping.bytes(), round);
  return mapping.Finish();
}

// The image's texels of four bytes, as the device sees them.
absl::Status CheckSeen(unsigned frame_buffer, int round) {
  std::vector<std::byte> seen(kProbeSide * kProbeSide * 4);
  glBindFramebuffer(GL_FRAMEBUFFER, frame_buffer);
  glReadPixels(0, 0, kProbeSide, kProbeSide, GL_RGBA, GL_UNSIGNED_BYTE,
               seen.data());
  const std::string error = TakeGlErrors();
  if (!error.empty()) return GlFailure(absl::StrCat("read-back: ", error));
  for (size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] != std::byte{ProbeByte(i, round)}) {
      return GlFailure(absl::StrCat("byte ", i, " of a trial import is wrong"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckRendered(Buffer& buffer, unsigned frame_buffer) {
  glBindFramebuffer(GL_FRAMEBUFFER, frame_buffer);
  glEnable(GL_SCISSOR_TEST);
  glScissor(8, 4, 16, 12);
  glClearColor(1, 0, 1, 0);
  glClear(GL_COLOR_BUFFER_BIT);
  glDisable(GL_SCISSOR_TEST);
  glFinish();
  ASSIGN_OR_RETURN(Mapping mapping, buffer.Map(Access::kRead));
  const std::span<std::byte> bytes = mapping.bytes();
  for (int y = 0; y < kProbeSide; ++y) {
    for (int x = 0; x < kProbeSide; ++x) {
      const bool inside = x >= 8 && x < 24 && y >= 4 && y < 16;
      for (int c = 0; c < 4; ++c) {
        const auto i = static_cast<size_t>((y * kProbeSide + x) * 4 + c);
        const uint8_t expected =
            inside ? (c % 2 == 0 ? 255 : 0) : ProbeByte(i, 1);
        if (bytes[i] != std::byte{expected}) {
          return GlFailure("rendering into a trial import misses its pixels");
        }
      }
    }
  }
  return mapping.Finish();
}

ImportRequest TrialRequest(const Buffer& buffer, uint32_t fourcc, int width,
                           uint64_t modifier) {
  ImportRequest request;
  request.key.identity = buffer.identity();
  request.key.stride_bytes = kProbeSide * 4;
  request.key.width = width;
  request.key.height = kProbeSide;
  request.key.fourcc = fourcc;
  request.key.modifier = modifier;
  request.fd = buffer.fd();
  request.buffer_bytes = buffer.size_bytes();
  return request;
}

absl::Status TryImport(const EglDisplayFacts& display,
                       const GlFeatures& features, AllocatorKind kind) {
  constexpr uint64_t kBytes = kProbeSide * kProbeSide * 4;
  ASSIGN_OR_RETURN(const std::shared_ptr<Buffer> buffer,
                   AllocateBuffer(kind, kBytes, "gl trial"));
  RETURN_IF_ERROR(FillBuffer(*buffer, 0));
  ASSIGN_OR_RETURN(
      ImportedImage image,
      ImportedImage::Create(
          display, features,
          TrialRequest(*buffer, kFourccAbgr8888, kProbeSide, kModifierLinear)));
  ASSIGN_OR_RETURN(const unsigned frame_buffer, image.FrameBuffer());
  RETURN_IF_ERROR(CheckSeen(frame_buffer, 0));
  // A driver that copies at import sees the old bytes here.
  RETURN_IF_ERROR(FillBuffer(*buffer, 1));
  RETURN_IF_ERROR(CheckSeen(frame_buffer, 1));
  return CheckRendered(*buffer, frame_buffer);
}

bool ImportsTwoBytes(const EglDisplayFacts& display, const GlFeatures& features,
                     AllocatorKind kind) {
  const absl::StatusOr<std::shared_ptr<Buffer>> buffer =
      AllocateBuffer(kind, kProbeSide * kProbeSide * 4, "gl trial");
  if (!buffer.ok()) return false;
  for (const auto& [fourcc, width] : {std::pair{kFourccR8, kProbeSide * 4},
                                      std::pair{kFourccGr88, kProbeSide * 2}}) {
    absl::StatusOr<ImportedImage> image = ImportedImage::Create(
        display, features,
        TrialRequest(**buffer, fourcc, width, kModifierLinear));
    if (!image.ok() || !image->FrameBuffer().ok()) return false;
  }
  return true;
}

bool ImportsNv12(const EglDisplayFacts& display, const GlFeatures& features,
                 AllocatorKind kind) {
  const absl::StatusOr<std::shared_ptr<Buffer>> buffer =
      AllocateBuffer(kind, kProbeSide * kProbeSide * 2, "gl trial");
  if (!buffer.ok()) return false;
  ImportRequest request =
      TrialRequest(**buffer, kFourccNv12, kProbeSide, kModifierLinear);
  request.external = true;
  request.second_fd = request.fd;
  request.second_buffer_bytes = request.buffer_bytes;
  request.key.stride_bytes = kProbeSide;
  request.key.second_identity = request.key.identity;
  request.key.second_offset_bytes = kProbeSide * kProbeSide;
  request.key.second_stride_bytes = kProbeSide;
  request.key.colour_hints = 1;
  return ImportedImage::Create(display, features, request).ok();
}

}  // namespace

absl::Status GlFailure(absl::string_view message) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBackendFailed;
  detail.backend = "gl";
  return MakeError(absl::StatusCode::kUnavailable, detail,
                   absl::StrCat("gl: ", message));
}

absl::Status MakeContextCurrent(const EglDisplayFacts& facts) {
  const MutexLock lock(LifecycleMutex());
  // The API is a property of the thread.
  if (!eglBindAPI(EGL_OPENGL_ES_API)) {
    return GlFailure(absl::StrCat("eglBindAPI: ", EglErrorName(eglGetError())));
  }
  const EGLConfig config = ChooseConfig(facts.display, facts.no_config_context);
  EGLContext context = EGL_NO_CONTEXT;
  for (const EGLint minor : {1, 0}) {
    if (context == EGL_NO_CONTEXT && facts.robustness) {
      context = CreateContext(facts, config, minor, true);
    }
    if (context == EGL_NO_CONTEXT) {
      context = CreateContext(facts, config, minor, false);
    }
  }
  if (context == EGL_NO_CONTEXT) {
    return GlFailure(absl::StrCat("no GLES 3 context on ", facts.platform, " ",
                                  facts.device, ": ",
                                  EglErrorName(eglGetError())));
  }
  if (!eglMakeCurrent(facts.display, EGL_NO_SURFACE, EGL_NO_SURFACE, context)) {
    return GlFailure(
        absl::StrCat("eglMakeCurrent: ", EglErrorName(eglGetError())));
  }
  return absl::OkStatus();
}

absl::StatusOr<GlFeatures> QueryFeatures(const EglDisplayFacts& display) {
  GlFeatures f;
  f.renderer = GlString(GL_RENDERER);
  f.version = GlString(GL_VERSION);
  f.platform = display.platform;
  GLint major = 0;
  GLint minor = 0;
  glGetIntegerv(GL_MAJOR_VERSION, &major);
  glGetIntegerv(GL_MINOR_VERSION, &minor);
  if (major < 3) return GlFailure(absl::StrCat("only ", f.version));
  f.gles_minor = minor;
  glGetIntegerv(GL_MAX_TEXTURE_SIZE, &f.max_texture);
  const RendererTraits& traits = TraitsOfRenderer(f.renderer);
  f.software = traits.software;
  if (traits.float_targets) {
    f.render_float32 = ProbeTarget(GL_RGBA32F).complete;
    f.render_half = ProbeTarget(GL_RGBA16F).complete;
  }
  if (!ProbeTarget(GL_RGBA8).complete) {
    return GlFailure("RGBA8 is no render target");
  }
  const TargetProbe red = ProbeTarget(GL_R8);
  f.read_red = red.complete && red.read_format == GL_RED &&
               red.read_type == GL_UNSIGNED_BYTE;
  const std::string extensions = GlString(GL_EXTENSIONS);
  f.external_fetch =
      HasExtension(extensions.c_str(), "GL_OES_EGL_image_external_essl3");
  GLint strategy = 0;
  if (HasExtension(extensions.c_str(), "GL_EXT_robustness")) {
    glGetIntegerv(GL_RESET_NOTIFICATION_STRATEGY_EXT, &strategy);
  }
  f.robust = strategy == GL_LOSE_CONTEXT_ON_RESET_EXT;
  f.fence_sync = display.fence_sync;
  f.native_fence = display.native_fence;
  if (!HasExtension(extensions.c_str(), "GL_OES_EGL_image")) {
    f.import_detail = "no GL_OES_EGL_image";
  }
  TakeGlErrors();
  return f;
}

void ProbeImports(const EglDisplayFacts& display, GlFeatures& f) {
  if (!f.import_detail.empty()) return;
  if (!display.dma_buf_import) {
    f.import_detail = "no EGL_EXT_image_dma_buf_import";
    return;
  }
  f.import_modifiers = display.dma_buf_modifiers;
  absl::Status memfd = TryImport(display, f, AllocatorKind::kMemfd);
  if (!memfd.ok() && f.import_modifiers) {
    // Some drivers list the extension and take no modifier.
    f.import_modifiers = false;
    memfd = TryImport(display, f, AllocatorKind::kMemfd);
    f.import_modifiers = !memfd.ok();
  }
  f.import_memfd = memfd.ok();
  AllocatorKind proven = AllocatorKind::kMemfd;
  absl::Status dma_buf = absl::OkStatus();
  bool tried = false;
  for (const AllocatorStatus& status : ProbeAllocators()) {
    const bool makes_dma_bufs = status.kind == AllocatorKind::kUdmabuf ||
                                status.kind == AllocatorKind::kDmaHeap;
    if (!status.available || !makes_dma_bufs || f.import_dma_buf) continue;
    tried = true;
    dma_buf = TryImport(display, f, status.kind);
    f.import_dma_buf = dma_buf.ok();
    if (dma_buf.ok()) proven = status.kind;
  }
  // Clients may have devices that we cannot open; a refused import is
  // answered by an upload.
  if (!tried) f.import_dma_buf = true;
  f.import_r8 = !tried;
  f.import_detail = absl::StrCat(
      "memfd: ", memfd.ok() ? "imports" : memfd.message(), "; dma-buf: ",
      !tried         ? "not tried, none can be made here"
      : dma_buf.ok() ? "imports"
                     : dma_buf.message());
  if (!f.import_memfd && !(tried && f.import_dma_buf)) return;
  f.import_r8 = ImportsTwoBytes(display, f, proven);
  f.import_nv12 = f.external_fetch && ImportsNv12(display, f, proven);
}

std::string TakeGlErrors() {
  constexpr int kMost = 8;
  std::string first;
  for (int i = 0; i < kMost; ++i) {
    const GLenum error = glGetError();
    if (error == GL_NO_ERROR) break;
    if (first.empty()) first = absl::StrCat("GL error 0x", absl::Hex(error));
  }
  return first;
}

ResetStatus ReadResetStatus(const GlFeatures& features) {
  if (!features.robust) return ResetStatus::kNone;
  switch (glGetGraphicsResetStatusEXT()) {
    case GL_GUILTY_CONTEXT_RESET_EXT:
      return ResetStatus::kGuilty;
    case GL_INNOCENT_CONTEXT_RESET_EXT:
      return ResetStatus::kInnocent;
    case GL_UNKNOWN_CONTEXT_RESET_EXT:
      return ResetStatus::kUnknown;
    default:
      return ResetStatus::kNone;
  }
}

}  // namespace preprocd
