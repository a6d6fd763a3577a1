// A picture in memory with guard bytes around every row, and the questions
// that decoder tests ask. Only tests use this.
// Thread-safety: compatible.
#ifndef ENGINE_CODEC_DECODE_TEST_SUPPORT_H_
#define ENGINE_CODEC_DECODE_TEST_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/error_detail.h"
#include "engine/codec/image_decoder.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class TestPicture {
 public:
  static constexpr std::byte kGuard{0xA5};

  // Rows end `padding` bytes before the next begins.
  TestPicture(PixelFormat format, int width, int height, size_t padding = 5,
              DType dtype = DType::kU8) {
    ImageDesc desc = MakeImageDesc(format, dtype, width, height).value();
    uint64_t at = padding;
    for (int p = 0; p < GetPixelFormatInfo(format).plane_count; ++p) {
      PlaneDesc& plane = desc.planes[static_cast<size_t>(p)];
      plane.offset_bytes = at;
      plane.stride_bytes = PlaneRowBytes(format, dtype, p, width) + padding;
      at += plane.stride_bytes *
            static_cast<uint64_t>(PlaneRows(format, p, height));
    }
    memory_.assign(at, kGuard);
    const std::span<std::byte> span(memory_);
    view_ = MakeImageView(desc, std::span(&span, 1)).value();
  }

  const ImageView& view() const { return view_; }
  const uint8_t* row(int plane, int y) const {
    return reinterpret_cast<const uint8_t*>(view_.row(plane, y));
  }
  uint8_t* row(int plane, int y) {
    return reinterpret_cast<uint8_t*>(view_.row(plane, y));
  }

  // Row bytes of one plane, one row after the other.
  std::vector<uint8_t> Tight(int plane = 0) const {
    const ImageDesc& desc = view_.desc;
    const size_t bytes =
        PlaneRowBytes(desc.format, desc.dtype, plane, desc.width);
    std::vector<uint8_t> out;
    for (int y = 0; y < PlaneRows(desc.format, plane, desc.height); ++y) {
      out.insert(out.end(), row(plane, y), row(plane, y) + bytes);
    }
    return out;
  }

  // True when nothing outside the rows was written.
  bool GuardsIntact() const {
    std::vector<bool> inside(memory_.size(), false);
    const ImageDesc& desc = view_.desc;
    for (int p = 0; p < GetPixelFormatInfo(desc.format).plane_count; ++p) {
      const size_t bytes =
          PlaneRowBytes(desc.format, desc.dtype, p, desc.width);
      for (int y = 0; y < PlaneRows(desc.format, p, desc.height); ++y) {
        const auto start =
            static_cast<size_t>(view_.row(p, y) - memory_.data());
        std::fill_n(inside.begin() + static_cast<ptrdiff_t>(start), bytes,
                    true);
      }
    }
    for (size_t i = 0; i < memory_.size(); ++i) {
      if (!inside[i] && memory_[i] != kGuard) return false;
    }
    return true;
  }

 private:
  std::vector<std::byte> memory_;
  ImageView view_;
};

inline ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->reason : ErrorReason::kUnspecified;
}

// Decodes to a fresh picture of the file's size; the test fails when it does
// not work or writes outside its rows.
inline std::vector<uint8_t> DecodeTo(const std::vector<std::byte>& file,
                                     PixelFormat format, int plane = 0,
                                     const DecodeOptions& options = {}) {
  const absl::StatusOr<ImageInfo> info = PeekImage(file);
  if (!info.ok()) {
    ADD_FAILURE() << info.status();
    return {};
  }
  TestPicture picture(format, info->width, info->height);
  ImageDecoder decoder;
  const auto result = decoder.Decode(file, options, picture.view());
  EXPECT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(picture.GuardsIntact());
  return picture.Tight(plane);
}

// The status of a decode to rgb.
inline absl::StatusOr<DecodeResult> TryDecode(
    const std::vector<std::byte>& file, const DecodeOptions& options = {}) {
  absl::StatusOr<ImageInfo> info = PeekImage(file);
  if (!info.ok()) return info.status();
  TestPicture picture(PixelFormat::kRgb, info->width, info->height);
  ImageDecoder decoder;
  auto result = decoder.Decode(file, options, picture.view());
  EXPECT_TRUE(picture.GuardsIntact());
  return result;
}

inline int MaxDifference(const std::vector<uint8_t>& a,
                         const std::vector<uint8_t>& b) {
  if (a.size() != b.size()) return 256;
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(int{a[i]} - int{b[i]}));
  }
  return most;
}

}  // namespace preprocd

#endif  // ENGINE_CODEC_DECODE_TEST_SUPPORT_H_
