#include "client/cli/convert_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

#include "client/cli/exit_code.h"
#include "engine/base/error_detail.h"

namespace preprocd::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The options of a command line as `convert` reads them.
ConvertOptions Parse(const std::string& line) {
  ConvertOptions options;
  CLI::App app;
  app.add_option("FILE", options.file);
  AddConvertOptions(app, options);
  app.parse(line);
  return options;
}

absl::StatusOr<v1::ConvertRequest> Request(const std::string& line) {
  return MakeConvertRequest(Parse(line));
}

TEST(ConvertOptions, MainJobOfTheDocumentation) {
  const auto request = Request(
      "photo.jpg --size 640x480 --fit letterbox --letterbox-rule ultralytics "
      "--pad 1,2,3 --filter bicubic-aa --format bgr --dtype f32 --layout chw "
      "--backend cpu,reference");
  ASSERT_TRUE(request.ok()) << request.status();
  const v1::ImageLayout& layout = request->destination().layout();
  EXPECT_EQ(layout.width(), 640);
  EXPECT_EQ(layout.height(), 480);
  EXPECT_EQ(layout.format(), v1::PIXEL_FORMAT_BGR);
  EXPECT_EQ(layout.dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(request->destination().tensor_layout(), v1::TENSOR_LAYOUT_CHW);
  EXPECT_EQ(request->spec().fit(), v1::FIT_LETTERBOX);
  EXPECT_EQ(request->spec().letterbox_rule(), v1::LETTERBOX_RULE_ULTRALYTICS);
  EXPECT_EQ(request->spec().pad().b(), 3U);
  EXPECT_EQ(request->spec().filter(), v1::FILTER_BICUBIC_AA);
  EXPECT_THAT(request->options().backends(), ElementsAre("cpu", "reference"));
}

TEST(ConvertOptions, NothingGivenLeavesEverythingToTheDaemon) {
  const auto request = Request("photo.jpg");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->destination().layout().width(), 0);
  EXPECT_EQ(request->destination().layout().format(), v1::PIXEL_FORMAT_RGB);
  EXPECT_FALSE(request->spec().has_normalization());
  EXPECT_FALSE(request->spec().has_pad());
  EXPECT_EQ(request->spec().fit(), v1::FIT_UNSPECIFIED);
  EXPECT_TRUE(request->options().backends().empty());
  EXPECT_FALSE(request->source().has_layout());
}

TEST(ConvertOptions, BackendAutoIsNoEntry) {
  EXPECT_TRUE(Request("p.jpg --backend auto")->options().backends().empty());
}

TEST(ConvertOptions, BackendListWithAnEmptyNameIsAUsageError) {
  for (const std::string text : {"", "cpu,", ",cpu", "auto,cpu"}) {
    EXPECT_EQ(ExitCodeOf(ParseBackends(text).status()), kExitUsage) << text;
  }
}

TEST(ConvertOptions, OptionAfterBackendListIsNotSwallowed) {
  const ConvertOptions options = Parse("--backend cpu photo.jpg");
  EXPECT_EQ(options.file, "photo.jpg");
  EXPECT_THAT(options.backends, ElementsAre("cpu"));
}

TEST(ConvertOptions, MeanAndStdBecomeOffsetAndMultiplier) {
  const auto request = Request("p.jpg --mean 0.5,0.25,0 --std 0.5,0.25,1");
  ASSERT_TRUE(request.ok());
  EXPECT_THAT(request->spec().normalization().offset(),
              ElementsAre(127.5, 63.75, 0.0));
  EXPECT_THAT(request->spec().normalization().multiplier(),
              ElementsAre(1 / 127.5, 1 / 63.75, 1 / 255.0));
}

TEST(ConvertOptions, OneStdStandsForEveryMean) {
  const auto request = Request("p.jpg --mean 0.5,0.25,0 --std 0.5");
  ASSERT_TRUE(request.ok());
  EXPECT_THAT(request->spec().normalization().multiplier(),
              ElementsAre(1 / 127.5, 1 / 127.5, 1 / 127.5));
}

TEST(ConvertOptions, ContradictionsAreUsageErrors) {
  for (const std::string line :
       {"p.jpg --mean 1,2 --std 1,2,3", "p.jpg --std 0,1,1",
        "p.jpg --fit place", "p.jpg --fit cover --place 0,0,1,1",
        "p.jpg --orientation 9", "p.jpg --orientation up"}) {
    EXPECT_EQ(ExitCodeOf(Request(line).status()), kExitUsage) << line;
  }
}

TEST(ConvertOptions, WrongSyntaxEndsTheParsing) {
  for (const std::string line :
       {"p.jpg --size 640", "p.jpg --fit zoom", "p.jpg --dtype f64",
        "p.jpg --pad 1,2", "p.jpg --raw nv12", "p.jpg --no-such-option"}) {
    EXPECT_THROW(Parse(line), CLI::ParseError) << line;
  }
}

TEST(ConvertOptions, ZeroSizeIsRefusedAndNotTakenForTheDefault) {
  const absl::Status status = Request("p.jpg --size 0x480").status();
  EXPECT_EQ(ExitCodeOf(status), kExitRefused);
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kGeometryInvalid);
  EXPECT_EQ(GetErrorDetail(status)->field, "destination.layout.width");
  EXPECT_EQ(GetErrorDetail(Request("p --raw rgb:8x0").status())->field,
            "source.layout.height");
}

TEST(ConvertOptions, OrientationIsANumberOrTheFilesOwn) {
  EXPECT_EQ(Request("p.jpg --orientation 6")->spec().orientation(), 6);
  EXPECT_TRUE(
      Request("p.jpg --orientation exif")->spec().orientation_from_file());
  EXPECT_FALSE(Request("p.jpg")->spec().orientation_from_file());
}

TEST(ConvertOptions, MatrixAndRangeGoToYuvSidesOnly) {
  const auto in = Request("p.raw --raw nv12:8x8 --matrix 709 --range limited");
  ASSERT_TRUE(in.ok());
  EXPECT_EQ(in->source().layout().color().matrix(),
            v1::MATRIX_COEFFICIENTS_BT709);
  EXPECT_FALSE(in->destination().layout().has_color());
  const auto out = Request("p.jpg --format nv12 --range full");
  EXPECT_EQ(out->destination().layout().color().range(), v1::COLOR_RANGE_FULL);
}

TEST(ConvertOptions, PlaceAloneSaysTheFit) {
  const auto request = Request("p.jpg --size 8x8 --place 1,2,3,4");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->spec().fit(), v1::FIT_PLACE);
  EXPECT_EQ(request->spec().place().height(), 4);
}

}  // namespace
}  // namespace preprocd::cli
