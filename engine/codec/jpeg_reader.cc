#include "engine/codec/jpeg_reader.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/decode_status.h"
#include "engine/codec/jpeg_pixel_reader.h"
#include "engine/codec/jpeg_plane_reader.h"
#include "engine/codec/jpeg_scan_budget.h"
#include "engine/codec/jpeg_source.h"
#include "engine/codec/row_color.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

// Rows asked of the library at once; it gives fewer when it likes.
constexpr int kBatchRows = 16;

// How decoded samples become the destination's.
enum class Route {
  kDirect,    // the library writes the destination's rows
  kCmyk,      // ink rows -> rgb family or grey
  kYcc,       // Y Cb Cr rows with full chroma -> nv
  kRgbToNv,   // R G B rows -> nv
  kCmykToNv,  // ink rows -> nv
};

bool IsNv(PixelFormat format) {
  return format == PixelFormat::kNv12 || format == PixelFormat::kNv16 ||
         format == PixelFormat::kNv24;
}

bool IsInk(JpegColor color) {
  return color == JpegColor::kCmyk || color == JpegColor::kYcck;
}

Route ChooseRoute(const JpegHeader& header, PixelFormat format) {
  if (!IsNv(format)) {
    return IsInk(header.color) ? Route::kCmyk : Route::kDirect;
  }
  if (IsInk(header.color)) return Route::kCmykToNv;
  if (header.color == JpegColor::kRgb) return Route::kRgbToNv;
  return Route::kYcc;
}

J_COLOR_SPACE LibraryColor(Route route, PixelFormat format) {
  switch (route) {
    case Route::kCmyk:
    case Route::kCmykToNv:
      return JCS_CMYK;
    case Route::kYcc:
      return JCS_YCbCr;
    case Route::kRgbToNv:
      return JCS_RGB;
    case Route::kDirect:
      break;
  }
  switch (format) {
    case PixelFormat::kGrey:
      return JCS_GRAYSCALE;
    case PixelFormat::kRgba:
      return JCS_EXT_RGBA;
    case PixelFormat::kBgr:
      return JCS_EXT_BGR;
    case PixelFormat::kBgra:
      return JCS_EXT_BGRA;
    default:
      return JCS_RGB;
  }
}

}  // namespace

class JpegReader::Session {
 public:
  absl::Status Read(std::span<const std::byte> bytes, const JpegHeader& header,
                    const DecodeOptions& options, const ImageView& picture,
                    DecodeResult& result);

 private:
  bool ReadAll(std::span<const std::byte> bytes, const DecodeOptions& options);
  bool Start(const DecodeOptions& options);
  absl::Status ReserveScratch();
  bool ReadRows();
  bool ReadDirectBatch();
  bool ReadStagedBatch();
  void PlaceStagedRow(uint8_t* row);

  uint8_t* OutRow(int plane, int y) const {
    return reinterpret_cast<uint8_t*>(picture_.row(plane, y));
  }

  JpegSource source_;
  const JpegHeader* header_ = nullptr;
  ImageView picture_;
  Route route_ = Route::kDirect;
  int rows_done_ = 0;
  bool lenient_ = false;
  absl::Status scratch_status_;
  ScratchBytes staging_;
  ScratchBytes sums_;
  NvRowWriter nv_writer_;
  JpegPlaneReader planes_;
  JpegPixelReader pixels_;
};

bool JpegReader::Session::Start(const DecodeOptions& options) {
  jpeg_decompress_struct& library = source_.library();
  bool matches = true;
  const bool started = source_.Guarded([&] {
    jpeg_read_header(&library, TRUE);
    // The library has its own walk; both must mean the same picture before
    // it writes into memory that was sized by ours.
    matches = static_cast<int>(library.image_width) == header_->width &&
              static_cast<int>(library.image_height) == header_->height &&
              library.num_components == header_->component_count;
    if (!matches) return;
    library.out_color_space = LibraryColor(route_, picture_.desc.format);
    library.dct_method = JDCT_ISLOW;
    // Chroma that is averaged afterwards is replicated, so that averaging
    // gives back the coded samples.
    const bool fancy =
        options.fancy_chroma &&
        (route_ != Route::kYcc || picture_.desc.format == PixelFormat::kNv24);
    library.do_fancy_upsampling = fancy ? TRUE : FALSE;
    source_.BeginScans();
    jpeg_start_decompress(&library);
  });
  if (!started) return false;
  if (!matches) {
    source_.NoteDamage(JpegDamage::kCorrupt, "two readings of its headers");
    return false;
  }
  source_.CheckScansComplete();
  return lenient_ || source_.damage() == JpegDamage::kNone;
}

absl::Status JpegReader::Session::ReserveScratch() {
  const jpeg_decompress_struct& library = source_.library();
  if (route_ == Route::kDirect) return absl::OkStatus();
  if (IsNv(picture_.desc.format)) {
    RETURN_IF_ERROR(nv_writer_.Begin(picture_, sums_));
  }
  return staging_.Reserve(size_t{library.output_width} *
                          static_cast<size_t>(library.output_components) *
                          kBatchRows);
}

bool JpegReader::Session::ReadDirectBatch() {
  std::array<JSAMPROW, kBatchRows> rows = {};
  const int count = std::min(kBatchRows, picture_.desc.height - rows_done_);
  for (int y = 0; y < count; ++y) {
    rows[static_cast<size_t>(y)] = OutRow(0, rows_done_ + y);
  }
  JDIMENSION read = 0;
  const bool good = source_.Guarded([&] {
    read = jpeg_read_scanlines(&source_.library(), rows.data(),
                               static_cast<JDIMENSION>(count));
  });
  if (good) rows_done_ += static_cast<int>(read);
  return good && read > 0;
}

void JpegReader::Session::PlaceStagedRow(uint8_t* row) {
  const PixelFormatInfo& format = GetPixelFormatInfo(picture_.desc.format);
  const int width = picture_.desc.width;
  switch (route_) {
    case Route::kCmyk:
      CmykRowToRgb(row, width, format, OutRow(0, rows_done_));
      return;
    case Route::kCmykToNv:
      // Three bytes replace four, so in place is behind what is still read.
      CmykRowToRgb(row, width, GetPixelFormatInfo(PixelFormat::kRgb), row);
      RgbRowToYcc(row, width, row);
      break;
    case Route::kRgbToNv:
      RgbRowToYcc(row, width, row);
      break;
    default:
      break;
  }
  nv_writer_.AddRow(row);
}

bool JpegReader::Session::ReadStagedBatch() {
  const jpeg_decompress_struct& library = source_.library();
  const size_t row_bytes = size_t{library.output_width} *
                           static_cast<size_t>(library.output_components);
  std::array<JSAMPROW, kBatchRows> rows = {};
  const int count = std::min(kBatchRows, picture_.desc.height - rows_done_);
  for (size_t y = 0; y < static_cast<size_t>(count); ++y) {
    rows[y] = staging_.data() + y * row_bytes;
  }
  JDIMENSION read = 0;
  const bool good = source_.Guarded([&] {
    read = jpeg_read_scanlines(&source_.library(), rows.data(),
                               static_cast<JDIMENSION>(count));
  });
  if (!good || read == 0) return false;
  for (size_t y = 0; y < read; ++y) {
    PlaceStagedRow(rows[y]);
    ++rows_done_;
  }
  return true;
}

bool JpegReader::Session::ReadRows() {
  const bool direct = route_ == Route::kDirect;
  while (rows_done_ < picture_.desc.height) {
    if (direct ? !ReadDirectBatch() : !ReadStagedBatch()) return false;
  }
  return true;
}

bool JpegReader::Session::ReadAll(std::span<const std::byte> bytes,
                                  const DecodeOptions& options) {
  if (!source_.Open(bytes, *header_, !options.lenient)) return false;
  if (!Start(options)) return false;
  scratch_status_ = ReserveScratch();
  if (!scratch_status_.ok()) return false;
  return ReadRows() && source_.Finish(*header_);
}

absl::Status JpegReader::Session::Read(std::span<const std::byte> bytes,
                                       const JpegHeader& header,
                                       const DecodeOptions& options,
                                       const ImageView& picture,
                                       DecodeResult& result) {
  if (JpegPlaneReader::Takes(header, picture.desc.format, options.shrink)) {
    return planes_.Read(bytes, header, options, picture, result);
  }
  if (!IsNv(picture.desc.format) && picture.desc.format != PixelFormat::kGrey &&
      pixels_.Read(bytes, header, options, picture, result)) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const JpegScanFacts facts,
                   CheckJpegScanBudget(bytes, header));
  header_ = &header;
  picture_ = picture;
  route_ = ChooseRoute(header, picture.desc.format);
  rows_done_ = 0;
  lenient_ = options.lenient;
  scratch_status_ = absl::OkStatus();
  const bool complete = ReadAll(bytes, options);
  const int height = picture.desc.height;
  result.rows_good = height;
  absl::Status status = scratch_status_;
  const JpegDamage damage = source_.damage();
  if (damage != JpegDamage::kNone || (!complete && status.ok())) {
    status = source_.DamageStatus(height);
    result.rows_good = source_.rows_before_damage();
  }
  source_.AppendNotes(result.warnings);
  facts.AppendNotes(header, result.warnings);
  if (!header.has_adobe && header.component_count == 4) {
    result.warnings.push_back(
        "JPEG has four components and no Adobe marker; its ink values were "
        "taken as inverted");
  }
  source_.Close();
  header_ = nullptr;
  const bool usable =
      damage == JpegDamage::kTruncated || damage == JpegDamage::kCorrupt;
  if (status.ok() || !lenient_ || !usable || rows_done_ == 0) return status;
  FillRows(picture, rows_done_);
  result.rows_good = std::min(result.rows_good, rows_done_);
  result.warnings.push_back(std::string(status.message()));
  return absl::OkStatus();
}

JpegReader::JpegReader() : session_(std::make_unique<Session>()) {}
JpegReader::~JpegReader() = default;

absl::Status JpegReader::Read(std::span<const std::byte> bytes,
                              const JpegHeader& header,
                              const DecodeOptions& options,
                              const ImageView& picture, DecodeResult& result) {
  return session_->Read(bytes, header, options, picture, result);
}

}  // namespace preprocd
