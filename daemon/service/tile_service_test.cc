#include <algorithm>
#include <limits>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/service/service.h"
#include "daemon/service/service_fixture.h"
#include "engine/image/tile_grid.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using absl::StatusCode;
using testing::HasSubstr;

constexpr char kFill = '\x5a';

class TileTest : public ServiceTest {
 protected:
  absl::Status Tile(const v1::TileRequest& request, v1::TileReply* reply) {
    return Await([&](Done done) {
      service_.Tile(Call(), request, reply, std::move(done));
    });
  }
  absl::Status TileOne(const v1::TileOneRequest& request,
                       v1::ConvertReply* reply) {
    return Await([&](Done done) {
      service_.TileOne(Call(), request, reply, std::move(done));
    });
  }
  absl::Status Merge(const v1::MergeDetectionsRequest& request,
                     v1::MergeDetectionsReply* reply) {
    return Await([&](Done done) {
      service_.MergeDetections(Call(), request, reply, std::move(done));
    });
  }

  // The standalone convert of a tile, inline.
  std::string ConvertOf(const v1::TileRequest& request,
                        const v1::TilePlacement& tile) {
    v1::ConvertRequest convert;
    *convert.mutable_source() = request.source();
    *convert.mutable_spec() = request.spec();
    convert.mutable_spec()->set_fit(request.grid().fit());
    convert.mutable_spec()->set_letterbox_rule(request.grid().letterbox_rule());
    *convert.mutable_spec()->mutable_source_rect() = tile.crop();
    convert.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
    v1::ImageLayout& layout = *convert.mutable_destination()->mutable_layout();
    layout = request.destination().layout();
    layout.clear_planes();
    layout.set_width(request.grid().tile().width());
    layout.set_height(request.grid().tile().height());
    convert.mutable_destination()->set_tensor_layout(
        request.destination().tensor_layout());
    v1::ConvertReply reply;
    const absl::Status status = Convert(convert, &reply);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(reply.placement().destination().width(), tile.content().width());
    EXPECT_EQ(reply.placement().destination().x(), tile.content().x());
    EXPECT_EQ(reply.placement().destination().y(), tile.content().y());
    return reply.inline_bytes();
  }

  // Every tile of an inline batch against its convert.
  void ExpectTilesAreConverts(const v1::TileRequest& request) {
    v1::TileReply reply;
    const absl::Status status = Tile(request, &reply);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_GT(reply.tiles_size(), 0);
    const size_t stride = reply.element_stride_bytes();
    ASSERT_EQ(reply.inline_bytes().size(),
              stride * static_cast<size_t>(reply.tiles_size()));
    for (int i = 0; i < reply.tiles_size(); ++i) {
      ASSERT_EQ(
          reply.inline_bytes().substr(static_cast<size_t>(i) * stride, stride),
          ConvertOf(request, reply.tiles(i)))
          << "tile " << i;
    }
  }

 private:
  template <typename Start>
  absl::Status Await(Start start) {
    absl::Status result;
    Gate finished;
    start([&](absl::Status status) {
      result = std::move(status);
      finished.Open();
    });
    finished.Wait();
    return result;
  }
};

v1::Source RawSource(v1::PixelFormat format, int width, int height) {
  const size_t bytes =
      static_cast<size_t>(width + 1) * static_cast<size_t>(height + 1) * 4;
  std::string pixels(bytes, '\0');
  uint32_t state = 7;
  for (char& byte : pixels) {
    state = state * 1664525 + 1013904223;
    byte = static_cast<char>(state >> 24);
  }
  v1::Source source;
  source.set_inline_bytes(pixels);
  *source.mutable_layout() = MakeLayout(format, width, height);
  return source;
}

v1::TileRequest Request(v1::Source source, int tile_width, int tile_height,
                        v1::Fit fit = v1::FIT_UNSPECIFIED) {
  v1::TileRequest request;
  *request.mutable_source() = std::move(source);
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
  request.mutable_grid()->mutable_tile()->set_width(tile_width);
  request.mutable_grid()->mutable_tile()->set_height(tile_height);
  request.mutable_grid()->set_overlap(0.2f);
  request.mutable_grid()->set_fit(fit);
  return request;
}

TEST_F(TileTest, TilesAreConvertsOverSizesAndFits) {
  const Size frames[] = {{97, 61}, {64, 64}, {33, 130}, {20, 200}, {1, 1}};
  for (const Size frame : frames) {
    for (const v1::Fit fit : {v1::FIT_UNSPECIFIED, v1::FIT_LETTERBOX}) {
      for (const Size tile : {Size{32, 24}, Size{40, 40}}) {
        SCOPED_TRACE(absl::StrCat(frame.width, "x", frame.height, " fit ", fit,
                                  " tile ", tile.width));
        v1::TileRequest request =
            Request(RawSource(v1::PIXEL_FORMAT_RGB, frame.width, frame.height),
                    tile.width, tile.height, fit);
        request.mutable_spec()->mutable_pad()->set_r(9);
        ExpectTilesAreConverts(request);
      }
    }
  }
}

TEST_F(TileTest, TilesAreConvertsOverFormatsAndTypes) {
  const struct {
    v1::PixelFormat source, destination;
    v1::DataType dtype;
    v1::TensorLayout layout;
  } cases[] = {
      {v1::PIXEL_FORMAT_NV12, v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_U8,
       v1::TENSOR_LAYOUT_UNSPECIFIED},
      {v1::PIXEL_FORMAT_NV12, v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_F32,
       v1::TENSOR_LAYOUT_CHW},
      {v1::PIXEL_FORMAT_I420, v1::PIXEL_FORMAT_PLANAR_BGR, v1::DATA_TYPE_I8,
       v1::TENSOR_LAYOUT_UNSPECIFIED},
      {v1::PIXEL_FORMAT_YUYV, v1::PIXEL_FORMAT_BGRA, v1::DATA_TYPE_U16,
       v1::TENSOR_LAYOUT_UNSPECIFIED},
      {v1::PIXEL_FORMAT_RGB, v1::PIXEL_FORMAT_NV12, v1::DATA_TYPE_U8,
       v1::TENSOR_LAYOUT_UNSPECIFIED},
      {v1::PIXEL_FORMAT_GREY, v1::PIXEL_FORMAT_GREY, v1::DATA_TYPE_U8,
       v1::TENSOR_LAYOUT_UNSPECIFIED},
      {v1::PIXEL_FORMAT_BGRA, v1::PIXEL_FORMAT_RGB, v1::DATA_TYPE_F16,
       v1::TENSOR_LAYOUT_CHW},
      {v1::PIXEL_FORMAT_RGBA, v1::PIXEL_FORMAT_RGBA, v1::DATA_TYPE_U8,
       v1::TENSOR_LAYOUT_HWC},
  };
  for (const auto& c : cases) {
    for (const char* backend : {"cpu", "reference"}) {
      SCOPED_TRACE(absl::StrCat(c.source, " to ", c.destination, " ", c.dtype,
                                " on ", backend));
      v1::TileRequest request =
          Request(RawSource(c.source, 91, 53), 33, 27, v1::FIT_LETTERBOX);
      v1::ImageLayout& layout =
          *request.mutable_destination()->mutable_layout();
      layout.set_format(c.destination);
      layout.set_dtype(c.dtype);
      request.mutable_destination()->set_tensor_layout(c.layout);
      request.mutable_spec()->set_filter(v1::FILTER_BICUBIC);
      request.mutable_options()->add_backends(backend);
      v1::TileReply reply;
      ASSERT_TRUE(Tile(request, &reply).ok());
      EXPECT_EQ(reply.report().backend(), backend);
      if (std::string(backend) == "cpu") ExpectTilesAreConverts(request);
    }
  }
}

TEST_F(TileTest, EncodedFramesAreDecodedOnce) {
  ExpectTilesAreConverts(Request(InlineSource(GradientJpeg(120, 90)), 64, 64));
  v1::TileReply reply;
  ASSERT_TRUE(
      Tile(Request(InlineSource(GradientJpeg(120, 90)), 64, 64), &reply).ok());
  EXPECT_EQ(reply.tiles_size(), 6);
  EXPECT_EQ(reply.rows(), 2);
  EXPECT_EQ(reply.columns(), 3);
  EXPECT_EQ(reply.info().width(), 120);
  EXPECT_EQ(reply.layout().height(), 6 * 64);
  EXPECT_EQ(reply.layout().width(), 64);
  EXPECT_GT(reply.report().times().decode_ns(), 0);
}

// The grid lies on the upright picture.
TEST_F(TileTest, OrientationComesBeforeTheGrid) {
  for (int orientation = 1; orientation <= 8; ++orientation) {
    SCOPED_TRACE(orientation);
    const v1::Source source = RawSource(v1::PIXEL_FORMAT_RGB, 60, 41);
    // The whole upright picture, then its tiles.
    v1::ConvertRequest turn;
    *turn.mutable_source() = source;
    turn.mutable_spec()->set_orientation(orientation);
    turn.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
    v1::ConvertReply upright;
    ASSERT_TRUE(Convert(turn, &upright).ok());
    v1::Source turned;
    turned.set_inline_bytes(upright.inline_bytes());
    *turned.mutable_layout() =
        MakeLayout(v1::PIXEL_FORMAT_RGB, upright.layout().width(),
                   upright.layout().height());
    v1::TileReply expected;
    ASSERT_TRUE(Tile(Request(turned, 25, 18), &expected).ok());

    v1::TileRequest request = Request(source, 25, 18);
    request.mutable_spec()->set_orientation(orientation);
    v1::TileReply reply;
    ASSERT_TRUE(Tile(request, &reply).ok());
    EXPECT_EQ(reply.frame().width(), upright.layout().width());
    EXPECT_EQ(reply.orientation_applied(), orientation);
    ASSERT_EQ(reply.tiles_size(), expected.tiles_size());
    EXPECT_EQ(reply.tiles(1).crop().x(), expected.tiles(1).crop().x());
    EXPECT_EQ(reply.inline_bytes(), expected.inline_bytes());

    v1::TileOneRequest one;
    *one.mutable_source() = source;
    *one.mutable_placement() = reply.tiles(2);
    one.mutable_spec()->set_orientation(orientation);
    one.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
    one.mutable_destination()->mutable_layout()->set_width(25);
    one.mutable_destination()->mutable_layout()->set_height(18);
    v1::ConvertReply slot;
    ASSERT_TRUE(TileOne(one, &slot).ok());
    EXPECT_EQ(slot.inline_bytes(),
              reply.inline_bytes().substr(2 * 25 * 18 * 3, 25 * 18 * 3));
  }
}

TEST_F(TileTest, ARunOfTilesIsPartOfTheGrid) {
  v1::TileRequest request =
      Request(RawSource(v1::PIXEL_FORMAT_RGB, 97, 61), 32, 24);
  v1::TileReply all;
  ASSERT_TRUE(Tile(request, &all).ok());
  request.set_first_tile(3);
  request.set_tile_count(2);
  v1::TileReply part;
  ASSERT_TRUE(Tile(request, &part).ok());
  ASSERT_EQ(part.tiles_size(), 2);
  EXPECT_EQ(part.tiles(0).index(), 3);
  EXPECT_EQ(part.rows(), all.rows());
  const size_t bytes = 32 * 24 * 3;
  EXPECT_EQ(part.inline_bytes(),
            all.inline_bytes().substr(3 * bytes, 2 * bytes));
  request.set_tile_count(0);
  v1::TileReply rest;
  ASSERT_TRUE(Tile(request, &rest).ok());
  EXPECT_EQ(rest.tiles_size(), all.tiles_size() - 3);
}

TEST_F(TileTest, BuffersTakeAnyPlaceAndKeepTheirGaps) {
  for (const Seals seals : {Seals::kSize, Seals::kNone}) {
    v1::TileRequest request =
        Request(RawSource(v1::PIXEL_FORMAT_RGB, 60, 24), 32, 24);
    v1::TileReply tight;
    ASSERT_TRUE(Tile(request, &tight).ok());
    const int count = tight.tiles_size();
    ASSERT_EQ(count, 3);
    const uint64_t id = seals == Seals::kNone ? 5 : 4;
    const size_t size = 16 + 3 * 3000;
    const int fd = RegisterKept(id, MemfdWith(std::string(size, kFill), seals));
    *request.mutable_destination() = BufferDestination(id);
    v1::ImageLayout& layout = *request.mutable_destination()->mutable_layout();
    layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 32, 24 * 3);
    v1::Plane* plane = layout.add_planes();
    plane->set_offset_bytes(16);
    plane->set_stride_bytes(100);
    request.set_element_stride_bytes(3000);
    v1::TileReply reply;
    ASSERT_TRUE(Tile(request, &reply).ok());
    EXPECT_EQ(reply.layout().planes(0).offset_bytes(), 16u);
    EXPECT_EQ(reply.element_stride_bytes(), 3000u);
    EXPECT_EQ(reply.report().bytes_copied() > 2 * size, seals == Seals::kNone);
    std::string expected(size, kFill);
    for (size_t t = 0; t < 3; ++t) {
      for (size_t y = 0; y < 24; ++y) {
        expected.replace(16 + t * 3000 + y * 100, 96, tight.inline_bytes(),
                         (t * 24 + y) * 96, 96);
      }
    }
    EXPECT_EQ(ReadMemfd(fd, size), expected);
  }
}

TEST_F(TileTest, RegisteredLayoutsAreThoseOfTheBatch) {
  v1::TileRequest request =
      Request(RawSource(v1::PIXEL_FORMAT_RGB, 60, 24), 32, 24);
  request.mutable_destination()->mutable_layout()->set_format(
      v1::PIXEL_FORMAT_PLANAR_RGB);
  v1::TileReply tight;
  ASSERT_TRUE(Tile(request, &tight).ok());
  const size_t size = 3 * 32 * 24 * 3;
  const v1::ImageLayout tall =
      MakeLayout(v1::PIXEL_FORMAT_PLANAR_RGB, 32, 24 * 3);
  const int fd = RegisterKept(7, MemfdOfSize(size, Seals::kSize),
                              v1::BUFFER_ACCESS_READ_WRITE, &tall);
  *request.mutable_destination() = BufferDestination(7);
  v1::TileReply reply;
  const absl::Status status = Tile(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(ReadMemfd(fd, size), tight.inline_bytes());

  v1::ImageLayout gaps = tall;
  for (uint64_t p = 0; p < 3; ++p) {
    v1::Plane* plane = gaps.add_planes();
    plane->set_offset_bytes(p * 3000);
    plane->set_stride_bytes(32);
  }
  RegisterKept(8, MemfdOfSize(20000, Seals::kSize),
               v1::BUFFER_ACCESS_READ_WRITE, &gaps);
  *request.mutable_destination() = BufferDestination(8);
  ExpectError(Tile(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "destination.layout");
}

TEST_F(TileTest, BatchesMayBeTallerThanAPicture) {
  // 18 tiles of 1024 rows: 18432.
  v1::TileRequest request =
      Request(RawSource(v1::PIXEL_FORMAT_GREY, 72, 1024), 4, 1024);
  request.mutable_grid()->set_overlap(0);
  const size_t size = 18 * 1024 * 4;
  RegisterKept(3, MemfdOfSize(size, Seals::kSize));
  *request.mutable_destination() = BufferDestination(3);
  *request.mutable_destination()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_GREY, 4, 18 * 1024);
  v1::TileReply reply;
  const absl::Status status = Tile(request, &reply);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(reply.layout().height(), 18432);
}

TEST_F(TileTest, InlinePngIsATallPicture) {
  v1::TileRequest request =
      Request(RawSource(v1::PIXEL_FORMAT_RGB, 60, 24), 32, 24);
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_PNG);
  v1::TileReply reply;
  ASSERT_TRUE(Tile(request, &reply).ok());
  v1::PeekRequest peek;
  peek.mutable_source()->set_inline_bytes(reply.inline_bytes());
  v1::PeekReply info;
  ASSERT_TRUE(service_.Peek(Call(), peek, &info).ok());
  EXPECT_EQ(info.info().height(), 3 * 24);
  request.mutable_destination()->mutable_layout()->set_format(
      v1::PIXEL_FORMAT_PLANAR_RGB);
  ExpectError(Tile(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFormatPair, "destination.inline");
}

TEST_F(TileTest, ProgressNamesEveryTileOnce) {
  for (const Seals seals : {Seals::kSize, Seals::kNone}) {
    v1::TileRequest request =
        Request(RawSource(v1::PIXEL_FORMAT_GREY, 100, 100), 8, 8);
    const uint64_t id = seals == Seals::kNone ? 2 : 1;
    RegisterKept(id, MemfdOfSize(400 * 64, seals));
    *request.mutable_destination() = BufferDestination(id);
    request.mutable_destination()->mutable_layout()->set_format(
        v1::PIXEL_FORMAT_GREY);
    request.set_progress(true);
    int messages = 0;
    std::vector<int> indexes;
    v1::TileReply reply;
    Gate finished;
    absl::Status result;
    service_.TileWithProgress(
        Call(), request, &reply,
        [&](const v1::TileProgress& progress) {
          EXPECT_FALSE(finished.is_open());
          ++messages;
          for (const v1::TilePlacement& tile : progress.tiles()) {
            indexes.push_back(tile.index());
          }
        },
        [&](absl::Status status) {
          result = std::move(status);
          finished.Open();
        });
    finished.Wait();
    ASSERT_TRUE(result.ok()) << result;
    std::sort(indexes.begin(), indexes.end());
    ASSERT_EQ(indexes.size(), static_cast<size_t>(reply.tiles_size()));
    for (size_t i = 0; i < indexes.size(); ++i) {
      EXPECT_EQ(indexes[i], static_cast<int>(i));
    }
    EXPECT_LE(messages, 64);
    EXPECT_GT(messages, 40);
  }
}

TEST_F(TileTest, ProgressThatNobodyHearsIsRefused) {
  v1::TileRequest request =
      Request(RawSource(v1::PIXEL_FORMAT_RGB, 60, 24), 32, 24);
  request.set_progress(true);
  v1::TileReply reply;
  ExpectError(Tile(request, &reply), StatusCode::kInvalidArgument,
              ErrorReason::kFieldInvalid, "progress");
}

class TileRefusalTest : public TileTest {
 protected:
  TileRefusalTest() {
    fd_ = RegisterKept(1, MemfdWith(std::string(kBytes, kFill), Seals::kSize));
    request_ = Request(RawSource(v1::PIXEL_FORMAT_RGB, 60, 24), 32, 24);
    *request_.mutable_destination() = BufferDestination(1);
  }

  void Refused(const v1::TileRequest& request, ErrorReason reason,
               const std::string& field) {
    v1::TileReply reply;
    ExpectError(Tile(request, &reply), StatusCode::kInvalidArgument, reason,
                field);
    EXPECT_EQ(ReadMemfd(fd_, kBytes), std::string(kBytes, kFill));
  }

  static constexpr size_t kBytes = 3 * 32 * 24 * 3;
  int fd_ = -1;
  v1::TileRequest request_;
};

TEST_F(TileRefusalTest, TheGoodRequestIsGood) {
  v1::TileReply reply;
  EXPECT_TRUE(Tile(request_, &reply).ok());
}

// Bug case A-02 and the list.
TEST_F(TileRefusalTest, Grid) {
  for (const float overlap :
       {1.0f, 1.5f, -0.1f, 512.0f, std::numeric_limits<float>::quiet_NaN(),
        std::numeric_limits<float>::infinity()}) {
    v1::TileRequest request = request_;
    request.mutable_grid()->set_overlap(overlap);
    Refused(request, ErrorReason::kFieldInvalid, "grid.overlap");
  }
  v1::TileRequest request = request_;
  request.mutable_grid()->mutable_tile()->set_width(0);
  Refused(request, ErrorReason::kGeometryInvalid, "grid.tile");
  request = request_;
  request.mutable_grid()->clear_tile();
  Refused(request, ErrorReason::kGeometryInvalid, "grid.tile");
  request.mutable_grid()->mutable_tile()->set_width(20000);
  request.mutable_grid()->mutable_tile()->set_height(20000);
  Refused(request, ErrorReason::kTooLarge, "grid.tile");
  request = request_;
  request.mutable_grid()->set_fit(v1::FIT_COVER);
  Refused(request, ErrorReason::kFieldInvalid, "grid.fit");
  request = request_;
  request.mutable_grid()->set_fit(static_cast<v1::Fit>(77));
  Refused(request, ErrorReason::kFieldInvalid, "grid.fit");
  request = request_;
  request.mutable_grid()->set_letterbox_rule(
      static_cast<v1::LetterboxRule>(77));
  Refused(request, ErrorReason::kFieldInvalid, "grid.letterbox_rule");
}

TEST_F(TileRefusalTest, TooManyTiles) {
  v1::TileRequest request = request_;
  request.mutable_grid()->mutable_tile()->set_width(1);
  request.mutable_grid()->mutable_tile()->set_height(1);
  // 60 x 24 = 1440 tiles of a grid that is allowed, in one call that is not.
  request.mutable_grid()->set_overlap(0);
  Refused(request, ErrorReason::kTooLarge, "tile_count");
  request.set_first_tile(1440);
  Refused(request, ErrorReason::kFieldInvalid, "first_tile");
  request.set_first_tile(-1);
  Refused(request, ErrorReason::kFieldInvalid, "first_tile");
  request.set_first_tile(1439);
  request.set_tile_count(2);
  Refused(request, ErrorReason::kFieldInvalid, "tile_count");
  request.set_tile_count(-1);
  Refused(request, ErrorReason::kFieldInvalid, "tile_count");
  // Bug case A-02: step 1.
  request = request_;
  *request.mutable_source() = RawSource(v1::PIXEL_FORMAT_GREY, 2000, 2000);
  request.mutable_grid()->mutable_tile()->set_width(512);
  request.mutable_grid()->mutable_tile()->set_height(512);
  request.mutable_grid()->set_overlap(0.999f);
  v1::TileReply reply;
  const absl::Status status = Tile(request, &reply);
  ExpectError(status, StatusCode::kInvalidArgument, ErrorReason::kTooLarge,
              "grid");
  EXPECT_THAT(std::string(status.message()), HasSubstr("1489x1489"));
}

TEST_F(TileRefusalTest, Destination) {
  v1::TileRequest request = request_;
  v1::ImageLayout& layout = *request.mutable_destination()->mutable_layout();
  layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 32, 24 * 3 - 1);
  Refused(request, ErrorReason::kBufferTooSmall, "destination.layout.height");
  layout.set_height(-1);
  Refused(request, ErrorReason::kBufferTooSmall, "destination.layout.height");
  layout.set_height(24 * 3);
  layout.set_width(33);
  Refused(request, ErrorReason::kGeometryInvalid, "destination.layout.width");
  layout.set_width(32);
  layout.set_dtype(v1::DATA_TYPE_U16);
  Refused(request, ErrorReason::kBufferTooSmall, "destination.buffer");
  layout.set_dtype(v1::DATA_TYPE_U8);
  request.set_element_stride_bytes(32 * 24 * 3 - 1);
  Refused(request, ErrorReason::kFieldInvalid, "element_stride_bytes");
  request.set_element_stride_bytes(std::numeric_limits<uint64_t>::max());
  Refused(request, ErrorReason::kBufferTooSmall, "destination.buffer");
  request.clear_element_stride_bytes();
  layout.add_planes()->set_offset_bytes(1);
  Refused(request, ErrorReason::kBufferTooSmall, "destination.buffer");
  layout.clear_planes();
  layout.add_planes()->set_stride_bytes(std::numeric_limits<uint64_t>::max());
  Refused(request, ErrorReason::kBufferTooSmall,
          "destination.layout.planes[0]");
}

TEST_F(TileRefusalTest, Spec) {
  v1::TileRequest request = request_;
  request.mutable_spec()->mutable_source_rect()->set_width(3);
  Refused(request, ErrorReason::kFieldInvalid, "spec.source_rect");
  request = request_;
  request.mutable_spec()->set_fit(v1::FIT_LETTERBOX);
  Refused(request, ErrorReason::kFieldInvalid, "spec.fit");
  request = request_;
  request.mutable_spec()->mutable_place()->set_width(3);
  Refused(request, ErrorReason::kFieldInvalid, "spec.place");
  request = request_;
  request.mutable_spec()->set_letterbox_rule(v1::LETTERBOX_RULE_ULTRALYTICS);
  Refused(request, ErrorReason::kFieldInvalid, "spec.letterbox_rule");
  request = request_;
  request.mutable_spec()->set_orientation_from_file(true);
  Refused(request, ErrorReason::kFieldInvalid, "spec.orientation_from_file");
}

TEST_F(TileRefusalTest, SourceInTheDestination) {
  v1::TileRequest request = request_;
  request.mutable_source()->Clear();
  *request.mutable_source() = BufferSource(1);
  *request.mutable_source()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_GREY, 33, 24);
  Refused(request, ErrorReason::kBufferOverlap, "destination");
}

TEST_F(TileRefusalTest, OnePlacement) {
  v1::TileOneRequest request;
  *request.mutable_source() = RawSource(v1::PIXEL_FORMAT_RGB, 60, 24);
  *request.mutable_destination() = BufferDestination(1);
  v1::ImageLayout& layout = *request.mutable_destination()->mutable_layout();
  layout = MakeLayout(v1::PIXEL_FORMAT_RGB, 32, 24);
  const auto refused = [&](ErrorReason reason, const std::string& field) {
    v1::ConvertReply reply;
    ExpectError(TileOne(request, &reply), StatusCode::kInvalidArgument, reason,
                field);
    EXPECT_EQ(ReadMemfd(fd_, kBytes), std::string(kBytes, kFill));
  };
  refused(ErrorReason::kFieldInvalid, "placement.crop");
  v1::Rect& crop = *request.mutable_placement()->mutable_crop();
  refused(ErrorReason::kGeometryInvalid, "placement.crop");
  crop.set_x(29);
  crop.set_width(32);
  crop.set_height(24);
  refused(ErrorReason::kGeometryInvalid, "placement.crop");
  crop.set_x(28);
  v1::Rect& content = *request.mutable_placement()->mutable_content();
  content.set_width(33);
  content.set_height(24);
  refused(ErrorReason::kGeometryInvalid, "placement.content");
  content.set_width(32);
  request.mutable_spec()->set_fit(v1::FIT_STRETCH);
  refused(ErrorReason::kFieldInvalid, "spec.fit");
  request.mutable_spec()->clear_fit();
  v1::ConvertReply reply;
  EXPECT_TRUE(TileOne(request, &reply).ok());
}

TEST_F(TileTest, BoxesAreLifted) {
  v1::LiftBoxesRequest request;
  v1::Detection* box = request.add_boxes();
  box->set_x1(1);
  box->set_y1(0.5f);
  box->set_label(4);
  box->set_track_id(9);
  v1::Rect& crop = *request.mutable_placement()->mutable_crop();
  crop.set_x(100);
  crop.set_width(64);
  crop.set_height(64);
  v1::LiftBoxesReply reply;
  ASSERT_TRUE(service_.LiftBoxes(Call(), request, &reply).ok());
  EXPECT_EQ(reply.boxes(0).x1(), 164);
  EXPECT_EQ(reply.boxes(0).y1(), 32);
  EXPECT_EQ(reply.boxes(0).label(), 4);
  EXPECT_EQ(reply.boxes(0).track_id(), 9u);
  box->set_x0(std::numeric_limits<float>::quiet_NaN());
  ExpectError(service_.LiftBoxes(Call(), request, &reply),
              StatusCode::kInvalidArgument, ErrorReason::kFieldInvalid,
              "boxes[0].x0");
}

TEST_F(TileTest, MasksAreMergedWithTheirBoxes) {
  v1::MergeDetectionsRequest request;
  request.mutable_frame()->set_width(8);
  request.mutable_frame()->set_height(4);
  for (int i = 0; i < 2; ++i) {
    v1::Detection* box = request.add_boxes();
    box->set_x0(static_cast<float>(i));
    box->set_x1(static_cast<float>(i + 4));
    box->set_y1(4);
    box->set_score(0.9f - 0.1f * static_cast<float>(i));
    v1::MaskPiece* mask = request.add_masks();
    mask->mutable_bounds()->set_x(i * 4);
    mask->mutable_bounds()->set_width(4);
    mask->mutable_bounds()->set_height(4);
    if (i == 0) {
      mask->set_dense(std::string(16, '\xff'));
    } else {
      mask->add_rle_counts(0);
      mask->add_rle_counts(4);
      mask->add_rle_counts(12);
    }
  }
  v1::MergeDetectionsReply reply;
  ASSERT_TRUE(Merge(request, &reply).ok());
  ASSERT_EQ(reply.boxes_size(), 1);
  EXPECT_EQ(reply.boxes(0).x1(), 5);
  EXPECT_THAT(reply.merged_into(), testing::ElementsAre(0, 0));
  ASSERT_EQ(reply.masks_size(), 1);
  EXPECT_EQ(reply.masks(0).bounds().width(), 8);
  EXPECT_THAT(reply.masks(0).rle_counts(), testing::ElementsAre(0, 20, 12));

  request.set_rule(v1::MERGE_RULE_SUPPRESS);
  request.set_whole_frame_masks(true);
  reply.Clear();
  ASSERT_TRUE(Merge(request, &reply).ok());
  EXPECT_EQ(reply.boxes(0).x1(), 4);
  EXPECT_THAT(reply.masks(0).rle_counts(), testing::ElementsAre(0, 16, 16));

  const auto refused = [&](const std::string& field) {
    v1::MergeDetectionsReply none;
    ExpectError(Merge(request, &none), StatusCode::kInvalidArgument,
                ErrorReason::kFieldInvalid, field);
  };
  request.set_threshold(1.5f);
  refused("threshold");
  request.set_threshold(0);
  request.set_max_detections(-1);
  refused("max_detections");
  request.set_max_detections(0);
  request.set_metric(static_cast<v1::MatchMetric>(9));
  refused("metric");
  request.clear_metric();
  request.set_rule(static_cast<v1::MergeRule>(9));
  refused("rule");
  request.clear_rule();
  request.mutable_masks(0)->set_dense("x");
  refused("masks[0].dense");
  request.clear_frame();
  refused("frame");
  request.mutable_masks()->RemoveLast();
  refused("masks");
}

}  // namespace
}  // namespace preprocd
