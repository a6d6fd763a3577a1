// What a caller hands to a GL worker: values, and memory that belongs to the
// worker. A worker that hangs keeps all of it, so that a caller that gave up
// leaves nothing behind that the worker could still touch.
// Thread-safety: compatible; a job is filled by its caller, then read by the
// worker, never both.
#ifndef ENGINE_BACKENDS_GLES_RENDER_JOB_H_
#define ENGINE_BACKENDS_GLES_RENDER_JOB_H_

#include <array>
#include <cstdint>
#include <vector>

#include "engine/backends/gles/image_import.h"
#include "engine/backends/gles/render_plan.h"

namespace preprocd {

// Bytes of one plane in a job's staging memory: rows of texels, each padded
// to four bytes.
struct StagedPlane {
  uint64_t offset_bytes = 0;
  uint64_t row_bytes = 0;
  int rows = 0;
};

// One plane as a part of a file.
struct PlaneImport {
  ImageKey key;
  uint64_t buffer_bytes = 0;
  int x = 0;  // texel of the image that holds the plane's first byte
  int y = 0;
  // Index into RenderJob::descriptors.
  int descriptor = 0;
  int second_descriptor = 0;
};

struct RenderTarget {
  RenderPlan plan;
  // Zero-copy: where each plane is; otherwise where its bytes are left.
  std::array<PlaneImport, kMaxPlanes> imports = {};
  std::array<StagedPlane, kMaxPlanes> staged = {};
  // Bytes of a plane are written in fours, or one by one.
  std::array<bool, kMaxPlanes> four_bytes = {};
};

struct RenderJob {
  SourceLayout source;
  // The source textures of this slot still hold the same pixels.
  bool source_is_there = false;
  bool import_source = false;
  std::array<PlaneImport, kMaxPlanes> source_imports = {};
  // Parts of the planes that are uploaded, and where their bytes are.
  std::array<TexelRect, kMaxPlanes> windows = {};
  std::array<StagedPlane, kMaxPlanes> staged = {};

  bool import_target = false;
  std::vector<RenderTarget> targets;

  // Descriptors of imported files: of the source's buffers, then of the
  // destination's. Borrowed from the caller; see GlWorker.
  std::array<int, 2 * kMaxPlanes> descriptors = {};

  uint64_t upload_bytes = 0;
  uint64_t result_bytes = 0;
  int64_t stall_limit_ms = 0;
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_RENDER_JOB_H_
