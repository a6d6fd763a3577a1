// What every subcommand works with: the global options, the connections made
// when they are first asked for, and the two forms of output.
// Owns: the session, the operator connection and the private daemon.
// Thread-safety: compatible; NewSession() may run on several threads.
#ifndef CLIENT_CLI_COMMAND_CONTEXT_H_
#define CLIENT_CLI_COMMAND_CONTEXT_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/private_daemon.h"
#include "preprocd/admin.h"
#include "preprocd/client.h"

namespace preprocd::cli {

struct GlobalOptions {
  std::string runtime_dir;
  std::string address;  // gRPC without a session
  bool json = false;
  bool private_daemon = false;
  std::string daemon_backends;  // --backend of the private daemon
  Transport transport = Transport::kDirect;
  double timeout_s = 60;
};

class Context {
 public:
  explicit Context(GlobalOptions options) : options_(std::move(options)) {}

  // Borrowed. Errors: reason NO_DAEMON when nothing answers
  absl::StatusOr<Session*> session();
  absl::StatusOr<Admin*> admin();
  // One more session, for this transport. REQUIRES: StartDaemon() was OK.
  absl::StatusOr<std::unique_ptr<Session>> NewSession(Transport transport);
  // Starts the private daemon when it is asked for and not there yet.
  absl::Status StartDaemon();

  const GlobalOptions& options() const { return options_; }
  bool json_mode() const { return options_.json; }
  // The object that --json prints at the end.
  nlohmann::ordered_json& json() { return json_; }
  // Appends to what is printed at the end without --json.
  void Print(absl::string_view text);
  const std::string& text() const { return text_; }

 private:
  SessionOptions MakeSessionOptions(Transport transport) const;

  GlobalOptions options_;
  nlohmann::ordered_json json_ = nlohmann::ordered_json::object();
  std::string text_;
  // Keep before the connections: it must go after them.
  std::unique_ptr<PrivateDaemon> daemon_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Admin> admin_;
};

// One JSON text on one line; invalid UTF-8 (file names) is replaced.
std::string DumpJson(const nlohmann::ordered_json& json);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_COMMAND_CONTEXT_H_
