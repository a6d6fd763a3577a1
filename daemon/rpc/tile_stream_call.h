// One TileStream call on gRPC's callback API: messages wait in order until the
// wire takes them. A client that does not read holds at most what one call of
// the service tells (64 groups of tiles and the reply).
// Owns: itself from start to OnDone. Thread-safety: safe.
#ifndef DAEMON_RPC_TILE_STREAM_CALL_H_
#define DAEMON_RPC_TILE_STREAM_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <mutex>
#include <utility>

#include "daemon/rpc/status_to_grpc.h"
#include "daemon/service/service.h"

namespace preprocd {

class TileStreamCall
    : public grpc::ServerWriteReactor<preproc::v1::TileStreamReply> {
 public:
  // Refuses at once.
  explicit TileStreamCall(const absl::Status& refusal) {
    Finish(StatusToGrpc(refusal));
  }
  TileStreamCall(Service& service, const CallContext& call)
      : scheduler_(&service.scheduler()),
        session_id_(call.session->id()),
        request_id_(call.request_id) {}

  // `request` must live until OnDone.
  void Start(Service& service, const CallContext& call,
             const preproc::v1::TileRequest& request) {
    service.TileWithProgress(
        call, request, &reply_,
        [this](const preproc::v1::TileProgress& progress) {
          preproc::v1::TileStreamReply message;
          *message.mutable_progress() = progress;
          Send(std::move(message));
        },
        [this](const absl::Status& status) { End(status); });
  }

  void Cancel() {
    if (scheduler_ != nullptr) {
      scheduler_->CancelRequest(session_id_, request_id_);
    }
  }
  void OnCancel() override { Cancel(); }
  void OnDone() override { delete this; }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mutex_);
    // The message that was written.
    waiting_.pop_front();
    writing_ = false;
    if (!ok) waiting_.clear();
    Advance(lock);
  }

 private:
  void Send(preproc::v1::TileStreamReply message) {
    std::unique_lock lock(mutex_);
    waiting_.push_back(std::move(message));
    Advance(lock);
  }

  void End(const absl::Status& status) {
    std::unique_lock lock(mutex_);
    if (status.ok()) {
      waiting_.emplace_back().mutable_done()->Swap(&reply_);
    }
    ended_ = true;
    status_ = StatusToGrpc(status);
    Advance(lock);
  }

  // Gives the lock up; nothing may be touched afterwards, because OnDone can
  // follow at once.
  void Advance(std::unique_lock<std::mutex>& lock) {
    if (writing_) return;
    if (!waiting_.empty()) {
      writing_ = true;
      StartWrite(&waiting_.front());
    } else if (ended_) {
      ended_ = false;
      const grpc::Status status = status_;
      lock.unlock();
      Finish(status);
    }
  }

  Scheduler* scheduler_ = nullptr;
  uint64_t session_id_ = 0;
  uint64_t request_id_ = 0;
  preproc::v1::TileReply reply_;
  std::mutex mutex_;
  // Guarded by mutex_. A deque: what is being written stays where it is.
  std::deque<preproc::v1::TileStreamReply> waiting_;
  bool writing_ = false;
  bool ended_ = false;
  grpc::Status status_;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_TILE_STREAM_CALL_H_
