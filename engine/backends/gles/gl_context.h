// One GLES context, current on the thread that made it for that thread's
// life, and what it can do.
// Thread-safety: a context belongs to its thread.
// Source: EGL 1.5, EGL_EXT_create_context_robustness, GLES 3.0 and 3.1.
#ifndef ENGINE_BACKENDS_GLES_GL_CONTEXT_H_
#define ENGINE_BACKENDS_GLES_GL_CONTEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_features.h"

namespace preprocd {

// Makes a context, GLES 3.1 or else 3.0, and makes it current here, without
// a surface. It is never destroyed: drivers crash in that at exit.
// Errors: kUnavailable BACKEND_FAILED  with the EGL error
absl::Status MakeContextCurrent(const EglDisplayFacts& display);

// What the current context can do; draws nothing.
// Errors: kUnavailable BACKEND_FAILED  the driver lacks what GLES 3.0 has
absl::StatusOr<GlFeatures> QueryFeatures(const EglDisplayFacts& display);

// Imports a small buffer of every kind that this machine can make, reads it,
// has it changed by the processor, reads it again, renders into it, and sets
// the import_... features by whether every byte was right.
void ProbeImports(const EglDisplayFacts& display, GlFeatures& features);

// Errors since the last call: the first one's name, or empty. A lost context
// repeats its error for ever, so no more than a few are taken.
std::string TakeGlErrors();

// What glGetGraphicsResetStatus says, as far as it is one of the three codes
// that the extension defines; other values are a driver's garbage.
enum class ResetStatus : uint8_t { kNone, kGuilty, kInnocent, kUnknown };
ResetStatus ReadResetStatus(const GlFeatures& features);

// The backend's error with reason BACKEND_FAILED.
absl::Status GlFailure(absl::string_view message);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_CONTEXT_H_
