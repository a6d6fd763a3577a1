#include "engine/detections/mask_union.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

using testing::ElementsAre;

// A frame of bytes, row after row.
struct Picture {
  explicit Picture(Size of) : size(of) {
    pixels.assign(static_cast<size_t>(size.width * size.height), 0);
  }
  uint8_t& at(int x, int y) {
    return pixels[static_cast<size_t>(y * size.width + x)];
  }
  bool operator==(const Picture& other) const { return pixels == other.pixels; }
  Size size;
  std::vector<uint8_t> pixels;
};

// Paints what run lengths over `bounds` say, pixel by pixel.
void Paint(const Rect& bounds, const std::vector<uint32_t>& counts,
           Picture& picture) {
  size_t at = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    for (uint32_t k = 0; k < counts[i]; ++k, ++at) {
      const auto height = static_cast<size_t>(bounds.height);
      if (i % 2 == 1) {
        picture.at(bounds.x + static_cast<int>(at / height),
                   bounds.y + static_cast<int>(at % height)) = 1;
      }
    }
  }
  EXPECT_EQ(at, static_cast<size_t>(bounds.width * bounds.height));
}

std::vector<uint32_t> Encode(const std::vector<uint8_t>& dense,
                             const Rect& bounds) {
  std::vector<uint32_t> counts = {0};
  bool inside = false;
  for (int x = 0; x < bounds.width; ++x) {
    for (int y = 0; y < bounds.height; ++y) {
      const bool now = dense[static_cast<size_t>(y * bounds.width + x)] >= 128;
      if (now != inside) counts.push_back(0);
      inside = now;
      ++counts.back();
    }
  }
  return counts;
}

TEST(MaskUnionTest, TwoTilesOfOneObject) {
  // x 0..2 and x 1..3 of a 4x2 frame, each full.
  const std::vector<uint32_t> full = {0, 4};
  const std::vector<MaskPiece> pieces = {{{0, 0, 2, 2}, {}, full},
                                         {{1, 0, 2, 2}, {}, full}};
  const std::vector<int32_t> both = {0, 1};
  const UnitedMask united = UniteMasks(pieces, both);
  EXPECT_EQ(united.bounds, (Rect{0, 0, 3, 2}));
  EXPECT_THAT(united.rle_counts, ElementsAre(0, 6));
  EXPECT_THAT(OverFrame(united, {4, 3}).rle_counts,
              ElementsAre(0, 2, 1, 2, 1, 2, 4));
}

TEST(MaskUnionTest, EmptyMasksStayEmpty) {
  const std::vector<uint32_t> nothing = {6};
  const std::vector<MaskPiece> pieces = {{{1, 1, 2, 3}, {}, nothing}};
  const std::vector<int32_t> one = {0};
  const UnitedMask united = UniteMasks(pieces, one);
  EXPECT_THAT(united.rle_counts, ElementsAre(6));
  EXPECT_THAT(OverFrame(united, {5, 5}).rle_counts, ElementsAre(25));
}

TEST(MaskUnionTest, EqualsPaintingOnRandomPieces) {
  std::mt19937 random(3);
  const auto number = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int scene = 0; scene < 200; ++scene) {
    const Size frame = {number(1, 40), number(1, 40)};
    const int count = number(1, 5);
    std::vector<std::vector<uint8_t>> dense;
    std::vector<std::vector<uint32_t>> counts;
    std::vector<Rect> bounds;
    Picture expected(frame);
    for (int i = 0; i < count; ++i) {
      const int w = number(1, frame.width);
      const int h = number(1, frame.height);
      bounds.push_back(
          {number(0, frame.width - w), number(0, frame.height - h), w, h});
      const int share = number(0, 4);
      std::vector<uint8_t> bytes(static_cast<size_t>(w * h));
      for (uint8_t& byte : bytes) {
        byte = static_cast<uint8_t>(number(0, 4) < share ? number(128, 255)
                                                         : number(0, 127));
      }
      counts.push_back(Encode(bytes, bounds.back()));
      dense.push_back(bytes);
      Paint(bounds.back(), counts.back(), expected);
    }
    std::vector<MaskPiece> pieces;
    std::vector<int32_t> members;
    uint64_t runs = 0;
    for (size_t i = 0; i < bounds.size(); ++i) {
      MaskPiece piece;
      piece.bounds = bounds[i];
      if (i % 2 == 0) {
        piece.dense = dense[i];
      } else {
        piece.rle_counts = counts[i];
      }
      ASSERT_TRUE(CheckMaskPiece(piece, i, frame, runs).ok());
      pieces.push_back(piece);
      members.push_back(static_cast<int32_t>(i));
    }
    const UnitedMask united = UniteMasks(pieces, members);
    Picture got(frame);
    Paint(united.bounds, united.rle_counts, got);
    ASSERT_EQ(got, expected) << "scene " << scene;
    const UnitedMask whole = OverFrame(united, frame);
    Picture over(frame);
    Paint(whole.bounds, whole.rle_counts, over);
    ASSERT_EQ(over, expected) << "scene " << scene;
  }
}

TEST(MaskUnionTest, BadPiecesNameTheirField) {
  const Size frame = {10, 10};
  const std::vector<uint8_t> nine(9, 255);
  const std::vector<uint32_t> counts = {4, 5};
  const auto field = [&](const MaskPiece& piece) {
    uint64_t runs = 0;
    const absl::Status status = CheckMaskPiece(piece, 2, frame, runs);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return GetErrorDetail(status)->field;
  };
  EXPECT_EQ(field({{8, 0, 3, 3}, nine, {}}), "masks[2].bounds");
  EXPECT_EQ(field({{0, 0, 0, 3}, {}, {}}), "masks[2].bounds");
  EXPECT_EQ(field({{0, 0, 3, 2}, nine, {}}), "masks[2].dense");
  EXPECT_EQ(field({{0, 0, 3, 3}, nine, counts}), "masks[2].dense");
  EXPECT_EQ(field({{0, 0, 3, 2}, {}, counts}), "masks[2].rle_counts");
  EXPECT_EQ(field({{0, 0, 3, 2}, {}, {}}), "masks[2].rle_counts");
  uint64_t runs = kMaxMaskRuns;
  EXPECT_EQ(
      GetErrorDetail(CheckMaskPiece({{0, 0, 3, 3}, {}, counts}, 0, frame, runs))
          ->reason,
      ErrorReason::kTooLarge);
}

}  // namespace
}  // namespace preprocd
