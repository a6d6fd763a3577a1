#include "daemon/metrics/metrics.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "daemon/metrics/log.h"
#include "daemon/metrics/process_facts.h"

namespace preprocd {
namespace {

double ValueOf(const Metrics& metrics, const std::string& name) {
  for (const MetricValue& value : metrics.Collect()) {
    if (value.name == name) return value.value;
  }
  return -1;
}

TEST(MetricsTest, CountsRequestsByOperationAndOutcome) {
  Metrics metrics;
  metrics.CountRequest(Operation::kConvert, true);
  metrics.CountRequest(Operation::kConvert, true);
  metrics.CountRequest(Operation::kDecode, false);
  EXPECT_EQ(ValueOf(metrics, "requests_total{ok=\"true\",op=\"convert\"}"), 2);
  EXPECT_EQ(ValueOf(metrics, "requests_total{ok=\"false\",op=\"decode\"}"), 1);
  EXPECT_EQ(ValueOf(metrics, "requests_total{ok=\"true\",op=\"decode\"}"), 0);
}

TEST(MetricsTest, GaugesAndLabelledCounters) {
  Metrics metrics;
  metrics.SetSessions(3);
  metrics.AddDecline("gl");
  metrics.AddDecline("gl");
  metrics.AddStageNs("decode", 10);
  EXPECT_EQ(ValueOf(metrics, "sessions"), 3);
  EXPECT_EQ(ValueOf(metrics, "backend_declines_total{backend=\"gl\"}"), 2);
  EXPECT_EQ(ValueOf(metrics, "stage_ns_total{stage=\"decode\"}"), 10);
}

TEST(MetricsTest, EveryOperationHasAName) {
  for (int i = 0; i < static_cast<int>(Operation::kCount); ++i) {
    EXPECT_NE(OperationName(static_cast<Operation>(i)), "unknown");
  }
}

TEST(ProcessFactsTest, SeesAnOpenDescriptor) {
  const int before = ReadProcessFacts().open_fds;
  const int fd = dup(0);
  ASSERT_GE(fd, 0);
  const ProcessFacts facts = ReadProcessFacts();
  close(fd);
  EXPECT_EQ(facts.open_fds, before + 1);
  EXPECT_GT(facts.resident_bytes, 0);
  EXPECT_GE(facts.threads, 1);
}

TEST(LogTest, ForeignTextCannotForgeALine) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "test.forge",
      {{"client", "a\nlevel=error \"x\""}, {"n", 7}});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_NE(line.find("test.forge client=\"a\\x0alevel=error \\\"x\\\"\" n=7"),
            std::string::npos)
      << line;
}

TEST(LogTest, LinesAboveTheRateAreCountedNotWritten) {
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10 * kMaxLogLinesPerSecond; ++i) {
    Log(LogLevel::kInfo, "test.flood", {{"i", i}});
  }
  const std::string text = testing::internal::GetCapturedStderr();
  int lines = 0;
  for (const char c : text) lines += c == '\n' ? 1 : 0;
  // The loop may straddle one or two second boundaries.
  EXPECT_LE(lines, 3 * kMaxLogLinesPerSecond);
}

TEST(LogTest, LevelsAreNamedAndUnknownOnesRefused) {
  const std::string before(LogLevelName());
  EXPECT_TRUE(SetLogLevel("warn").ok());
  EXPECT_EQ(LogLevelName(), "warn");
  EXPECT_FALSE(LogEnabled(LogLevel::kInfo));
  EXPECT_FALSE(SetLogLevel("loud").ok());
  EXPECT_TRUE(SetLogLevel(before).ok());
}

}  // namespace
}  // namespace preprocd
