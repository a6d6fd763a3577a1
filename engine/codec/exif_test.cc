#include "engine/codec/exif.h"

#include <gtest/gtest.h>

#include "engine/codec/jpeg_test_images.h"

namespace preprocd {
namespace {

TEST(ExifTest, ReadsAllEightValuesInBothByteOrders) {
  for (int value = 1; value <= 8; ++value) {
    for (const bool big_endian : {false, true}) {
      EXPECT_EQ(ReadExifOrientation(TiffWithOrientation(value, big_endian)),
                OrientationFromExif(value))
          << value << big_endian;
    }
  }
}

TEST(ExifTest, ValuesOutsideOneToEightAreNothing) {
  EXPECT_FALSE(ReadExifOrientation(TiffWithOrientation(0, true)));
  EXPECT_FALSE(ReadExifOrientation(TiffWithOrientation(9, false)));
  EXPECT_FALSE(ReadExifOrientation(TiffWithOrientation(255, true)));
}

TEST(ExifTest, EveryPrefixOfABlockIsNothingOrTheValue) {
  const Bytes whole = TiffWithOrientation(6, true);
  for (size_t size = 0; size < whole.size(); ++size) {
    const auto found = ReadExifOrientation(std::span(whole).first(size));
    EXPECT_TRUE(!found || *found == Orientation::kRotate90) << size;
  }
  EXPECT_FALSE(ReadExifOrientation(std::span(whole).first(19)));
}

TEST(ExifTest, MalformedHeadersAreNothing) {
  Bytes block = TiffWithOrientation(6, false);
  block[0] = block[1] = std::byte{'X'};
  EXPECT_FALSE(ReadExifOrientation(block));
  block = TiffWithOrientation(6, false);
  block[2] = std::byte{0x2B};
  EXPECT_FALSE(ReadExifOrientation(block));
  block = TiffWithOrientation(6, false);
  for (size_t i = 4; i < 8; ++i) block[i] = std::byte{0xFF};
  EXPECT_FALSE(ReadExifOrientation(block));
}

TEST(ExifTest, EntryCountBeyondTheBlockStopsAtItsEnd) {
  Bytes block = ToBytes({'I', 'I', 42, 0, 8, 0, 0, 0, 0xFF, 0xFF});
  EXPECT_FALSE(ReadExifOrientation(block));
  // The entries that are there still count.
  block = TiffWithOrientation(3, false);
  block[8] = block[9] = std::byte{0xFF};
  EXPECT_EQ(ReadExifOrientation(block), Orientation::kRotate180);
}

TEST(ExifTest, DirectoryThatPointsAtItselfEnds) {
  // The directory's offset is 0: its entry count is the byte order mark.
  const Bytes block = ToBytes({'M', 'M', 0, 42, 0, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(ReadExifOrientation(block));
}

TEST(ExifTest, FirstOfTwoEntriesCounts) {
  const Bytes block =
      ToBytes({'M',  'M',  0, 42, 0, 0, 0, 8, 0, 2,        //
               0x01, 0x12, 0, 3,  0, 0, 0, 1, 0, 6, 0, 0,  //
               0x01, 0x12, 0, 3,  0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(ReadExifOrientation(block), Orientation::kRotate90);
}

TEST(ExifTest, SecondDirectoryDoesNotCount) {
  const Bytes block = ToBytes(
      {'M',  'M',  0,    42,   0, 0, 0, 8, 0, 1,        //
       0x01, 0x00, 0,    3,    0, 0, 0, 1, 0, 6, 0, 0,  //
       0,    0,    0,    26,                            // next directory
       0,    1,    0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0});
  EXPECT_FALSE(ReadExifOrientation(block));
}

TEST(ExifTest, OtherTypesAndCountsAreNothing) {
  Bytes block = TiffWithOrientation(6, true);
  block[13] = std::byte{2};  // ASCII
  EXPECT_FALSE(ReadExifOrientation(block));
  block = TiffWithOrientation(6, true);
  block[17] = std::byte{2};  // two values
  EXPECT_FALSE(ReadExifOrientation(block));
}

}  // namespace
}  // namespace preprocd
