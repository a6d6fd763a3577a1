#include "engine/backends/gles/image_import.h"

#include <epoxy/egl.h>
#include <epoxy/gl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/gles/gl_context.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

int BytesPerTexel(uint32_t fourcc) {
  switch (fourcc) {
    case kFourccAbgr8888:
      return 4;
    case kFourccGr88:
      return 2;
    default:
      return 1;
  }
}

std::string FourccName(uint32_t fourcc) {
  std::string name(4, ' ');
  for (size_t i = 0; i < 4; ++i) {
    name[i] = static_cast<char>(fourcc >> (8 * i) & 0xff);
  }
  return name;
}

std::string Describe(const ImportRequest& request) {
  const ImageKey& k = request.key;
  std::string text =
      absl::StrCat(FourccName(k.fourcc), " ", k.width, "x", k.height,
                   " stride ", k.stride_bytes, " offset ", k.offset_bytes);
  if (k.modifier == kModifierInvalid) {
    absl::StrAppend(&text, " without a modifier");
  } else {
    absl::StrAppend(&text, " modifier 0x", absl::Hex(k.modifier));
  }
  return text;
}

absl::Status CheckPlane(const ImportRequest& request, int plane, int fd,
                        uint64_t offset, uint64_t stride, uint64_t row_bytes,
                        uint64_t rows) {
  const off_t size = lseek(fd, 0, SEEK_END);
  const std::optional<uint64_t> last = CheckedMulAdd(stride, rows - 1, offset);
  const std::optional<uint64_t> end =
      last ? CheckedAdd(*last, row_bytes) : std::nullopt;
  if (size < 0 || !end || *end > static_cast<uint64_t>(size)) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kBufferTooSmall;
    detail.field = absl::StrCat("planes[", plane, "]");
    detail.got = absl::StrCat(size);
    detail.limit = end ? absl::StrCat(*end) : "more than 64 bits hold";
    detail.backend = "gl";
    return MakeError(
        absl::StatusCode::kInvalidArgument, detail,
        absl::StrCat("planes[", plane, "]: import of ", Describe(request),
                     " needs ", detail.limit, " bytes, the file has ", size));
  }
  // Drivers map the whole file for writing and may not look at the result.
  void* trial = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE,
                     MAP_SHARED, fd, 0);
  if (trial == MAP_FAILED) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kBufferSealed;
    detail.field = absl::StrCat("planes[", plane, "]");
    detail.backend = "gl";
    return MakeError(
        absl::StatusCode::kFailedPrecondition, detail,
        absl::StrCat(
            "planes[", plane, "]: import of ", Describe(request),
            ": the file refuses a writable mapping: ", strerror(errno)));
  }
  munmap(trial, static_cast<size_t>(size));
  return absl::OkStatus();
}

class Attributes {
 public:
  void Add(EGLint name, EGLint value) {
    values_[size_++] = name;
    values_[size_++] = value;
    values_[size_] = EGL_NONE;
  }
  const EGLint* data() const { return values_.data(); }

 private:
  std::array<EGLint, 40> values_ = {EGL_NONE};
  size_t size_ = 0;
};

void AddModifier(EGLint low, EGLint high, uint64_t modifier,
                 Attributes& attributes) {
  attributes.Add(low, static_cast<EGLint>(modifier & 0xffffffffU));
  attributes.Add(high, static_cast<EGLint>(modifier >> 32));
}

void AddHints(uint32_t hints, Attributes& attributes) {
  constexpr std::array<EGLint, 4> kMatrix = {
      EGL_ITU_REC601_EXT, EGL_ITU_REC601_EXT, EGL_ITU_REC709_EXT,
      EGL_ITU_REC2020_EXT};
  attributes.Add(EGL_YUV_COLOR_SPACE_HINT_EXT, kMatrix[hints & 3]);
  attributes.Add(EGL_SAMPLE_RANGE_HINT_EXT, (hints & kHintFullRange) != 0
                                                ? EGL_YUV_FULL_RANGE_EXT
                                                : EGL_YUV_NARROW_RANGE_EXT);
}

Attributes MakeAttributes(const ImportRequest& request,
                          const GlFeatures& features) {
  const ImageKey& k = request.key;
  const bool modifier =
      features.import_modifiers && k.modifier != kModifierInvalid;
  Attributes attributes;
  attributes.Add(EGL_WIDTH, k.width);
  attributes.Add(EGL_HEIGHT, k.height);
  attributes.Add(EGL_LINUX_DRM_FOURCC_EXT, static_cast<EGLint>(k.fourcc));
  attributes.Add(EGL_DMA_BUF_PLANE0_FD_EXT, request.fd);
  attributes.Add(EGL_DMA_BUF_PLANE0_OFFSET_EXT,
                 static_cast<EGLint>(k.offset_bytes));
  attributes.Add(EGL_DMA_BUF_PLANE0_PITCH_EXT,
                 static_cast<EGLint>(k.stride_bytes));
  if (modifier) {
    AddModifier(EGL_DMA_BUF_PLANE0_MODIFIER_LO_EXT,
                EGL_DMA_BUF_PLANE0_MODIFIER_HI_EXT, k.modifier, attributes);
  }
  if (request.external) {
    attributes.Add(EGL_DMA_BUF_PLANE1_FD_EXT, request.second_fd);
    attributes.Add(EGL_DMA_BUF_PLANE1_OFFSET_EXT,
                   static_cast<EGLint>(k.second_offset_bytes));
    attributes.Add(EGL_DMA_BUF_PLANE1_PITCH_EXT,
                   static_cast<EGLint>(k.second_stride_bytes));
    if (modifier) {
      AddModifier(EGL_DMA_BUF_PLANE1_MODIFIER_LO_EXT,
                  EGL_DMA_BUF_PLANE1_MODIFIER_HI_EXT, k.modifier, attributes);
    }
    AddHints(k.colour_hints, attributes);
  }
  return attributes;
}

}  // namespace

absl::Status CheckImportable(const ImportRequest& request) {
  const ImageKey& k = request.key;
  constexpr uint64_t kMaxEglInteger = 0x7fffffff;
  if (k.offset_bytes > kMaxEglInteger || k.stride_bytes > kMaxEglInteger ||
      k.second_offset_bytes > kMaxEglInteger ||
      k.second_stride_bytes > kMaxEglInteger) {
    return GlFailure(
        absl::StrCat("import of ", Describe(request), ": beyond 31 bits"));
  }
  if (k.width <= 0 || k.height <= 0) {
    return GlFailure(absl::StrCat("import of ", Describe(request), ": empty"));
  }
  RETURN_IF_ERROR(CheckPlane(request, 0, request.fd, k.offset_bytes,
                             k.stride_bytes,
                             static_cast<uint64_t>(k.width) *
                                 static_cast<uint64_t>(BytesPerTexel(k.fourcc)),
                             static_cast<uint64_t>(k.height)));
  if (!request.external) return absl::OkStatus();
  return CheckPlane(request, 1, request.second_fd, k.second_offset_bytes,
                    k.second_stride_bytes,
                    (static_cast<uint64_t>(k.width) + 1) / 2 * 2,
                    (static_cast<uint64_t>(k.height) + 1) / 2);
}

ImportedImage::ImportedImage(ImportedImage&& other) noexcept
    : display_(other.display_),
      image_(std::exchange(other.image_, nullptr)),
      texture_(std::exchange(other.texture_, 0)),
      frame_buffer_(std::exchange(other.frame_buffer_, 0)),
      status_(std::move(other.status_)) {}

ImportedImage& ImportedImage::operator=(ImportedImage&& other) noexcept {
  if (this != &other) {
    Release();
    display_ = other.display_;
    image_ = std::exchange(other.image_, nullptr);
    texture_ = std::exchange(other.texture_, 0);
    frame_buffer_ = std::exchange(other.frame_buffer_, 0);
    status_ = std::move(other.status_);
  }
  return *this;
}

ImportedImage::~ImportedImage() { Release(); }

void ImportedImage::Release() {
  if (frame_buffer_ != 0) glDeleteFramebuffers(1, &frame_buffer_);
  if (texture_ != 0) glDeleteTextures(1, &texture_);
  if (image_ != nullptr) eglDestroyImageKHR(display_, image_);
  frame_buffer_ = 0;
  texture_ = 0;
  image_ = nullptr;
}

ImportedImage ImportedImage::Refused(absl::Status why) {
  ImportedImage image;
  image.status_ = std::move(why);
  return image;
}

absl::StatusOr<ImportedImage> ImportedImage::Create(
    const EglDisplayFacts& display, const GlFeatures& features,
    const ImportRequest& request) {
  RETURN_IF_ERROR(CheckImportable(request));
  ImportedImage result;
  result.display_ = display.display;
  const Attributes attributes = MakeAttributes(request, features);
  result.image_ =
      eglCreateImageKHR(display.display, EGL_NO_CONTEXT, EGL_LINUX_DMA_BUF_EXT,
                        nullptr, attributes.data());
  if (result.image_ == nullptr) {
    return GlFailure(absl::StrCat("import of ", Describe(request), ": ",
                                  EglErrorName(eglGetError())));
  }
  const GLenum target = request.external ? GLenum{GL_TEXTURE_EXTERNAL_OES}
                                         : GLenum{GL_TEXTURE_2D};
  glGenTextures(1, &result.texture_);
  glBindTexture(target, result.texture_);
  glTexParameteri(target, GL_TEXTURE_MIN_FILTER, GL_NEAREST);
  glTexParameteri(target, GL_TEXTURE_MAG_FILTER, GL_NEAREST);
  glEGLImageTargetTexture2DOES(target, result.image_);
  const std::string error = TakeGlErrors();
  if (!error.empty()) {
    return GlFailure(
        absl::StrCat("texture of ", Describe(request), ": ", error));
  }
  return result;
}

absl::StatusOr<unsigned> ImportedImage::FrameBuffer() {
  if (frame_buffer_ != 0) return frame_buffer_;
  unsigned made = 0;
  glGenFramebuffers(1, &made);
  glBindFramebuffer(GL_FRAMEBUFFER, made);
  glFramebufferTexture2D(GL_FRAMEBUFFER, GL_COLOR_ATTACHMENT0, GL_TEXTURE_2D,
                         texture_, 0);
  const GLenum complete = glCheckFramebufferStatus(GL_FRAMEBUFFER);
  if (complete != GL_FRAMEBUFFER_COMPLETE) {
    glDeleteFramebuffers(1, &made);
    return GlFailure(absl::StrCat("an imported image is no target: 0x",
                                  absl::Hex(complete)));
  }
  frame_buffer_ = made;
  return made;
}

}  // namespace preprocd
