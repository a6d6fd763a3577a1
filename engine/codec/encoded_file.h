// One encoded file with its headers read: what PeekImage tells and what the
// readers need besides.
// Thread-safety: compatible (values that borrow the file's bytes).
#ifndef ENGINE_CODEC_ENCODED_FILE_H_
#define ENGINE_CODEC_ENCODED_FILE_H_

#include <cstddef>
#include <span>

#include "absl/status/statusor.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/jpeg_header.h"
#include "engine/codec/png_header.h"

namespace preprocd {

struct EncodedFile {
  ImageInfo info;
  // The one that info.file_format names is filled.
  JpegHeader jpeg;
  PngHeader png;
};

// Errors: those of PeekImage.
absl::StatusOr<EncodedFile> OpenEncodedFile(std::span<const std::byte> bytes);

}  // namespace preprocd

#endif  // ENGINE_CODEC_ENCODED_FILE_H_
