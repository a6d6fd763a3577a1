// What a GL context can do, found out once by the first worker: plain data,
// so that every decision made from it is tested without a device.
// Thread-safety: compatible (values only).
#ifndef ENGINE_BACKENDS_GLES_GL_FEATURES_H_
#define ENGINE_BACKENDS_GLES_GL_FEATURES_H_

#include <string>

#include "engine/memory/buffer.h"

namespace preprocd {

struct GlFeatures {
  // Strings of the driver, for logs and policy tables.
  std::string renderer;
  std::string version;
  std::string platform;  // "device", "gbm", "surfaceless"
  int gles_minor = 0;    // of version 3
  int max_texture = 2048;
  bool software = false;

  bool render_float32 = false;  // RGBA32F is a colour target
  bool render_half = false;     // RGBA16F is a colour target
  bool read_red = false;        // R8 is read back as it is
  bool external_fetch = false;  // texelFetch from external images
  bool robust = false;          // reset notification was asked for
  bool fence_sync = false;
  bool native_fence = false;

  // Import of files as images, proven by a round trip of pixels.
  bool import_memfd = false;
  bool import_dma_buf = false;
  bool import_modifiers = false;  // the modifier is told to the driver
  bool import_r8 = false;         // R8 and GR88 images, needed for YUV
  bool import_nv12 = false;       // sampled through the external path
  std::string import_detail;      // why not

  bool can_import(BufferKind kind) const {
    return (kind == BufferKind::kMemfd && import_memfd) ||
           (kind == BufferKind::kDmaBuf && import_dma_buf);
  }
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GL_FEATURES_H_
