// What a configuration file or the environment may decide about the GL
// backend. Everything else it finds out by itself.
// Thread-safety: compatible (values only).
#ifndef ENGINE_BACKENDS_GLES_GL_SETTINGS_H_
#define ENGINE_BACKENDS_GLES_GL_SETTINGS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace preprocd {

// How pixels travel between a picture's memory and the device.
enum class GlTransfer : uint8_t {
  kZeroCopy,  // the device reads and writes the memory itself
  kPbo,       // through a pixel buffer object, filled by the caller's thread
  kMemory,    // through private memory
};

// How a YUV picture is read.
enum class GlYuvPath : uint8_t {
  kTexelFetch,       // stored samples, matrix in the shader
  kExternalSampler,  // the driver converts; only for imported pictures
};

// What runs at the same time as other contexts of the process.
enum class GlSerialisation : uint8_t {
  kLifecycle,  // only bring-up excludes others
  kFull,       // every job excludes every other one
};

struct GlSettings {
  bool enabled = true;
  // A part of the EGL device's render node, driver or vendor name, or
  // "software"; empty = hardware before software.
  std::string device;
  std::optional<GlTransfer> transfer;
  std::optional<GlYuvPath> yuv_path;
  std::optional<GlSerialisation> serialisation;
  // Threads with one context each; 0 = as the renderer's policy says.
  int workers = 0;
  // Imported pictures that a worker keeps, per role.
  int cached_imports = 64;
  // A job that shows no progress for so long marks its worker lost.
  int stall_ms = 10'000;
  // A software rasteriser is ranked like a device instead of only used when
  // it is named.
  bool rank_software = false;
  bool operator==(const GlSettings&) const = default;
};

inline constexpr int kMaxGlWorkers = 8;
inline constexpr int kMaxCachedImports = 1024;

// Sets the setting called `name` from text: enabled, device, transfer
// (zero-copy, pbo, memory, auto), yuv_path (texel-fetch, external, auto),
// serialisation (lifecycle, full, auto), workers, cached_imports, stall_ms,
// rank_software (true or false).
// Errors: kInvalidArgument FIELD_INVALID, field "gl.<name>"
absl::Status SetGlSetting(absl::string_view name, absl::string_view value,
                          GlSettings& settings);

// Overrides by the environment: PREPROCD_GL_<NAME>, the names of
// SetGlSetting in capitals. `get` is getenv in programs.
absl::Status ApplyGlEnvironment(const char* (*get)(const char* name),
                                GlSettings& settings);

absl::string_view GlTransferName(GlTransfer transfer);
absl::string_view GlYuvPathName(GlYuvPath path);
absl::string_view GlSerialisationName(GlSerialisation serialisation);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_SETTINGS_H_
