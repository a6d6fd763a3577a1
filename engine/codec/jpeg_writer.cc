#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

// jpeglib.h needs FILE and size_t declared first.
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/codec/image_encoder.h"

namespace preprocd {
namespace {

constexpr int kBlock = DCTSIZE;

struct ErrorState {
  jpeg_error_mgr manager;  // first
  std::jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

[[noreturn]] void OnError(j_common_ptr cinfo) {
  auto* state = reinterpret_cast<ErrorState*>(cinfo->err);
  cinfo->err->format_message(cinfo, state->message);
  std::longjmp(state->jump, 1);
}

void OnOutput(j_common_ptr) {}

struct Job {
  jpeg_compress_struct cinfo;
  ErrorState error;
  unsigned char* bytes;
  unsigned long size;
};

void SetFactors(jpeg_compress_struct& cinfo, JpegSubsampling subsampling) {
  if (cinfo.num_components != 3) return;
  cinfo.comp_info[0].h_samp_factor =
      subsampling == JpegSubsampling::k444 ? 1 : 2;
  cinfo.comp_info[0].v_samp_factor =
      subsampling == JpegSubsampling::k420 ? 2 : 1;
  for (int i = 1; i < 3; ++i) {
    cinfo.comp_info[i].h_samp_factor = 1;
    cinfo.comp_info[i].v_samp_factor = 1;
  }
}

J_COLOR_SPACE InputSpace(PixelFormat format) {
  switch (format) {
    case PixelFormat::kGrey:
      return JCS_GRAYSCALE;
    case PixelFormat::kRgb:
      return JCS_EXT_RGB;
    case PixelFormat::kBgr:
      return JCS_EXT_BGR;
    case PixelFormat::kRgba:
      return JCS_EXT_RGBX;
    case PixelFormat::kBgra:
      return JCS_EXT_BGRX;
    default:
      return JCS_YCbCr;
  }
}

void WriteScanlines(Job& job, const ConstImageView& picture) {
  while (job.cinfo.next_scanline < job.cinfo.image_height) {
    const std::byte* row =
        picture.row(0, static_cast<int>(job.cinfo.next_scanline));
    JSAMPROW line = reinterpret_cast<JSAMPROW>(const_cast<std::byte*>(row));
    jpeg_write_scanlines(&job.cinfo, &line, 1);
  }
}

// nv12: planes go in as they are, edges repeated to whole blocks. `scratch`
// holds 16 luma rows and 8 rows of each chroma plane.
void WriteNv12(Job& job, const ConstImageView& picture, std::byte* scratch,
               size_t padded_width) {
  const auto width = static_cast<size_t>(picture.desc.width);
  const int height = picture.desc.height;
  const size_t chroma_width = (width + 1) / 2;
  const size_t padded_chroma = padded_width / 2;
  const int chroma_rows = PlaneRows(PixelFormat::kNv12, 1, height);
  std::array<JSAMPROW, 2 * kBlock> luma = {};
  std::array<std::array<JSAMPROW, kBlock>, 2> chroma = {};
  std::byte* at = scratch;
  for (JSAMPROW& row : luma) {
    row = reinterpret_cast<JSAMPROW>(at);
    at += padded_width;
  }
  for (auto& plane : chroma) {
    for (JSAMPROW& row : plane) {
      row = reinterpret_cast<JSAMPROW>(at);
      at += padded_chroma;
    }
  }
  std::array<JSAMPARRAY, 3> arrays = {luma.data(), chroma[0].data(),
                                      chroma[1].data()};
  while (job.cinfo.next_scanline < job.cinfo.image_height) {
    const int y0 = static_cast<int>(job.cinfo.next_scanline);
    for (int r = 0; r < 2 * kBlock; ++r) {
      JSAMPROW row = luma[static_cast<size_t>(r)];
      memcpy(row, picture.row(0, std::min(y0 + r, height - 1)), width);
      memset(row + width, row[width - 1], padded_width - width);
    }
    for (int r = 0; r < kBlock; ++r) {
      const std::byte* in =
          picture.row(1, std::min(y0 / 2 + r, chroma_rows - 1));
      for (size_t c = 0; c < 2; ++c) {
        JSAMPROW row = chroma[c][static_cast<size_t>(r)];
        for (size_t x = 0; x < chroma_width; ++x) {
          row[x] = static_cast<JSAMPLE>(in[2 * x + c]);
        }
        memset(row + chroma_width, row[chroma_width - 1],
               padded_chroma - chroma_width);
      }
    }
    jpeg_write_raw_data(&job.cinfo, arrays.data(), 2 * kBlock);
  }
}

absl::Status Check(const ImageDesc& desc, const JpegEncodeOptions& options) {
  const bool known =
      desc.format == PixelFormat::kGrey || desc.format == PixelFormat::kRgb ||
      desc.format == PixelFormat::kRgba || desc.format == PixelFormat::kBgr ||
      desc.format == PixelFormat::kBgra || desc.format == PixelFormat::kNv12;
  if (!known || desc.dtype != DType::kU8) {
    return InvalidField(
        ErrorReason::kFormatPair, "source.format",
        absl::StrCat("source.format ", PixelFormatName(desc.format), "/",
                     DTypeName(desc.dtype), " is not encoded as JPEG"));
  }
  if (options.quality < 1 || options.quality > 100) {
    return InvalidField("quality", absl::StrCat("quality ", options.quality,
                                                " is not in 1..100"));
  }
  if (desc.width > kMaxImageAxis || desc.height > kMaxImageAxis) {
    return InvalidField(ErrorReason::kTooLarge, "source",
                        absl::StrCat("source ", desc.width, "x", desc.height,
                                     " > ", kMaxImageAxis));
  }
  return absl::OkStatus();
}

// True when the file is complete in job.bytes. No destructor may be crossed.
bool Compress(Job& job, const ConstImageView& picture,
              const JpegEncodeOptions& options, std::byte* scratch,
              size_t padded_width) {
  job.cinfo.err = jpeg_std_error(&job.error.manager);
  job.error.manager.error_exit = OnError;
  job.error.manager.output_message = OnOutput;
  if (setjmp(job.error.jump) != 0) return false;
  jpeg_create_compress(&job.cinfo);
  jpeg_mem_dest(&job.cinfo, &job.bytes, &job.size);
  const bool nv12 = picture.desc.format == PixelFormat::kNv12;
  job.cinfo.image_width = static_cast<JDIMENSION>(picture.desc.width);
  job.cinfo.image_height = static_cast<JDIMENSION>(picture.desc.height);
  job.cinfo.in_color_space = InputSpace(picture.desc.format);
  const PixelFormatInfo& info = GetPixelFormatInfo(picture.desc.format);
  job.cinfo.input_components = nv12 ? 3 : info.channels;
  jpeg_set_defaults(&job.cinfo);
  jpeg_set_quality(&job.cinfo, options.quality, TRUE);
  job.cinfo.dct_method = JDCT_ISLOW;
  SetFactors(job.cinfo, nv12 ? JpegSubsampling::k420 : options.subsampling);
  job.cinfo.raw_data_in = nv12 ? TRUE : FALSE;
  jpeg_start_compress(&job.cinfo, TRUE);
  if (nv12) {
    WriteNv12(job, picture, scratch, padded_width);
  } else {
    WriteScanlines(job, picture);
  }
  jpeg_finish_compress(&job.cinfo);
  return true;
}

}  // namespace

absl::Status EncodeJpeg(const ConstImageView& picture,
                        const JpegEncodeOptions& options,
                        std::vector<std::byte>& out) {
  if (absl::Status status = Check(picture.desc, options); !status.ok()) {
    return status;
  }
  std::vector<std::byte> scratch;
  size_t padded_width = 0;
  if (picture.desc.format == PixelFormat::kNv12) {
    padded_width = (static_cast<size_t>(picture.desc.width) + 15) / 16 * 16;
    scratch.resize(padded_width * 2 * kBlock * 3 / 2);
  }
  Job job = {};
  const bool complete =
      Compress(job, picture, options, scratch.data(), padded_width);
  jpeg_destroy_compress(&job.cinfo);
  if (complete) {
    const auto* begin = reinterpret_cast<const std::byte*>(job.bytes);
    out.assign(begin, begin + job.size);
  }
  // The library's growing buffer comes from malloc.
  free(job.bytes);
  if (!complete) {
    return absl::InternalError(absl::StrCat("libjpeg: ", job.error.message));
  }
  return absl::OkStatus();
}

}  // namespace preprocd
