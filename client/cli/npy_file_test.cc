#include "client/cli/npy_file.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace preprocd::cli {
namespace {

using Shape = std::vector<int64_t>;

v1::ImageLayout Layout(v1::PixelFormat format, int width, int height) {
  v1::ImageLayout layout;
  layout.set_format(format);
  layout.set_width(width);
  layout.set_height(height);
  return layout;
}

TEST(NpyHeader, HasMagicVersionLengthAndAlignment) {
  for (const Shape& shape :
       {Shape{640, 640, 3}, Shape{1}, Shape{3, 1, 1}, Shape{12345678, 99999}}) {
    const std::string header = NpyHeader(v1::DATA_TYPE_U8, shape);
    EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
    const size_t length = static_cast<unsigned char>(header[8]) +
                          256U * static_cast<unsigned char>(header[9]);
    EXPECT_EQ(header.size(), 10 + length);
    EXPECT_EQ(header.size() % 64, 0U);
    EXPECT_EQ(header.back(), '\n');
  }
}

TEST(NpyHeader, DictIsWhatNumpyWrites) {
  const std::string header = NpyHeader(v1::DATA_TYPE_F32, {3, 640, 480});
  EXPECT_EQ(header.substr(10, 60),
            "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 640, 4");
  EXPECT_NE(header.find("'shape': (3, 640, 480), }"), std::string::npos);
  // A tuple of one needs its comma.
  EXPECT_NE(NpyHeader(v1::DATA_TYPE_U8, {7}).find("'shape': (7,), }"),
            std::string::npos);
}

TEST(NpyHeader, EveryTypeHasItsDescr) {
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_UNSPECIFIED), "|u1");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_U8), "|u1");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_I8), "|i1");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_U16), "<u2");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_I16), "<i2");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_F16), "<f2");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_BF16), "<u2");
  EXPECT_EQ(NpyDescr(v1::DATA_TYPE_F32), "<f4");
}

TEST(NpyShape, PackedPixelsAreHeightWidthChannels) {
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_RGB, 5, 3), false),
            (Shape{3, 5, 3}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_BGRA, 5, 3), false),
            (Shape{3, 5, 4}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_GREY, 5, 3), false),
            (Shape{3, 5, 1}));
}

TEST(NpyShape, PlanarPixelsAreChannelsHeightWidth) {
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_PLANAR_RGB, 5, 3), true),
            (Shape{3, 3, 5}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_PLANAR_RGBA, 5, 3), true),
            (Shape{4, 3, 5}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_GREY, 5, 3), true),
            (Shape{1, 3, 5}));
}

TEST(NpyShape, EvenYuvIsRowsOfTheWidthAndOddYuvIsFlat) {
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_NV12, 6, 4), false),
            (Shape{6, 6}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_I420, 6, 4), false),
            (Shape{6, 6}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_NV16, 6, 4), false),
            (Shape{8, 6}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_NV24, 6, 4), false),
            (Shape{12, 6}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_YUYV, 6, 4), false),
            (Shape{4, 6, 2}));
  EXPECT_EQ(NpyShape(Layout(v1::PIXEL_FORMAT_NV12, 5, 3), false),
            (Shape{5 * 3 + 2 * 6}));
}

TEST(ParseNpy, ReadsWhatItWrites) {
  for (const v1::DataType dtype :
       {v1::DATA_TYPE_U8, v1::DATA_TYPE_I8, v1::DATA_TYPE_U16,
        v1::DATA_TYPE_I16, v1::DATA_TYPE_F16, v1::DATA_TYPE_F32}) {
    for (const Shape& shape : {Shape{2, 3, 4}, Shape{7}, Shape{0, 5}}) {
      const std::string file = NpyHeader(dtype, shape) + std::string(96, 'x');
      const auto array = ParseNpy("a.npy", file);
      ASSERT_TRUE(array.ok()) << array.status();
      EXPECT_EQ(array->dtype, dtype);
      EXPECT_EQ(array->shape, shape);
      EXPECT_EQ(array->data_offset, file.size() - 96);
    }
  }
}

TEST(ParseNpy, RefusesWhatItCannotRead) {
  const std::string good = NpyHeader(v1::DATA_TYPE_F32, {2, 2});
  const auto changed = [&good](const std::string& from, const std::string& to) {
    std::string text = good + std::string(16, 'x');
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  EXPECT_TRUE(ParseNpy("a", good + std::string(16, 'x')).ok());
  for (const std::string& bad :
       {std::string(), std::string("not an array at all"), good.substr(0, 40),
        good + std::string(15, 'x'), changed("<f4", "<f8"),
        changed("False", "True "), changed("(2, 2)", "(2,-2)"),
        changed("(2, 2)", "[2, 2]"), changed("\x93NUM", "\x93NUN")}) {
    EXPECT_FALSE(ParseNpy("a", bad).ok());
  }
  const std::string huge =
      NpyHeader(v1::DATA_TYPE_F32, {INT64_MAX, INT64_MAX, INT64_MAX});
  EXPECT_FALSE(ParseNpy("a", huge).ok());
}

}  // namespace
}  // namespace preprocd::cli
