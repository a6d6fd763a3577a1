#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/rpc_services.h"
#include "daemon/rpc/unary_calls.h"
#include "engine/base/error_detail.h"
#include "preproc/v1/admin.grpc.pb.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class AdminRpc final : public v1::Admin::CallbackService {
 public:
  AdminRpc(preprocd::Service& service, std::function<void(int64_t)> on_drain)
      : service_(service), on_drain_(std::move(on_drain)) {}

  Reactor* Status(Context* context, const v1::StatusRequest* request,
                  v1::StatusReply* reply) override {
    return FinishNow(context, service_.Status(*request, reply));
  }
  Reactor* ListSessions(Context* context,
                        const v1::ListSessionsRequest* request,
                        v1::ListSessionsReply* reply) override {
    return FinishNow(context, service_.ListSessions(*request, reply));
  }
  Reactor* Stats(Context* context, const v1::StatsRequest* request,
                 v1::StatsReply* reply) override {
    return FinishNow(context, service_.Stats(*request, reply));
  }
  Reactor* Drain(Context* context, const v1::DrainRequest* request,
                 v1::DrainReply*) override {
    if (request->timeout_ms() < 0) {
      return FinishNow(
          context, InvalidField("timeout_ms",
                                absl::StrCat("timeout_ms ",
                                             request->timeout_ms(), " < 0")));
    }
    Reactor* reactor = FinishNow(context, absl::OkStatus());
    on_drain_(request->timeout_ms());
    return reactor;
  }
  Reactor* SetLimits(Context* context, const v1::SetLimitsRequest* request,
                     v1::SetLimitsReply* reply) override {
    return FinishNow(context, service_.SetLimits(*request, reply));
  }
  Reactor* SetLogLevel(Context* context, const v1::SetLogLevelRequest* request,
                       v1::SetLogLevelReply* reply) override {
    return FinishNow(context, service_.SetLogLevel(*request, reply));
  }
  Reactor* StartTrace(Context* context, const v1::StartTraceRequest*,
                      v1::StartTraceReply*) override {
    return FinishNow(context, NotBuilt("start_trace"));
  }
  Reactor* StopTrace(Context* context, const v1::StopTraceRequest*,
                     v1::StopTraceReply*) override {
    return FinishNow(context, NotBuilt("stop_trace"));
  }

 private:
  preprocd::Service& service_;
  const std::function<void(int64_t)> on_drain_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeAdminRpc(
    CallerResolver& callers, std::function<void(int64_t)> on_drain) {
  return std::make_unique<AdminRpc>(callers.service(), std::move(on_drain));
}

}  // namespace preprocd
