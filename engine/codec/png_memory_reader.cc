#include "engine/codec/png_memory_reader.h"

#include <libdeflate.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "engine/codec/png_unfilter.h"
#include "engine/codec/row_color.h"

namespace preprocd {
namespace {

constexpr uint32_t Tag(const char (&name)[5]) {
  return static_cast<uint32_t>(name[0]) << 24 |
         static_cast<uint32_t>(name[1]) << 16 |
         static_cast<uint32_t>(name[2]) << 8 | static_cast<uint32_t>(name[3]);
}

uint32_t Read32(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | std::to_integer<uint32_t>(bytes[at + i]);
  }
  return value;
}

struct Chunk {
  uint32_t tag = 0;
  std::span<const std::byte> body;
};

// The chunk at `at`, which moves behind it. False when it is cut or its CRC is
// wrong.
bool NextChunk(std::span<const std::byte> bytes, size_t& at, Chunk& chunk) {
  if (bytes.size() - at < 12) return false;
  const size_t length = Read32(bytes, at);
  if (bytes.size() - at - 12 < length) return false;
  chunk.tag = Read32(bytes, at + 4);
  chunk.body = bytes.subspan(at + 8, length);
  const uint32_t crc = libdeflate_crc32(0, bytes.data() + at + 4, length + 4);
  if (crc != Read32(bytes, at + 8 + length)) return false;
  at += 12 + length;
  return true;
}

// One sample of each channel from its upper and lower byte.
uint8_t ScaledTo8(const uint8_t* sample) {
  const unsigned value = static_cast<unsigned>(sample[0]) << 8 | sample[1];
  return static_cast<uint8_t>((value * 255 + 32895) >> 16);
}

// 8-bit pixels of the file to the picture's: each gives R, G, B and alpha.
template <class Pixel>
void PlacePixels(const uint8_t* row, size_t step, int width,
                 const PixelFormatInfo& format, uint8_t* out, Pixel pixel) {
  const auto channels = static_cast<size_t>(format.channels);
  const std::array<uint8_t, 4> order = {
      static_cast<uint8_t>(format.channel_order[0]),
      static_cast<uint8_t>(format.channel_order[1]),
      static_cast<uint8_t>(format.channel_order[2]),
      static_cast<uint8_t>(format.channel_order[3])};
  for (int x = 0; x < width; ++x, row += step, out += channels) {
    const std::array<uint8_t, 4> rgba = pixel(row);
    for (size_t c = 0; c < 3; ++c) out[order[c]] = rgba[c];
    if (channels == 4) out[order[3]] = rgba[3];
  }
}

}  // namespace

struct PngMemoryReader::Inflater {
  libdeflate_decompressor* library = nullptr;
  ~Inflater() { libdeflate_free_decompressor(library); }
};

PngMemoryReader::PngMemoryReader() = default;
PngMemoryReader::~PngMemoryReader() = default;

bool PngMemoryReader::Takes(const PngHeader& header, PixelFormat format) const {
  const bool wants_alpha = GetPixelFormatInfo(format).has_alpha;
  const bool keyed = header.has_transparency_chunk &&
                     header.color_type != PngColorType::kPalette;
  return !header.interlaced && header.bit_depth >= 8 && !(keyed && wants_alpha);
}

bool PngMemoryReader::ReadPalette(std::span<const std::byte> body) {
  if (has_palette_ || body.empty() || body.size() % 3 != 0 ||
      body.size() > 3 * palette_.size() || header_->is_grey()) {
    return false;
  }
  has_palette_ = true;
  for (size_t i = 0; i < body.size(); ++i) {
    palette_[i / 3][i % 3] = std::to_integer<uint8_t>(body[i]);
  }
  return true;
}

bool PngMemoryReader::ReadTransparency(std::span<const std::byte> body) {
  switch (header_->color_type) {
    case PngColorType::kPalette:
      if (!has_palette_ || body.empty() || body.size() > palette_.size()) {
        return false;
      }
      for (size_t i = 0; i < body.size(); ++i) {
        palette_[i][3] = std::to_integer<uint8_t>(body[i]);
      }
      return true;
    case PngColorType::kGrey:
      return body.size() == 2;
    case PngColorType::kRgb:
      return body.size() == 6;
    default:
      return false;
  }
}

// Checks every chunk up to the last IDAT; `compressed_` is the zlib stream.
bool PngMemoryReader::GatherChunks(std::span<const std::byte> bytes) {
  has_palette_ = false;
  palette_.fill({0, 0, 0, 255});
  bool has_transparency = false;
  size_t at = kPngSignatureBytes;
  Chunk chunk;
  size_t first = 0;
  do {
    first = at;
    if (!NextChunk(bytes, at, chunk)) return false;
    const bool ancillary = (chunk.tag >> 24 & 0x20) != 0;
    if (chunk.tag == Tag("PLTE")) {
      if (has_transparency || !ReadPalette(chunk.body)) return false;
    } else if (chunk.tag == Tag("tRNS")) {
      if (has_transparency || !ReadTransparency(chunk.body)) return false;
      has_transparency = true;
    } else if (!ancillary && chunk.tag != Tag("IHDR") &&
               chunk.tag != Tag("IDAT")) {
      return false;
    } else if (chunk.tag == Tag("IHDR") && first != kPngSignatureBytes) {
      return false;
    }
  } while (chunk.tag != Tag("IDAT"));
  if (header_->color_type == PngColorType::kPalette && !has_palette_) {
    return false;
  }
  compressed_ = chunk.body;
  // Bodies of several chunks are joined, behind a first walk for their sum.
  size_t total = chunk.body.size();
  size_t end = at;
  while (bytes.size() - end >= 8 && Read32(bytes, end + 4) == Tag("IDAT")) {
    if (!NextChunk(bytes, end, chunk)) return false;
    total += chunk.body.size();
  }
  if (end == at) return true;
  if (!joined_.Reserve(total).ok()) return false;
  uint8_t* out = joined_.data();
  for (at = first; at < end;) {
    const size_t length = Read32(bytes, at);
    if (length > 0) memcpy(out, bytes.data() + at + 8, length);
    out += length;
    at += 12 + length;
  }
  compressed_ = std::as_bytes(std::span(joined_.data(), total));
  return true;
}

bool PngMemoryReader::Inflate() {
  // Streams with a smaller window may not look back further, which
  // libdeflate would not notice.
  constexpr auto kFullWindow = std::byte{0x78};
  if (compressed_.size() < 6 || compressed_[0] != kFullWindow) return false;
  const size_t size = (row_bytes_ + 1) * static_cast<size_t>(header_->height);
  // DEFLATE gives at most 1032 bytes for one; no memory for what cannot be.
  constexpr size_t kMostForOne = 1032;
  if (size / kMostForOne > compressed_.size()) return false;
  if (inflater_ == nullptr) {
    inflater_.reset(new (std::nothrow) Inflater);
    if (inflater_ == nullptr) return false;
  }
  if (inflater_->library == nullptr) {
    inflater_->library = libdeflate_alloc_decompressor();
    if (inflater_->library == nullptr) return false;
  }
  if (!filtered_.Reserve(size + kPngRowPadding).ok()) return false;
  memset(filtered_.data() + size, 0, kPngRowPadding);
  size_t used = 0;
  size_t made = 0;
  const libdeflate_result result = libdeflate_zlib_decompress_ex(
      inflater_->library, compressed_.data(), compressed_.size(),
      filtered_.data(), size, &used, &made);
  return result == LIBDEFLATE_SUCCESS && used == compressed_.size() &&
         made == size;
}

// 16-bit samples to 8 bits; the row itself otherwise.
const uint8_t* PngMemoryReader::ToBytes(const uint8_t* row) {
  if (header_->bit_depth == 8) return row;
  uint8_t* out = rows_.data() + 2 * (row_bytes_ + kPngRowPadding);
  for (size_t i = 0; i < row_bytes_ / 2; ++i) out[i] = ScaledTo8(row + 2 * i);
  return out;
}

void PngMemoryReader::PlaceRow(const uint8_t* row, const ImageView& picture,
                               int y) {
  using Rgba = std::array<uint8_t, 4>;
  const PixelFormatInfo& format = GetPixelFormatInfo(picture.desc.format);
  const int width = header_->width;
  auto* out = reinterpret_cast<uint8_t*>(picture.row(0, y));
  const bool grey_out = format.family == ColorFamily::kGrey;
  const auto count = static_cast<size_t>(width);
  switch (header_->color_type) {
    case PngColorType::kGrey:
    case PngColorType::kGreyAlpha: {
      const size_t step = header_->color_type == PngColorType::kGrey ? 1 : 2;
      if (grey_out) {
        for (size_t x = 0; x < count; ++x) out[x] = row[x * step];
        return;
      }
      PlacePixels(row, step, width, format, out, [step](const uint8_t* p) {
        const uint8_t alpha = step == 2 ? p[1] : uint8_t{255};
        return Rgba{p[0], p[0], p[0], alpha};
      });
      return;
    }
    default:
      break;
  }
  // Grey from colour passes through rgb.
  PixelFormatInfo target = format;
  uint8_t* pixels = out;
  if (grey_out) {
    target = GetPixelFormatInfo(PixelFormat::kRgb);
    pixels = rows_.data() + 3 * (row_bytes_ + kPngRowPadding);
  }
  const size_t channels = static_cast<size_t>(target.channels);
  const bool same =
      target.channel_order[0] == 0 &&
      ((header_->color_type == PngColorType::kRgb && channels == 3) ||
       (header_->color_type == PngColorType::kRgba && channels == 4));
  if (same) {
    memcpy(pixels, row, count * channels);
  } else if (header_->color_type == PngColorType::kPalette) {
    PlacePixels(row, 1, width, target, pixels,
                [this](const uint8_t* p) { return palette_[p[0]]; });
  } else if (header_->color_type == PngColorType::kRgb) {
    PlacePixels(row, 3, width, target, pixels, [](const uint8_t* p) {
      return Rgba{p[0], p[1], p[2], 255};
    });
  } else {
    PlacePixels(row, 4, width, target, pixels, [](const uint8_t* p) {
      return Rgba{p[0], p[1], p[2], p[3]};
    });
  }
  if (grey_out) RgbRowToGrey(pixels, width, out);
}

bool PngMemoryReader::PlaceRows(const ImageView& picture) {
  const size_t step = row_bytes_ + kPngRowPadding;
  const size_t rgb_bytes = static_cast<size_t>(header_->width) * 3;
  if (!rows_.Reserve(3 * step + rgb_bytes).ok()) return false;
  memset(rows_.data(), 0, 2 * step);
  uint8_t* above = rows_.data();
  uint8_t* row = rows_.data() + step;
  const uint8_t* filtered = filtered_.data();
  for (int y = 0; y < header_->height; ++y, filtered += row_bytes_ + 1) {
    if (filtered[0] > static_cast<uint8_t>(PngFilter::kPaeth)) return false;
    UnfilterPngRow(static_cast<PngFilter>(filtered[0]), pixel_bytes_,
                   filtered + 1, above, row_bytes_, row);
    PlaceRow(ToBytes(row), picture, y);
    std::swap(row, above);
  }
  return true;
}

bool PngMemoryReader::Read(std::span<const std::byte> bytes,
                           const PngHeader& header, const ImageView& picture) {
  header_ = &header;
  if (!Takes(header, picture.desc.format)) return false;
  pixel_bytes_ =
      static_cast<size_t>(header.components() * header.bit_depth / 8);
  row_bytes_ = pixel_bytes_ * static_cast<size_t>(header.width);
  if ((row_bytes_ + 1) * static_cast<size_t>(header.height) > kMaxRowBytes) {
    return false;
  }
  const bool good = ReadAll(bytes, picture);
  compressed_ = {};
  joined_.ReleaseAbove(kMaxKeptBytes);
  filtered_.ReleaseAbove(kMaxKeptBytes);
  return good;
}

bool PngMemoryReader::ReadAll(std::span<const std::byte> bytes,
                              const ImageView& picture) {
  return GatherChunks(bytes) && Inflate() && PlaceRows(picture);
}

}  // namespace preprocd
