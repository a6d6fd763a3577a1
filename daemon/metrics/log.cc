#include "daemon/metrics/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

namespace preprocd {
namespace {

constexpr std::array<const char*, 5> kLevelNames = {"trace", "debug", "info",
                                                    "warn", "error"};

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kTrace:
      return spdlog::level::trace;
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// Leaked on purpose: threads may log while the process exits.
spdlog::logger& Logger() {
  static spdlog::logger* logger = [] {
    auto* made = new spdlog::logger(
        "preprocd", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %v",
                      spdlog::pattern_time_type::utc);
    made->set_level(spdlog::level::info);
    return made;
  }();
  return *logger;
}

class RateLimit {
 public:
  // True when the line may be written; `suppressed` receives how many of
  // this event were dropped since the last one that was.
  bool Admit(absl::string_view event, int64_t* suppressed) {
    const int64_t second =
        std::chrono::duration_cast<std::chrono::seconds>(
            std::chrono::steady_clock::now().time_since_epoch())
            .count();
    std::lock_guard<std::mutex> lock(mutex_);
    // Event names are literals of ours, so the map is bounded.
    Window& window = windows_[std::string(event)];
    if (window.second != second) {
      window.second = second;
      window.lines = 0;
    }
    if (window.lines >= kMaxLogLinesPerSecond) {
      ++window.suppressed;
      return false;
    }
    ++window.lines;
    *suppressed = window.suppressed;
    window.suppressed = 0;
    return true;
  }

 private:
  struct Window {
    int64_t second = 0;
    int lines = 0;
    int64_t suppressed = 0;
  };
  std::mutex mutex_;
  std::map<std::string, Window> windows_;
};

RateLimit& Limit() {
  static RateLimit* limit = new RateLimit;
  return *limit;
}

// A terminal obeys U+0080..U+009F like escape sequences.
bool IsC1Control(const std::string& value, size_t i) {
  const auto lead = static_cast<unsigned char>(value[i]);
  if (lead != 0xc2 || i + 1 == value.size()) return false;
  const auto next = static_cast<unsigned char>(value[i + 1]);
  return next >= 0x80 && next <= 0x9f;
}

bool NeedsQuotes(const std::string& value) {
  if (value.empty()) return true;
  for (size_t i = 0; i < value.size(); ++i) {
    const auto byte = static_cast<unsigned char>(value[i]);
    if (byte <= ' ' || byte == '"' || byte == '\\' || byte == '=' ||
        byte == 0x7f || IsC1Control(value, i)) {
      return true;
    }
  }
  return false;
}

void AppendEscaped(char c, std::string& line) {
  static constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  line += "\\x";
  line += kHex[byte >> 4];
  line += kHex[byte & 15];
}

void AppendValue(const std::string& value, std::string& line) {
  if (!NeedsQuotes(value)) {
    line += value;
    return;
  }
  line += '"';
  for (size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte == '"' || byte == '\\') {
      line += '\\';
      line += c;
    } else if (byte < ' ' || byte == 0x7f) {
      AppendEscaped(c, line);
    } else if (IsC1Control(value, i)) {
      AppendEscaped(c, line);
      AppendEscaped(value[++i], line);
    } else {
      line += c;
    }
  }
  line += '"';
}

}  // namespace

absl::Status SetLogLevel(absl::string_view name) {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (name == kLevelNames[i]) {
      Logger().set_level(ToSpdlog(static_cast<LogLevel>(i)));
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "log level ", name, " is not one of trace, debug, info, warn, error"));
}

absl::string_view LogLevelName() {
  for (size_t i = 0; i < kLevelNames.size(); ++i) {
    if (Logger().level() == ToSpdlog(static_cast<LogLevel>(i))) {
      return kLevelNames[i];
    }
  }
  return "info";
}

bool LogEnabled(LogLevel level) { return Logger().should_log(ToSpdlog(level)); }

void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields) {
  if (!LogEnabled(level)) return;
  int64_t suppressed = 0;
  if (!Limit().Admit(event, &suppressed)) return;
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line.append(field.key.data(), field.key.size());
    line += '=';
    AppendValue(field.value, line);
  }
  if (suppressed > 0) absl::StrAppend(&line, " suppressed=", suppressed);
  Logger().log(ToSpdlog(level), "{}", line);
}

}  // namespace preprocd
