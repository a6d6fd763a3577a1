// The process's EGL display: opened once, never terminated, because drivers
// crash when their display is torn down under other threads or at exit.
// Thread-safety: safe.
// Source: EGL 1.5; EGL_EXT_device_enumeration, EGL_EXT_platform_device,
// EGL_MESA_platform_surfaceless, EGL_KHR_platform_gbm.
#ifndef ENGINE_BACKENDS_GLES_EGL_DISPLAY_H_
#define ENGINE_BACKENDS_GLES_EGL_DISPLAY_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/backends/gles/gl_settings.h"

namespace preprocd {

struct EglDisplayFacts {
  void* display = nullptr;  // EGLDisplay
  std::string platform;     // "device", "gbm", "surfaceless"
  std::string device;       // render node, or "software", or empty
  bool no_config_context = false;
  bool surfaceless_context = false;
  bool robustness = false;
  bool fence_sync = false;
  bool native_fence = false;
  bool dma_buf_import = false;
  bool dma_buf_modifiers = false;
};

// What can be said without opening a display: whether the libraries are there
// and whether a device but a software rasteriser is. Cheap: no driver loads.
struct EglSurvey {
  bool libraries = false;
  bool hardware = false;
  bool software = false;
  std::string detail;  // devices found, or what is missing
};
EglSurvey SurveyEgl();

// The display, opened by the first call with its settings; later calls get
// the same one. Tried in order: devices (hardware first, or the one that
// settings.device names), GBM render nodes, surfaceless. The default display
// is never asked: it may wait for a window system.
// Errors: kUnavailable BACKEND_FAILED  a library is missing, or nothing opens
//         kInvalidArgument FIELD_INVALID  settings.device names none of the
//                                         devices, which the message lists
absl::StatusOr<const EglDisplayFacts*> OpenEglDisplay(
    const GlSettings& settings);

// True when `list`, words between spaces, has `name`.
bool HasExtension(const char* list, absl::string_view name);

// "EGL_BAD_ALLOC (0x3003)"
std::string EglErrorName(int error);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_EGL_DISPLAY_H_
