#include "engine/codec/png_reader.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdint>
#include <cstring>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/decode_status.h"
#include "engine/codec/png_memory_reader.h"
#include "engine/codec/row_color.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

// Memory for one ancillary chunk; tRNS, the only one that is read, has at
// most 256 bytes.
constexpr png_alloc_size_t kMaxChunkBytes = 64 << 10;
constexpr size_t kMessageBytes = 200;
// Compressed bytes are taken in pieces of this size; of a truncated file the
// last incomplete piece is lost.
constexpr size_t kReadBytes = 512;

// A warning of libpng about bytes that pixels are made of.
bool ConcernsPixels(absl::string_view message) {
  if (absl::StartsWith(message, "IDAT:")) {
    return !absl::StrContains(message, "Extra compressed data") &&
           !absl::StrContains(message, "Too much image data");
  }
  return absl::StartsWith(message, "PLTE") || absl::StartsWith(message, "tRNS");
}

void NoteWhatFollows(const PngHeader& header, DecodeResult& result) {
  if (!header.has_end_chunk) {
    result.warnings.push_back("PNG has no IEND chunk; its pixels are complete");
  }
  if (header.is_animated) {
    result.warnings.push_back("PNG is animated; its still picture was read");
  }
}

}  // namespace

// libpng leaves an error by longjmp to Guarded, so nothing that it may jump
// over has a destructor.
class PngReader::Session {
 public:
  absl::Status Read(std::span<const std::byte> bytes, const PngHeader& header,
                    const DecodeOptions& options, const ImageView& picture,
                    DecodeResult& result);

 private:
  static Session& Of(png_structp png) {
    return *static_cast<Session*>(png_get_error_ptr(png));
  }
  [[noreturn]] static void OnError(png_structp png, png_const_charp message);
  static void OnWarning(png_structp png, png_const_charp message);
  static void OnRead(png_structp png, png_bytep out, size_t count);

  bool Guarded(absl::FunctionRef<void()> step);
  bool Open();
  bool SetTransforms();
  absl::Status ReserveScratch();
  bool ReadRows();
  bool ReadPass(bool last);
  png_bytep RowTarget(int y) const;
  void FinishRow(int y, png_const_bytep row) const;
  void Close();
  absl::Status StatusOfFailure() const;
  absl::Status Conclude(bool complete, DecodeResult& result);

  bool to_grey_from_color() const {
    return picture_.desc.format == PixelFormat::kGrey && !header_->is_grey();
  }

  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf jump_ = {};
  std::span<const std::byte> left_;
  const PngHeader* header_ = nullptr;
  ImageView picture_;
  bool lenient_ = false;
  bool ended_ = false;
  bool pixels_damaged_ = false;
  bool noted_ = false;
  int rows_done_ = 0;
  int passes_ = 1;
  int rows_before_damage_ = -1;
  std::array<char, kMessageBytes> message_ = {};
  std::array<char, kMessageBytes> note_ = {};
  absl::Status scratch_status_;
  ScratchBytes staging_;
  PngMemoryReader memory_;
};

void PngReader::Session::OnError(png_structp png, png_const_charp message) {
  Session& self = Of(png);
  strncpy(self.message_.data(), message, kMessageBytes - 1);
  longjmp(self.jump_, 1);
}

void PngReader::Session::OnWarning(png_structp png, png_const_charp message) {
  Session& self = Of(png);
  if (!ConcernsPixels(message)) {
    self.noted_ = true;
    strncpy(self.note_.data(), message, kMessageBytes - 1);
    return;
  }
  if (!self.pixels_damaged_) {
    self.pixels_damaged_ = true;
    self.rows_before_damage_ = self.passes_ > 1 ? 0 : self.rows_done_;
    strncpy(self.message_.data(), message, kMessageBytes - 1);
  }
  if (!self.lenient_) longjmp(self.jump_, 1);
}

void PngReader::Session::OnRead(png_structp png, png_bytep out, size_t count) {
  auto& self = *static_cast<Session*>(png_get_io_ptr(png));
  if (count > self.left_.size()) {
    self.ended_ = true;
    png_error(png, "the file ends");
  }
  memcpy(out, self.left_.data(), count);
  self.left_ = self.left_.subspan(count);
}

bool PngReader::Session::Guarded(absl::FunctionRef<void()> step) {
  if (setjmp(jump_) != 0) return false;
  step();
  return true;
}

bool PngReader::Session::Open() {
  return Guarded([this] {
    png_ =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, this, OnError, OnWarning);
    if (png_ == nullptr) return;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return;
    png_set_read_fn(png_, this, OnRead);
    png_set_compression_buffer_size(png_, kReadBytes);
    png_set_user_limits(png_, kMaxImageAxis, kMaxImageAxis);
    png_set_chunk_malloc_max(png_, kMaxChunkBytes);
    png_set_chunk_cache_max(png_, kMaxPngAncillaryChunks);
    // A negative count means every ancillary chunk but tRNS.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
  });
}

bool PngReader::Session::SetTransforms() {
  const PixelFormat format = picture_.desc.format;
  const PixelFormatInfo& wanted = GetPixelFormatInfo(format);
  const bool color_out = wanted.family == ColorFamily::kRgb;
  size_t row_bytes = 0;
  const bool good = Guarded([&] {
    if (header_->color_type == PngColorType::kPalette) {
      png_set_palette_to_rgb(png_);
    }
    if (header_->color_type == PngColorType::kGrey) {
      png_set_expand_gray_1_2_4_to_8(png_);
    }
    if (header_->bit_depth == 16) png_set_scale_16(png_);
    if (wanted.has_alpha) {
      if (png_get_valid(png_, info_, PNG_INFO_tRNS) != 0) {
        png_set_tRNS_to_alpha(png_);
      }
      // Does nothing where an alpha channel is.
      png_set_add_alpha(png_, 0xFFFF, PNG_FILLER_AFTER);
    } else {
      png_set_strip_alpha(png_);
    }
    if (color_out && header_->is_grey()) png_set_gray_to_rgb(png_);
    if (format == PixelFormat::kBgr || format == PixelFormat::kBgra) {
      png_set_bgr(png_);
    }
    passes_ = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_bytes = png_get_rowbytes(png_, info_);
  });
  if (!good) return false;
  const int channels = to_grey_from_color() ? 3 : wanted.channels;
  if (row_bytes == static_cast<size_t>(picture_.desc.width) *
                       static_cast<size_t>(channels)) {
    return true;
  }
  strncpy(message_.data(), "unexpected row size", kMessageBytes - 1);
  return false;
}

// Grey from colour passes through rgb rows; an interlaced file needs all of
// them at once, because each pass adds to the rows of the one before.
absl::Status PngReader::Session::ReserveScratch() {
  if (!to_grey_from_color()) return absl::OkStatus();
  const int rows = passes_ > 1 ? picture_.desc.height : 1;
  return staging_.Reserve(static_cast<size_t>(picture_.desc.width) * 3 *
                          static_cast<size_t>(rows));
}

png_bytep PngReader::Session::RowTarget(int y) const {
  if (!to_grey_from_color()) {
    return reinterpret_cast<png_bytep>(picture_.row(0, y));
  }
  const int row = passes_ > 1 ? y : 0;
  return staging_.data() + static_cast<size_t>(picture_.desc.width) * 3 *
                               static_cast<size_t>(row);
}

void PngReader::Session::FinishRow(int y, png_const_bytep row) const {
  if (!to_grey_from_color()) return;
  RgbRowToGrey(row, picture_.desc.width,
               reinterpret_cast<uint8_t*>(picture_.row(0, y)));
}

bool PngReader::Session::ReadPass(bool last) {
  const int height = picture_.desc.height;
  for (int y = 0; y < height; ++y) {
    const png_bytep row = RowTarget(y);
    if (!Guarded([&] { png_read_row(png_, row, nullptr); })) return false;
    if (!last) continue;
    FinishRow(y, row);
    rows_done_ = y + 1;
  }
  return true;
}

bool PngReader::Session::ReadRows() {
  for (int pass = 0; pass < passes_; ++pass) {
    if (!ReadPass(pass == passes_ - 1)) return false;
  }
  // What follows the pixels needs no reading: the header walk knows whether
  // the file has its end, and libpng has checked the last IDAT's CRC.
  return true;
}

void PngReader::Session::Close() {
  png_destroy_read_struct(&png_, &info_, nullptr);
  png_ = nullptr;
  info_ = nullptr;
}

absl::Status PngReader::Session::StatusOfFailure() const {
  const int good = std::max(rows_before_damage_, 0);
  const absl::string_view what = ended_ ? "ends early" : "is damaged";
  return BadImage(
      ended_ ? ErrorReason::kImageTruncated : ErrorReason::kImageCorrupt,
      absl::StrCat("PNG ", what, ", ", good, " of ", picture_.desc.height,
                   " rows are good (", message_.data(), ")"));
}

absl::Status PngReader::Session::Conclude(bool complete, DecodeResult& result) {
  result.rows_good = picture_.desc.height;
  if (noted_) result.warnings.push_back(absl::StrCat("PNG ", note_.data()));
  if (complete && !pixels_damaged_) {
    NoteWhatFollows(*header_, result);
    return absl::OkStatus();
  }
  if (rows_before_damage_ < 0) {
    rows_before_damage_ = passes_ > 1 ? 0 : rows_done_;
  }
  result.rows_good = rows_before_damage_;
  absl::Status status = StatusOfFailure();
  // An interlaced picture is whole, if coarse, after its first passes, but
  // the rows of a pass that was not read hold foreign bytes.
  if (!lenient_ || rows_done_ == 0) return status;
  FillRows(picture_, rows_done_);
  result.warnings.push_back(std::string(status.message()));
  return absl::OkStatus();
}

absl::Status PngReader::Session::Read(std::span<const std::byte> bytes,
                                      const PngHeader& header,
                                      const DecodeOptions& options,
                                      const ImageView& picture,
                                      DecodeResult& result) {
  if (memory_.Read(bytes, header, picture)) {
    result.rows_good = picture.desc.height;
    NoteWhatFollows(header, result);
    return absl::OkStatus();
  }
  left_ = bytes;
  header_ = &header;
  picture_ = picture;
  lenient_ = options.lenient;
  ended_ = pixels_damaged_ = noted_ = false;
  rows_done_ = 0;
  passes_ = 1;
  rows_before_damage_ = -1;
  message_[0] = note_[0] = '\0';
  scratch_status_ = absl::OkStatus();
  bool complete = Open();
  const bool no_memory = complete && (png_ == nullptr || info_ == nullptr);
  complete = complete && !no_memory && SetTransforms();
  if (complete) {
    scratch_status_ = ReserveScratch();
    complete = scratch_status_.ok() && ReadRows();
  }
  Close();
  absl::Status status = scratch_status_;
  if (no_memory) {
    status = absl::ResourceExhaustedError("no memory to decode the PNG");
  }
  if (status.ok()) status = Conclude(complete, result);
  header_ = nullptr;
  left_ = {};
  return status;
}

PngReader::PngReader() : session_(std::make_unique<Session>()) {}
PngReader::~PngReader() = default;

absl::Status PngReader::Read(std::span<const std::byte> bytes,
                             const PngHeader& header,
                             const DecodeOptions& options,
                             const ImageView& picture, DecodeResult& result) {
  return session_->Read(bytes, header, options, picture, result);
}

}  // namespace preprocd
