#include "daemon/rpc/rpc_services.h"
#include "daemon/rpc/unary_calls.h"
#include "preproc/v1/buffers.grpc.pb.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class BuffersRpc final : public v1::Buffers::CallbackService {
 public:
  explicit BuffersRpc(CallerResolver& callers) : callers_(callers) {}

  Reactor* Unregister(Context* context,
                      const v1::UnregisterBufferRequest* request,
                      v1::UnregisterBufferReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::UnregisterBuffer);
  }
  Reactor* List(Context* context, const v1::ListBuffersRequest* request,
                v1::ListBuffersReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::ListBuffers);
  }
  Reactor* Share(Context* context, const v1::ShareBufferRequest* request,
                 v1::ShareBufferReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::ShareBuffer);
  }
  Reactor* AcceptShare(Context* context, const v1::AcceptShareRequest* request,
                       v1::AcceptShareReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::AcceptShare);
  }
  Reactor* RevokeShare(Context* context, const v1::RevokeShareRequest* request,
                       v1::RevokeShareReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::RevokeShare);
  }

 private:
  CallerResolver& callers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeBuffersRpc(CallerResolver& callers) {
  return std::make_unique<BuffersRpc>(callers);
}

}  // namespace preprocd
