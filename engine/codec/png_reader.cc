// Decodes with libpng. The library reports errors by longjmp: frames it may
// cross hold only plain data.
#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include "engine/base/limits.h"
#include "engine/codec/codec_internal.h"

namespace preprocd {
namespace {

constexpr size_t kMaxChunkBytes = 8u << 20;

struct Job {
  png_structp png;
  png_infop info;
  const std::byte* at;
  size_t left;
  ReadOutcome* outcome;
  int row;  // rows finished
};

void OnRead(png_structp png, png_bytep out, size_t count) {
  auto* job = static_cast<Job*>(png_get_io_ptr(png));
  if (count > job->left) {
    job->outcome->truncated = true;
    png_error(png, "the PNG ends early");
  }
  memcpy(out, job->at, count);
  job->at += count;
  job->left -= count;
}

[[noreturn]] void OnError(png_structp png, png_const_charp message) {
  auto* job = static_cast<Job*>(png_get_error_ptr(png));
  ReadOutcome& outcome = *job->outcome;
  snprintf(outcome.message, sizeof(outcome.message), "%s", message);
  if (strstr(message, "Not enough") != nullptr) outcome.truncated = true;
  if (!outcome.truncated) outcome.corrupt = true;
  if (strstr(message, "ut of memory") != nullptr) outcome.no_memory = true;
  outcome.fatal = true;
  outcome.rows_good = job->row;
  png_longjmp(png, 1);
}

void OnWarning(png_structp png, png_const_charp message) {
  auto* job = static_cast<Job*>(png_get_error_ptr(png));
  ReadOutcome& outcome = *job->outcome;
  // Ancillary chunks never change a pixel here, but image data does.
  if (strstr(message, "IDAT") != nullptr) {
    if (!outcome.truncated && !outcome.corrupt) {
      snprintf(outcome.message, sizeof(outcome.message), "%s", message);
      outcome.corrupt = true;
      outcome.rows_good = job->row;
    }
    return;
  }
  if (outcome.benign) return;
  snprintf(outcome.benign_message, sizeof(outcome.benign_message), "%s",
           message);
  outcome.benign = true;
}

// Everything becomes 8-bit grey, grey-alpha, rgb or rgba.
void SetTransforms(const Job& job) {
  png_set_expand(job.png);
  // v = (x * 255 + 32895) >> 16, the nearest 8-bit value.
  png_set_scale_16(job.png);
}

// `in` has `channels` bytes per pixel: 1 grey, 2 grey-alpha, 3 rgb, 4 rgba.
void StoreRow(const png_byte* in, int channels, const ImageDesc& desc,
              std::byte* out) {
  const PixelFormatInfo& info = GetPixelFormatInfo(desc.format);
  const auto width = static_cast<size_t>(desc.width);
  const auto step = static_cast<size_t>(channels);
  const bool grey_in = channels < 3;
  const bool alpha_in = channels == 2 || channels == 4;
  for (size_t x = 0; x < width; ++x) {
    const png_byte* p = in + x * step;
    if (desc.format == PixelFormat::kGrey) {
      out[x] = std::byte{grey_in ? p[0] : LumaOf(p[0], p[1], p[2])};
      continue;
    }
    std::byte* pixel = out + x * info.channels;
    for (size_t c = 0; c < 3; ++c) {
      pixel[info.channel_order[c]] = std::byte{grey_in ? p[0] : p[c]};
    }
    if (info.has_alpha) {
      pixel[3] = std::byte{alpha_in ? p[channels - 1] : png_byte{255}};
    }
  }
}

bool SameLayout(int channels, PixelFormat format) {
  return (channels == 1 && format == PixelFormat::kGrey) ||
         (channels == 3 && format == PixelFormat::kRgb) ||
         (channels == 4 && format == PixelFormat::kRgba);
}

void ReadRows(Job& job, int channels, const ImageView& destination,
              std::byte* scratch) {
  const bool direct = SameLayout(channels, destination.desc.format);
  for (int y = 0; y < destination.desc.height; ++y) {
    std::byte* row = destination.row(0, y);
    auto* target = reinterpret_cast<png_bytep>(direct ? row : scratch);
    png_read_row(job.png, target, nullptr);
    if (!direct) StoreRow(target, channels, destination.desc, row);
    job.row = y + 1;
  }
}

// All passes refine the same rows, so the whole picture is kept.
void ReadInterlaced(Job& job, int passes, int channels,
                    const ImageView& destination, std::byte* scratch) {
  const size_t stride = static_cast<size_t>(destination.desc.width) *
                        static_cast<size_t>(channels);
  for (int pass = 0; pass < passes; ++pass) {
    for (int y = 0; y < destination.desc.height; ++y) {
      png_read_row(job.png,
                   reinterpret_cast<png_bytep>(scratch +
                                               static_cast<size_t>(y) * stride),
                   nullptr);
    }
  }
  for (int y = 0; y < destination.desc.height; ++y) {
    StoreRow(reinterpret_cast<const png_byte*>(scratch +
                                               static_cast<size_t>(y) * stride),
             channels, destination.desc, destination.row(0, y));
  }
  job.row = destination.desc.height;
}

}  // namespace

void ReadPngPixels(std::span<const std::byte> bytes, const ImageInfo& info,
                   const ImageView& destination,
                   std::vector<std::byte>& scratch, ReadOutcome& outcome) {
  Job job = {};
  job.at = bytes.data();
  job.left = bytes.size();
  job.outcome = &outcome;
  job.png =
      png_create_read_struct(PNG_LIBPNG_VER_STRING, &job, OnError, OnWarning);
  if (job.png == nullptr) {
    outcome.no_memory = true;
    return;
  }
  // Everything below may be left by longjmp; no destructor is crossed.
  if (setjmp(png_jmpbuf(job.png)) != 0) {
    png_destroy_read_struct(&job.png, &job.info, nullptr);
    return;
  }
  job.info = png_create_info_struct(job.png);
  png_set_read_fn(job.png, &job, OnRead);
  png_set_user_limits(job.png, kMaxImageAxis, kMaxImageAxis);
  png_set_chunk_cache_max(job.png, kMaxPngAncillaryChunks);
  png_set_chunk_malloc_max(job.png, kMaxChunkBytes);
  // Profiles and gamma never change values, so they need not be parsed.
  png_set_keep_unknown_chunks(job.png, PNG_HANDLE_CHUNK_NEVER, nullptr, 0);
  png_read_info(job.png, job.info);
  if (static_cast<int>(png_get_image_width(job.png, job.info)) != info.width ||
      static_cast<int>(png_get_image_height(job.png, job.info)) !=
          info.height) {
    png_error(job.png, "two different sizes in the headers");
  }
  SetTransforms(job);
  const int passes = png_set_interlace_handling(job.png);
  png_read_update_info(job.png, job.info);
  const int channels = png_get_channels(job.png, job.info);
  const size_t row_bytes =
      static_cast<size_t>(info.width) * static_cast<size_t>(channels);
  const size_t needed =
      passes > 1 ? row_bytes * static_cast<size_t>(info.height) : row_bytes;
  if (scratch.size() < needed) scratch.resize(needed);
  if (passes > 1) {
    ReadInterlaced(job, passes, channels, destination, scratch.data());
  } else {
    ReadRows(job, channels, destination, scratch.data());
  }
  png_read_end(job.png, nullptr);
  png_destroy_read_struct(&job.png, &job.info, nullptr);
}

}  // namespace preprocd
