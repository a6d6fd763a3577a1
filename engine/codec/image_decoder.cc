#include "engine/codec/image_decoder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/codec/encoded_file.h"
#include "engine/codec/exif.h"
#include "engine/codec/jpeg_plane_reader.h"
#include "engine/codec/jpeg_reader.h"
#include "engine/codec/jpeg_strip_source.h"
#include "engine/codec/png_reader.h"

namespace preprocd {
namespace {

absl::Status SizeDiffers(absl::string_view field, int got, int wanted) {
  return InvalidField(
      ErrorReason::kGeometryInvalid, field,
      absl::StrCat(field, " ", got, " is not the file's ", wanted));
}

absl::Status CheckDestination(const EncodedFile& file, int shrink,
                              const ImageDesc& desc) {
  PREPROCD_CHECK(shrink == 1 || shrink == 2 || shrink == 4 || shrink == 8);
  const ImageInfo& info = file.info;
  const bool shrinks =
      shrink == 1 || (info.file_format == FileFormat::kJpeg &&
                      JpegPlaneReader::Takes(file.jpeg, desc.format, shrink));
  if (!shrinks || !CanDecodeTo(info, desc.format)) {
    return InvalidField(
        ErrorReason::kFormatPair, "destination.format",
        absl::StrCat("destination.format ", PixelFormatName(desc.format),
                     ": a ", FileFormatName(info.file_format),
                     " file is not decoded to it"));
  }
  if (desc.dtype != DType::kU8) {
    return InvalidField(
        ErrorReason::kFormatPair, "destination.dtype",
        absl::StrCat("destination.dtype ", DTypeName(desc.dtype),
                     ": files are decoded to u8"));
  }
  const int width = (info.width + shrink - 1) / shrink;
  const int height = (info.height + shrink - 1) / shrink;
  if (desc.width != width) {
    return SizeDiffers("destination.width", desc.width, width);
  }
  if (desc.height != height) {
    return SizeDiffers("destination.height", desc.height, height);
  }
  return absl::OkStatus();
}

// Metadata never stop a decode; what is wrong with them is told.
void WarnOfMetadata(const EncodedFile& file,
                    std::vector<std::string>& warnings) {
  const bool jpeg = file.info.file_format == FileFormat::kJpeg;
  const std::span<const std::byte> exif = jpeg ? file.jpeg.exif : file.png.exif;
  if ((!exif.empty() && !IsWellFormedExif(exif)) ||
      (jpeg && file.jpeg.has_empty_exif)) {
    warnings.push_back(
        absl::StrCat(jpeg ? "JPEG" : "PNG", " has a malformed EXIF block"));
  }
  if (jpeg && file.jpeg.avi_field != 0) {
    warnings.push_back(absl::StrCat("JPEG is field ", file.jpeg.avi_field,
                                    " of an interlaced AVI1 picture"));
  }
  if (jpeg && file.jpeg.has_broken_icc) {
    warnings.push_back("JPEG has a broken ICC profile");
  }
}

}  // namespace

PixelFormat ShrunkFormat(PixelFormat native, int shrink) {
  switch (native) {
    case PixelFormat::kNv12:
      return shrink > 1 ? PixelFormat::kNv24 : native;
    case PixelFormat::kNv16:
    case PixelFormat::kNv24:
    case PixelFormat::kGrey:
      return native;
    default:
      return PixelFormat::kUnspecified;
  }
}

struct ImageDecoder::Scratch {
  JpegReader jpeg;
  JpegStripSource strips;
  EncodedFile file;  // the one that gives strips
  PngReader png;
};

ImageDecoder::ImageDecoder() : scratch_(std::make_unique<Scratch>()) {}
ImageDecoder::~ImageDecoder() = default;

absl::StatusOr<DecodeResult> ImageDecoder::Decode(
    std::span<const std::byte> bytes, const DecodeOptions& options,
    const ImageView& destination) {
  ASSIGN_OR_RETURN(EncodedFile file, OpenEncodedFile(bytes));
  RETURN_IF_ERROR(CheckDestination(file, options.shrink, destination.desc));
  DecodeResult result;
  if (file.info.file_format == FileFormat::kJpeg) {
    RETURN_IF_ERROR(
        scratch_->jpeg.Read(bytes, file.jpeg, options, destination, result));
  } else {
    RETURN_IF_ERROR(
        scratch_->png.Read(bytes, file.png, options, destination, result));
  }
  WarnOfMetadata(file, result.warnings);
  result.info = std::move(file.info);
  return result;
}

absl::StatusOr<StripSource*> ImageDecoder::BeginStrips(
    std::span<const std::byte> bytes, const DecodeOptions& options,
    const ImageDesc& desc) {
  ASSIGN_OR_RETURN(scratch_->file, OpenEncodedFile(bytes));
  const EncodedFile& file = scratch_->file;
  RETURN_IF_ERROR(CheckDestination(file, options.shrink, desc));
  if (file.info.file_format != FileFormat::kJpeg ||
      !JpegStripSource::Takes(file.jpeg, desc.format, options.shrink)) {
    return nullptr;
  }
  RETURN_IF_ERROR(
      scratch_->strips.Begin(bytes, file.jpeg, options, desc.format));
  return &scratch_->strips;
}

absl::StatusOr<DecodeResult> ImageDecoder::FinishStrips() {
  DecodeResult result;
  RETURN_IF_ERROR(scratch_->strips.Finish(result));
  WarnOfMetadata(scratch_->file, result.warnings);
  result.info = std::move(scratch_->file.info);
  return result;
}

}  // namespace preprocd
