// Command line and configuration file of the daemon.
// Thread-safety: compatible. Source: README.md, deploy/systemd/preprocd.toml.
#ifndef DAEMON_OPTIONS_H_
#define DAEMON_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/sessions/session.h"
#include "engine/engine.h"

namespace preprocd {

struct DaemonOptions {
  std::vector<std::string> arguments;  // the command line, for a reload
  std::string config_path;             // empty = none
  std::string runtime_dir;             // never empty after ParseOptions
  std::string listen_tcp;              // "HOST:PORT", empty = none
  std::vector<std::string> backends;   // empty = all
  std::string log_level = "info";
  SessionLimits limits;
  int max_queued_jobs = kMaxQueuedJobs;
  int64_t max_inline_bytes = kMaxInlineBytes;
  int cpu_threads = 0;  // 0 = one per core
  int row_threads = 0;  // 0 = one per core
  int64_t drain_timeout_ms = 10'000;
  BackendSettings backend_settings;
};

struct ParsedOptions {
  DaemonOptions options;
  // Text to print and then exit 0 (--help, --version); empty to go on.
  std::string exit_text;
};

// Flags win over the file, the file over $PREPROCD_RUNTIME_DIR and defaults.
// Errors: kInvalidArgument  bad usage, an unreadable file, an unknown key or
//                           a value out of range (names key and line)
absl::StatusOr<ParsedOptions> ParseOptions(int argc, const char* const* argv);

// The options of `running`'s command line with the file as it is now.
// Errors: as above.
absl::StatusOr<DaemonOptions> ReloadOptions(const DaemonOptions& running);

// Keys that differ between the two and that a running daemon cannot change,
// comma-separated; empty = none.
std::string KeysThatNeedRestart(const DaemonOptions& running,
                                const DaemonOptions& fresh);

// Applies a configuration file on top of `options`. Errors: as above.
absl::Status ApplyConfigFile(const std::string& path, DaemonOptions& options);

// "preprocd 0.1.0".
std::string VersionText();
std::string Version();  // "0.1.0"

}  // namespace preprocd

#endif  // DAEMON_OPTIONS_H_
