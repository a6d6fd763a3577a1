#include "daemon/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace preprocd {
namespace {

absl::StatusOr<ParsedOptions> Parse(std::vector<std::string> args) {
  std::vector<const char*> argv = {"preprocd"};
  for (const std::string& arg : args) argv.push_back(arg.c_str());
  return ParseOptions(static_cast<int>(argv.size()), argv.data());
}

class OptionsTest : public testing::Test {
 protected:
  void SetUp() override {
    unsetenv("PREPROCD_RUNTIME_DIR");
    std::string pattern =
        (std::filesystem::temp_directory_path() / "optXXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Write(const std::string& text) const {
    const std::string path = root_ + "/preprocd.toml";
    std::ofstream(path) << text;
    return path;
  }

  std::string root_;
};

TEST_F(OptionsTest, DefaultsThenEnvironmentThenFileThenFlags) {
  EXPECT_EQ(Parse({})->options.runtime_dir, "/run/preprocd");
  setenv("PREPROCD_RUNTIME_DIR", "/tmp/from-env", 1);
  EXPECT_EQ(Parse({})->options.runtime_dir, "/tmp/from-env");
  const std::string path = Write("runtime_dir = '/tmp/from-file'\n");
  EXPECT_EQ(Parse({"--config", path})->options.runtime_dir, "/tmp/from-file");
  EXPECT_EQ(Parse({"--config", path, "--runtime-dir", "/tmp/flag"})
                ->options.runtime_dir,
            "/tmp/flag");
  unsetenv("PREPROCD_RUNTIME_DIR");
}

TEST_F(OptionsTest, EveryKeyOfTheFileIsRead) {
  const std::string path = Write(R"(
log_level = "debug"
backends = ["cpu", "reference"]
listen_tcp = "127.0.0.1:0"
[limits]
sessions = 3
buffers_per_session = 4
bytes_per_session = 5000000000
requests_in_flight = 6
queued = 7
inline_bytes = 8
[threads]
cpu = 9
rows = 10
[drain]
timeout_ms = 11
)");
  const auto parsed = Parse({"--config", path});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  const DaemonOptions& o = parsed->options;
  EXPECT_EQ(o.log_level, "debug");
  EXPECT_EQ(o.backends, (std::vector<std::string>{"cpu", "reference"}));
  EXPECT_EQ(o.listen_tcp, "127.0.0.1:0");
  EXPECT_EQ(o.limits.max_sessions, 3);
  EXPECT_EQ(o.limits.max_buffers_per_session, 4);
  EXPECT_EQ(o.limits.max_bytes_per_session, 5'000'000'000);
  EXPECT_EQ(o.limits.max_in_flight_per_session, 6);
  EXPECT_EQ(o.max_queued_jobs, 7);
  EXPECT_EQ(o.max_inline_bytes, 8);
  EXPECT_EQ(o.cpu_threads, 9);
  EXPECT_EQ(o.row_threads, 10);
  EXPECT_EQ(o.drain_timeout_ms, 11);
}

TEST_F(OptionsTest, TheShippedFileStatesTheDefaults) {
  const auto shipped = Parse({"--config", SHIPPED_CONFIG});
  ASSERT_TRUE(shipped.ok()) << shipped.status();
  const DaemonOptions& o = shipped->options;
  const DaemonOptions defaults = Parse({})->options;
  EXPECT_EQ(KeysThatNeedRestart(o, defaults), "");
  EXPECT_EQ(o.log_level, defaults.log_level);
  EXPECT_EQ(o.limits.max_sessions, defaults.limits.max_sessions);
  EXPECT_EQ(o.limits.max_buffers_per_session,
            defaults.limits.max_buffers_per_session);
  EXPECT_EQ(o.limits.max_bytes_per_session,
            defaults.limits.max_bytes_per_session);
  EXPECT_EQ(o.limits.max_in_flight_per_session,
            defaults.limits.max_in_flight_per_session);
  EXPECT_EQ(o.drain_timeout_ms, defaults.drain_timeout_ms);
}

TEST_F(OptionsTest, WrongFilesNameKeyAndLine) {
  const struct {
    const char* text;
    const char* expected;
  } cases[] = {
      {"\nlogg_level = 'info'\n", ":2: logg_level is not a known key"},
      {"[limits]\nsession = 1\n", ":2: limits.session is not a known key"},
      {"log_level = 3\n", ":1: log_level must be a string"},
      {"[limits]\nsessions = 0\n", "limits.sessions 0 is not in 1..4096"},
      {"[limits]\nsessions = 'x'\n", "limits.sessions must be an integer"},
      {"backends = 'cpu'\n", "backends must be a list of names"},
      {"limits = 3\n", "limits must be a table"},
      {"backends = ['cpu', '']\n", "backends must be a list of names"},
      {"runtime_dir = ''\n", ":1: runtime_dir must not be empty"},
      {"[limits]\nsessions = 1.5\n", ":2: limits.sessions must be an integer"},
      {"[drain]\ntimeout_ms = 3600001\n", ":2: drain.timeout_ms 3600001"},
      {"[thread]\ncpu = 1\n", ":1: thread is not a known key"},
      {"\nlog_level = 'loud'\n", ":2: log_level loud is not one of"},
      {"[gl]\ntransfer = 'copy'\n", ":2: gl.transfer: \"copy\" is not auto"},
      {"[gl]\nworkers = 9\n", ":2: gl.workers: \"9\" is not in 0..8"},
      {"[gl]\nwork = 1\n", ":2: gl.work: no such setting"},
      {"[gl]\nstall_ms = 1.5\n", ":2: gl.stall_ms must be a string"},
      {"a = = b\n", ":1: "},
  };
  for (const auto& c : cases) {
    const auto parsed = Parse({"--config", Write(c.text)});
    ASSERT_FALSE(parsed.ok()) << c.text;
    EXPECT_NE(parsed.status().message().find(c.expected),
              absl::string_view::npos)
        << parsed.status();
  }
  EXPECT_FALSE(Parse({"--config", root_ + "/missing.toml"}).ok());
}

TEST_F(OptionsTest, WrongFlagsAreRefused) {
  EXPECT_FALSE(Parse({"--no-such-flag"}).ok());
  EXPECT_FALSE(Parse({"--config"}).ok());
  EXPECT_FALSE(Parse({"--log-level", "loud"}).ok());
  EXPECT_FALSE(Parse({"--backend", "cpu,,gl"}).ok());
  EXPECT_FALSE(Parse({"stray"}).ok());
  EXPECT_FALSE(Parse({"--runtime-dir="}).ok());
}

TEST_F(OptionsTest, AReloadReadsTheFileAgainAndFlagsStillWin) {
  const std::string path = Write("log_level = 'warn'\n[threads]\ncpu = 2\n");
  const auto parsed = Parse({"--config", path, "--backend", "cpu"});
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  Write(
      "log_level = 'error'\nbackends = ['reference']\n"
      "[limits]\nsessions = 5\n[threads]\ncpu = 3\n");
  const auto fresh = ReloadOptions(parsed->options);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_EQ(fresh->log_level, "error");
  EXPECT_EQ(fresh->backends, std::vector<std::string>{"cpu"});
  EXPECT_EQ(fresh->limits.max_sessions, 5);
  EXPECT_EQ(KeysThatNeedRestart(parsed->options, *fresh), "threads.cpu");
  EXPECT_EQ(KeysThatNeedRestart(*fresh, *fresh), "");
  Write("nonsense = 1\n");
  EXPECT_FALSE(ReloadOptions(parsed->options).ok());
}

TEST_F(OptionsTest, HelpAndVersionPrintAndExit) {
  EXPECT_NE(Parse({"--help"})->exit_text.find("--runtime-dir"),
            std::string::npos);
  EXPECT_EQ(Parse({"--version"})->exit_text, VersionText() + "\n");
}

}  // namespace
}  // namespace preprocd
