// A part of a file as a GL image: checked by us first, then given to EGL,
// which on some drivers believes everything.
// Owns: the EGL image, its texture and frame buffer. Must be made, used and
// destroyed on a thread whose context is current.
// Source: EGL_EXT_image_dma_buf_import(_modifiers), OES_EGL_image.
#ifndef ENGINE_BACKENDS_GLES_IMAGE_IMPORT_H_
#define ENGINE_BACKENDS_GLES_IMAGE_IMPORT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/gles/egl_display.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/image_cache.h"

namespace preprocd {

// Little-endian DRM codes: bytes in memory R, then G, B, A.
inline constexpr uint32_t kFourccR8 = 0x20203852;        // 'R8  '
inline constexpr uint32_t kFourccGr88 = 0x38385247;      // 'GR88'
inline constexpr uint32_t kFourccAbgr8888 = 0x34324241;  // 'AB24'
inline constexpr uint32_t kFourccNv12 = 0x3231564e;      // 'NV12'
inline constexpr uint64_t kModifierLinear = 0;
inline constexpr uint64_t kModifierInvalid = 0x00ffffffffffffffULL;

// Colour hints of external images.
inline constexpr uint32_t kHintFullRange = 4;  // | matrix number

struct ImportRequest {
  ImageKey key;
  int fd = -1;         // borrowed for the call
  int second_fd = -1;  // of plane 1 of an external image; may be `fd`
  uint64_t buffer_bytes = 0;
  uint64_t second_buffer_bytes = 0;
  bool external = false;
};

class ImportedImage {
 public:
  ImportedImage() = default;
  ImportedImage(ImportedImage&& other) noexcept;
  ImportedImage& operator=(ImportedImage&& other) noexcept;
  ImportedImage(const ImportedImage&) = delete;
  ImportedImage& operator=(const ImportedImage&) = delete;
  ~ImportedImage();

  // Errors: kInvalidArgument  BUFFER_TOO_SMALL  a row ends outside the file
  //         kFailedPrecondition BUFFER_SEALED   the file refuses a writable
  //                                             mapping
  //         kUnavailable BACKEND_FAILED         EGL or GL refuses it; the
  //                                             message has format, size,
  //                                             stride, modifier and code
  static absl::StatusOr<ImportedImage> Create(const EglDisplayFacts& display,
                                              const GlFeatures& features,
                                              const ImportRequest& request);
  // An image that stands for a refusal, so that it is asked for once.
  static ImportedImage Refused(absl::Status why);

  const absl::Status& status() const { return status_; }
  unsigned texture() const { return texture_; }
  // The frame buffer that renders into the image, made at the first call.
  // Errors: kUnavailable BACKEND_FAILED  it is no complete target
  absl::StatusOr<unsigned> FrameBuffer();

 private:
  void Release();
  void* display_ = nullptr;
  void* image_ = nullptr;
  unsigned texture_ = 0;
  unsigned frame_buffer_ = 0;
  absl::Status status_;
};

// The checks that come before EGL: every row inside what the kernel says the
// file's size is, and a writable shared mapping possible.
// Errors: as ImportedImage::Create, without EGL's.
absl::Status CheckImportable(const ImportRequest& request);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_IMAGE_IMPORT_H_
