#include "proto/packet/packet_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace preprocd {
namespace {

// The kernel's own cap (SCM_MAX_FD). Room for all of it, so that a sender of
// too many descriptors is noticed by count and every one is closed here.
constexpr size_t kKernelMaxFds = 253;
constexpr size_t kReceiveBytes = static_cast<size_t>(kMaxFrameBytes) + 1;

struct alignas(cmsghdr) ReceiveControl {
  std::array<char, CMSG_SPACE(kKernelMaxFds * sizeof(int))> bytes;
};

void TakeFds(msghdr& message, std::vector<UniqueFd>& fds) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) {
      continue;
    }
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
}

absl::Status SendError(int error) {
  switch (error) {
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
      return absl::UnavailableError("the peer is gone");
    case EAGAIN:
    case ENOBUFS:
      return absl::ResourceExhaustedError("the socket's buffer is full");
    case ETOOMANYREFS:
      return absl::ResourceExhaustedError("too many descriptors are in flight");
    case EBADF:
    case EMSGSIZE:
      return absl::InvalidArgumentError(
          absl::StrCat("sendmsg: ", strerror(error)));
    default:
      return absl::UnavailableError(absl::StrCat("sendmsg: ", strerror(error)));
  }
}

}  // namespace

absl::StatusOr<ReceiveOutcome> ReceivePacket(int socket, Packet& packet) {
  packet.fds.clear();
  packet.size = 0;
  packet.oversized = false;
  packet.fds_lost = false;
  packet.too_many_fds = false;
  if (packet.buffer.size() < kReceiveBytes) packet.buffer.resize(kReceiveBytes);

  ReceiveControl control;
  iovec part = {packet.buffer.data(), packet.buffer.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes.data();
  message.msg_controllen = control.bytes.size();
  ssize_t received = -1;
  do {
    received = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  } while (received < 0 && errno == EINTR);
  if (received < 0) {
    if (errno == EAGAIN) return ReceiveOutcome::kWouldBlock;
    if (errno == ECONNRESET) return ReceiveOutcome::kClosed;
    return absl::UnavailableError(absl::StrCat("recvmsg: ", strerror(errno)));
  }
  TakeFds(message, packet.fds);
  packet.size = static_cast<size_t>(received);
  packet.oversized = (message.msg_flags & MSG_TRUNC) != 0 ||
                     packet.size > static_cast<size_t>(kMaxFrameBytes);
  packet.fds_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  packet.too_many_fds =
      packet.fds.size() > static_cast<size_t>(kMaxFdsPerFrame);
  if (packet.fds_lost || packet.too_many_fds) packet.fds.clear();
  // An empty packet cannot be told from end of file; neither is a frame.
  if (received == 0) {
    packet.fds.clear();
    return ReceiveOutcome::kClosed;
  }
  return ReceiveOutcome::kPacket;
}

absl::Status SendPacket(int socket, std::span<const std::byte> bytes,
                        std::span<const int> fds) {
  if (bytes.empty() || bytes.size() > static_cast<size_t>(kMaxFrameBytes)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "packet of ", bytes.size(), " bytes is not in 1..", kMaxFrameBytes));
  }
  if (fds.size() > static_cast<size_t>(kMaxFdsPerFrame)) {
    return absl::InvalidArgumentError(
        absl::StrCat(fds.size(), " descriptors > ", kMaxFdsPerFrame));
  }
  iovec part = {const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  struct alignas(cmsghdr) {
    std::array<char, CMSG_SPACE(kMaxFdsPerFrame * sizeof(int))> bytes;
  } control = {};
  if (!fds.empty()) {
    message.msg_control = control.bytes.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = -1;
  do {
    sent = sendmsg(socket, &message, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return SendError(errno);
  return absl::OkStatus();
}

absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket) {
  ucred credentials = {};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) < 0) {
    return absl::UnavailableError(
        absl::StrCat("getsockopt(SO_PEERCRED): ", strerror(errno)));
  }
  return PeerCredentials{credentials.pid, credentials.uid, credentials.gid};
}

absl::StatusOr<UniqueFd> ConnectPacketSocket(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("socket path of ", path.size(), " bytes is longer than ",
                     sizeof(address.sun_path) - 1));
  }
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  UniqueFd fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("socket: ", strerror(errno)));
  }
  int result = -1;
  do {
    result = connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                     sizeof(address));
  } while (result < 0 && errno == EINTR);
  if (result < 0) {
    const std::string message =
        absl::StrCat("connect ", path, ": ", strerror(errno));
    if (errno == EACCES || errno == EPERM) {
      return absl::PermissionDeniedError(message);
    }
    return absl::UnavailableError(message);
  }
  return fd;
}

}  // namespace preprocd
