#include "daemon/rpc/caller_resolver.h"

#include <grpcpp/server_context.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

constexpr char kTokenKey[] = "preproc-session-bin";

// No Unix credentials exist behind TCP; all such callers share one identity.
constexpr PeerCredentials kTcpPeer = {0, static_cast<uid_t>(-1),
                                      static_cast<gid_t>(-1)};

bool IsTcp(absl::string_view peer) {
  return absl::StartsWith(peer, "ipv4:") || absl::StartsWith(peer, "ipv6:");
}

absl::StatusOr<std::optional<std::string>> FindToken(
    const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto [first, last] = metadata.equal_range(kTokenKey);
  if (first == last) return std::optional<std::string>();
  if (std::next(first) != last) {
    return InvalidField(kTokenKey,
                        "preproc-session-bin is given more than once");
  }
  return std::optional<std::string>(
      std::string(first->second.data(), first->second.size()));
}

// Monotonic; 0 when there is none or it is beyond the clock's range.
int64_t DeadlineNs(const grpc::CallbackServerContext& context, int64_t now_ns) {
  const auto deadline = context.deadline();
  const auto now = std::chrono::system_clock::now();
  if (deadline - now > std::chrono::hours(24 * 365)) return 0;
  const int64_t left =
      std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - now)
          .count();
  // 0 means none; a deadline that passed long ago is still one.
  return std::max<int64_t>(1, now_ns + left);
}

}  // namespace

absl::StatusOr<CallContext> CallerResolver::Resolve(
    const grpc::CallbackServerContext& context) {
  CallContext call;
  call.arrival_ns = MonotonicNs();
  call.deadline_ns = DeadlineNs(context, call.arrival_ns);
  call.request_id = next_id_.fetch_add(1, std::memory_order_relaxed);
  const std::string peer_name = context.peer();
  const bool tcp = IsTcp(peer_name);
  PeerCredentials peer = kTcpPeer;
  if (!tcp) {
    ASSIGN_OR_RETURN(peer, peers_.Find(peer_name));
  }
  ASSIGN_OR_RETURN(const std::optional<std::string> token, FindToken(context));
  if (!token) {
    call.anonymous = true;
    call.session = service_.sessions().Anonymous(peer);
    return call;
  }
  if (tcp) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kNotPermitted;
    detail.field = kTokenKey;
    return MakeError(absl::StatusCode::kPermissionDenied, std::move(detail),
                     "preproc-session-bin is not accepted over TCP");
  }
  ASSIGN_OR_RETURN(call.session, service_.sessions().FindByToken(*token, peer));
  return call;
}

}  // namespace preprocd
