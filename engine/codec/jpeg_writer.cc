#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/encode_input.h"
#include "engine/codec/image_encoder.h"
#include "engine/codec/jpeg_library.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

// First room for the file: two bits a pixel, what photographs need at quality
// 90, within bounds; more is doubled.
constexpr size_t kPixelsPerByte = 4;
constexpr size_t kMinFirstBytes = 16 << 10;
constexpr size_t kMaxFirstBytes = 4 << 20;
constexpr int kRowsAtOnce = 16;
constexpr int kNvRows = 2 * DCTSIZE;  // luma rows of one 4:2:0 MCU row

// libjpeg leaves an error by longjmp to Guarded, so nothing that it may jump
// over has a destructor.
class JpegWriter {
 public:
  explicit JpegWriter(std::vector<std::byte>& out) : out_(out) {}
  JpegWriter(const JpegWriter&) = delete;
  JpegWriter& operator=(const JpegWriter&) = delete;
  ~JpegWriter() { jpeg_destroy_compress(&library_); }

  absl::Status Write(const ConstImageView& picture,
                     const JpegEncodeOptions& options);

 private:
  static JpegWriter& Of(j_compress_ptr library) {
    return *static_cast<JpegWriter*>(library->client_data);
  }
  [[noreturn]] static void OnError(j_common_ptr library);
  static void OnMessage(j_common_ptr, int) {}
  static void OnOutput(j_common_ptr) {}
  static void OnInit(j_compress_ptr) {}
  static boolean OnFull(j_compress_ptr library);
  static void OnTerm(j_compress_ptr library);

  bool Guarded(absl::FunctionRef<void()> step);
  bool Grow(size_t used);
  bool Start(const ConstImageView& picture, const JpegEncodeOptions& options);
  void SetSampling(const JpegEncodeOptions& options);
  bool WriteRows(const ConstImageView& picture);
  bool WriteNv(const ConstImageView& picture);
  void StageLuma(const ConstImageView& picture, int first, size_t row_bytes);
  void StageChroma(const ConstImageView& picture, int first, size_t row_bytes);

  std::vector<std::byte>& out_;
  size_t first_bytes_ = kMinFirstBytes;
  jpeg_compress_struct library_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_destination_mgr destination_ = {};
  jmp_buf jump_ = {};
  std::array<char, JMSG_LENGTH_MAX> message_ = {};
  ScratchBytes staging_;
  std::array<JSAMPROW, kNvRows> luma_ = {};
  std::array<std::array<JSAMPROW, DCTSIZE>, 2> chroma_ = {};
};

void JpegWriter::OnError(j_common_ptr library) {
  JpegWriter& self = Of(reinterpret_cast<j_compress_ptr>(library));
  library->err->format_message(library, self.message_.data());
  longjmp(self.jump_, 1);
}

bool JpegWriter::Guarded(absl::FunctionRef<void()> step) {
  if (setjmp(jump_) != 0) return false;
  step();
  return true;
}

// Makes room behind the first `used` bytes and points the library at it.
bool JpegWriter::Grow(size_t used) {
  try {
    out_.resize(std::max(first_bytes_, used * 2));
  } catch (const std::bad_alloc&) {
    return false;
  }
  destination_.next_output_byte = reinterpret_cast<JOCTET*>(out_.data() + used);
  destination_.free_in_buffer = out_.size() - used;
  return true;
}

boolean JpegWriter::OnFull(j_compress_ptr library) {
  JpegWriter& self = Of(library);
  if (!self.Grow(self.out_.size())) {
    ERREXIT1(library, JERR_OUT_OF_MEMORY, 0);
  }
  return TRUE;
}

void JpegWriter::OnTerm(j_compress_ptr library) {
  JpegWriter& self = Of(library);
  // Shrinking does not allocate.
  self.out_.resize(self.out_.size() - self.destination_.free_in_buffer);
}

J_COLOR_SPACE InputColor(PixelFormat format) {
  switch (format) {
    case PixelFormat::kGrey:
      return JCS_GRAYSCALE;
    case PixelFormat::kRgba:
      return JCS_EXT_RGBX;
    case PixelFormat::kBgr:
      return JCS_EXT_BGR;
    case PixelFormat::kBgra:
      return JCS_EXT_BGRX;
    case PixelFormat::kNv12:
      return JCS_YCbCr;
    default:
      return JCS_RGB;
  }
}

void JpegWriter::SetSampling(const JpegEncodeOptions& options) {
  if (library_.num_components != 3) return;
  JpegSubsampling subsampling = options.subsampling;
  if (library_.raw_data_in) subsampling = JpegSubsampling::k420;
  jpeg_component_info& luma = library_.comp_info[0];
  luma.h_samp_factor = subsampling == JpegSubsampling::k444 ? 1 : 2;
  luma.v_samp_factor = subsampling == JpegSubsampling::k420 ? 2 : 1;
  for (int c = 1; c < 3; ++c) {
    library_.comp_info[c].h_samp_factor = 1;
    library_.comp_info[c].v_samp_factor = 1;
  }
}

bool JpegWriter::Start(const ConstImageView& picture,
                       const JpegEncodeOptions& options) {
  library_.err = jpeg_std_error(&errors_);
  errors_.error_exit = OnError;
  errors_.emit_message = OnMessage;
  errors_.output_message = OnOutput;
  library_.client_data = this;
  destination_.init_destination = OnInit;
  destination_.empty_output_buffer = OnFull;
  destination_.term_destination = OnTerm;
  const ImageDesc& desc = picture.desc;
  const size_t pixels =
      static_cast<size_t>(desc.width) * static_cast<size_t>(desc.height);
  first_bytes_ =
      std::clamp(pixels / kPixelsPerByte, kMinFirstBytes, kMaxFirstBytes);
  if (!Grow(0)) return false;
  return Guarded([&] {
    jpeg_create_compress(&library_);
    library_.dest = &destination_;
    library_.image_width = static_cast<JDIMENSION>(desc.width);
    library_.image_height = static_cast<JDIMENSION>(desc.height);
    library_.in_color_space = InputColor(desc.format);
    const PixelFormatInfo& format = GetPixelFormatInfo(desc.format);
    library_.input_components = format.channels;
    jpeg_set_defaults(&library_);
    jpeg_set_quality(&library_, options.quality, TRUE);
    library_.dct_method = JDCT_ISLOW;
    library_.raw_data_in = desc.format == PixelFormat::kNv12 ? TRUE : FALSE;
    SetSampling(options);
    jpeg_start_compress(&library_, TRUE);
  });
}

bool JpegWriter::WriteRows(const ConstImageView& picture) {
  std::array<JSAMPROW, kRowsAtOnce> rows = {};
  return Guarded([&] {
    for (int y = 0; y < picture.desc.height; y += kRowsAtOnce) {
      const int count = std::min(kRowsAtOnce, picture.desc.height - y);
      for (int i = 0; i < count; ++i) {
        // The library's interface is not const; it only reads.
        rows[static_cast<size_t>(i)] = const_cast<JSAMPROW>(
            reinterpret_cast<const JSAMPLE*>(picture.row(0, y + i)));
      }
      jpeg_write_scanlines(&library_, rows.data(),
                           static_cast<JDIMENSION>(count));
    }
  });
}

// Rows and columns outside the picture repeat its last ones.
void JpegWriter::StageLuma(const ConstImageView& picture, int first,
                           size_t row_bytes) {
  const auto width = static_cast<size_t>(picture.desc.width);
  for (int i = 0; i < kNvRows; ++i) {
    const int y = std::min(first + i, picture.desc.height - 1);
    const auto* in = reinterpret_cast<const JSAMPLE*>(picture.row(0, y));
    JSAMPROW out = luma_[static_cast<size_t>(i)];
    std::copy_n(in, width, out);
    std::fill(out + width, out + row_bytes, in[width - 1]);
  }
}

void JpegWriter::StageChroma(const ConstImageView& picture, int first,
                             size_t row_bytes) {
  const int last = PlaneRows(picture.desc.format, 1, picture.desc.height) - 1;
  const size_t width = (static_cast<size_t>(picture.desc.width) + 1) / 2;
  for (int i = 0; i < DCTSIZE; ++i) {
    const int y = std::min(first + i, last);
    const auto* in = reinterpret_cast<const JSAMPLE*>(picture.row(1, y));
    for (size_t c = 0; c < 2; ++c) {
      JSAMPROW out = chroma_[c][static_cast<size_t>(i)];
      for (size_t x = 0; x < width; ++x) out[x] = in[2 * x + c];
      std::fill(out + width, out + row_bytes, out[width - 1]);
    }
  }
}

bool JpegWriter::WriteNv(const ConstImageView& picture) {
  const auto width = static_cast<size_t>(picture.desc.width);
  const size_t luma_bytes = (width + kNvRows - 1) / kNvRows * kNvRows;
  const size_t chroma_bytes = luma_bytes / 2;
  if (!staging_.Reserve(kNvRows * luma_bytes + 2 * DCTSIZE * chroma_bytes)
           .ok()) {
    return false;
  }
  uint8_t* next = staging_.data();
  for (JSAMPROW& row : luma_) {
    row = next;
    next += luma_bytes;
  }
  for (auto& rows : chroma_) {
    for (JSAMPROW& row : rows) {
      row = next;
      next += chroma_bytes;
    }
  }
  std::array<JSAMPARRAY, 3> planes = {luma_.data(), chroma_[0].data(),
                                      chroma_[1].data()};
  std::array<JSAMPROW, kNvRows> in_place = {};
  for (int y = 0; y < picture.desc.height; y += kNvRows) {
    // Whole blocks are read where they lie.
    const bool whole =
        luma_bytes == width && y + kNvRows <= picture.desc.height;
    for (int i = 0; whole && i < kNvRows; ++i) {
      in_place[static_cast<size_t>(i)] = const_cast<JSAMPROW>(
          reinterpret_cast<const JSAMPLE*>(picture.row(0, y + i)));
    }
    if (!whole) StageLuma(picture, y, luma_bytes);
    planes[0] = whole ? in_place.data() : luma_.data();
    StageChroma(picture, y / 2, chroma_bytes);
    const bool written = Guarded(
        [&] { jpeg_write_raw_data(&library_, planes.data(), kNvRows); });
    if (!written) return false;
  }
  return true;
}

absl::Status JpegWriter::Write(const ConstImageView& picture,
                               const JpegEncodeOptions& options) {
  const bool nv = picture.desc.format == PixelFormat::kNv12;
  const bool written = Start(picture, options) &&
                       (nv ? WriteNv(picture) : WriteRows(picture)) &&
                       Guarded([this] { jpeg_finish_compress(&library_); });
  if (written) return absl::OkStatus();
  out_.clear();
  // Checked input leaves memory as the only thing that can run out.
  return absl::ResourceExhaustedError(
      absl::StrCat("no memory to encode a JPEG: ", message_.data()));
}

}  // namespace

absl::Status EncodeJpeg(const ConstImageView& picture,
                        const JpegEncodeOptions& options,
                        std::vector<std::byte>& out) {
  out.clear();
  RETURN_IF_ERROR(CheckEncodeSize(picture.desc));
  const PixelFormat format = picture.desc.format;
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  const bool packed = info.family != ColorFamily::kYuv && info.plane_count == 1;
  if ((!packed && format != PixelFormat::kNv12) ||
      picture.desc.dtype != DType::kU8) {
    return CannotEncode(picture.desc, "JPEG");
  }
  if (options.quality < 1 || options.quality > 100) {
    return InvalidField(
        "quality", absl::StrCat("quality ", options.quality, " is not 1..100"));
  }
  if (options.subsampling > JpegSubsampling::k420) {
    return InvalidField(
        "subsampling",
        absl::StrCat("subsampling ", static_cast<int>(options.subsampling),
                     " is not known"));
  }
  return JpegWriter(out).Write(picture, options);
}

}  // namespace preprocd
