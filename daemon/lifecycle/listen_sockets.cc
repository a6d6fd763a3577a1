#include "daemon/lifecycle/listen_sockets.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr int kBacklog = 128;
constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kClientMode = 0660;
constexpr mode_t kAdminMode = 0600;

absl::Status FromErrno(absl::string_view what, int error) {
  const std::string message = absl::StrCat(what, ": ", strerror(error));
  if (error == EACCES || error == EPERM || error == EROFS) {
    return absl::PermissionDeniedError(message);
  }
  return absl::UnavailableError(message);
}

absl::Status MakeDirectory(const std::string& path) {
  if (mkdir(path.c_str(), kDirectoryMode) == 0) {
    // The umask may have taken bits away that the mode needs.
    if (chmod(path.c_str(), kDirectoryMode) != 0) return FromErrno(path, errno);
    return absl::OkStatus();
  }
  if (errno != EEXIST) return FromErrno(path, errno);
  struct stat facts = {};
  if (stat(path.c_str(), &facts) != 0) return FromErrno(path, errno);
  if (!S_ISDIR(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat("runtime directory ", path, " is not a directory"));
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> TakeLock(const std::string& runtime_dir) {
  const std::string path = absl::StrCat(runtime_dir, "/preprocd.lock");
  UniqueFd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                     kAdminMode));
  if (!lock.valid()) return FromErrno(path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) {
      return absl::AlreadyExistsError(
          absl::StrCat("another preprocd runs in ", runtime_dir));
    }
    return FromErrno(path, errno);
  }
  return lock;
}

absl::StatusOr<sockaddr_un> Address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path ", path, " is longer than ",
                     sizeof(address.sun_path) - 1, " bytes"));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

// True when somebody accepts on `path`: then it is not ours to remove.
bool IsLive(const sockaddr_un& address, int type) {
  const UniqueFd probe(socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!probe.valid()) return true;
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)) == 0 ||
         errno == EAGAIN;
}

absl::StatusOr<UniqueFd> Listen(const std::string& path, int type, mode_t mode,
                                std::vector<std::string>& made_paths) {
  ASSIGN_OR_RETURN(const sockaddr_un address, Address(path));
  struct stat facts = {};
  if (lstat(path.c_str(), &facts) == 0) {
    if (!S_ISSOCK(facts.st_mode)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " exists and is not a socket"));
    }
    // The lock says that no preprocd is alive, but another program's socket
    // would be a live one.
    if (IsLive(address, type)) {
      return absl::AlreadyExistsError(
          absl::StrCat(path, " is served by another program"));
    }
    if (unlink(path.c_str()) != 0) return FromErrno(path, errno);
  }
  UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return FromErrno("socket", errno);
  // The mode of the path comes from the descriptor, so that nobody can
  // connect between bind and chmod.
  if (fchmod(fd.get(), mode) != 0) return FromErrno(path, errno);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
           sizeof(address)) != 0) {
    return FromErrno(path, errno);
  }
  made_paths.push_back(path);
  if (chmod(path.c_str(), mode) != 0) return FromErrno(path, errno);
  if (listen(fd.get(), kBacklog) != 0) return FromErrno(path, errno);
  return fd;
}

// Frees the array that sd_listen_fds_with_names allocates.
struct Names {
  char** names = nullptr;
  ~Names() {
    if (names == nullptr) return;
    for (char** name = names; *name != nullptr; ++name) free(*name);
    free(names);
  }
};

absl::Status TakeActivated(int fd, absl::string_view name,
                           ListenSockets& sockets) {
  UniqueFd owned(fd);
  UniqueFd* slot = nullptr;
  int type = SOCK_STREAM;
  if (name == "grpc") {
    slot = &sockets.grpc;
  } else if (name == "admin") {
    slot = &sockets.admin;
  } else if (name == "direct") {
    slot = &sockets.direct;
    type = SOCK_SEQPACKET;
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "a passed socket is called ", name, ", not grpc, direct or admin"));
  }
  if (slot->valid()) {
    return absl::InvalidArgumentError(
        absl::StrCat("two passed sockets are called ", name));
  }
  if (sd_is_socket_unix(fd, type, 1, nullptr, 0) <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the passed socket ", name, " is not a listening Unix ",
                     type == SOCK_STREAM ? "stream" : "seqpacket", " socket"));
  }
  if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return FromErrno(name, errno);
  *slot = std::move(owned);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ListenSockets> OpenListenSockets(
    const std::string& runtime_dir) {
  ListenSockets sockets;
  Names names;
  const int count = sd_listen_fds_with_names(1, &names.names);
  if (count < 0) return FromErrno("sd_listen_fds", -count);
  if (count > 0) {
    sockets.activated = true;
    for (int i = 0; i < count; ++i) {
      RETURN_IF_ERROR(
          TakeActivated(SD_LISTEN_FDS_START + i, names.names[i], sockets));
    }
  }
  if (sockets.grpc.valid() && sockets.direct.valid() && sockets.admin.valid()) {
    return sockets;
  }
  if (sockets.activated) {
    return absl::InvalidArgumentError(
        "passed sockets must be all three: grpc, direct and admin");
  }
  RETURN_IF_ERROR(MakeDirectory(runtime_dir));
  ASSIGN_OR_RETURN(sockets.lock, TakeLock(runtime_dir));
  absl::Status status = absl::OkStatus();
  const auto open = [&](absl::string_view name, int type, mode_t mode,
                        UniqueFd& slot) {
    if (!status.ok()) return;
    absl::StatusOr<UniqueFd> fd = Listen(absl::StrCat(runtime_dir, "/", name),
                                         type, mode, sockets.made_paths);
    status = fd.status();
    if (fd.ok()) slot = *std::move(fd);
  };
  open("grpc.sock", SOCK_STREAM, kClientMode, sockets.grpc);
  open("direct.sock", SOCK_SEQPACKET, kClientMode, sockets.direct);
  open("admin.sock", SOCK_STREAM, kAdminMode, sockets.admin);
  if (!status.ok()) {
    RemoveMadePaths(sockets);
    return status;
  }
  return sockets;
}

void RemoveMadePaths(const ListenSockets& sockets) {
  for (const std::string& path : sockets.made_paths) unlink(path.c_str());
}

}  // namespace preprocd
