// How preprocctl ends: the exit code and the error object of a status.
// Thread-safety: safe (no state).
#ifndef CLIENT_CLI_EXIT_CODE_H_
#define CLIENT_CLI_EXIT_CODE_H_

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace preprocd::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitOther = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNoDaemon = 3;
inline constexpr int kExitRefused = 4;
inline constexpr int kExitExhausted = 5;
inline constexpr int kExitUnavailable = 6;

// Reasons that arise on this side of the wire, beside ErrorReasonName().
inline constexpr absl::string_view kReasonUsage = "USAGE";
inline constexpr absl::string_view kReasonNoDaemon = "NO_DAEMON";
inline constexpr absl::string_view kReasonFile = "FILE";

// Wrong command line: exit code 2.
absl::Status UsageError(absl::string_view message);
// `status` (not OK) with a reason of this side.
absl::Status WithReason(absl::Status status, absl::string_view reason);

// "USAGE", "NO_DAEMON", "FILE", an ErrorReasonName, or "UNSPECIFIED".
std::string ReasonOf(const absl::Status& status);

// The table of exit codes; 0 for OK.
int ExitCodeOf(const absl::Status& status);

// {"error":{"code","reason","message"[,"field","got","limit","backend",
// "retry_after_ms"]}}; `status` is not OK.
nlohmann::ordered_json ErrorToJson(const absl::Status& status);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_EXIT_CODE_H_
