// One SOCK_SEQPACKET packet with its file descriptors, sent or received in
// one system call. Both ends of the direct transport use it.
// Owns: received descriptors, in UniqueFd from recvmsg on.
// Thread-safety: safe (no state); one packet is atomic in the kernel.
// Limits: kMaxFrameBytes, kMaxFdsPerFrame (engine/base/limits.h).
// Source: unix(7), SCM_RIGHTS and MSG_CTRUNC.
#ifndef PROTO_PACKET_PACKET_SOCKET_H_
#define PROTO_PACKET_PACKET_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/base/unique_fd.h"

namespace preprocd {

enum class ReceiveOutcome : uint8_t {
  kPacket,      // bytes and fds are filled in
  kWouldBlock,  // nothing there (non-blocking sockets)
  kClosed,      // the peer is gone
};

// What recvmsg gave. Reused from packet to packet; `bytes` keeps its capacity.
struct Packet {
  std::vector<std::byte> buffer;  // kMaxFrameBytes + 1 after the first use
  size_t size = 0;                // bytes of the packet in `buffer`
  std::vector<UniqueFd> fds;
  // The packet was larger than kMaxFrameBytes; `size` bytes of it are there.
  bool oversized = false;
  // Control data was cut (MSG_CTRUNC); the fds that came were closed.
  bool fds_lost = false;
  // More than kMaxFdsPerFrame arrived; all were closed.
  bool too_many_fds = false;

  std::span<const std::byte> bytes() const { return {buffer.data(), size}; }
};

// Receives one packet. Descriptors are close-on-exec; more than
// kMaxFdsPerFrame are closed and reported as too_many_fds. No allocation once
// `packet` is warm (except the fds' vector growth, once).
// Errors: kUnavailable  the socket failed
absl::StatusOr<ReceiveOutcome> ReceivePacket(int socket, Packet& packet);

// Sends one packet; `fds` are borrowed. MSG_NOSIGNAL.
// Errors: kInvalidArgument   too many bytes or fds, or empty
//         kUnavailable       the peer is gone
//         kResourceExhausted the socket's buffer is full (non-blocking), or
//                            too many descriptors in flight (ETOOMANYREFS)
absl::Status SendPacket(int socket, std::span<const std::byte> bytes,
                        std::span<const int> fds = {});

// Peer of a connected Unix socket as the kernel recorded it.
struct PeerCredentials {
  pid_t pid = 0;  // 0: other pid namespace
  uid_t uid = 0;
  gid_t gid = 0;
  bool operator==(const PeerCredentials&) const = default;
};
absl::StatusOr<PeerCredentials> GetPeerCredentials(int socket);

// A connected blocking SEQPACKET socket.
// Errors: kUnavailable      nothing listens at `path`
//         kPermissionDenied the path's mode forbids it
//         kInvalidArgument  path longer than sun_path
absl::StatusOr<UniqueFd> ConnectPacketSocket(const std::string& path);

}  // namespace preprocd

#endif  // PROTO_PACKET_PACKET_SOCKET_H_
