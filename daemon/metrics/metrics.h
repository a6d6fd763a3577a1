// Counters and gauges of the daemon, kept in a prometheus-cpp registry.
// Handles are looked up once and incremented without a lock.
// Thread-safety: safe.
#ifndef DAEMON_METRICS_METRICS_H_
#define DAEMON_METRICS_METRICS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace prometheus {
class Counter;
class Gauge;
class Registry;
}  // namespace prometheus

namespace preprocd {

// One value as listed by Admin.Stats: `requests_total{op="convert"}`.
struct MetricValue {
  std::string name;
  double value = 0;
};

// Operations with a requests counter each.
enum class Operation : int {
  kConvert,
  kDecode,
  kPeek,
  kEncode,
  kExplain,
  kCapabilities,
  kPlanTiles,
  kTile,
  kTileOne,
  kLiftBoxes,
  kMergeDetections,
  kMaterializeMasks,
  kDrawMasks,
  kSetPalette,
  kPrepare,
  kRun,
  kRegisterBuffer,
  kAllocateBuffer,
  kUnregisterBuffer,
  kListBuffers,
  kShareBuffer,
  kAcceptShare,
  kRevokeShare,
  kCount
};
absl::string_view OperationName(Operation op);  // "convert"

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // requests_total{op,ok}; no lock, no allocation.
  void CountRequest(Operation op, bool ok);
  void AddBytesCopied(double bytes);  // bytes_copied_total
  void AddWarnings(double count);     // warnings_total, of replies
  void CountFdsLost();                // direct_fds_lost_total
  void CountBadFrame();               // direct_bad_frames_total
  void CountCancelled();              // jobs_cancelled_total
  void CountExpired();                // jobs_expired_total
  void CountRejected();               // jobs_rejected_total (queue full)
  void AddDecline(absl::string_view backend);  // backend_declines_total
  void SetSessions(double count);              // sessions
  void SetQueued(double count);                // jobs_queued
  void SetRunning(double count);               // jobs_running
  void AddStageNs(absl::string_view stage, double ns);  // stage_ns_total

  // Every value, by name.
  std::vector<MetricValue> Collect() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // DAEMON_METRICS_METRICS_H_
