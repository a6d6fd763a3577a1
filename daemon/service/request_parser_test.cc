#include "daemon/service/request_parser.h"

#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using testing::HasSubstr;
using testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Every refusal of this room: code, reason, field, and a message that begins
// with the field.
void ExpectRefused(const absl::Status& status, ErrorReason reason,
                   const std::string& field,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  ASSERT_EQ(status.code(), code) << status;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  ASSERT_TRUE(detail.has_value()) << status;
  EXPECT_EQ(detail->reason, reason) << status;
  EXPECT_EQ(detail->field, field) << status;
  EXPECT_THAT(std::string(status.message()), StartsWith(field));
}

v1::ImageLayout Layout(v1::PixelFormat format, int width, int height) {
  v1::ImageLayout layout;
  layout.set_format(format);
  layout.set_width(width);
  layout.set_height(height);
  return layout;
}

absl::Status ParseSpec(const v1::ConvertSpec& spec) {
  return ParseConvertSpec(spec, v1::CallOptions()).status();
}

TEST(LayoutTest, EmptyPlanesAreTightFromOffsetZero) {
  const auto desc =
      ParseImageLayout(Layout(v1::PIXEL_FORMAT_NV12, 5, 3), "layout");
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_EQ(desc->dtype, DType::kU8);
  EXPECT_EQ(desc->planes[0].offset_bytes, 0u);
  EXPECT_EQ(desc->planes[0].stride_bytes, 5u);
  EXPECT_EQ(desc->planes[1].offset_bytes, 15u);
  EXPECT_EQ(desc->planes[1].stride_bytes, 6u);
}

TEST(LayoutTest, StrideZeroIsTightOrAligned) {
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_RGB, 5, 3);
  layout.add_planes()->set_offset_bytes(7);
  auto desc = ParseImageLayout(layout, "layout");
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_EQ(desc->planes[0].offset_bytes, 7u);
  EXPECT_EQ(desc->planes[0].stride_bytes, 15u);
  desc = ParseImageLayout(layout, "layout", 64);
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_EQ(desc->planes[0].stride_bytes, 64u);
}

TEST(LayoutTest, PlanesKeepDescriptorOffsetAndStride) {
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_NV12, 4, 4);
  layout.add_planes()->set_stride_bytes(32);
  v1::Plane* chroma = layout.add_planes();
  chroma->set_fd_index(1);
  chroma->set_offset_bytes(128);
  chroma->set_stride_bytes(16);
  const auto desc = ParseImageLayout(layout, "layout");
  ASSERT_TRUE(desc.ok()) << desc.status();
  EXPECT_EQ(desc->planes[0].stride_bytes, 32u);
  EXPECT_EQ(desc->planes[1].buffer_index, 1u);
  EXPECT_EQ(desc->planes[1].offset_bytes, 128u);
  EXPECT_EQ(desc->planes[1].stride_bytes, 16u);
}

TEST(LayoutTest, RefusesUnspecifiedAndUnknownNumbers) {
  ExpectRefused(
      ParseImageLayout(Layout(v1::PIXEL_FORMAT_UNSPECIFIED, 4, 4), "layout")
          .status(),
      ErrorReason::kFieldInvalid, "layout.format");
  ExpectRefused(
      ParseImageLayout(Layout(static_cast<v1::PixelFormat>(99), 4, 4), "layout")
          .status(),
      ErrorReason::kFieldInvalid, "layout.format");
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_RGB, 4, 4);
  layout.set_dtype(static_cast<v1::DataType>(8));
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.dtype");
  layout = Layout(v1::PIXEL_FORMAT_NV12, 4, 4);
  layout.mutable_color()->set_matrix(static_cast<v1::MatrixCoefficients>(4));
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.color.matrix");
  layout.mutable_color()->set_matrix(v1::MATRIX_COEFFICIENTS_BT709);
  layout.mutable_color()->set_range(static_cast<v1::ColorRange>(-1));
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.color.range");
}

TEST(LayoutTest, RefusesSizesOutsideTheAxisBounds) {
  const auto parse = [](int width, int height) {
    return ParseImageLayout(Layout(v1::PIXEL_FORMAT_RGB, width, height), "l")
        .status();
  };
  ExpectRefused(parse(0, 4), ErrorReason::kGeometryInvalid, "l.width");
  ExpectRefused(parse(4, -1), ErrorReason::kGeometryInvalid, "l.height");
  ExpectRefused(parse(kMaxImageAxis + 1, 4), ErrorReason::kTooLarge, "l.width");
  ExpectRefused(parse(4, std::numeric_limits<int>::max()),
                ErrorReason::kTooLarge, "l.height");
  EXPECT_TRUE(parse(kMaxImageAxis, kMaxImageAxis).ok());
}

TEST(LayoutTest, RefusesWrongPlaneCountsAndDescriptorIndexes) {
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_NV12, 4, 4);
  layout.add_planes();
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.planes");
  layout.add_planes()->set_fd_index(4);
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.planes[1].fd_index");
  layout.add_planes();
  ExpectRefused(ParseImageLayout(layout, "layout").status(),
                ErrorReason::kFieldInvalid, "layout.planes");
}

TEST(LayoutTest, RefusesModifiers) {
  v1::ImageLayout layout = Layout(v1::PIXEL_FORMAT_RGB, 4, 4);
  layout.set_modifier(0x0100000000000001);
  const absl::Status status = ParseImageLayout(layout, "layout").status();
  ExpectRefused(status, ErrorReason::kNotBuilt, "layout.modifier",
                absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("device backends"));
}

TEST(OutputTest, EverythingMayBeLeftOut) {
  const auto output = ParseOutputSpec(v1::Destination());
  ASSERT_TRUE(output.ok()) << output.status();
  EXPECT_EQ(output->format, PixelFormat::kUnspecified);
  EXPECT_EQ(output->size, Size());
}

TEST(OutputTest, RefusesHalfSizesTilesAndUnknownLayouts) {
  v1::Destination destination;
  destination.mutable_layout()->set_width(640);
  ExpectRefused(ParseOutputSpec(destination).status(),
                ErrorReason::kGeometryInvalid, "destination.layout.height");
  destination.mutable_layout()->set_height(40000);
  ExpectRefused(ParseOutputSpec(destination).status(), ErrorReason::kTooLarge,
                "destination.layout.height");
  destination.mutable_layout()->set_height(640);
  destination.mutable_tensor_tile()->set_width(16);
  ExpectRefused(ParseOutputSpec(destination).status(),
                ErrorReason::kFieldInvalid, "destination.tensor_tile");
  destination.set_tensor_layout(v1::TENSOR_LAYOUT_TILED_COMPACT);
  ExpectRefused(ParseOutputSpec(destination).status(),
                ErrorReason::kGeometryInvalid,
                "destination.tensor_tile.height");
  destination.set_tensor_layout(static_cast<v1::TensorLayout>(5));
  ExpectRefused(ParseOutputSpec(destination).status(),
                ErrorReason::kFieldInvalid, "destination.tensor_layout");
}

TEST(SpecTest, CarriesEveryField) {
  v1::ConvertSpec in;
  in.mutable_source_rect()->set_x(1);
  in.mutable_source_rect()->set_y(2);
  in.mutable_source_rect()->set_width(3);
  in.mutable_source_rect()->set_height(4);
  in.set_orientation(6);
  in.set_fit(v1::FIT_PLACE);
  in.set_letterbox_rule(v1::LETTERBOX_RULE_ULTRALYTICS);
  in.mutable_place()->set_width(7);
  in.mutable_pad()->set_r(255);
  in.set_filter(v1::FILTER_AREA);
  in.mutable_normalization()->add_offset(127.5);
  in.mutable_normalization()->add_multiplier(0.5);
  in.mutable_normalization()->add_multiplier(0.25);
  in.mutable_normalization()->add_multiplier(-1);
  in.mutable_quantization()->set_multiplier(2);
  in.mutable_quantization()->set_zero_point(-3);
  in.set_chroma(v1::CHROMA_UPSAMPLING_FANCY);
  in.set_precision(v1::PRECISION_FULL);
  in.set_numerics(v1::NUMERICS_EV74);
  v1::CallOptions options;
  options.add_backends("cpu");
  const auto spec = ParseConvertSpec(in, options);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->source_rect, (Rect{1, 2, 3, 4}));
  EXPECT_EQ(spec->orientation, Orientation::kRotate90);
  EXPECT_EQ(spec->fit, Fit::kPlace);
  EXPECT_EQ(spec->letterbox_rule, LetterboxRule::kUltralytics);
  EXPECT_EQ(spec->place, (Rect{0, 0, 7, 0}));
  EXPECT_EQ(spec->pad, (PadColor{255, 0, 0, 0}));
  EXPECT_EQ(spec->filter, Filter::kArea);
  ASSERT_TRUE(spec->normalization.has_value());
  EXPECT_EQ(spec->normalization->offset[2], 127.5);
  EXPECT_EQ(spec->normalization->multiplier[1], 0.25);
  EXPECT_EQ(spec->quantization, (Quantization{2, -3}));
  EXPECT_EQ(spec->chroma, ChromaUpsampling::kFancy);
  EXPECT_EQ(spec->precision, Precision::kFull);
  EXPECT_EQ(spec->numerics, Numerics::kEv74);
  EXPECT_EQ(spec->backends, std::vector<std::string>{"cpu"});
}

TEST(SpecTest, RefusesUnknownNumbersOfEveryEnumeration) {
  v1::ConvertSpec spec;
  spec.set_fit(static_cast<v1::Fit>(5));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.fit");
  spec = v1::ConvertSpec();
  spec.set_letterbox_rule(static_cast<v1::LetterboxRule>(4));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.letterbox_rule");
  spec = v1::ConvertSpec();
  spec.set_filter(static_cast<v1::Filter>(-1));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.filter");
  spec = v1::ConvertSpec();
  spec.set_chroma(static_cast<v1::ChromaUpsampling>(3));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.chroma");
  spec = v1::ConvertSpec();
  spec.set_precision(static_cast<v1::Precision>(3));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.precision");
  spec = v1::ConvertSpec();
  spec.set_numerics(static_cast<v1::Numerics>(3));
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.numerics");
}

TEST(SpecTest, RefusesOrientationsAndColoursOutOfRange) {
  v1::ConvertSpec spec;
  for (const int orientation : {-1, 9, 1 << 30}) {
    spec.set_orientation(orientation);
    ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                  "spec.orientation");
  }
  spec.set_orientation(0);
  spec.mutable_pad()->set_b(256);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid, "spec.pad.b");
}

TEST(SpecTest, RefusesNumbersThatAreNotFiniteOrZero) {
  v1::ConvertSpec spec;
  spec.mutable_normalization()->add_multiplier(1);
  spec.mutable_normalization()->add_multiplier(0);
  spec.mutable_normalization()->add_multiplier(1);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.normalization.multiplier[1]");
  spec.mutable_normalization()->set_multiplier(1, kInfinity);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.normalization.multiplier[1]");
  spec.mutable_normalization()->set_multiplier(1, 1);
  spec.mutable_normalization()->add_offset(kNan);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.normalization.offset[0]");
  spec = v1::ConvertSpec();
  for (const double multiplier : {0.0, kNan, -kInfinity}) {
    spec.mutable_quantization()->set_multiplier(multiplier);
    ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                  "spec.quantization.multiplier");
  }
}

TEST(SpecTest, RefusesListsThatMatchNoChannelCount) {
  v1::ConvertSpec spec;
  spec.mutable_normalization()->add_offset(1);
  spec.mutable_normalization()->add_offset(1);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.normalization.offset");
  for (int i = 0; i < 3; ++i) spec.mutable_normalization()->add_offset(1);
  ExpectRefused(ParseSpec(spec), ErrorReason::kFieldInvalid,
                "spec.normalization.offset");
  spec = v1::ConvertSpec();
  for (int i = 0; i < 3; ++i) spec.mutable_normalization()->add_multiplier(1);
  EXPECT_TRUE(CheckChannelCounts(spec, PixelFormat::kPlanarBgr).ok());
  ExpectRefused(CheckChannelCounts(spec, PixelFormat::kGrey),
                ErrorReason::kFieldInvalid, "spec.normalization.multiplier");
  ExpectRefused(CheckChannelCounts(spec, PixelFormat::kRgba),
                ErrorReason::kFieldInvalid, "spec.normalization.multiplier");
}

TEST(CallOptionsTest, TheEarlierDeadlineHolds) {
  v1::CallOptions options;
  auto bounds = ParseCallOptions(options, 1000, 0);
  ASSERT_TRUE(bounds.ok());
  EXPECT_EQ(bounds->deadline_ns, 0);
  options.set_deadline_us(5);
  EXPECT_EQ(ParseCallOptions(options, 1000, 0)->deadline_ns, 6000);
  EXPECT_EQ(ParseCallOptions(options, 1000, 4000)->deadline_ns, 4000);
  EXPECT_EQ(ParseCallOptions(options, 1000, 9000)->deadline_ns, 6000);
  options.set_deadline_us(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ParseCallOptions(options, 1000, 9000)->deadline_ns, 9000);
}

TEST(CallOptionsTest, PrioritiesAreThree) {
  v1::CallOptions options;
  options.set_priority(-1);
  EXPECT_EQ(ParseCallOptions(options, 0, 0)->priority, Priority::kBackground);
  options.set_priority(1);
  EXPECT_EQ(ParseCallOptions(options, 0, 0)->priority, Priority::kHigh);
  options.set_priority(2);
  ExpectRefused(ParseCallOptions(options, 0, 0).status(),
                ErrorReason::kFieldInvalid, "options.priority");
}

TEST(CallOptionsTest, RefusesNegativeDeadlinesLongListsAndBadTraceparents) {
  v1::CallOptions options;
  options.set_deadline_us(-1);
  ExpectRefused(ParseCallOptions(options, 0, 0).status(),
                ErrorReason::kFieldInvalid, "options.deadline_us");
  options = v1::CallOptions();
  for (int i = 0; i <= kMaxBackendNames; ++i) options.add_backends("cpu");
  ExpectRefused(ParseCallOptions(options, 0, 0).status(),
                ErrorReason::kTooLarge, "options.backends");
  options = v1::CallOptions();
  options.set_traceparent(
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_TRUE(ParseCallOptions(options, 0, 0).ok());
  for (const char* text :
       {"0", "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00x0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}) {
    options.set_traceparent(text);
    ExpectRefused(ParseCallOptions(options, 0, 0).status(),
                  ErrorReason::kFieldInvalid, "options.traceparent");
  }
}

TEST(ImageInfoTest, FillsWhatIsLeftOutAndChecksTheRest) {
  v1::ImageInfo info;
  info.set_width(640);
  info.set_height(480);
  auto parsed = ParseImageInfo(info, "source_info");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->file_format, FileFormat::kJpeg);
  EXPECT_EQ(parsed->color.range, ColorRange::kFull);
  info.set_file_format("gif");
  ExpectRefused(ParseImageInfo(info, "source_info").status(),
                ErrorReason::kFieldInvalid, "source_info.file_format");
  info.set_file_format("png");
  info.set_orientation(9);
  ExpectRefused(ParseImageInfo(info, "source_info").status(),
                ErrorReason::kFieldInvalid, "source_info.orientation");
  info.set_orientation(0);
  info.set_width(kMaxImageAxis);
  info.set_height(kMaxImageAxis);
  ExpectRefused(ParseImageInfo(info, "source_info").status(),
                ErrorReason::kTooLarge, "source_info");
  info.set_width(0);
  ExpectRefused(ParseImageInfo(info, "source_info").status(),
                ErrorReason::kGeometryInvalid, "source_info.width");
}

TEST(EncodeOptionsTest, DefaultsAndBounds) {
  v1::EncodeRequest request;
  auto options = ParseEncodeOptions(request);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->format, FileFormat::kJpeg);
  EXPECT_EQ(options->jpeg.quality, 90);
  EXPECT_EQ(options->jpeg.subsampling, JpegSubsampling::k420);
  EXPECT_EQ(options->png.compression, 6);
  request.set_quality(101);
  ExpectRefused(ParseEncodeOptions(request).status(),
                ErrorReason::kFieldInvalid, "quality");
  request = v1::EncodeRequest();
  request.set_subsampling("4:1:1");
  ExpectRefused(ParseEncodeOptions(request).status(),
                ErrorReason::kFieldInvalid, "subsampling");
  request = v1::EncodeRequest();
  request.set_compression(10);
  ExpectRefused(ParseEncodeOptions(request).status(),
                ErrorReason::kFieldInvalid, "compression");
  request = v1::EncodeRequest();
  request.set_format(static_cast<v1::FileFormat>(3));
  ExpectRefused(ParseEncodeOptions(request).status(),
                ErrorReason::kFieldInvalid, "format");
}

TEST(EncodeOptionsTest, OnlyPicturesThatTheEncodersTake) {
  EXPECT_TRUE(
      CheckEncodable(FileFormat::kJpeg, PixelFormat::kNv12, DType::kU8, "f")
          .ok());
  EXPECT_TRUE(CheckEncodable(FileFormat::kPng, PixelFormat::kPlanarRgb,
                             DType::kU16, "f")
                  .ok());
  ExpectRefused(
      CheckEncodable(FileFormat::kJpeg, PixelFormat::kRgb, DType::kU16, "f"),
      ErrorReason::kFormatPair, "f");
  ExpectRefused(
      CheckEncodable(FileFormat::kPng, PixelFormat::kNv12, DType::kU8, "f"),
      ErrorReason::kFormatPair, "f");
  ExpectRefused(
      CheckEncodable(FileFormat::kPng, PixelFormat::kRgb, DType::kF32, "f"),
      ErrorReason::kFormatPair, "f");
}

TEST(UnderFieldTest, PutsThePathInFront) {
  const absl::Status inner = InvalidField("planes[0]", "planes[0] 1 > 0");
  ExpectRefused(UnderField(inner, "source.layout"), ErrorReason::kFieldInvalid,
                "source.layout.planes[0]");
  ErrorDetail bare;
  bare.reason = ErrorReason::kImageCorrupt;
  ExpectRefused(UnderField(MakeError(absl::StatusCode::kInvalidArgument, bare,
                                     "no marker"),
                           "source"),
                ErrorReason::kImageCorrupt, "source");
  EXPECT_TRUE(UnderField(absl::OkStatus(), "source").ok());
  ExpectRefused(UnderField(InvalidField("source", "source is bad"), "source"),
                ErrorReason::kFieldInvalid, "source");
  ExpectRefused(UnderField(InvalidField("source.x", "source.x 1"), "source"),
                ErrorReason::kFieldInvalid, "source.x");
}

}  // namespace
}  // namespace preprocd
