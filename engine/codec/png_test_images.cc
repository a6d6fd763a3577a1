#include "engine/codec/png_test_images.h"

#include <png.h>
#include <zlib.h>

#include <cstring>

#include "engine/base/check.h"

namespace preprocd {
namespace {

void Append(png_structp png, png_bytep bytes, size_t count) {
  auto& out = *static_cast<std::vector<std::byte>*>(png_get_io_ptr(png));
  const auto* first = reinterpret_cast<const std::byte*>(bytes);
  out.insert(out.end(), first, first + count);
}

void AppendNumber(uint32_t value, std::vector<std::byte>& out) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    out.push_back(static_cast<std::byte>(value >> shift));
  }
}

uint32_t NumberAt(const std::vector<std::byte>& file, size_t offset) {
  PREPROCD_CHECK(offset + 4 <= file.size());
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) {
    value = value << 8 | std::to_integer<uint32_t>(file[offset + i]);
  }
  return value;
}

std::string TypeAt(const std::vector<std::byte>& file, size_t offset) {
  PREPROCD_CHECK(offset + 4 <= file.size());
  return std::string(reinterpret_cast<const char*>(file.data() + offset), 4);
}

void WritePalette(png_structp png, png_infop info, const PngRecipe& recipe) {
  std::vector<png_color> colors;
  for (const auto& c : recipe.palette) colors.push_back({c[0], c[1], c[2]});
  if (!colors.empty()) {
    png_set_PLTE(png, info, colors.data(), static_cast<int>(colors.size()));
  }
  if (!recipe.palette_alpha.empty()) {
    png_set_tRNS(png, info, recipe.palette_alpha.data(),
                 static_cast<int>(recipe.palette_alpha.size()), nullptr);
  }
  if (!recipe.transparent.empty()) {
    png_color_16 key = {};
    key.gray = recipe.transparent[0];
    if (recipe.transparent.size() == 3) {
      key.red = recipe.transparent[0];
      key.green = recipe.transparent[1];
      key.blue = recipe.transparent[2];
    }
    png_set_tRNS(png, info, nullptr, 1, &key);
  }
}

size_t Channels(PngColorType type) {
  switch (type) {
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

}  // namespace

size_t PngRowBytes(const PngRecipe& recipe) {
  const size_t bits = static_cast<size_t>(recipe.width) *
                      static_cast<size_t>(recipe.bit_depth) *
                      Channels(recipe.color_type);
  return (bits + 7) / 8;
}

std::vector<std::byte> MakePng(const PngRecipe& recipe,
                               const std::vector<uint8_t>& rows) {
  const size_t row_bytes = PngRowBytes(recipe);
  PREPROCD_CHECK(rows.size() == row_bytes * static_cast<size_t>(recipe.height));
  std::vector<std::byte> file;
  // Without error functions the library aborts, as a broken test should.
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(png, &file, Append, nullptr);
  png_set_IHDR(png, info, static_cast<png_uint_32>(recipe.width),
               static_cast<png_uint_32>(recipe.height), recipe.bit_depth,
               static_cast<int>(recipe.color_type),
               recipe.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  WritePalette(png, info, recipe);
  png_write_info(png, info);
  std::vector<png_bytep> pointers;
  for (size_t y = 0; y < static_cast<size_t>(recipe.height); ++y) {
    pointers.push_back(const_cast<png_bytep>(rows.data() + y * row_bytes));
  }
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return file;
}

std::vector<PngChunk> SplitPng(const std::vector<std::byte>& file) {
  std::vector<PngChunk> chunks;
  size_t at = kPngSignatureBytes;
  while (at < file.size()) {
    const size_t length = NumberAt(file, at);
    PngChunk chunk;
    chunk.type = TypeAt(file, at + 4);
    const auto first = file.begin() + static_cast<ptrdiff_t>(at + 8);
    chunk.body.assign(first, first + static_cast<ptrdiff_t>(length));
    chunks.push_back(std::move(chunk));
    at += length + 12;
  }
  return chunks;
}

std::vector<std::byte> JoinPng(const std::vector<PngChunk>& chunks) {
  std::vector<std::byte> file(kPngSignatureBytes);
  memcpy(file.data(), kPngSignature, kPngSignatureBytes);
  for (const PngChunk& chunk : chunks) {
    AppendNumber(static_cast<uint32_t>(chunk.body.size()), file);
    const size_t start = file.size();
    for (const char c : chunk.type) file.push_back(static_cast<std::byte>(c));
    file.insert(file.end(), chunk.body.begin(), chunk.body.end());
    const auto* covered = reinterpret_cast<const Bytef*>(file.data() + start);
    AppendNumber(static_cast<uint32_t>(
                     crc32(0, covered, static_cast<uInt>(file.size() - start))),
                 file);
  }
  return file;
}

size_t FindChunk(const std::vector<std::byte>& file, const std::string& type) {
  size_t at = kPngSignatureBytes;
  while (TypeAt(file, at + 4) != type) at += NumberAt(file, at) + 12;
  return at;
}

std::vector<std::byte> Deflate(const std::vector<uint8_t>& raw) {
  uLongf size = compressBound(static_cast<uLong>(raw.size()));
  std::vector<std::byte> out(size);
  const int result = compress(reinterpret_cast<Bytef*>(out.data()), &size,
                              raw.data(), static_cast<uLong>(raw.size()));
  PREPROCD_CHECK(result == Z_OK);
  out.resize(size);
  return out;
}

}  // namespace preprocd
