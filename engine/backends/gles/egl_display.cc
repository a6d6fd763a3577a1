#include "engine/backends/gles/egl_display.h"

#include <dlfcn.h>
#include <epoxy/egl.h>
#include <fcntl.h>

#include <array>
#include <cstddef>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/base/error_detail.h"
#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace preprocd {
namespace {

constexpr int kMaxDevices = 16;
// EGL_EXT_device_drm_render_node, younger than Debian 12's epoxy.
constexpr EGLint kRenderNodeFile = 0x3377;

absl::Status Unavailable(absl::string_view why) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBackendFailed;
  detail.backend = "gl";
  return MakeError(absl::StatusCode::kUnavailable, detail,
                   absl::StrCat("gl: ", why));
}

// libepoxy ends the process when it cannot load one of these.
absl::Status LoadLibraries() {
  for (const char* name : {"libEGL.so.1", "libGLESv2.so.2"}) {
    if (dlopen(name, RTLD_LAZY | RTLD_LOCAL) == nullptr) {
      return Unavailable(absl::StrCat(name, " is not installed"));
    }
  }
  return absl::OkStatus();
}

const char* ClientExtensions() {
  const char* list = eglQueryString(EGL_NO_DISPLAY, EGL_EXTENSIONS);
  return list != nullptr ? list : "";
}

struct Device {
  EGLDeviceEXT handle = nullptr;
  bool software = false;
  std::string name;
};

std::string DeviceString(EGLDeviceEXT device, EGLint name) {
  // A device that cannot answer is still a device.
  const char* value = eglQueryDeviceStringEXT(device, name);
  eglGetError();
  return value != nullptr ? value : "";
}

std::vector<Device> ListDevices() {
  std::vector<Device> devices;
  const char* client = ClientExtensions();
  const bool can_list = HasExtension(client, "EGL_EXT_device_base") ||
                        (HasExtension(client, "EGL_EXT_device_enumeration") &&
                         HasExtension(client, "EGL_EXT_device_query"));
  if (!can_list || !HasExtension(client, "EGL_EXT_platform_device")) {
    return devices;
  }
  std::array<EGLDeviceEXT, kMaxDevices> handles = {};
  EGLint count = 0;
  if (!eglQueryDevicesEXT(kMaxDevices, handles.data(), &count)) return devices;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    Device device;
    device.handle = handles[i];
    const std::string extensions = DeviceString(device.handle, EGL_EXTENSIONS);
    device.software =
        HasExtension(extensions.c_str(), "EGL_MESA_device_software");
    if (device.software) {
      device.name = "software";
    } else {
      // The render node is the stable name; indexes differ in containers.
      if (HasExtension(extensions.c_str(), "EGL_EXT_device_drm_render_node")) {
        device.name = DeviceString(device.handle, kRenderNodeFile);
      }
      if (device.name.empty() &&
          HasExtension(extensions.c_str(), "EGL_EXT_device_drm")) {
        device.name = DeviceString(device.handle, EGL_DRM_DEVICE_FILE_EXT);
      }
      if (device.name.empty()) device.name = absl::StrCat("device ", i);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

std::string Names(const std::vector<Device>& devices) {
  if (devices.empty()) return "no device";
  return absl::StrJoin(devices, ", ", [](std::string* out, const Device& d) {
    absl::StrAppend(out, d.name);
  });
}

// Fills everything but platform and device.
bool Initialize(EGLDisplay display, EglDisplayFacts& facts) {
  EGLint major = 0;
  EGLint minor = 0;
  if (display == EGL_NO_DISPLAY || !eglInitialize(display, &major, &minor)) {
    return false;
  }
  const char* list = eglQueryString(display, EGL_EXTENSIONS);
  if (list == nullptr) return false;
  const bool egl15 = major > 1 || minor >= 5;
  facts.display = display;
  facts.no_config_context = HasExtension(list, "EGL_KHR_no_config_context");
  facts.surfaceless_context = HasExtension(list, "EGL_KHR_surfaceless_context");
  facts.robustness = HasExtension(list, "EGL_EXT_create_context_robustness");
  facts.fence_sync = egl15 || HasExtension(list, "EGL_KHR_fence_sync");
  facts.native_fence = HasExtension(list, "EGL_ANDROID_native_fence_sync");
  const bool image = egl15 || HasExtension(list, "EGL_KHR_image_base");
  facts.dma_buf_import =
      image && HasExtension(list, "EGL_EXT_image_dma_buf_import");
  facts.dma_buf_modifiers =
      facts.dma_buf_import &&
      HasExtension(list, "EGL_EXT_image_dma_buf_import_modifiers");
  return facts.surfaceless_context;
}

bool OpenDevice(const Device& device, EglDisplayFacts& facts) {
  facts.platform = "device";
  facts.device = device.name;
  return Initialize(
      eglGetPlatformDisplayEXT(EGL_PLATFORM_DEVICE_EXT, device.handle, nullptr),
      facts);
}

// libgbm is opened at run time: machines without GPUs need none. Its device
// and descriptor live as long as the display, for good.
bool OpenGbm(const char* client, EglDisplayFacts& facts) {
  if (!HasExtension(client, "EGL_KHR_platform_gbm") &&
      !HasExtension(client, "EGL_MESA_platform_gbm")) {
    return false;
  }
  void* library = dlopen("libgbm.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) return false;
  using CreateDevice = void* (*)(int fd);
  const auto create =
      reinterpret_cast<CreateDevice>(dlsym(library, "gbm_create_device"));
  if (create == nullptr) return false;
  for (int node = 128; node < 128 + kMaxDevices; ++node) {
    const std::string path = absl::StrCat("/dev/dri/renderD", node);
    UniqueFd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid()) continue;
    void* device = create(fd.get());
    if (device == nullptr) continue;
    facts.platform = "gbm";
    facts.device = path;
    if (Initialize(
            eglGetPlatformDisplayEXT(EGL_PLATFORM_GBM_KHR, device, nullptr),
            facts)) {
      (void)fd.release();
      return true;
    }
  }
  return false;
}

bool OpenSurfaceless(const char* client, EglDisplayFacts& facts) {
  if (!HasExtension(client, "EGL_MESA_platform_surfaceless")) return false;
  facts.platform = "surfaceless";
  facts.device.clear();
  return Initialize(eglGetPlatformDisplayEXT(EGL_PLATFORM_SURFACELESS_MESA,
                                             EGL_DEFAULT_DISPLAY, nullptr),
                    facts);
}

absl::StatusOr<EglDisplayFacts> Open(const GlSettings& settings) {
  RETURN_IF_ERROR(LoadLibraries());
  const char* client = ClientExtensions();
  if (!HasExtension(client, "EGL_EXT_platform_base")) {
    return Unavailable("EGL has no EGL_EXT_platform_base");
  }
  const std::vector<Device> devices = ListDevices();
  EglDisplayFacts facts;
  bool found = settings.device.empty();
  for (const bool software : {false, true}) {
    for (const Device& device : devices) {
      if (device.software != software) continue;
      if (!absl::StrContains(device.name, settings.device)) continue;
      found = true;
      if (OpenDevice(device, facts)) return facts;
    }
    // Render nodes that the device list missed come before software.
    if (!software && settings.device.empty() && OpenGbm(client, facts)) {
      return facts;
    }
  }
  if (!found) {
    return InvalidField("gl.device",
                        absl::StrCat("gl.device: \"", settings.device,
                                     "\" is none of: ", Names(devices)));
  }
  if (OpenSurfaceless(client, facts)) return facts;
  return Unavailable(
      absl::StrCat("no display opens (", Names(devices),
                   "; platforms device, gbm, surfaceless tried)"));
}

}  // namespace

bool HasExtension(const char* list, absl::string_view name) {
  if (list == nullptr) return false;
  for (const absl::string_view word : absl::StrSplit(list, ' ')) {
    if (word == name) return true;
  }
  return false;
}

EglSurvey SurveyEgl() {
  EglSurvey survey;
  const absl::Status loaded = LoadLibraries();
  if (!loaded.ok()) {
    survey.detail = std::string(loaded.message());
    return survey;
  }
  survey.libraries = true;
  const std::vector<Device> devices = ListDevices();
  for (const Device& device : devices) {
    (device.software ? survey.software : survey.hardware) = true;
  }
  // An EGL that lists no devices may still have some.
  if (devices.empty()) survey.hardware = true;
  survey.detail = Names(devices);
  return survey;
}

absl::StatusOr<const EglDisplayFacts*> OpenEglDisplay(
    const GlSettings& settings) {
  // Never freed, with the display.
  static Mutex& mutex = *new Mutex;
  static const EglDisplayFacts* opened = nullptr;  // guarded by mutex
  const MutexLock lock(mutex);
  if (opened == nullptr) {
    ASSIGN_OR_RETURN(EglDisplayFacts facts, Open(settings));
    opened = new EglDisplayFacts(std::move(facts));
  }
  return opened;
}

std::string EglErrorName(int error) {
  constexpr std::array<absl::string_view, 15> kNames = {
      "EGL_SUCCESS",       "EGL_NOT_INITIALIZED",     "EGL_BAD_ACCESS",
      "EGL_BAD_ALLOC",     "EGL_BAD_ATTRIBUTE",       "EGL_BAD_CONFIG",
      "EGL_BAD_CONTEXT",   "EGL_BAD_CURRENT_SURFACE", "EGL_BAD_DISPLAY",
      "EGL_BAD_MATCH",     "EGL_BAD_NATIVE_PIXMAP",   "EGL_BAD_NATIVE_WINDOW",
      "EGL_BAD_PARAMETER", "EGL_BAD_SURFACE",         "EGL_CONTEXT_LOST"};
  const int index = error - EGL_SUCCESS;
  const absl::string_view name =
      index >= 0 && index < static_cast<int>(kNames.size())
          ? kNames[static_cast<size_t>(index)]
          : "EGL error";
  return absl::StrCat(name, " (0x", absl::Hex(error), ")");
}

}  // namespace preprocd
