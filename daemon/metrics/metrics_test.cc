#include "daemon/metrics/metrics.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
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

TEST(ProcessFactsTest, DoesNotCountItsOwnDescriptors) {
  int open_fds = 0;
  for (int fd = 0; fd < 4096; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) ++open_fds;
  }
  EXPECT_EQ(ReadProcessFacts().open_fds, open_fds);
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

int64_t Seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

TEST(LogTest, LinesAboveTheRateAreCountedNotWritten) {
  // Begins with a second, so that the whole loop fits into it.
  const int64_t before = Seconds();
  while (Seconds() == before) std::this_thread::yield();
  const int64_t begun = Seconds();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 10 * kMaxLogLinesPerSecond; ++i) {
    Log(LogLevel::kInfo, "test.flood", {{"i", i}});
  }
  const std::string text = testing::internal::GetCapturedStderr();
  const int64_t seconds = Seconds() - begun + 1;
  const int64_t lines = std::count(text.begin(), text.end(), '\n');
  EXPECT_LE(lines, seconds * kMaxLogLinesPerSecond);

  // The next line that is written says how many were not.
  const int64_t flooded = Seconds();
  while (Seconds() == flooded) std::this_thread::yield();
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "test.flood", {});
  const std::string next = testing::internal::GetCapturedStderr();
  if (seconds == 1) {
    EXPECT_EQ(lines, kMaxLogLinesPerSecond);
    EXPECT_NE(next.find(absl::StrCat("test.flood suppressed=",
                                     9 * kMaxLogLinesPerSecond)),
              std::string::npos)
        << next;
  }
}

TEST(LogTest, TerminalControlsAreEscaped) {
  testing::internal::CaptureStderr();
  Log(LogLevel::kInfo, "test.controls",
      {{"client", "\x1b[2J\xc2\x9b"}, {"name", "caf\xc3\xa9\xc2\xa0"}});
  const std::string line = testing::internal::GetCapturedStderr();
  EXPECT_EQ(line.find("\xc2\x9b"), std::string::npos) << line;
  EXPECT_NE(line.find("client=\"\\x1b[2J\\xc2\\x9b\""), std::string::npos)
      << line;
  EXPECT_NE(line.find("name=caf\xc3\xa9\xc2\xa0"), std::string::npos) << line;
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
