#include "daemon/metrics/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace preprocd {
namespace {

constexpr size_t kOperations = static_cast<size_t>(Operation::kCount);

constexpr std::array<const char*, kOperations> kOperationNames = {
    "convert",
    "decode",
    "peek",
    "encode",
    "explain",
    "capabilities",
    "plan_tiles",
    "tile",
    "tile_one",
    "lift_boxes",
    "merge_detections",
    "materialize_masks",
    "draw_masks",
    "set_palette",
    "prepare",
    "run",
    "register_buffer",
    "allocate_buffer",
    "unregister_buffer",
    "list_buffers",
    "share_buffer",
    "accept_share",
    "revoke_share"};

std::string NameWithLabels(const std::string& family,
                           const prometheus::ClientMetric& metric) {
  if (metric.label.empty()) return family;
  std::string labels;
  for (const auto& label : metric.label) {
    absl::StrAppend(&labels, labels.empty() ? "" : ",", label.name, "=\"",
                    label.value, "\"");
  }
  return absl::StrCat(family, "{", labels, "}");
}

}  // namespace

absl::string_view OperationName(Operation op) {
  const auto index = static_cast<size_t>(op);
  return index < kOperations ? kOperationNames[index] : "unknown";
}

struct Metrics::State {
  prometheus::Registry registry;
  struct PerOperation {
    prometheus::Counter* ok = nullptr;
    prometheus::Counter* failed = nullptr;
  };
  std::array<PerOperation, kOperations> requests;
  prometheus::Counter* bytes_copied = nullptr;
  prometheus::Counter* warnings = nullptr;
  prometheus::Counter* fds_lost = nullptr;
  prometheus::Counter* bad_frames = nullptr;
  prometheus::Counter* cancelled = nullptr;
  prometheus::Counter* expired = nullptr;
  prometheus::Counter* rejected = nullptr;
  prometheus::Gauge* sessions = nullptr;
  prometheus::Gauge* queued = nullptr;
  prometheus::Gauge* running = nullptr;
  prometheus::Family<prometheus::Counter>* declines = nullptr;
  prometheus::Family<prometheus::Counter>* stages = nullptr;
  // Names come from our own code (backends, stages), so these stay small.
  std::mutex mutex;
  std::map<std::string, prometheus::Counter*, std::less<>> decline_counters;
  std::map<std::string, prometheus::Counter*, std::less<>> stage_counters;

  prometheus::Counter* AddCounter(const std::string& name,
                                  const std::string& help) {
    return &prometheus::BuildCounter()
                .Name(name)
                .Help(help)
                .Register(registry)
                .Add({});
  }
  prometheus::Gauge* AddGauge(const std::string& name,
                              const std::string& help) {
    return &prometheus::BuildGauge()
                .Name(name)
                .Help(help)
                .Register(registry)
                .Add({});
  }
  prometheus::Counter* Find(
      std::map<std::string, prometheus::Counter*, std::less<>>& known,
      prometheus::Family<prometheus::Counter>& family, const std::string& label,
      absl::string_view value) {
    std::lock_guard<std::mutex> lock(mutex);
    const auto found = known.find(value);
    if (found != known.end()) return found->second;
    const std::string key(value);
    return known.emplace(key, &family.Add({{label, key}})).first->second;
  }
};

Metrics::Metrics() : state_(std::make_unique<State>()) {
  State& s = *state_;
  auto& requests = prometheus::BuildCounter()
                       .Name("requests_total")
                       .Help("Requests answered, by operation and outcome")
                       .Register(s.registry);
  for (size_t i = 0; i < kOperations; ++i) {
    const std::string name = kOperationNames[i];
    s.requests[i].ok = &requests.Add({{"op", name}, {"ok", "true"}});
    s.requests[i].failed = &requests.Add({{"op", name}, {"ok", "false"}});
  }
  s.bytes_copied =
      s.AddCounter("bytes_copied_total", "Bytes copied beside the work itself");
  s.warnings = s.AddCounter("warnings_total", "Warnings told in replies");
  s.fds_lost = s.AddCounter("direct_fds_lost_total",
                            "Frames whose descriptors were cut");
  s.bad_frames =
      s.AddCounter("direct_bad_frames_total", "Frames that were refused");
  s.cancelled = s.AddCounter("jobs_cancelled_total", "Jobs cancelled");
  s.expired = s.AddCounter("jobs_expired_total", "Jobs past their deadline");
  s.rejected = s.AddCounter("jobs_rejected_total", "Jobs a full queue refused");
  s.sessions = s.AddGauge("sessions", "Open sessions");
  s.queued = s.AddGauge("jobs_queued", "Jobs waiting");
  s.running = s.AddGauge("jobs_running", "Jobs running");
  s.declines = &prometheus::BuildCounter()
                    .Name("backend_declines_total")
                    .Help("Requests that a better-ranked backend declined")
                    .Register(s.registry);
  s.stages = &prometheus::BuildCounter()
                  .Name("stage_ns_total")
                  .Help("Nanoseconds spent, by stage")
                  .Register(s.registry);
}

Metrics::~Metrics() = default;

void Metrics::CountRequest(Operation op, bool ok) {
  const auto index = static_cast<size_t>(op);
  if (index >= kOperations) return;
  const State::PerOperation& counters = state_->requests[index];
  (ok ? counters.ok : counters.failed)->Increment();
}
void Metrics::AddBytesCopied(double bytes) {
  state_->bytes_copied->Increment(bytes);
}
void Metrics::AddWarnings(double count) { state_->warnings->Increment(count); }
void Metrics::CountFdsLost() { state_->fds_lost->Increment(); }
void Metrics::CountBadFrame() { state_->bad_frames->Increment(); }
void Metrics::CountCancelled() { state_->cancelled->Increment(); }
void Metrics::CountExpired() { state_->expired->Increment(); }
void Metrics::CountRejected() { state_->rejected->Increment(); }
void Metrics::AddDecline(absl::string_view backend) {
  state_->Find(state_->decline_counters, *state_->declines, "backend", backend)
      ->Increment();
}
void Metrics::SetSessions(double count) { state_->sessions->Set(count); }
void Metrics::SetQueued(double count) { state_->queued->Set(count); }
void Metrics::SetRunning(double count) { state_->running->Set(count); }
void Metrics::AddStageNs(absl::string_view stage, double ns) {
  state_->Find(state_->stage_counters, *state_->stages, "stage", stage)
      ->Increment(ns);
}

std::vector<MetricValue> Metrics::Collect() const {
  std::vector<MetricValue> values;
  for (const prometheus::MetricFamily& family : state_->registry.Collect()) {
    for (const prometheus::ClientMetric& metric : family.metric) {
      const double value = family.type == prometheus::MetricType::Gauge
                               ? metric.gauge.value
                               : metric.counter.value;
      values.push_back({NameWithLabels(family.name, metric), value});
    }
  }
  std::sort(values.begin(), values.end(),
            [](const MetricValue& a, const MetricValue& b) {
              return a.name < b.name;
            });
  return values;
}

}  // namespace preprocd
