// The daemon's three listening sockets: taken over from systemd when it
// passed them (by FileDescriptorName), otherwise made in the runtime
// directory under a lock file, so that a live socket is never unlinked.
// Owns: the sockets and the lock; its destructor unlinks only paths it made.
// Thread-safety: compatible. Source: sd_listen_fds_with_names(3), unix(7).
#ifndef DAEMON_LIFECYCLE_LISTEN_SOCKETS_H_
#define DAEMON_LIFECYCLE_LISTEN_SOCKETS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

struct ListenSockets {
  UniqueFd grpc;    // SOCK_STREAM, grpc.sock, mode 0660
  UniqueFd direct;  // SOCK_SEQPACKET, direct.sock, mode 0660
  UniqueFd admin;   // SOCK_STREAM, admin.sock, mode 0600
  UniqueFd lock;    // held while the daemon lives; invalid when activated
  std::vector<std::string> made_paths;
  bool activated = false;  // systemd passed them
};

// `runtime_dir` is created with mode 0750 when missing. The lock file is
// `runtime_dir`/preprocd.lock (flock); sockets of a dead daemon are removed
// only while holding it.
// Errors: kAlreadyExists    another daemon holds the lock
//         kPermissionDenied the directory cannot be made or written
//         kInvalidArgument  a path is longer than sun_path; systemd passed
//                           sockets of a wrong type or unknown names
absl::StatusOr<ListenSockets> OpenListenSockets(const std::string& runtime_dir);

// Unlinks `made_paths` (call while still holding the lock).
void RemoveMadePaths(const ListenSockets& sockets);

}  // namespace preprocd

#endif  // DAEMON_LIFECYCLE_LISTEN_SOCKETS_H_
