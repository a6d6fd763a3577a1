#include "preprocd/admin.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/grpc_calls.h"
#include "engine/base/status_macros.h"
#include "preprocd/client.h"

namespace preprocd {
inline namespace client_v1 {
namespace {

template <typename Reply, typename Request>
absl::StatusOr<Reply> Ask(internal::GrpcCalls& calls, const Request& request,
                          absl::Duration timeout) {
  Reply reply;
  RETURN_IF_ERROR(calls.Call(request, &reply, timeout));
  return reply;
}

}  // namespace

Admin::Admin(std::unique_ptr<internal::GrpcCalls> calls, absl::Duration timeout)
    : calls_(std::move(calls)), timeout_(timeout) {}

Admin::~Admin() = default;

absl::StatusOr<std::unique_ptr<Admin>> Admin::Connect(
    const std::string& address, absl::Duration timeout) {
  RETURN_IF_ERROR(internal::CheckUnixTarget(address));
  auto calls = std::make_unique<internal::GrpcCalls>(address, "");
  const auto health = calls->Health("", timeout);
  if (absl::IsUnavailable(health.status()) ||
      absl::IsDeadlineExceeded(health.status())) {
    return absl::UnavailableError(
        absl::StrCat(address, ": ", health.status().message()));
  }
  return std::unique_ptr<Admin>(new Admin(std::move(calls), timeout));
}

absl::StatusOr<v1::StatusReply> Admin::Status() {
  return Ask<v1::StatusReply>(*calls_, v1::StatusRequest(), timeout_);
}

absl::StatusOr<v1::ListSessionsReply> Admin::ListSessions() {
  return Ask<v1::ListSessionsReply>(*calls_, v1::ListSessionsRequest(),
                                    timeout_);
}

absl::StatusOr<v1::StatsReply> Admin::Stats() {
  return Ask<v1::StatsReply>(*calls_, v1::StatsRequest(), timeout_);
}

absl::StatusOr<v1::SetLimitsReply> Admin::SetLimits(
    const v1::SetLimitsRequest& request) {
  return Ask<v1::SetLimitsReply>(*calls_, request, timeout_);
}

absl::StatusOr<v1::SetLogLevelReply> Admin::SetLogLevel(
    const std::string& level) {
  v1::SetLogLevelRequest request;
  request.set_level(level);
  return Ask<v1::SetLogLevelReply>(*calls_, request, timeout_);
}

absl::Status Admin::StartTrace(int max_spans) {
  v1::StartTraceRequest request;
  request.set_max_spans(max_spans);
  return Ask<v1::StartTraceReply>(*calls_, request, timeout_).status();
}

absl::StatusOr<v1::StopTraceReply> Admin::StopTrace() {
  return Ask<v1::StopTraceReply>(*calls_, v1::StopTraceRequest(), timeout_);
}

absl::Status Admin::Drain(absl::Duration bound) {
  v1::DrainRequest request;
  request.set_timeout_ms(absl::ToInt64Milliseconds(bound));
  return Ask<v1::DrainReply>(*calls_, request, timeout_).status();
}

absl::StatusOr<std::string> Admin::Health(const std::string& service) {
  return calls_->Health(service, timeout_);
}

std::string AdminAddress(const std::string& runtime_dir) {
  return internal::UnixTarget(
      absl::StrCat(ResolveRuntimeDir(runtime_dir), "/admin.sock"));
}

std::string GrpcAddress(const std::string& runtime_dir) {
  return internal::UnixTarget(
      absl::StrCat(ResolveRuntimeDir(runtime_dir), "/grpc.sock"));
}

}  // namespace client_v1
}  // namespace preprocd
