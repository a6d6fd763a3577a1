// A daemon for one call: started in a fresh folder, stopped and removed with
// this object, and also when preprocctl is interrupted or killed.
// Owns: the child process and the folder. Thread-safety: compatible; at most
// one at a time in a process.
#ifndef CLIENT_CLI_PRIVATE_DAEMON_H_
#define CLIENT_CLI_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace preprocd::cli {

class PrivateDaemon {
 public:
  // Starts the `preprocd` that lies beside this program and waits until its
  // sockets accept and health says SERVING. `backends`: its --backend, empty
  // = its own default.
  // Errors: kUnavailable  it does not start; the message has its last words
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const std::string& backends);
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  const std::string& runtime_dir() const { return runtime_dir_; }
  pid_t pid() const { return pid_; }

 private:
  explicit PrivateDaemon(std::string runtime_dir)
      : runtime_dir_(std::move(runtime_dir)) {}

  absl::Status Spawn(const std::string& program, const std::string& backends);
  absl::Status AwaitReady();
  // Whether it has ended; reaps it.
  bool Ended();
  std::string LastWords() const;

  std::string runtime_dir_;
  pid_t pid_ = -1;
};

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_PRIVATE_DAEMON_H_
