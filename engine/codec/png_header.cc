#include "engine/codec/png_header.h"

#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/codec/decode_status.h"

namespace preprocd {
namespace {

constexpr uint32_t kMaxChunkLength = 0x7FFFFFFF;
// Chunks behind the pixels are only looked at for EXIF and the end; a file of
// empty chunks must not keep the walk busy.
constexpr int kMaxTrailingChunks = 100'000;

constexpr uint32_t Tag(const char (&name)[5]) {
  uint32_t tag = 0;
  for (int i = 0; i < 4; ++i) tag = tag << 8 | static_cast<uint8_t>(name[i]);
  return tag;
}

absl::Status Truncated() {
  return BadImage(ErrorReason::kImageTruncated, "PNG ends inside its headers");
}

absl::Status Corrupt(absl::string_view what) {
  return BadImage(ErrorReason::kImageCorrupt, absl::StrCat("PNG ", what));
}

uint32_t Read32(std::span<const std::byte> bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[offset + i]);
  }
  return value;
}

bool DepthFitsType(int depth, int type) {
  switch (type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 ||
             depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

// The block without the "Exif\0\0" that JPEG has before it and some writers
// copy into the chunk.
std::span<const std::byte> WithoutExifPrefix(std::span<const std::byte> block) {
  constexpr size_t kPrefixBytes = 6;
  if (block.size() > kPrefixBytes &&
      memcmp(block.data(), "Exif\0\0", kPrefixBytes) == 0) {
    return block.subspan(kPrefixBytes);
  }
  return block;
}

class ChunkWalk {
 public:
  explicit ChunkWalk(std::span<const std::byte> bytes) : bytes_(bytes) {}

  absl::StatusOr<PngHeader> Run() {
    RETURN_IF_ERROR(ReadFirstChunk());
    RETURN_IF_ERROR(WalkToPixels());
    WalkToEnd();
    return header_;
  }

 private:
  struct Chunk {
    uint32_t tag = 0;
    size_t length = 0;
    size_t body = 0;  // offset
    bool complete = false;
  };

  // False when not even the chunk's length and type are there.
  bool ReadChunk(Chunk& chunk) const {
    if (at_ > bytes_.size() || bytes_.size() - at_ < 8) return false;
    chunk.length = Read32(bytes_, at_);
    chunk.tag = Read32(bytes_, at_ + 4);
    chunk.body = at_ + 8;
    const size_t left = bytes_.size() - chunk.body;
    chunk.complete = left >= 4 && left - 4 >= chunk.length;
    return true;
  }

  void Skip(const Chunk& chunk) { at_ = chunk.body + chunk.length + 4; }

  absl::Status ReadFirstChunk() {
    Chunk chunk;
    if (!ReadChunk(chunk)) return Truncated();
    if (chunk.tag == Tag("CgBI")) {
      return UnsupportedImage("PNG with a CgBI chunk");
    }
    if (chunk.tag != Tag("IHDR") || chunk.length != 13) {
      return Corrupt("does not begin with an IHDR chunk of 13 bytes");
    }
    if (!chunk.complete) return Truncated();
    const uint32_t width = Read32(bytes_, chunk.body);
    const uint32_t height = Read32(bytes_, chunk.body + 4);
    const auto field = [&](size_t i) {
      return std::to_integer<int>(bytes_[chunk.body + i]);
    };
    if (width == 0 || height == 0) {
      return Corrupt(absl::StrCat("size ", width, "x", height));
    }
    const int depth = field(8);
    const int type = field(9);
    if (!DepthFitsType(depth, type)) {
      return Corrupt(
          absl::StrCat("colour type ", type, " with bit depth ", depth));
    }
    if (field(10) != 0 || field(11) != 0 || field(12) > 1) {
      return Corrupt(absl::StrCat("compression ", field(10), ", filter ",
                                  field(11), ", interlace ", field(12)));
    }
    RETURN_IF_ERROR(CheckPictureSize(width, height));
    header_.width = static_cast<int>(width);
    header_.height = static_cast<int>(height);
    header_.bit_depth = depth;
    header_.color_type = static_cast<PngColorType>(type);
    header_.interlaced = field(12) == 1;
    Skip(chunk);
    return absl::OkStatus();
  }

  absl::Status WalkToPixels() {
    bool has_palette = false;
    int ancillary = 0;
    while (true) {
      Chunk chunk;
      if (!ReadChunk(chunk)) return Truncated();
      if (chunk.length > kMaxChunkLength) {
        return Corrupt(absl::StrCat("chunk length ", chunk.length));
      }
      if (chunk.tag == Tag("IDAT")) break;
      if (chunk.tag == Tag("IEND")) return Corrupt("has no pixels");
      if (!chunk.complete) return Truncated();
      if (chunk.tag == Tag("PLTE")) has_palette = true;
      if (chunk.tag == Tag("tRNS")) {
        header_.has_transparency_chunk =
            header_.color_type != PngColorType::kGreyAlpha &&
            header_.color_type != PngColorType::kRgba;
      }
      if ((chunk.tag >> 24 & 0x20) != 0 &&
          ++ancillary > kMaxPngAncillaryChunks) {
        return ImageTooLarge("PNG ancillary chunks", ancillary,
                             kMaxPngAncillaryChunks);
      }
      Note(chunk);
      Skip(chunk);
    }
    if (header_.color_type == PngColorType::kPalette && !has_palette) {
      return Corrupt("has no palette");
    }
    return absl::OkStatus();
  }

  void WalkToEnd() {
    Chunk chunk;
    for (int i = 0; i < kMaxTrailingChunks; ++i) {
      if (!ReadChunk(chunk)) return;
      if (chunk.tag == Tag("IEND")) {
        header_.has_end_chunk = true;
        return;
      }
      if (!chunk.complete) return;
      Note(chunk);
      Skip(chunk);
    }
  }

  void Note(const Chunk& chunk) {
    if (chunk.tag == Tag("acTL")) header_.is_animated = true;
    if (chunk.tag == Tag("iCCP")) header_.has_icc = true;
    if (chunk.tag == Tag("eXIf") && header_.exif.empty()) {
      header_.exif =
          WithoutExifPrefix(bytes_.subspan(chunk.body, chunk.length));
    }
  }

  std::span<const std::byte> bytes_;
  size_t at_ = kPngSignatureBytes;
  PngHeader header_;
};

}  // namespace

int PngHeader::components() const {
  switch (color_type) {
    case PngColorType::kGrey:
    case PngColorType::kPalette:
      return 1;
    case PngColorType::kGreyAlpha:
      return 2;
    case PngColorType::kRgb:
      return 3;
    case PngColorType::kRgba:
      return 4;
  }
  return 0;
}

absl::string_view PngHeader::color_name() const {
  if (color_type == PngColorType::kPalette) return "palette";
  return is_grey() ? "grey" : "rgb";
}

PixelFormat PngHeader::native_format() const {
  if (has_alpha()) return PixelFormat::kRgba;
  return is_grey() ? PixelFormat::kGrey : PixelFormat::kRgb;
}

absl::StatusOr<PngHeader> ReadPngHeader(std::span<const std::byte> bytes) {
  return ChunkWalk(bytes).Run();
}

}  // namespace preprocd
