#include "client/cli/json_format.h"

#include <gtest/gtest.h>

#include "preproc/v1/preproc.pb.h"

namespace preprocd::cli {
namespace {

TEST(JsonFormat, NumbersStayNumbersAndZerosAreThere) {
  preproc::v1::Report report;
  report.set_bytes_copied(1ULL << 60);
  report.mutable_times()->set_total_ns(-5);
  const auto json = MessageToJson(report);
  EXPECT_EQ(json["bytes_copied"], 1ULL << 60);
  EXPECT_EQ(json["times"]["total_ns"], -5);
  EXPECT_EQ(json["times"]["queue_ns"], 0);
  EXPECT_EQ(json["warnings"], nlohmann::ordered_json::array());
}

TEST(JsonFormat, EnumsAreTheCommandLinesNames) {
  preproc::v1::ImageLayout layout;
  layout.set_format(preproc::v1::PIXEL_FORMAT_PLANAR_RGB);
  const auto json = MessageToJson(layout);
  EXPECT_EQ(json["format"], "planar_rgb");
  EXPECT_TRUE(json["dtype"].is_null());
  preproc::v1::ConvertSpec spec;
  spec.set_filter(preproc::v1::FILTER_BILINEAR_AA);
  EXPECT_EQ(MessageToJson(spec)["filter"], "bilinear-aa");
}

TEST(JsonFormat, UnsetMessagesAndBytesAreLeftOut) {
  preproc::v1::ConvertReply reply;
  reply.set_inline_bytes("pixels");
  reply.mutable_report()->add_declines()->set_backend("gl");
  const auto json = MessageToJson(reply);
  EXPECT_FALSE(json.contains("inline_bytes"));
  EXPECT_FALSE(json.contains("placement"));
  EXPECT_EQ(json["report"]["declines"][0]["backend"], "gl");
}

}  // namespace
}  // namespace preprocd::cli
