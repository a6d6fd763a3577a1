#include "daemon/rpc/peer_registry.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

// A descriptor table as long as the highest number is kernel memory.
constexpr int kHighestEnd = 16384;

int EndOfNumbers() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, kHighestEnd));
}

std::optional<uint64_t> InodeOf(int fd) {
  struct stat facts = {};
  if (fstat(fd, &facts) != 0 || !S_ISSOCK(facts.st_mode)) return std::nullopt;
  return facts.st_ino;
}

absl::Status TooMany(absl::string_view what, int limit) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kQuota;
  detail.limit = absl::StrCat(limit);
  return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                   absl::StrCat(what, ": at most ", limit));
}

}  // namespace

PeerRegistry::PeerRegistry()
    : first_number_(EndOfNumbers() / 2),
      end_number_(EndOfNumbers()),
      next_number_(first_number_) {}

absl::StatusOr<UniqueFd> PeerRegistry::Admit(UniqueFd connection) {
  ASSIGN_OR_RETURN(const PeerCredentials peer,
                   GetPeerCredentials(connection.get()));
  const std::optional<uint64_t> inode = InodeOf(connection.get());
  if (!inode) return absl::UnavailableError("the connection is not a socket");
  std::lock_guard<std::mutex> lock(mutex_);
  ForgetDead();
  if (connections_.size() >= static_cast<size_t>(kMaxConnections)) {
    return TooMany("gRPC connections", kMaxConnections);
  }
  const auto same_peer =
      std::count_if(connections_.begin(), connections_.end(),
                    [&](const auto& c) { return c.second.peer == peer; });
  if (same_peer >= kMaxConnectionsPerPeer) {
    return TooMany("gRPC connections of one process", kMaxConnectionsPerPeer);
  }
  ASSIGN_OR_RETURN(UniqueFd numbered, Renumber(connection));
  connections_[numbered.get()] = {*inode, peer};
  return numbered;
}

absl::StatusOr<UniqueFd> PeerRegistry::Renumber(const UniqueFd& fd) {
  int number = -1;
  if (next_number_ < end_number_) {
    number = fcntl(fd.get(), F_DUPFD_CLOEXEC, next_number_);
  }
  if (number < 0) number = fcntl(fd.get(), F_DUPFD_CLOEXEC, first_number_);
  if (number < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor for a connection: ", strerror(errno)));
  }
  next_number_ = number + 1;
  return UniqueFd(number);
}

void PeerRegistry::ForgetDead() {
  for (auto it = connections_.begin(); it != connections_.end();) {
    const auto current = it++;
    if (InodeOf(current->first) != current->second.inode) {
      connections_.erase(current);
    }
  }
}

absl::StatusOr<PeerCredentials> PeerRegistry::Find(
    absl::string_view peer) const {
  absl::string_view number_text = peer;
  int number = -1;
  if (absl::ConsumePrefix(&number_text, "fd:") &&
      absl::SimpleAtoi(number_text, &number)) {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto found = connections_.find(number);
    if (found != connections_.end() && InodeOf(number) == found->second.inode) {
      return found->second.peer;
    }
  }
  ErrorDetail detail;
  detail.reason = ErrorReason::kNotPermitted;
  detail.got = std::string(peer);
  return MakeError(absl::StatusCode::kPermissionDenied, std::move(detail),
                   absl::StrCat("the peer ", peer, " is not known"));
}

int PeerRegistry::connections() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return static_cast<int>(connections_.size());
}

}  // namespace preprocd
