#include "engine/codec/image_decoder.h"

#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/codec/codec_internal.h"
#include "engine/codec/header_reader.h"

namespace preprocd {
namespace {

absl::Status CheckDestination(const ImageInfo& info, const ImageDesc& desc) {
  if (!CanDecodeTo(info, desc.format) || desc.dtype != DType::kU8) {
    return InvalidField(
        ErrorReason::kFormatPair, "destination.format",
        absl::StrCat("destination.format ", PixelFormatName(desc.format), "/",
                     DTypeName(desc.dtype), ": this ",
                     FileFormatName(info.file_format), " (", info.color_space,
                     info.subsampling.empty() ? "" : " ", info.subsampling,
                     ") is not decoded to it"));
  }
  if (desc.width != info.width || desc.height != info.height) {
    return InvalidField(
        ErrorReason::kGeometryInvalid, "destination",
        absl::StrCat("destination ", desc.width, "x", desc.height,
                     ": the file is ", info.width, "x", info.height));
  }
  return absl::OkStatus();
}

absl::Status DamageError(const ReadOutcome& outcome, int height) {
  const ErrorReason reason = outcome.truncated ? ErrorReason::kImageTruncated
                                               : ErrorReason::kImageCorrupt;
  return ImageError(
      reason, absl::StrCat(outcome.message, "; ", outcome.rows_good, " of ",
                           height, " rows are good"));
}

// Rows that the library never reached hold whatever the memory held before,
// which may be another client's picture.
void ClearRowsFrom(int row, const ImageView& destination) {
  const ImageDesc& desc = destination.desc;
  const PixelFormatInfo& info = GetPixelFormatInfo(desc.format);
  for (int plane = 0; plane < info.plane_count; ++plane) {
    const auto shift = info.planes[static_cast<size_t>(plane)].vertical_shift;
    const int rows = PlaneRows(desc.format, plane, desc.height);
    const uint64_t row_bytes =
        PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
    for (int y = row >> shift; y < rows; ++y) {
      memset(destination.row(plane, y), 0, row_bytes);
    }
  }
}

}  // namespace

struct ImageDecoder::Scratch {
  std::vector<std::byte> bytes;
};

ImageDecoder::ImageDecoder() : scratch_(std::make_unique<Scratch>()) {}
ImageDecoder::~ImageDecoder() = default;

absl::StatusOr<DecodeResult> ImageDecoder::Decode(
    std::span<const std::byte> bytes, const DecodeOptions& options,
    const ImageView& destination) {
  DecodeResult result;
  ASSIGN_OR_RETURN(result.info, PeekImage(bytes));
  RETURN_IF_ERROR(CheckDestination(result.info, destination.desc));
  ReadOutcome outcome;
  outcome.rows_good = result.info.height;
  if (result.info.file_format == FileFormat::kJpeg) {
    ReadJpegPixels(bytes, result.info, options, destination, scratch_->bytes,
                   outcome);
  } else {
    ReadPngPixels(bytes, result.info, destination, scratch_->bytes, outcome);
  }
  if (outcome.no_memory) {
    return absl::ResourceExhaustedError("no memory to decode the source");
  }
  result.rows_good = outcome.rows_good;
  const bool damaged = outcome.truncated || outcome.corrupt || outcome.fatal;
  if (damaged &&
      (!options.lenient || (outcome.fatal && outcome.rows_good == 0))) {
    return DamageError(outcome, result.info.height);
  }
  if (outcome.fatal) ClearRowsFrom(outcome.rows_good, destination);
  if (damaged) {
    result.warnings.push_back(absl::StrCat(
        outcome.truncated ? "IMAGE_TRUNCATED: " : "IMAGE_CORRUPT: ",
        outcome.message, "; ", outcome.rows_good, " of ", result.info.height,
        " rows are good"));
  }
  if (outcome.benign) {
    result.warnings.push_back(
        absl::StrCat("odd bytes were skipped: ", outcome.benign_message));
  }
  if (result.info.color_space == "cmyk" || result.info.color_space == "ycck") {
    result.warnings.push_back(
        "CMYK was read with Adobe polarity (0 = full ink), without its ICC "
        "profile");
  }
  return result;
}

}  // namespace preprocd
