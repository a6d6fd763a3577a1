// Decodes with libjpeg-turbo. The library reports errors by longjmp: frames
// it may cross hold only plain data.
#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>

// jpeglib.h needs FILE and size_t declared first.
#include <jerror.h>
#include <jpeglib.h>

#include "engine/base/limits.h"
#include "engine/codec/codec_internal.h"

namespace preprocd {
namespace {

constexpr size_t kBlock = DCTSIZE;

struct ErrorState {
  jpeg_error_mgr manager;  // first: the library hands back its address
  std::jmp_buf jump;
  ReadOutcome* outcome;
  bool scanning;  // inside entropy-coded data
};

ErrorState& StateOf(j_common_ptr cinfo) {
  return *reinterpret_cast<ErrorState*>(cinfo->err);
}

int RowsDone(j_common_ptr cinfo) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(cinfo);
  // Several scans are all read before the first row is put out.
  if (decoder->progressive_mode ||
      decoder->comps_in_scan != decoder->num_components) {
    return 0;
  }
  return static_cast<int>(decoder->output_scanline);
}

void NoteDamage(j_common_ptr cinfo, bool truncated) {
  ReadOutcome& outcome = *StateOf(cinfo).outcome;
  if (outcome.truncated || outcome.corrupt) return;
  char text[JMSG_LENGTH_MAX] = {};
  cinfo->err->format_message(cinfo, text);
  snprintf(outcome.message, sizeof(outcome.message), "%s", text);
  outcome.rows_good = RowsDone(cinfo);
  (truncated ? outcome.truncated : outcome.corrupt) = true;
}

[[noreturn]] void OnError(j_common_ptr cinfo) {
  ErrorState& state = StateOf(cinfo);
  if (cinfo->err->msg_code == JERR_OUT_OF_MEMORY) {
    state.outcome->no_memory = true;
  }
  NoteDamage(cinfo, cinfo->err->msg_code == JERR_INPUT_EOF);
  state.outcome->fatal = true;
  std::longjmp(state.jump, 1);
}

void OnMessage(j_common_ptr cinfo, int level) {
  if (level >= 0) return;  // trace messages
  const int code = cinfo->err->msg_code;
  ReadOutcome& outcome = *StateOf(cinfo).outcome;
  // Bytes between segments or after the last block: no pixel depends on them.
  if (code == JWRN_EXTRANEOUS_DATA || code == JWRN_ADOBE_XFORM ||
      code == JWRN_JFIF_MAJOR) {
    if (outcome.benign) return;
    char text[JMSG_LENGTH_MAX] = {};
    cinfo->err->format_message(cinfo, text);
    snprintf(outcome.benign_message, sizeof(outcome.benign_message), "%s",
             text);
    outcome.benign = true;
    return;
  }
  NoteDamage(cinfo, code == JWRN_JPEG_EOF);
}

void OnOutput(j_common_ptr) {}

// All bytes are in memory; running past them means the file is cut.
struct MemorySource {
  jpeg_source_mgr manager;  // first
  std::array<JOCTET, 2> end_marker;
};

void InitSource(j_decompress_ptr) {}

boolean FillBuffer(j_decompress_ptr cinfo) {
  auto* source = reinterpret_cast<MemorySource*>(cinfo->src);
  cinfo->err->msg_code = JWRN_JPEG_EOF;
  NoteDamage(reinterpret_cast<j_common_ptr>(cinfo), true);
  // A synthetic end marker lets the library finish the picture.
  source->manager.next_input_byte = source->end_marker.data();
  source->manager.bytes_in_buffer = source->end_marker.size();
  return TRUE;
}

void SkipBytes(j_decompress_ptr cinfo, long count) {
  if (count <= 0) return;
  jpeg_source_mgr* source = cinfo->src;
  if (static_cast<size_t>(count) >= source->bytes_in_buffer) {
    FillBuffer(cinfo);
    return;
  }
  source->next_input_byte += count;
  source->bytes_in_buffer -= static_cast<size_t>(count);
}

void TermSource(j_decompress_ptr) {}

// A small file can hold thousands of scans over a huge picture.
void OnProgress(j_common_ptr cinfo) {
  const auto* decoder = reinterpret_cast<j_decompress_ptr>(cinfo);
  if (decoder->input_scan_number > kMaxJpegScans) {
    ReadOutcome& outcome = *StateOf(cinfo).outcome;
    snprintf(outcome.message, sizeof(outcome.message), "more than %d scans",
             kMaxJpegScans);
    outcome.corrupt = true;
    outcome.rows_good = 0;
    outcome.fatal = true;
    std::longjmp(StateOf(cinfo).jump, 1);
  }
}

J_COLOR_SPACE OutputSpace(PixelFormat format) {
  switch (format) {
    case PixelFormat::kGrey:
      return JCS_GRAYSCALE;
    case PixelFormat::kRgb:
      return JCS_EXT_RGB;
    case PixelFormat::kBgr:
      return JCS_EXT_BGR;
    case PixelFormat::kRgba:
      return JCS_EXT_RGBA;
    default:
      return JCS_EXT_BGRA;
  }
}

bool IsNv(PixelFormat format) {
  return format == PixelFormat::kNv12 || format == PixelFormat::kNv16 ||
         format == PixelFormat::kNv24;
}

// Adobe polarity: stored 255 is no ink, so rgb = cmy * k / 255.
void StoreCmykRow(const JSAMPLE* in, const ImageDesc& desc, std::byte* out) {
  const PixelFormatInfo& info = GetPixelFormatInfo(desc.format);
  const auto width = static_cast<size_t>(desc.width);
  for (size_t x = 0; x < width; ++x) {
    const JSAMPLE* p = in + 4 * x;
    std::array<unsigned, 3> rgb = {};
    for (size_t c = 0; c < 3; ++c) {
      rgb[c] = (unsigned{p[c]} * p[3] + 127) / 255;
    }
    if (desc.format == PixelFormat::kGrey) {
      out[x] = std::byte{LumaOf(rgb[0], rgb[1], rgb[2])};
      continue;
    }
    std::byte* pixel = out + x * info.channels;
    for (size_t c = 0; c < 3; ++c) {
      pixel[info.channel_order[c]] = static_cast<std::byte>(rgb[c]);
    }
    if (info.has_alpha) pixel[3] = std::byte{255};
  }
}

struct Job {
  jpeg_decompress_struct cinfo;
  ErrorState error;
  MemorySource source;
  jpeg_progress_mgr progress;
};

void SetUp(Job& job, std::span<const std::byte> bytes, ReadOutcome& outcome) {
  job.cinfo.err = jpeg_std_error(&job.error.manager);
  job.error.manager.error_exit = OnError;
  job.error.manager.emit_message = OnMessage;
  job.error.manager.output_message = OnOutput;
  job.error.outcome = &outcome;
  jpeg_create_decompress(&job.cinfo);
  job.source.manager.init_source = InitSource;
  job.source.manager.fill_input_buffer = FillBuffer;
  job.source.manager.skip_input_data = SkipBytes;
  job.source.manager.resync_to_restart = jpeg_resync_to_restart;
  job.source.manager.term_source = TermSource;
  job.source.manager.next_input_byte =
      reinterpret_cast<const JOCTET*>(bytes.data());
  job.source.manager.bytes_in_buffer = bytes.size();
  job.source.end_marker = {0xff, JPEG_EOI};
  job.cinfo.src = &job.source.manager;
  job.progress.progress_monitor = OnProgress;
  job.cinfo.progress = &job.progress;
}

void ReadScanlines(Job& job, const ImageView& destination,
                   std::byte* cmyk_row) {
  jpeg_decompress_struct& cinfo = job.cinfo;
  const bool cmyk = cmyk_row != nullptr;
  while (cinfo.output_scanline < cinfo.output_height) {
    const int y = static_cast<int>(cinfo.output_scanline);
    std::byte* row = destination.row(0, y);
    JSAMPROW target = reinterpret_cast<JSAMPROW>(cmyk ? cmyk_row : row);
    jpeg_read_scanlines(&cinfo, &target, 1);
    if (cmyk) StoreCmykRow(target, destination.desc, row);
  }
}

// One component's rows of an iMCU row, in scratch memory.
struct RawPlane {
  std::byte* base = nullptr;
  size_t stride = 0;
  size_t width = 0;  // valid samples per row
  int height = 0;    // valid rows of the picture
  int rows = 0;      // rows per iMCU row
};

size_t RawBytes(const jpeg_decompress_struct& cinfo) {
  size_t bytes = 0;
  for (int i = 0; i < cinfo.num_components; ++i) {
    const jpeg_component_info& c = cinfo.comp_info[i];
    bytes += size_t{c.width_in_blocks} * kBlock *
             static_cast<size_t>(c.v_samp_factor) * kBlock;
  }
  return bytes;
}

void LayOutRaw(const jpeg_decompress_struct& cinfo, std::byte* scratch,
               std::array<RawPlane, 3>& planes) {
  for (int i = 0; i < cinfo.num_components && i < 3; ++i) {
    const jpeg_component_info& c = cinfo.comp_info[i];
    RawPlane& plane = planes[static_cast<size_t>(i)];
    plane.base = scratch;
    plane.stride = size_t{c.width_in_blocks} * kBlock;
    plane.width = c.downsampled_width;
    plane.height = static_cast<int>(c.downsampled_height);
    plane.rows = c.v_samp_factor * static_cast<int>(kBlock);
    scratch += plane.stride * static_cast<size_t>(plane.rows);
  }
}

// Mean of the stored samples that one destination chroma sample covers; a
// coarser plane repeats its samples.
struct ChromaRatio {
  int repeat = 1;   // destination samples per stored one
  int average = 1;  // stored samples per destination one
};

ChromaRatio RatioOf(int luma_factor, int chroma_factor, int shift) {
  const int stored_shift = luma_factor / chroma_factor;  // 1, 2 or 4
  const int wanted = 1 << shift;
  if (stored_shift >= wanted) return {stored_shift / wanted, 1};
  return {1, wanted / stored_shift};
}

void StoreChromaRow(const RawPlane& plane, int group_row, int first_row,
                    ChromaRatio x_ratio, ChromaRatio y_ratio, size_t count,
                    std::byte* out) {
  // Rows of the group, clamped to the picture's last valid one.
  const int begin = group_row * y_ratio.average / y_ratio.repeat;
  const int last = std::min(plane.rows - 1, plane.height - 1 - first_row);
  for (size_t x = 0; x < count; ++x) {
    const size_t column = x * static_cast<size_t>(x_ratio.average) /
                          static_cast<size_t>(x_ratio.repeat);
    unsigned sum = 0;
    for (int j = 0; j < y_ratio.average; ++j) {
      const std::byte* row =
          plane.base +
          static_cast<size_t>(std::clamp(begin + j, 0, std::max(0, last))) *
              plane.stride;
      for (int i = 0; i < x_ratio.average; ++i) {
        sum += static_cast<unsigned>(
            row[std::min(column + static_cast<size_t>(i), plane.width - 1)]);
      }
    }
    const auto samples =
        static_cast<unsigned>(x_ratio.average * y_ratio.average);
    out[2 * x] = static_cast<std::byte>((sum + samples / 2) / samples);
  }
}

void ReadRaw(Job& job, const ImageView& destination, std::byte* scratch) {
  jpeg_decompress_struct& cinfo = job.cinfo;
  std::array<RawPlane, 3> planes = {};
  LayOutRaw(cinfo, scratch, planes);
  const PixelFormatInfo& info = GetPixelFormatInfo(destination.desc.format);
  const auto width = static_cast<size_t>(destination.desc.width);
  const int height = destination.desc.height;
  const int chroma_rows = PlaneRows(destination.desc.format, 1, height);
  const size_t chroma_count =
      (width + (size_t{1} << info.chroma_x_shift) - 1) >> info.chroma_x_shift;
  const int group = cinfo.max_v_samp_factor * static_cast<int>(kBlock);
  std::array<std::array<JSAMPROW, 4 * kBlock>, 3> rows = {};
  std::array<JSAMPARRAY, 3> arrays = {};
  for (size_t i = 0; i < 3; ++i) {
    for (int r = 0; r < planes[i].rows; ++r) {
      rows[i][static_cast<size_t>(r)] = reinterpret_cast<JSAMPROW>(
          planes[i].base + static_cast<size_t>(r) * planes[i].stride);
    }
    arrays[i] = rows[i].data();
  }
  const jpeg_component_info* comp = cinfo.comp_info;
  int y0 = 0;
  while (cinfo.output_scanline < cinfo.output_height) {
    jpeg_read_raw_data(&cinfo, arrays.data(), static_cast<JDIMENSION>(group));
    for (int r = 0; r < group && y0 + r < height; ++r) {
      memcpy(destination.row(0, y0 + r),
             planes[0].base + static_cast<size_t>(r) * planes[0].stride, width);
    }
    const int c0 = y0 >> info.chroma_y_shift;
    const int count = group >> info.chroma_y_shift;
    for (int r = 0; r < count && c0 + r < chroma_rows; ++r) {
      for (size_t i = 1; i < 3; ++i) {
        const ChromaRatio rx = RatioOf(
            comp[0].h_samp_factor, comp[i].h_samp_factor, info.chroma_x_shift);
        const ChromaRatio ry = RatioOf(
            comp[0].v_samp_factor, comp[i].v_samp_factor, info.chroma_y_shift);
        const int first_row =
            y0 * comp[i].v_samp_factor / cinfo.max_v_samp_factor;
        StoreChromaRow(planes[i], r, first_row, rx, ry, chroma_count,
                       destination.row(1, c0 + r) + (i - 1));
      }
    }
    y0 += group;
  }
}

}  // namespace

void ReadJpegPixels(std::span<const std::byte> bytes, const ImageInfo& info,
                    const DecodeOptions& options, const ImageView& destination,
                    std::vector<std::byte>& scratch, ReadOutcome& outcome) {
  // A fresh decompressor per picture: a reused one would lend its tables to a
  // file that lacks them.
  Job job = {};
  // Everything below may be left by longjmp; no destructor is crossed, since
  // `scratch` belongs to the caller and is resized before it is used.
  if (setjmp(job.error.jump) != 0) {
    jpeg_destroy_decompress(&job.cinfo);
    return;
  }
  SetUp(job, bytes, outcome);
  jpeg_read_header(&job.cinfo, TRUE);
  // The library must see the picture that the header walk saw, since the
  // destination was sized by it.
  if (static_cast<int>(job.cinfo.image_width) != info.width ||
      static_cast<int>(job.cinfo.image_height) != info.height) {
    snprintf(outcome.message, sizeof(outcome.message),
             "two different sizes in the headers");
    outcome.corrupt = outcome.fatal = true;
    outcome.rows_good = 0;
    jpeg_destroy_decompress(&job.cinfo);
    return;
  }
  job.cinfo.dct_method = JDCT_ISLOW;
  job.cinfo.do_fancy_upsampling = options.fancy_chroma ? TRUE : FALSE;
  const bool cmyk = job.cinfo.jpeg_color_space == JCS_CMYK ||
                    job.cinfo.jpeg_color_space == JCS_YCCK;
  const bool native = IsNv(destination.desc.format);
  if (native) {
    job.cinfo.raw_data_out = TRUE;
    job.cinfo.out_color_space = JCS_YCbCr;
  } else {
    job.cinfo.out_color_space =
        cmyk ? JCS_CMYK : OutputSpace(destination.desc.format);
  }
  jpeg_start_decompress(&job.cinfo);
  const size_t needed = native ? RawBytes(job.cinfo)
                        : cmyk ? static_cast<size_t>(info.width) * 4
                               : 0;
  if (scratch.size() < needed) scratch.resize(needed);
  if (native) {
    ReadRaw(job, destination, scratch.data());
  } else {
    ReadScanlines(job, destination, cmyk ? scratch.data() : nullptr);
  }
  const bool damaged = outcome.truncated || outcome.corrupt;
  jpeg_finish_decompress(&job.cinfo);
  // All rows were there: only the end marker is missing.
  if (!damaged && outcome.truncated) outcome.rows_good = info.height;
  jpeg_destroy_decompress(&job.cinfo);
}

}  // namespace preprocd
