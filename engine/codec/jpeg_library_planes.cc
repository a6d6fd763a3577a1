#include "engine/codec/jpeg_library_planes.h"

namespace preprocd {
namespace {

J_COLOR_SPACE PlanesOf(JpegColor color) {
  if (color == JpegColor::kGrey) return JCS_GRAYSCALE;
  return color == JpegColor::kRgb ? JCS_RGB : JCS_YCbCr;
}

}  // namespace

bool JpegLibraryPlanes::Open(std::span<const std::byte> bytes,
                             const JpegHeader& header,
                             const DecodeOptions& options) {
  header_ = &header;
  shrink_ = options.shrink;
  if (!source_.Open(bytes, header, !options.lenient)) return false;
  jpeg_decompress_struct& library = source_.library();
  bool matches = true;
  const bool started = source_.Guarded([&] {
    jpeg_read_header(&library, TRUE);
    // The library has its own walk; both must mean the same picture before
    // it writes into memory that was sized by ours.
    matches = library.image_width == static_cast<JDIMENSION>(header.width) &&
              library.image_height == static_cast<JDIMENSION>(header.height) &&
              library.num_components == header.component_count;
    for (int c = 0; matches && c < header.component_count; ++c) {
      const JpegComponent& component =
          header.components[static_cast<size_t>(c)];
      matches = library.comp_info[c].h_samp_factor == component.h &&
                library.comp_info[c].v_samp_factor == component.v;
    }
    if (!matches) return;
    library.out_color_space = PlanesOf(header.color);
    library.dct_method = JDCT_ISLOW;
    library.raw_data_out = TRUE;
    library.scale_num = static_cast<unsigned>(DCTSIZE / shrink_);
    library.scale_denom = DCTSIZE;
    source_.BeginScans();
    jpeg_start_decompress(&library);
  });
  if (!started) return false;
  if (!matches) {
    source_.NoteDamage(JpegDamage::kCorrupt, "two readings of its headers");
    return false;
  }
  source_.CheckScansComplete();
  return options.lenient || source_.damage() == JpegDamage::kNone;
}

bool JpegLibraryPlanes::Next(const JpegStripTargets& targets) {
  jpeg_decompress_struct& library = source_.library();
  std::array<JSAMPARRAY, kMaxJpegPlanes> planes = {};
  for (size_t c = 0; c < static_cast<size_t>(header_->component_count); ++c) {
    const auto rows = static_cast<size_t>(
        JpegPlaneOf(*header_, static_cast<int>(c), shrink_).strip_rows);
    for (size_t y = 0; y < rows; ++y) {
      rows_[c][y] = targets[c].data + y * targets[c].stride_bytes;
    }
    planes[c] = rows_[c].data();
  }
  const auto lines =
      static_cast<JDIMENSION>(header_->max_v * DCTSIZE / shrink_);
  return source_.Guarded(
      [&] { jpeg_read_raw_data(&library, planes.data(), lines); });
}

}  // namespace preprocd
