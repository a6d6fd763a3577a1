#include "daemon/rpc/rpc_services.h"
#include "daemon/rpc/tile_stream_call.h"
#include "daemon/rpc/unary_calls.h"
#include "engine/base/error_detail.h"
#include "preproc/v1/preproc.grpc.pb.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

class RefusedStream
    : public grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamReply> {
 public:
  explicit RefusedStream(const absl::Status& status) {
    Finish(StatusToGrpc(status));
  }
  void OnDone() override { delete this; }
};

class PreprocRpc final : public v1::Preproc::CallbackService {
 public:
  explicit PreprocRpc(CallerResolver& callers) : callers_(callers) {}

  Reactor* Convert(Context* context, const v1::ConvertRequest* request,
                   v1::ConvertReply* reply) override {
    return Work(callers_, context, request, reply, &preprocd::Service::Convert);
  }
  Reactor* Decode(Context* context, const v1::DecodeRequest* request,
                  v1::DecodeReply* reply) override {
    return Work(callers_, context, request, reply, &preprocd::Service::Decode);
  }
  Reactor* Encode(Context* context, const v1::EncodeRequest* request,
                  v1::EncodeReply* reply) override {
    return Work(callers_, context, request, reply, &preprocd::Service::Encode);
  }
  Reactor* Peek(Context* context, const v1::PeekRequest* request,
                v1::PeekReply* reply) override {
    return Answer(callers_, context, request, reply, &preprocd::Service::Peek);
  }
  Reactor* Explain(Context* context, const v1::ExplainRequest* request,
                   v1::ExplainReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::Explain);
  }
  Reactor* Capabilities(Context* context,
                        const v1::CapabilitiesRequest* request,
                        v1::CapabilitiesReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::Capabilities);
  }
  Reactor* PlanTiles(Context* context, const v1::PlanTilesRequest* request,
                     v1::PlanTilesReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::PlanTiles);
  }
  Reactor* Tile(Context* context, const v1::TileRequest* request,
                v1::TileReply* reply) override {
    return Work(callers_, context, request, reply, &preprocd::Service::Tile);
  }
  grpc::ServerWriteReactor<v1::TileStreamReply>* TileStream(
      Context* context, const v1::TileRequest* request) override {
    const absl::StatusOr<CallContext> call = callers_.Resolve(*context);
    if (!call.ok()) return new TileStreamCall(call.status());
    auto* stream = new TileStreamCall(callers_.service(), *call);
    stream->Start(callers_.service(), *call, *request);
    // A cancellation that came before the job was queued found nothing. The
    // reactor lives: gRPC calls OnDone only after this handler returned.
    if (context->IsCancelled()) stream->Cancel();
    return stream;
  }
  Reactor* TileOne(Context* context, const v1::TileOneRequest* request,
                   v1::ConvertReply* reply) override {
    return Work(callers_, context, request, reply, &preprocd::Service::TileOne);
  }
  Reactor* LiftBoxes(Context* context, const v1::LiftBoxesRequest* request,
                     v1::LiftBoxesReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::LiftBoxes);
  }
  Reactor* MergeDetections(Context* context,
                           const v1::MergeDetectionsRequest* request,
                           v1::MergeDetectionsReply* reply) override {
    return Work(callers_, context, request, reply,
                &preprocd::Service::MergeDetections);
  }
  Reactor* MaterializeMasks(Context* context,
                            const v1::MaterializeMasksRequest* request,
                            v1::MaterializeMasksReply* reply) override {
    return Work(callers_, context, request, reply,
                &preprocd::Service::MaterializeMasks);
  }
  Reactor* DrawMasks(Context* context, const v1::DrawMasksRequest* request,
                     v1::DrawMasksReply* reply) override {
    return Work(callers_, context, request, reply,
                &preprocd::Service::DrawMasks);
  }
  Reactor* SetPalette(Context* context, const v1::SetPaletteRequest* request,
                      v1::SetPaletteReply* reply) override {
    return Answer(callers_, context, request, reply,
                  &preprocd::Service::SetPalette);
  }
  Reactor* Prepare(Context* context, const v1::PrepareRequest*,
                   v1::PrepareReply*) override {
    return RefuseNotBuilt(callers_, context, Operation::kPrepare);
  }
  Reactor* Run(Context* context, const v1::RunRequest*,
               v1::ConvertReply*) override {
    return RefuseNotBuilt(callers_, context, Operation::kRun);
  }
  grpc::ServerBidiReactor<v1::StreamRequest, v1::StreamReply>* Stream(
      Context*) override {
    return new RefusedStream(NotBuilt("stream"));
  }

 private:
  CallerResolver& callers_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePreprocRpc(CallerResolver& callers) {
  return std::make_unique<PreprocRpc>(callers);
}

}  // namespace preprocd
