// One handler per operation, written once for every transport: request
// messages in, reply messages out, no socket. A handler validates, plans and
// submits a job; the job's completion fills the reply and calls `done`.
// Owns: nothing; all parts are borrowed and must outlive it.
// Thread-safety: safe. Handlers never block on work; `done` runs on the
// calling thread (refusals, cheap calls) or on an executor thread.
#ifndef DAEMON_SERVICE_SERVICE_H_
#define DAEMON_SERVICE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "daemon/metrics/metrics.h"
#include "daemon/scheduler/scheduler.h"
#include "daemon/sessions/session_table.h"
#include "engine/base/unique_fd.h"
#include "engine/engine.h"
#include "preproc/v1/admin.pb.h"
#include "preproc/v1/buffers.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// Who calls, and when the request arrived.
struct CallContext {
  std::shared_ptr<Session> session;  // never null
  // Unique among the session's open requests; 0 = cannot be cancelled alone.
  uint64_t request_id = 0;
  int64_t arrival_ns = 0;   // monotonic, when the bytes were received
  int64_t deadline_ns = 0;  // monotonic, from the transport; 0 = none
};

// Called exactly once. Request and reply must stay alive until then.
using Done = absl::AnyInvocable<void(absl::Status)>;

struct ServiceOptions {
  std::string version;
  std::string runtime_dir;
  int64_t max_inline_bytes = kMaxInlineBytes;
};

class Service {
 public:
  Service(const ServiceOptions& options, Engine& engine, SessionTable& sessions,
          Scheduler& scheduler, Metrics& metrics);

  // Work; replies come from an executor thread.
  void Convert(const CallContext& call,
               const preproc::v1::ConvertRequest& request,
               preproc::v1::ConvertReply* reply, Done done);
  void Decode(const CallContext& call,
              const preproc::v1::DecodeRequest& request,
              preproc::v1::DecodeReply* reply, Done done);
  void Encode(const CallContext& call,
              const preproc::v1::EncodeRequest& request,
              preproc::v1::EncodeReply* reply, Done done);

  // Cheap; answered on the calling thread.
  absl::Status Peek(const CallContext& call,
                    const preproc::v1::PeekRequest& request,
                    preproc::v1::PeekReply* reply);
  absl::Status Explain(const CallContext& call,
                       const preproc::v1::ExplainRequest& request,
                       preproc::v1::ExplainReply* reply);
  absl::Status Capabilities(const CallContext& call,
                            const preproc::v1::CapabilitiesRequest& request,
                            preproc::v1::CapabilitiesReply* reply);
  // An operation of the contract that this build lacks: counts the request
  // and answers UNIMPLEMENTED with reason NOT_BUILT.
  absl::Status NotBuiltYet(const CallContext& call, Operation operation);

  // Buffers. `fds` are consumed. Errors: FD_COUNT, those of ImportBuffer,
  // ValidateImageDesc and Session::Register.
  absl::Status RegisterBuffer(const CallContext& call,
                              const preproc::v1::RegisterBufferRequest& request,
                              std::vector<UniqueFd> fds,
                              preproc::v1::RegisterBufferReply* reply);
  // `fds` receives descriptors to send with the reply.
  absl::Status AllocateBuffer(const CallContext& call,
                              const preproc::v1::AllocateBufferRequest& request,
                              preproc::v1::AllocateBufferReply* reply,
                              std::vector<UniqueFd>* fds);
  absl::Status UnregisterBuffer(
      const CallContext& call,
      const preproc::v1::UnregisterBufferRequest& request,
      preproc::v1::UnregisterBufferReply* reply);
  absl::Status ListBuffers(const CallContext& call,
                           const preproc::v1::ListBuffersRequest& request,
                           preproc::v1::ListBuffersReply* reply);
  absl::Status ShareBuffer(const CallContext& call,
                           const preproc::v1::ShareBufferRequest& request,
                           preproc::v1::ShareBufferReply* reply);
  absl::Status AcceptShare(const CallContext& call,
                           const preproc::v1::AcceptShareRequest& request,
                           preproc::v1::AcceptShareReply* reply);
  absl::Status RevokeShare(const CallContext& call,
                           const preproc::v1::RevokeShareRequest& request,
                           preproc::v1::RevokeShareReply* reply);

  // Admin; the transport guarantees that only admin.sock calls these.
  absl::Status Status(const preproc::v1::StatusRequest& request,
                      preproc::v1::StatusReply* reply);
  absl::Status ListSessions(const preproc::v1::ListSessionsRequest& request,
                            preproc::v1::ListSessionsReply* reply);
  absl::Status Stats(const preproc::v1::StatsRequest& request,
                     preproc::v1::StatsReply* reply);
  absl::Status SetLimits(const preproc::v1::SetLimitsRequest& request,
                         preproc::v1::SetLimitsReply* reply);
  absl::Status SetLogLevel(const preproc::v1::SetLogLevelRequest& request,
                           preproc::v1::SetLogLevelReply* reply);

  // The bounds in force, for Welcome and Capabilities.
  void FillLimits(preproc::v1::Limits* limits) const;

  // From here on new work is answered kUnavailable DRAINING.
  void BeginDrain() { draining_ = true; }
  bool draining() const { return draining_; }

  SessionTable& sessions() { return sessions_; }
  Scheduler& scheduler() { return scheduler_; }
  Metrics& metrics() { return metrics_; }

 private:
  const ServiceOptions options_;
  Engine& engine_;
  SessionTable& sessions_;
  Scheduler& scheduler_;
  Metrics& metrics_;
  const int64_t started_ns_;
  std::atomic<bool> draining_ = false;
};

// Fills preproc.v1.ErrorDetail from a status; INTERNAL without one. Used by
// both transports.
void FillErrorDetail(const absl::Status& status,
                     preproc::v1::ErrorDetail* detail);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_SERVICE_H_
