#include "daemon/rpc/health_rpc.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "daemon/rpc/status_to_grpc.h"
#include "engine/base/error_detail.h"

namespace preprocd {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

namespace {

constexpr char kBackendPrefix[] = "preprocd.backend.";

}  // namespace

// One Watch call. All fields are guarded by HealthRpc::mutex_; gRPC is called
// outside of it, because it may call back on the same thread. Between Decide
// and Act the watcher cannot go away: OnDone follows Finish, and Finish is
// never chosen while a write is under way.
class HealthRpc::Watcher final
    : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  enum class Action { kNone, kWrite, kFinish };

  Watcher(HealthRpc& owner, std::string service)
      : owner_(owner), service_(std::move(service)) {}

  const std::string& service() const { return service_; }
  // Only changes are told.
  void Say(Serving status) {
    if (said_ == status) return;
    said_ = status;
    pending_ = status;
  }
  void End(grpc::Status status) {
    if (!ending_) ending_ = std::move(status);
  }

  // What has to be done next; it is then under way.
  Action Decide() {
    if (finished_ || writing_) return Action::kNone;
    if (ending_) {
      finished_ = true;
      return Action::kFinish;
    }
    if (!pending_) return Action::kNone;
    response_.set_status(*pending_);
    pending_.reset();
    writing_ = true;
    return Action::kWrite;
  }
  void Act(Action action) {
    if (action == Action::kWrite) StartWrite(&response_);
    if (action == Action::kFinish) Finish(*ending_);
  }

  void OnWriteDone(bool ok) override {
    Action action;
    {
      std::lock_guard<std::mutex> lock(owner_.mutex_);
      writing_ = false;
      if (!ok) End(grpc::Status::CANCELLED);
      action = Decide();
    }
    Act(action);
  }
  void OnCancel() override {
    Action action;
    {
      std::lock_guard<std::mutex> lock(owner_.mutex_);
      End(grpc::Status::CANCELLED);
      action = Decide();
    }
    Act(action);
  }
  void OnDone() override {
    {
      std::lock_guard<std::mutex> lock(owner_.mutex_);
      owner_.watchers_.erase(this);
    }
    delete this;
  }

 private:
  HealthRpc& owner_;
  const std::string service_;
  std::optional<Serving> said_;
  HealthCheckResponse response_;
  std::optional<Serving> pending_;
  std::optional<grpc::Status> ending_;
  bool writing_ = false;
  bool finished_ = false;
};

HealthRpc::HealthRpc(std::vector<std::string> services, BackendStates backends)
    : services_(std::move(services)), backends_(std::move(backends)) {}

std::optional<HealthRpc::Serving> HealthRpc::StateOf(
    const std::string& service) const {
  if (service.empty() || std::find(services_.begin(), services_.end(),
                                   service) != services_.end()) {
    return HealthCheckResponse::SERVING;
  }
  absl::string_view backend = service;
  if (!absl::ConsumePrefix(&backend, kBackendPrefix)) return std::nullopt;
  for (const auto& [name, well] : backends_()) {
    if (name != backend) continue;
    return well ? HealthCheckResponse::SERVING
                : HealthCheckResponse::NOT_SERVING;
  }
  return std::nullopt;
}

void HealthRpc::StopServing() {
  std::vector<std::pair<Watcher*, Watcher::Action>> actions;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!serving_) return;
    serving_ = false;
    for (Watcher* watcher : watchers_) {
      if (!StateOf(watcher->service())) continue;
      watcher->Say(HealthCheckResponse::NOT_SERVING);
      actions.emplace_back(watcher, watcher->Decide());
    }
  }
  for (const auto& [watcher, action] : actions) watcher->Act(action);
}

void HealthRpc::Refresh() {
  std::vector<std::pair<Watcher*, Watcher::Action>> actions;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!serving_) return;
    for (Watcher* watcher : watchers_) {
      const std::optional<Serving> state = StateOf(watcher->service());
      if (!state) continue;
      watcher->Say(*state);
      actions.emplace_back(watcher, watcher->Decide());
    }
  }
  for (const auto& [watcher, action] : actions) watcher->Act(action);
}

void HealthRpc::EndWatches() {
  std::vector<std::pair<Watcher*, Watcher::Action>> actions;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ended_ = true;
    for (Watcher* watcher : watchers_) {
      watcher->End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                "the daemon is stopping"));
      actions.emplace_back(watcher, watcher->Decide());
    }
  }
  for (const auto& [watcher, action] : actions) watcher->Act(action);
}

grpc::ServerUnaryReactor* HealthRpc::Check(grpc::CallbackServerContext* context,
                                           const HealthCheckRequest* request,
                                           HealthCheckResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const std::optional<Serving> state = StateOf(request->service());
  if (!state) {
    reactor->Finish(StatusToGrpc(absl::NotFoundError(
        absl::StrCat("service ", request->service(), " is not known"))));
    return reactor;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    response->set_status(serving_ ? *state : HealthCheckResponse::NOT_SERVING);
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthRpc::Watch(
    grpc::CallbackServerContext*, const HealthCheckRequest* request) {
  auto* watcher = new Watcher(*this, request->service());
  const std::optional<Serving> state = StateOf(request->service());
  Watcher::Action action;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (ended_) {
      watcher->End(grpc::Status(grpc::StatusCode::UNAVAILABLE,
                                "the daemon is stopping"));
    } else if (watchers_.size() >= static_cast<size_t>(kMaxHealthWatchers)) {
      watcher->End(grpc::Status(
          grpc::StatusCode::RESOURCE_EXHAUSTED,
          absl::StrCat("health watches: at most ", kMaxHealthWatchers)));
    } else if (!state) {
      watcher->Say(HealthCheckResponse::SERVICE_UNKNOWN);
    } else {
      watcher->Say(serving_ ? *state : HealthCheckResponse::NOT_SERVING);
    }
    watchers_.insert(watcher);
    action = watcher->Decide();
  }
  watcher->Act(action);
  return watcher;
}

}  // namespace preprocd
