// Shapes of unary calls on gRPC's callback API: answered at once, or by a job
// that finishes later. No thread of gRPC waits for work.
// Owns: WorkCall owns itself from start to OnDone.
// Thread-safety: safe.
#ifndef DAEMON_RPC_UNARY_CALLS_H_
#define DAEMON_RPC_UNARY_CALLS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <utility>

#include "daemon/rpc/caller_resolver.h"
#include "daemon/rpc/status_to_grpc.h"
#include "daemon/service/service.h"

namespace preprocd {

inline grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* context,
                                           const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(StatusToGrpc(status));
  return reactor;
}

// A cheap operation of the service, answered on gRPC's thread.
template <typename Request, typename Reply>
grpc::ServerUnaryReactor* Answer(
    CallerResolver& callers, grpc::CallbackServerContext* context,
    const Request* request, Reply* reply,
    absl::Status (Service::*method)(const CallContext&, const Request&,
                                    Reply*)) {
  absl::StatusOr<CallContext> call = callers.Resolve(*context);
  if (!call.ok()) return FinishNow(context, call.status());
  return FinishNow(context,
                   (callers.service().*method)(*call, *request, reply));
}

inline grpc::ServerUnaryReactor* RefuseNotBuilt(
    CallerResolver& callers, grpc::CallbackServerContext* context,
    Operation operation) {
  absl::StatusOr<CallContext> call = callers.Resolve(*context);
  if (!call.ok()) return FinishNow(context, call.status());
  return FinishNow(context, callers.service().NotBuiltYet(*call, operation));
}

// A call whose job is with the scheduler. The client's cancellation, its
// deadline and its disconnection all arrive as OnCancel.
class WorkCall : public grpc::ServerUnaryReactor {
 public:
  WorkCall(Scheduler& scheduler, const CallContext& call)
      : scheduler_(scheduler),
        session_id_(call.session->id()),
        request_id_(call.request_id) {}

  void OnCancel() override { Cancel(); }
  void OnDone() override { delete this; }

  void Cancel() { scheduler_.CancelRequest(session_id_, request_id_); }

 private:
  Scheduler& scheduler_;
  const uint64_t session_id_;
  const uint64_t request_id_;
};

template <typename Request, typename Reply>
grpc::ServerUnaryReactor* Work(
    CallerResolver& callers, grpc::CallbackServerContext* context,
    const Request* request, Reply* reply,
    void (Service::*method)(const CallContext&, const Request&, Reply*, Done)) {
  absl::StatusOr<CallContext> call = callers.Resolve(*context);
  if (!call.ok()) return FinishNow(context, call.status());
  auto* reactor = new WorkCall(callers.service().scheduler(), *call);
  (callers.service().*method)(*call, *request, reply,
                              [reactor](const absl::Status& status) {
                                reactor->Finish(StatusToGrpc(status));
                              });
  // A cancellation that came before the job was queued found nothing. The
  // reactor lives: gRPC calls OnDone only after this handler returned.
  if (context->IsCancelled()) reactor->Cancel();
  return reactor;
}

}  // namespace preprocd

#endif  // DAEMON_RPC_UNARY_CALLS_H_
