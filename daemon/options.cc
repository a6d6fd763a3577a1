#include "daemon/options.h"

#include <toml++/toml.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr char kDefaultRuntimeDir[] = "/run/preprocd";

absl::Status At(const std::string& path, const toml::node& node,
                absl::string_view key, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ":", node.source().begin.line, ": ", key, " ", message));
}

absl::Status CheckLogLevel(const std::string& level) {
  for (const char* known : {"trace", "debug", "info", "warn", "error"}) {
    if (level == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(level, " is not one of trace, debug, info, warn, error"));
}

// Reads the keys of one table; every key must be known.
class TableReader {
 public:
  TableReader(const std::string& path, std::string prefix,
              const toml::table& table)
      : path_(path), prefix_(std::move(prefix)), table_(table) {}

  absl::Status Text(absl::string_view key, std::string& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const auto text = node->value_exact<std::string>();
    if (!text) return At(path_, *node, Name(key), "must be a string");
    if (text->empty()) return At(path_, *node, Name(key), "must not be empty");
    value = *text;
    return absl::OkStatus();
  }

  absl::Status LogLevelText(absl::string_view key, std::string& value) {
    RETURN_IF_ERROR(Text(key, value));
    const toml::node* node = table_.get(std::string(key));
    if (node == nullptr) return absl::OkStatus();
    const absl::Status known = CheckLogLevel(value);
    return known.ok() ? known : At(path_, *node, Name(key), known.message());
  }

  template <typename T>
  absl::Status Number(absl::string_view key, int64_t min, int64_t max,
                      T& value) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const auto number = node->value_exact<int64_t>();
    if (!number) return At(path_, *node, Name(key), "must be an integer");
    if (*number < min || *number > max) {
      return At(path_, *node, Name(key),
                absl::StrCat(*number, " is not in ", min, "..", max));
    }
    value = static_cast<T>(*number);
    return absl::OkStatus();
  }

  absl::Status Texts(absl::string_view key, std::vector<std::string>& values) {
    const toml::node* node = Take(key);
    if (node == nullptr) return absl::OkStatus();
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      return At(path_, *node, Name(key), "must be a list of names");
    }
    values.clear();
    for (const toml::node& entry : *array) {
      const auto text = entry.value_exact<std::string>();
      if (!text || text->empty()) {
        return At(path_, entry, Name(key), "must be a list of names");
      }
      values.push_back(*text);
    }
    return absl::OkStatus();
  }

  // Null when the key is absent.
  absl::StatusOr<const toml::table*> Table(absl::string_view key) {
    const toml::node* node = Take(key);
    if (node == nullptr) return static_cast<const toml::table*>(nullptr);
    if (!node->is_table()) {
      return At(path_, *node, Name(key), "must be a table");
    }
    return node->as_table();
  }

  absl::Status RefuseOthers() const {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(taken_.begin(), taken_.end(), name) == taken_.end()) {
        return At(path_, node, Name(name), "is not a known key");
      }
    }
    return absl::OkStatus();
  }

 private:
  const toml::node* Take(absl::string_view key) {
    taken_.emplace_back(key);
    return table_.get(std::string(key));
  }
  std::string Name(absl::string_view key) const {
    return absl::StrCat(prefix_, key);
  }

  const std::string& path_;
  const std::string prefix_;
  const toml::table& table_;
  std::vector<std::string> taken_;
};

absl::Status ReadLimits(const std::string& path, const toml::table& table,
                        DaemonOptions& o) {
  TableReader reader(path, "limits.", table);
  SessionLimits& limits = o.limits;
  RETURN_IF_ERROR(reader.Number("sessions", 1, 4096, limits.max_sessions));
  RETURN_IF_ERROR(reader.Number("buffers_per_session", 1, 65536,
                                limits.max_buffers_per_session));
  RETURN_IF_ERROR(reader.Number("bytes_per_session", 1,
                                std::numeric_limits<int64_t>::max(),
                                limits.max_bytes_per_session));
  RETURN_IF_ERROR(reader.Number("requests_in_flight", 1, 1024,
                                limits.max_in_flight_per_session));
  RETURN_IF_ERROR(reader.Number("queued", 1, 65536, o.max_queued_jobs));
  RETURN_IF_ERROR(
      reader.Number("inline_bytes", 1, 64 << 20, o.max_inline_bytes));
  return reader.RefuseOthers();
}

// Keys and values of [gl] are SetGlSetting's; integers and booleans may be
// written as such.
absl::Status ReadGl(const std::string& path, const toml::table& table,
                    GlSettings& settings) {
  for (const auto& [key, node] : table) {
    const std::string name(key.str());
    std::string text;
    if (const auto string = node.value_exact<std::string>()) {
      text = *string;
    } else if (const auto integer = node.value_exact<int64_t>()) {
      text = absl::StrCat(*integer);
    } else if (const auto boolean = node.value_exact<bool>()) {
      text = *boolean ? "true" : "false";
    } else {
      return At(path, node, absl::StrCat("gl.", name),
                "must be a string, an integer or a boolean");
    }
    const absl::Status set = SetGlSetting(name, text, settings);
    if (!set.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ":", node.source().begin.line, ": ", set.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadTables(const std::string& path, TableReader& top,
                        DaemonOptions& o) {
  ASSIGN_OR_RETURN(const toml::table* gl, top.Table("gl"));
  if (gl != nullptr) {
    RETURN_IF_ERROR(ReadGl(path, *gl, o.backend_settings.gl));
  }
  ASSIGN_OR_RETURN(const toml::table* limits, top.Table("limits"));
  if (limits != nullptr) RETURN_IF_ERROR(ReadLimits(path, *limits, o));
  ASSIGN_OR_RETURN(const toml::table* threads, top.Table("threads"));
  if (threads != nullptr) {
    TableReader reader(path, "threads.", *threads);
    RETURN_IF_ERROR(reader.Number("cpu", 0, 1024, o.cpu_threads));
    RETURN_IF_ERROR(reader.Number("rows", 0, 1024, o.row_threads));
    RETURN_IF_ERROR(reader.RefuseOthers());
  }
  ASSIGN_OR_RETURN(const toml::table* drain, top.Table("drain"));
  if (drain != nullptr) {
    TableReader reader(path, "drain.", *drain);
    RETURN_IF_ERROR(
        reader.Number("timeout_ms", 0, 3'600'000, o.drain_timeout_ms));
    RETURN_IF_ERROR(reader.RefuseOthers());
  }
  return absl::OkStatus();
}

// What the command line gave.
struct Flags {
  std::optional<std::string> config;
  std::optional<std::string> runtime_dir;
  std::optional<std::string> listen_tcp;
  std::optional<std::string> backends;
  std::optional<std::string> log_level;
  bool version = false;
};

void Declare(CLI::App& app, Flags& flags) {
  app.add_option("--config", flags.config, "Configuration file (TOML)")
      ->type_name("FILE");
  app.add_option("--runtime-dir", flags.runtime_dir,
                 "Directory of grpc.sock, direct.sock and admin.sock\n"
                 "(default $PREPROCD_RUNTIME_DIR, then /run/preprocd)")
      ->type_name("DIR");
  app.add_option("--listen-tcp", flags.listen_tcp,
                 "Also serve gRPC on this loopback address; port 0 picks one")
      ->type_name("HOST:PORT");
  app.add_option("--backend", flags.backends,
                 "Backends to allow, best first, separated by commas\n"
                 "(default: all that are built in)")
      ->type_name("LIST");
  app.add_option("--log-level", flags.log_level,
                 "trace, debug, info, warn or error (default info)")
      ->type_name("L");
  app.add_flag("--version", flags.version, "Print the version and exit");
}

absl::Status RefuseEmpty(const std::optional<std::string>& flag,
                         absl::string_view name) {
  if (!flag || !flag->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " must not be empty"));
}

absl::Status ApplyFlags(const Flags& flags, DaemonOptions& o) {
  RETURN_IF_ERROR(RefuseEmpty(flags.runtime_dir, "--runtime-dir"));
  RETURN_IF_ERROR(RefuseEmpty(flags.listen_tcp, "--listen-tcp"));
  o.runtime_dir = flags.runtime_dir.value_or(o.runtime_dir);
  o.listen_tcp = flags.listen_tcp.value_or(o.listen_tcp);
  if (flags.log_level) {
    const absl::Status known = CheckLogLevel(*flags.log_level);
    if (!known.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--log-level ", known.message()));
    }
    o.log_level = *flags.log_level;
  }
  if (flags.backends) {
    o.backends = absl::StrSplit(*flags.backends, ',');
    for (const std::string& backend : o.backends) {
      if (!backend.empty()) continue;
      return absl::InvalidArgumentError("--backend has an empty name");
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string Version() { return PREPROCD_VERSION; }
std::string VersionText() { return absl::StrCat("preprocd ", Version()); }

absl::Status ApplyConfigFile(const std::string& path, DaemonOptions& options) {
  toml::table table;
  try {
    table = toml::parse_file(path);
  } catch (const toml::parse_error& error) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":", error.source().begin.line, ": ",
                     std::string(error.description())));
  }
  TableReader top(path, "", table);
  RETURN_IF_ERROR(top.Text("runtime_dir", options.runtime_dir));
  RETURN_IF_ERROR(top.LogLevelText("log_level", options.log_level));
  RETURN_IF_ERROR(top.Text("listen_tcp", options.listen_tcp));
  RETURN_IF_ERROR(top.Texts("backends", options.backends));
  RETURN_IF_ERROR(ReadTables(path, top, options));
  return top.RefuseOthers();
}

absl::StatusOr<ParsedOptions> ParseOptions(int argc, const char* const* argv) {
  CLI::App app(
      "preprocd: image pre-processing for every container on this machine",
      "preprocd");
  app.footer(
      "SIGTERM drains and exits 0; SIGHUP reloads the configuration.\n"
      "Exit codes: 0 ok, 2 bad usage or configuration, 1 anything else.");
  Flags flags;
  Declare(app, flags);
  ParsedOptions parsed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    parsed.exit_text = app.help();
    return parsed;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  if (flags.version) {
    parsed.exit_text = absl::StrCat(VersionText(), "\n");
    return parsed;
  }
  DaemonOptions& o = parsed.options;
  const char* environment = getenv("PREPROCD_RUNTIME_DIR");
  o.runtime_dir = environment != nullptr && *environment != '\0'
                      ? environment
                      : kDefaultRuntimeDir;
  o.arguments.assign(argv + 1, argv + argc);
  RETURN_IF_ERROR(ApplyGlEnvironment(
      [](const char* name) -> const char* { return getenv(name); },
      o.backend_settings.gl));
  if (flags.config) {
    o.config_path = *flags.config;
    RETURN_IF_ERROR(ApplyConfigFile(*flags.config, o));
  }
  RETURN_IF_ERROR(ApplyFlags(flags, o));
  return parsed;
}

absl::StatusOr<DaemonOptions> ReloadOptions(const DaemonOptions& running) {
  std::vector<const char*> argv = {"preprocd"};
  for (const std::string& argument : running.arguments) {
    argv.push_back(argument.c_str());
  }
  ASSIGN_OR_RETURN(ParsedOptions parsed,
                   ParseOptions(static_cast<int>(argv.size()), argv.data()));
  return std::move(parsed.options);
}

std::string KeysThatNeedRestart(const DaemonOptions& running,
                                const DaemonOptions& fresh) {
  std::vector<std::string> keys;
  const auto compare = [&keys](const auto& a, const auto& b, const char* key) {
    if (a != b) keys.emplace_back(key);
  };
  compare(running.runtime_dir, fresh.runtime_dir, "runtime_dir");
  compare(running.listen_tcp, fresh.listen_tcp, "listen_tcp");
  compare(running.backends, fresh.backends, "backends");
  compare(running.backend_settings.gl == fresh.backend_settings.gl, true, "gl");
  compare(running.max_queued_jobs, fresh.max_queued_jobs, "limits.queued");
  compare(running.max_inline_bytes, fresh.max_inline_bytes,
          "limits.inline_bytes");
  compare(running.cpu_threads, fresh.cpu_threads, "threads.cpu");
  compare(running.row_threads, fresh.row_threads, "threads.rows");
  return absl::StrJoin(keys, ",");
}

}  // namespace preprocd
