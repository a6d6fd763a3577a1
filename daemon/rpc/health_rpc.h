// grpc.health.v1.Health from its .proto, so that reflection can describe it.
// Owns: the watchers' states. Thread-safety: safe.
// Limits: kMaxHealthWatchers; more watches are RESOURCE_EXHAUSTED.
// Source: gRPC Health Checking Protocol: Check of an unknown service is
// NOT_FOUND; Watch of one says SERVICE_UNKNOWN and stays open.
#ifndef DAEMON_RPC_HEALTH_RPC_H_
#define DAEMON_RPC_HEALTH_RPC_H_

#include <mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "grpc/health/v1/health.grpc.pb.h"

namespace preprocd {

inline constexpr int kMaxHealthWatchers = 256;

class HealthRpc final : public grpc::health::v1::Health::CallbackService {
 public:
  // `services`: names that this listener serves; "" stands for all of them.
  explicit HealthRpc(std::vector<std::string> services);

  // NOT_SERVING from here on; watchers are told.
  void StopServing();
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
  bool Knows(const std::string& service) const;

  const std::vector<std::string> services_;
  // Guards all that follows. std::mutex, which ThreadSanitizer understands;
  // Debian's Abseil is built without it.
  std::mutex mutex_;
  bool serving_ = true;
  bool ended_ = false;
  absl::flat_hash_set<Watcher*> watchers_;
};

}  // namespace preprocd

#endif  // DAEMON_RPC_HEALTH_RPC_H_
