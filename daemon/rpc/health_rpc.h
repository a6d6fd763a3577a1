// grpc.health.v1.Health from its .proto, so that reflection can describe it.
// A backend is the service preprocd.backend.NAME: SERVING while the device is
// there and nothing is wrong with it.
// Owns: the watchers' states. Thread-safety: safe.
// Limits: kMaxHealthWatchers; more watches are RESOURCE_EXHAUSTED.
// Source: gRPC Health Checking Protocol: Check of an unknown service is
// NOT_FOUND; Watch of one says SERVICE_UNKNOWN and stays open.
#ifndef DAEMON_RPC_HEALTH_RPC_H_
#define DAEMON_RPC_HEALTH_RPC_H_

#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace preprocd {

inline constexpr int kMaxHealthWatchers = 256;

// Name of each backend, and whether it is well. Called on gRPC's threads.
using BackendStates =
    std::function<std::vector<std::pair<std::string, bool>>()>;

class HealthRpc final : public grpc::health::v1::Health::CallbackService {
 public:
  // `services`: names that this listener serves; "" stands for all of them.
  HealthRpc(std::vector<std::string> services, BackendStates backends);

  // NOT_SERVING from here on; watchers are told.
  void StopServing();
  // Tells watchers of backends what has changed; called now and then.
  void Refresh();
  // Ends every watch, present and future.
  void EndWatches();

  grpc::ServerUnaryReactor* Check(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request,
      grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context,
      const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  class Watcher;
  using Serving = grpc::health::v1::HealthCheckResponse::ServingStatus;

  // What a service says while this listener serves; nothing when unknown.
  std::optional<Serving> StateOf(const std::string& service) const;

  const std::vector<std::string> services_;
  const BackendStates backends_;
  // Guards all that follows. std::mutex, which ThreadSanitizer understands;
  // Debian's Abseil is built without it.
  std::mutex mutex_;
  bool serving_ = true;
  bool ended_ = false;
  absl::flat_hash_set<Watcher*> watchers_;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_HEALTH_RPC_H_
