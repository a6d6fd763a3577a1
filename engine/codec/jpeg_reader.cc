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
#include "engine/codec/jpeg_source.h"
#include "engine/codec/row_color.h"
#include "engine/codec/scratch_bytes.h"

namespace preprocd {
namespace {

// Rows asked of the library at once; it gives fewer when it likes.
constexpr int kBatchRows = 16;
// Most sample rows of one component that a raw read can give: 4 * DCTSIZE.
constexpr int kMaxRawRows = MAX_SAMP_FACTOR * DCTSIZE;

// How decoded samples become the destination's.
enum class Route {
  kDirect,    // the library writes the destination's rows
  kCmyk,      // ink rows -> rgb family or grey
  kRaw,       // component planes as they are coded -> nv
  kYcc,       // Y Cb Cr rows with full chroma -> nv
  kRgbToNv,   // R G B rows -> nv
  kCmykToNv,  // ink rows -> nv
  kGreyToNv,  // luma only, chroma is 128
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
  if (header.color == JpegColor::kGrey) return Route::kGreyToNv;
  if (IsInk(header.color)) return Route::kCmykToNv;
  if (header.color == JpegColor::kRgb) return Route::kRgbToNv;
  const PixelFormatInfo& info = GetPixelFormatInfo(format);
  const JpegHeader::Ratio wanted = {1 << info.chroma_x_shift,
                                    1 << info.chroma_y_shift};
  return header.chroma_ratio() == wanted ? Route::kRaw : Route::kYcc;
}

J_COLOR_SPACE LibraryColor(Route route, PixelFormat format) {
  switch (route) {
    case Route::kCmyk:
    case Route::kCmykToNv:
      return JCS_CMYK;
    case Route::kRaw:
    case Route::kYcc:
      return JCS_YCbCr;
    case Route::kRgbToNv:
      return JCS_RGB;
    case Route::kGreyToNv:
      return JCS_GRAYSCALE;
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
  bool ReadRaw();
  void PlaceStagedRow(uint8_t* row);
  void PlaceRawRows(int rows);
  void FillChroma();
  void BeginRaw();

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
  // Raw reads: where each component's rows go.
  std::array<std::array<JSAMPROW, kMaxRawRows>, 3> raw_rows_ = {};
  std::array<JSAMPROW, kMaxRawRows> luma_rows_ = {};
  std::array<JSAMPARRAY, 3> raw_planes_ = {};
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
    library.raw_data_out = route_ == Route::kRaw ? TRUE : FALSE;
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
  if (IsNv(picture_.desc.format) && route_ != Route::kRaw) {
    RETURN_IF_ERROR(nv_writer_.Begin(picture_, sums_));
  }
  size_t bytes = 0;
  if (route_ == Route::kRaw) {
    for (int c = 0; c < library.num_components; ++c) {
      const jpeg_component_info& info = library.comp_info[c];
      bytes += size_t{info.width_in_blocks} * DCTSIZE *
               static_cast<size_t>(info.v_samp_factor) * DCTSIZE;
    }
  } else if (route_ != Route::kGreyToNv) {
    bytes = size_t{library.output_width} *
            static_cast<size_t>(library.output_components) * kBatchRows;
  }
  return staging_.Reserve(std::max<size_t>(bytes, 1));
}

// Points raw rows at the scratch planes, and luma at the destination where
// whole blocks fit it.
void JpegReader::Session::BeginRaw() {
  const jpeg_decompress_struct& library = source_.library();
  uint8_t* next = staging_.data();
  for (size_t c = 0; c < raw_planes_.size(); ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    const int rows = info.v_samp_factor * DCTSIZE;
    for (int y = 0; y < rows; ++y) {
      raw_rows_[c][static_cast<size_t>(y)] = next;
      next += size_t{info.width_in_blocks} * DCTSIZE;
    }
    raw_planes_[c] = raw_rows_[c].data();
  }
  luma_rows_ = raw_rows_[0];
  raw_planes_[0] = luma_rows_.data();
}

void JpegReader::Session::PlaceRawRows(int rows) {
  const jpeg_decompress_struct& library = source_.library();
  const int height = picture_.desc.height;
  const int width = picture_.desc.width;
  const int luma_rows = std::min(rows, height - rows_done_);
  const bool luma_in_place = width % DCTSIZE == 0;
  for (int y = 0; y < luma_rows && !luma_in_place; ++y) {
    std::copy_n(raw_rows_[0][static_cast<size_t>(y)], width,
                OutRow(0, rows_done_ + y));
  }
  const PixelFormatInfo& format = GetPixelFormatInfo(picture_.desc.format);
  const int chroma_width =
      (width + (1 << format.chroma_x_shift) - 1) >> format.chroma_x_shift;
  const int chroma_start = rows_done_ >> format.chroma_y_shift;
  const int chroma_rows =
      std::min(library.comp_info[1].v_samp_factor * DCTSIZE,
               PlaneRows(picture_.desc.format, 1, height) - chroma_start);
  for (int y = 0; y < chroma_rows; ++y) {
    const auto row = static_cast<size_t>(y);
    InterleaveChroma(raw_rows_[1][row], raw_rows_[2][row], chroma_width,
                     OutRow(1, chroma_start + y));
  }
}

bool JpegReader::Session::ReadRaw() {
  BeginRaw();
  jpeg_decompress_struct& library = source_.library();
  const int rows = library.max_v_samp_factor * DCTSIZE;
  const int height = picture_.desc.height;
  const bool luma_in_place = picture_.desc.width % DCTSIZE == 0;
  while (rows_done_ < height) {
    for (int y = 0; y < rows && luma_in_place; ++y) {
      const auto row = static_cast<size_t>(y);
      // Rows below the picture go to scratch.
      luma_rows_[row] = rows_done_ + y < height ? OutRow(0, rows_done_ + y)
                                                : raw_rows_[0][row];
    }
    const bool read = source_.Guarded([&] {
      jpeg_read_raw_data(&library, raw_planes_.data(),
                         static_cast<JDIMENSION>(rows));
    });
    if (!read) return false;
    PlaceRawRows(rows);
    rows_done_ = std::min(rows_done_ + rows, height);
  }
  return true;
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

void JpegReader::Session::FillChroma() {
  const int rows = PlaneRows(picture_.desc.format, 1, picture_.desc.height);
  const size_t row_bytes =
      PlaneRowBytes(picture_.desc.format, DType::kU8, 1, picture_.desc.width);
  for (int y = 0; y < rows; ++y) {
    std::fill_n(OutRow(1, y), row_bytes, uint8_t{128});
  }
}

bool JpegReader::Session::ReadRows() {
  if (route_ == Route::kRaw) return ReadRaw();
  if (route_ == Route::kGreyToNv) FillChroma();
  const bool direct = route_ == Route::kDirect || route_ == Route::kGreyToNv;
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
