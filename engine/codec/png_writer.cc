#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/codec/image_encoder.h"

namespace preprocd {
namespace {

// Growing output; plain data, since libpng's longjmp crosses it.
struct Job {
  png_structp png;
  png_infop info;
  unsigned char* bytes;
  size_t size;
  size_t capacity;
  char message[200];
};

void OnWrite(png_structp png, png_bytep data, size_t count) {
  auto* job = static_cast<Job*>(png_get_io_ptr(png));
  if (job->capacity - job->size < count) {
    const size_t wanted = (job->size + count) * 2;
    auto* grown = static_cast<unsigned char*>(realloc(job->bytes, wanted));
    if (grown == nullptr) png_error(png, "no memory");
    job->bytes = grown;
    job->capacity = wanted;
  }
  memcpy(job->bytes + job->size, data, count);
  job->size += count;
}

void OnFlush(png_structp) {}

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* job = static_cast<Job*>(png_get_error_ptr(png));
  snprintf(job->message, sizeof(job->message), "%s", message);
  png_longjmp(png, 1);
}

void OnWarning(png_structp, png_const_charp) {}

int ColorType(const PixelFormatInfo& info) {
  if (info.channels == 1) return PNG_COLOR_TYPE_GRAY;
  return info.has_alpha ? PNG_COLOR_TYPE_RGB_ALPHA : PNG_COLOR_TYPE_RGB;
}

// One row as R G B (A) or grey, native endian.
template <typename T>
void GatherRow(const ConstImageView& picture, int y, T* out) {
  const PixelFormatInfo& info = GetPixelFormatInfo(picture.desc.format);
  const auto width = static_cast<size_t>(picture.desc.width);
  if (info.family == ColorFamily::kGrey) {
    memcpy(out, picture.row(0, y), width * sizeof(T));
    return;
  }
  const size_t channels = info.channels;
  for (size_t c = 0; c < channels; ++c) {
    const auto position = static_cast<size_t>(info.channel_order[c]);
    const bool planar = info.is_planar_rgb();
    const auto* in = reinterpret_cast<const T*>(picture.row(
                         planar ? static_cast<int>(position) : 0, y)) +
                     (planar ? 0 : position);
    const size_t step = planar ? 1 : channels;
    for (size_t x = 0; x < width; ++x) out[x * channels + c] = in[x * step];
  }
}

bool Compress(Job& job, const ConstImageView& picture,
              const PngEncodeOptions& options, std::byte* row) {
  job.png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, &job, OnError, OnWarning);
  if (job.png == nullptr) return false;
  if (setjmp(png_jmpbuf(job.png)) != 0) return false;
  job.info = png_create_info_struct(job.png);
  png_set_write_fn(job.png, &job, OnWrite, OnFlush);
  png_set_compression_level(job.png, options.compression);
  const PixelFormatInfo& info = GetPixelFormatInfo(picture.desc.format);
  const bool wide = picture.desc.dtype == DType::kU16;
  png_set_IHDR(job.png, job.info, static_cast<png_uint_32>(picture.desc.width),
               static_cast<png_uint_32>(picture.desc.height), wide ? 16 : 8,
               ColorType(info), PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(job.png, job.info);
  if (wide) png_set_swap(job.png);
  for (int y = 0; y < picture.desc.height; ++y) {
    if (wide) {
      GatherRow(picture, y, reinterpret_cast<uint16_t*>(row));
    } else {
      GatherRow(picture, y, reinterpret_cast<uint8_t*>(row));
    }
    png_write_row(job.png, reinterpret_cast<png_bytep>(row));
  }
  png_write_end(job.png, nullptr);
  return true;
}

}  // namespace

absl::Status EncodePng(const ConstImageView& picture,
                       const PngEncodeOptions& options,
                       std::vector<std::byte>& out) {
  const ImageDesc& desc = picture.desc;
  const PixelFormatInfo& info = GetPixelFormatInfo(desc.format);
  if (info.family == ColorFamily::kYuv ||
      (desc.dtype != DType::kU8 && desc.dtype != DType::kU16)) {
    return InvalidField(
        ErrorReason::kFormatPair, "source.format",
        absl::StrCat("source.format ", PixelFormatName(desc.format), "/",
                     DTypeName(desc.dtype), " is not encoded as PNG"));
  }
  if (options.compression < 0 || options.compression > 9) {
    return InvalidField(
        "compression",
        absl::StrCat("compression ", options.compression, " is not in 0..9"));
  }
  std::vector<std::byte> row(static_cast<size_t>(desc.width) * info.channels *
                             static_cast<size_t>(DTypeSize(desc.dtype)));
  Job job = {};
  const bool complete = Compress(job, picture, options, row.data());
  png_destroy_write_struct(&job.png, &job.info);
  if (complete) {
    const auto* begin = reinterpret_cast<const std::byte*>(job.bytes);
    out.assign(begin, begin + job.size);
  }
  free(job.bytes);
  if (!complete) {
    return absl::InternalError(absl::StrCat("libpng: ", job.message));
  }
  return absl::OkStatus();
}

}  // namespace preprocd
