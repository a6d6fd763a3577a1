#include "engine/codec/jpeg_test_images.h"

#include <algorithm>
#include <cstdlib>

#include "engine/base/check.h"
#include "engine/codec/jpeg_library.h"

namespace preprocd {
namespace {

J_COLOR_SPACE StoredColor(JpegColor color) {
  switch (color) {
    case JpegColor::kGrey:
      return JCS_GRAYSCALE;
    case JpegColor::kYcc:
      return JCS_YCbCr;
    case JpegColor::kRgb:
      return JCS_RGB;
    case JpegColor::kCmyk:
      return JCS_CMYK;
    case JpegColor::kYcck:
      return JCS_YCCK;
  }
  return JCS_UNKNOWN;
}

int ComponentCount(JpegColor color) {
  if (color == JpegColor::kGrey) return 1;
  return color == JpegColor::kCmyk || color == JpegColor::kYcck ? 4 : 3;
}

void SetScansPerComponent(jpeg_compress_struct& library,
                          std::array<jpeg_scan_info, 4>& scans) {
  for (int c = 0; c < library.num_components; ++c) {
    scans[static_cast<size_t>(c)] = {1, {c, 0, 0, 0}, 0, 63, 0, 0};
  }
  library.scan_info = scans.data();
  library.num_scans = library.num_components;
}

uint8_t At(const Bytes& file, size_t offset) {
  PREPROCD_CHECK(offset < file.size());
  return std::to_integer<uint8_t>(file[offset]);
}

size_t SegmentBytes(const Bytes& file, size_t offset) {
  const uint8_t marker = At(file, offset + 1);
  if (marker == 0xD8 || marker == 0xD9) return 2;
  return 2u + (static_cast<size_t>(At(file, offset + 2)) << 8 |
               At(file, offset + 3));
}

void Configure(jpeg_compress_struct& library, const JpegRecipe& recipe,
               std::array<jpeg_scan_info, 4>& scans) {
  library.image_width = static_cast<JDIMENSION>(recipe.width);
  library.image_height = static_cast<JDIMENSION>(recipe.height);
  library.input_components = ComponentCount(recipe.color);
  const bool from_rgb =
      recipe.color == JpegColor::kYcc && !recipe.samples_are_ycc;
  library.in_color_space = from_rgb ? JCS_RGB : StoredColor(recipe.color);
  jpeg_set_defaults(&library);
  jpeg_set_colorspace(&library, StoredColor(recipe.color));
  jpeg_set_quality(&library, recipe.quality, FALSE);
  for (int c = 0; c < library.num_components; ++c) {
    const auto factors = recipe.sampling[static_cast<size_t>(c)];
    library.comp_info[c].h_samp_factor = factors.h;
    library.comp_info[c].v_samp_factor = factors.v;
  }
  if (recipe.jfif) library.write_JFIF_header = *recipe.jfif ? TRUE : FALSE;
  if (recipe.adobe) library.write_Adobe_marker = *recipe.adobe ? TRUE : FALSE;
  library.restart_interval = static_cast<unsigned>(recipe.restart_interval);
  library.arith_code = recipe.arithmetic ? TRUE : FALSE;
  library.optimize_coding = recipe.optimised_tables ? TRUE : FALSE;
  if (recipe.progressive) jpeg_simple_progression(&library);
  if (recipe.one_scan_per_component) SetScansPerComponent(library, scans);
}

}  // namespace

JpegRecipe::Factors Luma(int h, int v) { return {h, v}; }

Bytes MakeJpeg(const JpegRecipe& recipe, const Samples& samples) {
  const auto row_samples = static_cast<size_t>(recipe.width) *
                           static_cast<size_t>(ComponentCount(recipe.color));
  PREPROCD_CHECK(samples.size() ==
                 row_samples * static_cast<size_t>(recipe.height));
  jpeg_compress_struct library = {};
  jpeg_error_mgr errors = {};
  library.err = jpeg_std_error(&errors);  // exits on an error
  // Quantisers above 255 are what some tests want.
  errors.emit_message = [](j_common_ptr, int) {};
  jpeg_create_compress(&library);
  unsigned char* memory = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&library, &memory, &size);
  std::array<jpeg_scan_info, 4> scans = {};
  Configure(library, recipe, scans);
  jpeg_start_compress(&library, TRUE);
  for (size_t y = 0; y < static_cast<size_t>(recipe.height); ++y) {
    auto* row = const_cast<JSAMPROW>(samples.data() + y * row_samples);
    jpeg_write_scanlines(&library, &row, 1);
  }
  jpeg_finish_compress(&library);
  jpeg_destroy_compress(&library);
  const auto* first = reinterpret_cast<const std::byte*>(memory);
  Bytes file(first, first + size);
  free(memory);
  return file;
}

Samples TestCardRgb(int width, int height) {
  Samples out;
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool edge = (x / 5 + y / 7) % 3 == 0;
      out.push_back(static_cast<uint8_t>(x * 255 / std::max(1, width - 1)));
      out.push_back(static_cast<uint8_t>(edge ? 230 : 40 + y % 60));
      out.push_back(static_cast<uint8_t>((x * 3 + y * 11) % 256));
    }
  }
  return out;
}

Samples DecodeByLibrary(const Bytes& file, bool grey, bool fancy) {
  jpeg_decompress_struct library = {};
  jpeg_error_mgr errors = {};
  library.err = jpeg_std_error(&errors);  // exits on an error
  jpeg_create_decompress(&library);
  jpeg_mem_src(&library, reinterpret_cast<const unsigned char*>(file.data()),
               static_cast<unsigned long>(file.size()));
  jpeg_read_header(&library, TRUE);
  library.out_color_space = grey ? JCS_GRAYSCALE : JCS_RGB;
  library.do_fancy_upsampling = fancy ? TRUE : FALSE;
  jpeg_start_decompress(&library);
  const size_t row_samples = size_t{library.output_width} *
                             static_cast<size_t>(library.output_components);
  Samples out(row_samples * library.output_height);
  while (library.output_scanline < library.output_height) {
    JSAMPROW row = out.data() + library.output_scanline * row_samples;
    jpeg_read_scanlines(&library, &row, 1);
  }
  jpeg_finish_decompress(&library);
  jpeg_destroy_decompress(&library);
  return out;
}

RawPlanes RawPlanesByLibrary(const Bytes& file, int shrink) {
  jpeg_decompress_struct library = {};
  jpeg_error_mgr errors = {};
  library.err = jpeg_std_error(&errors);  // exits on an error
  jpeg_create_decompress(&library);
  jpeg_mem_src(&library, reinterpret_cast<const unsigned char*>(file.data()),
               file.size());
  jpeg_read_header(&library, TRUE);
  library.out_color_space = library.jpeg_color_space;
  library.raw_data_out = TRUE;
  library.scale_num = static_cast<unsigned>(DCTSIZE / shrink);
  library.scale_denom = DCTSIZE;
  library.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&library);
  const auto count = static_cast<size_t>(library.num_components);
  PREPROCD_CHECK(count <= 3);
  RawPlanes planes;
  std::array<Samples, 3> strips;
  std::array<std::array<JSAMPROW, MAX_SAMP_FACTOR * DCTSIZE>, 3> rows = {};
  std::array<JSAMPARRAY, 3> arrays = {};
  for (size_t c = 0; c < count; ++c) {
    const jpeg_component_info& info = library.comp_info[c];
    const size_t row_bytes = size_t{info.width_in_blocks} * DCTSIZE;
    const auto strip_rows =
        static_cast<size_t>(info.v_samp_factor * info.DCT_scaled_size);
    strips[c].resize(row_bytes * strip_rows);
    for (size_t y = 0; y < strip_rows; ++y) {
      rows[c][y] = strips[c].data() + y * row_bytes;
    }
    arrays[c] = rows[c].data();
  }
  while (library.output_scanline < library.output_height) {
    jpeg_read_raw_data(
        &library, arrays.data(),
        static_cast<JDIMENSION>(library.max_v_samp_factor * DCTSIZE / shrink));
    for (size_t c = 0; c < count; ++c) {
      const jpeg_component_info& info = library.comp_info[c];
      for (int y = 0; y < info.v_samp_factor * info.DCT_scaled_size; ++y) {
        if (planes.samples[c].size() ==
            size_t{info.downsampled_width} * info.downsampled_height) {
          break;
        }
        const JSAMPROW row = rows[c][static_cast<size_t>(y)];
        planes.samples[c].insert(planes.samples[c].end(), row,
                                 row + info.downsampled_width);
      }
    }
  }
  jpeg_finish_decompress(&library);
  jpeg_destroy_decompress(&library);
  return planes;
}

size_t FindSegment(const Bytes& file, uint8_t marker) {
  for (size_t at = 0;; at += SegmentBytes(file, at)) {
    PREPROCD_CHECK(At(file, at) == 0xFF);
    if (At(file, at + 1) == marker) return at;
    PREPROCD_CHECK(At(file, at + 1) != 0xDA);
  }
}

Bytes WithoutSegments(const Bytes& file, uint8_t marker) {
  Bytes out;
  size_t at = 0;
  while (at < file.size()) {
    const bool is_marker =
        At(file, at) == 0xFF && at + 1 < file.size() && At(file, at + 1) != 0 &&
        !(At(file, at + 1) >= 0xD0 && At(file, at + 1) <= 0xD7);
    if (!is_marker) {  // entropy-coded data
      out.push_back(file[at++]);
      continue;
    }
    const size_t end = at + SegmentBytes(file, at);
    if (At(file, at + 1) != marker) {
      out.insert(out.end(), file.begin() + static_cast<ptrdiff_t>(at),
                 file.begin() + static_cast<ptrdiff_t>(end));
    }
    at = end;
  }
  return out;
}

Bytes WithInserted(const Bytes& file, size_t offset,
                   std::span<const std::byte> extra) {
  Bytes out = file;
  out.insert(out.begin() + static_cast<ptrdiff_t>(offset), extra.begin(),
             extra.end());
  return out;
}

Bytes ToBytes(const std::vector<int>& values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Bytes Segment(uint8_t marker, const std::vector<int>& body) {
  const int length = static_cast<int>(body.size()) + 2;
  Bytes out = ToBytes({0xFF, marker, length >> 8, length & 255});
  const Bytes rest = ToBytes(body);
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

Bytes TiffWithOrientation(int orientation, bool big_endian) {
  if (big_endian) {
    return ToBytes({'M', 'M',         0,    42, 0, 0, 0, 8, 0,
                    1,   0x01,        0x12, 0,  3, 0, 0, 0, 1,
                    0,   orientation, 0,    0,  0, 0, 0, 0});
  }
  return ToBytes({'I', 'I', 42, 0, 8, 0,           0, 0, 1, 0, 0x12, 0x01, 3,
                  0,   1,   0,  0, 0, orientation, 0, 0, 0, 0, 0,    0,    0});
}

Bytes ExifSegment(const Bytes& tiff) {
  const size_t length = tiff.size() + 8;
  Bytes out =
      ToBytes({0xFF, 0xE1, static_cast<int>(length >> 8),
               static_cast<int>(length & 255), 'E', 'x', 'i', 'f', 0, 0});
  out.insert(out.end(), tiff.begin(), tiff.end());
  return out;
}

}  // namespace preprocd
