#include "engine/codec/row_color.h"

#include <algorithm>
#include <cstring>

#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr int kScaleBits = 16;
constexpr int32_t kHalf = 1 << (kScaleBits - 1);
constexpr int32_t kChromaOffset = 128 << kScaleBits;

constexpr int32_t Fixed(double value) {
  return static_cast<int32_t>(value * (1 << kScaleBits) + 0.5);
}

uint8_t Luma(int r, int g, int b) {
  return static_cast<uint8_t>(
      (Fixed(0.299) * r + Fixed(0.587) * g + Fixed(0.114) * b + kHalf) >>
      kScaleBits);
}

// One less than half: 255.5 must not become 256.
uint8_t Chroma(int32_t sum) {
  return static_cast<uint8_t>((sum + kChromaOffset + kHalf - 1) >> kScaleBits);
}

// round(a * b / 255), exact for bytes.
int MulDiv255(int a, int b) {
  const int t = a * b + 128;
  return (t + (t >> 8)) >> 8;
}

}  // namespace

void CmykRowToRgb(const uint8_t* cmyk, int width, const PixelFormatInfo& format,
                  uint8_t* out) {
  const auto step = static_cast<size_t>(format.channels);
  for (int x = 0; x < width; ++x, cmyk += 4, out += step) {
    const int r = MulDiv255(cmyk[0], cmyk[3]);
    const int g = MulDiv255(cmyk[1], cmyk[3]);
    const int b = MulDiv255(cmyk[2], cmyk[3]);
    if (format.family == ColorFamily::kGrey) {
      out[0] = Luma(r, g, b);
      continue;
    }
    out[format.channel_order[0]] = static_cast<uint8_t>(r);
    out[format.channel_order[1]] = static_cast<uint8_t>(g);
    out[format.channel_order[2]] = static_cast<uint8_t>(b);
    if (format.has_alpha) out[format.channel_order[3]] = 255;
  }
}

void RgbRowToGrey(const uint8_t* rgb, int width, uint8_t* out) {
  for (int x = 0; x < width; ++x, rgb += 3) {
    out[x] = Luma(rgb[0], rgb[1], rgb[2]);
  }
}

void RgbRowToYcc(const uint8_t* rgb, int width, uint8_t* ycc) {
  for (int x = 0; x < width; ++x, rgb += 3, ycc += 3) {
    const int r = rgb[0];
    const int g = rgb[1];
    const int b = rgb[2];
    ycc[0] = Luma(r, g, b);
    ycc[1] = Chroma(-Fixed(0.168735892) * r - Fixed(0.331264108) * g +
                    Fixed(0.5) * b);
    ycc[2] = Chroma(Fixed(0.5) * r - Fixed(0.418687589) * g -
                    Fixed(0.081312411) * b);
  }
}

void FillRows(const ImageView& picture, int first) {
  constexpr int kMidGrey = 128;
  const ImageDesc& desc = picture.desc;
  const PixelFormatInfo& format = GetPixelFormatInfo(desc.format);
  for (int plane = 0; plane < format.plane_count; ++plane) {
    const int shift = format.planes[static_cast<size_t>(plane)].vertical_shift;
    const int rows = PlaneRows(desc.format, plane, desc.height);
    const size_t row_bytes =
        PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
    for (int y = first >> shift; y < rows; ++y) {
      std::byte* row = picture.row(plane, y);
      memset(row, kMidGrey, row_bytes);
      if (!format.has_alpha) continue;
      const auto alpha = static_cast<size_t>(format.channel_order[3]);
      for (size_t i = alpha; i < row_bytes; i += 4) row[i] = std::byte{255};
    }
  }
}

absl::Status NvRowWriter::Begin(const ImageView& picture, ScratchBytes& sums) {
  picture_ = picture;
  const PixelFormatInfo& format = GetPixelFormatInfo(picture.desc.format);
  x_shift_ = format.chroma_x_shift;
  y_shift_ = format.chroma_y_shift;
  chroma_width_ = (picture.desc.width + (1 << x_shift_) - 1) >> x_shift_;
  next_row_ = 0;
  const auto count = static_cast<size_t>(chroma_width_) * 2;
  RETURN_IF_ERROR(sums.Reserve(count * sizeof(uint16_t)));
  // Memory from new[] suits every fundamental type.
  sums_ = {reinterpret_cast<uint16_t*>(sums.data()), count};
  std::fill(sums_.begin(), sums_.end(), uint16_t{0});
  return absl::OkStatus();
}

void NvRowWriter::AddRow(const uint8_t* ycc) {
  const int width = picture_.desc.width;
  auto* luma = reinterpret_cast<uint8_t*>(picture_.row(0, next_row_));
  for (int x = 0; x < width; ++x) {
    const auto at = static_cast<size_t>(x) * 3;
    const auto cell = static_cast<size_t>(x >> x_shift_) * 2;
    luma[x] = ycc[at];
    sums_[cell] = static_cast<uint16_t>(sums_[cell] + ycc[at + 1]);
    sums_[cell + 1] = static_cast<uint16_t>(sums_[cell + 1] + ycc[at + 2]);
  }
  const int chroma_row = next_row_ >> y_shift_;
  const int rows = next_row_ - (chroma_row << y_shift_) + 1;
  ++next_row_;
  if (rows == 1 << y_shift_ || next_row_ == picture_.desc.height) {
    WriteChroma(chroma_row, rows);
  }
}

void NvRowWriter::WriteChroma(int chroma_row, int rows) {
  auto* out = reinterpret_cast<uint8_t*>(picture_.row(1, chroma_row));
  const int width = picture_.desc.width;
  for (int cell = 0; cell < chroma_width_; ++cell) {
    const int columns = std::min(1 << x_shift_, width - (cell << x_shift_));
    const int count = columns * rows;
    const auto at = static_cast<size_t>(cell) * 2;
    for (size_t i = at; i < at + 2; ++i) {
      out[i] = static_cast<uint8_t>((sums_[i] + count / 2) / count);
      sums_[i] = 0;
    }
  }
}

void InterleaveChroma(const uint8_t* cb, const uint8_t* cr, int width,
                      uint8_t* out) {
  for (int x = 0; x < width; ++x) {
    out[2 * x] = cb[x];
    out[2 * x + 1] = cr[x];
  }
}

}  // namespace preprocd
