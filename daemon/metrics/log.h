// Structured log lines: an event name and key=value pairs, to stderr (the
// journal adds time and unit). One line per event, rate-limited per key.
// Thread-safety: safe. Limits: kMaxLogLinesPerSecond per event name.
#ifndef DAEMON_METRICS_LOG_H_
#define DAEMON_METRICS_LOG_H_

#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace preprocd {

inline constexpr int kMaxLogLinesPerSecond = 20;

enum class LogLevel : int { kTrace, kDebug, kInfo, kWarn, kError };

// Accepts trace, debug, info, warn, error.
absl::Status SetLogLevel(absl::string_view name);
absl::string_view LogLevelName();
bool LogEnabled(LogLevel level);

struct LogField {
  LogField(absl::string_view k, const absl::AlphaNum& v)
      : key(k), value(v.Piece()) {}
  absl::string_view key;
  std::string value;
};

// Log(LogLevel::kInfo, "session.open", {{"session", id}, {"client", name}});
// Values with spaces, quotes or control characters are quoted and escaped, so
// a client's name cannot forge a line. Lines above the rate are counted and
// reported as suppressed=N on the next line of that event.
void Log(LogLevel level, absl::string_view event,
         std::initializer_list<LogField> fields);

}  // namespace preprocd

#endif  // DAEMON_METRICS_LOG_H_
