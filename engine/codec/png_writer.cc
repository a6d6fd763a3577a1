#include <png.h>

#include <array>
#include <bit>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/codec/encode_input.h"
#include "engine/codec/image_encoder.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

constexpr size_t kMessageBytes = 200;

// libpng leaves an error by longjmp to Guarded, so nothing that it may jump
// over has a destructor.
class PngWriter {
 public:
  explicit PngWriter(std::vector<std::byte>& out) : out_(out) {}
  PngWriter(const PngWriter&) = delete;
  PngWriter& operator=(const PngWriter&) = delete;
  ~PngWriter() { png_destroy_write_struct(&png_, &info_); }

  absl::Status Write(const ConstImageView& picture,
                     const PngEncodeOptions& options);

 private:
  [[noreturn]] static void OnError(png_structp png, png_const_charp message);
  static void OnWarning(png_structp, png_const_charp) {}
  static void OnWrite(png_structp png, png_bytep bytes, size_t count);
  static void OnFlush(png_structp) {}

  bool Guarded(absl::FunctionRef<void()> step);
  bool Append(const std::byte* bytes, size_t count);
  bool Start(const ImageDesc& desc, const PngEncodeOptions& options);
  template <typename T>
  void Interleave(const ConstImageView& picture, int y);

  std::vector<std::byte>& out_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf jump_ = {};
  std::array<char, kMessageBytes> message_ = {};
  ScratchBytes row_;
};

void PngWriter::OnError(png_structp png, png_const_charp message) {
  auto& self = *static_cast<PngWriter*>(png_get_error_ptr(png));
  strncpy(self.message_.data(), message, kMessageBytes - 1);
  longjmp(self.jump_, 1);
}

bool PngWriter::Append(const std::byte* bytes, size_t count) {
  try {
    out_.insert(out_.end(), bytes, bytes + count);
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void PngWriter::OnWrite(png_structp png, png_bytep bytes, size_t count) {
  auto& self = *static_cast<PngWriter*>(png_get_io_ptr(png));
  if (!self.Append(reinterpret_cast<const std::byte*>(bytes), count)) {
    png_error(png, "no memory for the file");
  }
}

bool PngWriter::Guarded(absl::FunctionRef<void()> step) {
  if (setjmp(jump_) != 0) return false;
  step();
  return true;
}

bool PngWriter::Start(const ImageDesc& desc, const PngEncodeOptions& options) {
  const PixelFormatInfo& format = GetPixelFormatInfo(desc.format);
  int color_type = PNG_COLOR_TYPE_GRAY;
  if (format.family == ColorFamily::kRgb) color_type = PNG_COLOR_TYPE_RGB;
  if (format.has_alpha) color_type |= PNG_COLOR_MASK_ALPHA;
  return Guarded([&] {
    png_ = png_create_write_struct(PNG_LIBPNG_VER_STRING, this, OnError,
                                   OnWarning);
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return;
    png_set_write_fn(png_, this, OnWrite, OnFlush);
    png_set_compression_level(png_, options.compression);
    png_set_IHDR(png_, info_, static_cast<png_uint_32>(desc.width),
                 static_cast<png_uint_32>(desc.height),
                 8 * DTypeSize(desc.dtype), color_type, PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(png_, info_);
    if (desc.format == PixelFormat::kBgr || desc.format == PixelFormat::kBgra) {
      png_set_bgr(png_);
    }
    if (desc.dtype == DType::kU16 &&
        std::endian::native == std::endian::little) {
      png_set_swap(png_);
    }
  });
}

// Planes of one row to R G B (A) pixels.
template <typename T>
void PngWriter::Interleave(const ConstImageView& picture, int y) {
  const PixelFormatInfo& format = GetPixelFormatInfo(picture.desc.format);
  const auto width = static_cast<size_t>(picture.desc.width);
  const size_t channels = format.channels;
  auto* out = reinterpret_cast<T*>(row_.data());
  for (size_t c = 0; c < channels; ++c) {
    const auto* in =
        reinterpret_cast<const T*>(picture.row(format.channel_order[c], y));
    for (size_t x = 0; x < width; ++x) out[x * channels + c] = in[x];
  }
}

absl::Status PngWriter::Write(const ConstImageView& picture,
                              const PngEncodeOptions& options) {
  const ImageDesc& desc = picture.desc;
  const PixelFormatInfo& format = GetPixelFormatInfo(desc.format);
  RETURN_IF_ERROR(
      row_.Reserve(static_cast<size_t>(desc.width) * format.channels *
                   static_cast<size_t>(DTypeSize(desc.dtype))));
  bool good = Start(desc, options) && info_ != nullptr;
  for (int y = 0; good && y < desc.height; ++y) {
    auto row = reinterpret_cast<png_const_bytep>(picture.row(0, y));
    if (format.is_planar_rgb()) {
      if (desc.dtype == DType::kU8) {
        Interleave<uint8_t>(picture, y);
      } else {
        Interleave<uint16_t>(picture, y);
      }
      row = row_.data();
    }
    good = Guarded([&] { png_write_row(png_, row); });
  }
  good = good && Guarded([this] { png_write_end(png_, info_); });
  if (good) return absl::OkStatus();
  out_.clear();
  // Checked input leaves memory as the only thing that can run out.
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory to encode a PNG: ", message_.data()));
}

}  // namespace

absl::Status EncodePng(const ConstImageView& picture,
                       const PngEncodeOptions& options,
                       std::vector<std::byte>& out) {
  out.clear();
  RETURN_IF_ERROR(CheckEncodeSize(picture.desc));
  const PixelFormatInfo& info = GetPixelFormatInfo(picture.desc.format);
  const DType dtype = picture.desc.dtype;
  if (info.family == ColorFamily::kYuv ||
      (dtype != DType::kU8 && dtype != DType::kU16)) {
    return CannotEncode(picture.desc, "PNG");
  }
  if (options.compression < 0 || options.compression > 9) {
    return InvalidField(
        "compression",
        absl::StrCat("compression ", options.compression, " is not 0..9"));
  }
  return PngWriter(out).Write(picture, options);
}

}  // namespace preprocd
