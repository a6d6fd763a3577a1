// The operator's calls, on admin.sock.
// Owns: its connection. Thread-safety: safe.
#ifndef PREPROCD_ADMIN_H_
#define PREPROCD_ADMIN_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "preproc/v1/admin.pb.h"

namespace preprocd {

namespace v1 = ::preproc::v1;

namespace internal {
class GrpcCalls;
}  // namespace internal

inline namespace client_v1 {

class Admin {
 public:
  // `address`: "unix:/path/admin.sock"; AdminAddress() makes it from a
  // runtime directory.
  // Errors: kUnavailable       nothing answers there
  //         kPermissionDenied  the socket's mode forbids it
  static absl::StatusOr<std::unique_ptr<Admin>> Connect(
      const std::string& address, absl::Duration timeout = absl::Seconds(10));
  ~Admin();
  Admin(const Admin&) = delete;
  Admin& operator=(const Admin&) = delete;

  absl::StatusOr<v1::StatusReply> Status();
  absl::StatusOr<v1::ListSessionsReply> ListSessions();
  absl::StatusOr<v1::StatsReply> Stats();
  // Errors: kInvalidArgument  a limit is out of its range
  absl::StatusOr<v1::SetLimitsReply> SetLimits(
      const v1::SetLimitsRequest& request);
  absl::StatusOr<v1::SetLogLevelReply> SetLogLevel(const std::string& level);
  absl::StatusOr<v1::StopTraceReply> StopTrace();
  absl::Status StartTrace(int max_spans);
  // Returns when draining began; 0 = the daemon's own bound.
  absl::Status Drain(absl::Duration bound);

  // "SERVING", "NOT_SERVING", "UNKNOWN" or "SERVICE_UNKNOWN" for a service
  // or backend name; "" is the whole daemon.
  absl::StatusOr<std::string> Health(const std::string& service);

 private:
  Admin(std::unique_ptr<internal::GrpcCalls> calls, absl::Duration timeout);

  std::unique_ptr<internal::GrpcCalls> calls_;
  absl::Duration timeout_;
};

// "unix:" address of admin.sock below `runtime_dir` ("" as in
// ResolveRuntimeDir), escaped for gRPC.
std::string AdminAddress(const std::string& runtime_dir);
// The same for grpc.sock.
std::string GrpcAddress(const std::string& runtime_dir);

}  // namespace client_v1
}  // namespace preprocd

#endif  // PREPROCD_ADMIN_H_
