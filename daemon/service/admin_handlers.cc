#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/metrics/log.h"
#include "daemon/metrics/process_facts.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

constexpr int64_t kNsPerMs = 1'000'000;

constexpr int kMostSessions = 4096;
constexpr int kMostBuffersPerSession = 65536;
constexpr int kMostInFlightPerSession = 1024;
constexpr int64_t kMostBytesPerSession = int64_t{1} << 46;

// 0 keeps `current`; a value outside 1..most is refused.
template <typename T>
absl::Status ReadLimit(T value, T most, absl::string_view field, T& current) {
  if (value == 0) return absl::OkStatus();
  if (value < 1 || value > most) {
    return BadValue(ErrorReason::kFieldInvalid, field, absl::StrCat(value),
                    absl::StrCat("is not in 1..", most));
  }
  current = value;
  return absl::OkStatus();
}

const char* AllocatorName(AllocatorKind kind) {
  switch (kind) {
    case AllocatorKind::kUdmabuf:
      return "udmabuf";
    case AllocatorKind::kDmaHeap:
      return "dma_heap";
    case AllocatorKind::kHeap:
      return "heap";
    default:
      return "memfd";
  }
}

}  // namespace

absl::Status Service::Status(const v1::StatusRequest&, v1::StatusReply* reply) {
  reply->set_version(options_.version);
  reply->set_pid(getpid());
  reply->set_uptime_ms((MonotonicNs() - started_ns_) / kNsPerMs);
  reply->set_state(draining() ? "draining" : "serving");
  reply->set_sessions(sessions_.size());
  reply->set_queued(scheduler_.queued());
  reply->set_running(scheduler_.running());
  int rank = 0;
  for (const preprocd::Capabilities* backend : engine_.backends()) {
    v1::BackendStatus* out = reply->add_backends();
    out->set_name(std::string(backend->name));
    out->set_available(backend->available);
    out->set_detail(backend->detail);
    out->set_rank(backend->rank < 0 ? 0 : ++rank);
  }
  const std::vector<BackendStatus> now = engine_.status();
  for (size_t i = 0; i < now.size(); ++i) {
    if (now[i].health.empty()) continue;
    v1::BackendStatus* out = reply->mutable_backends(static_cast<int>(i));
    out->set_detail(absl::StrCat(out->detail(), "; ", now[i].health));
  }
  for (const AllocatorStatus& allocator : ProbeAllocators()) {
    // The heap is private scratch; no client can ask for it.
    if (allocator.kind == AllocatorKind::kHeap) continue;
    v1::AllocatorStatus* out = reply->add_allocators();
    out->set_name(AllocatorName(allocator.kind));
    out->set_available(allocator.available);
    out->set_detail(allocator.detail);
  }
  reply->set_runtime_dir(options_.runtime_dir);
  const ProcessFacts facts = ReadProcessFacts();
  reply->set_resident_bytes(facts.resident_bytes);
  reply->set_open_fds(facts.open_fds);
  reply->set_threads(facts.threads);
  return absl::OkStatus();
}

std::vector<std::pair<std::string, bool>> Service::BackendStates() const {
  std::vector<std::pair<std::string, bool>> states;
  for (const BackendStatus& backend : engine_.status()) {
    states.emplace_back(std::string(backend.name),
                        backend.available && backend.health.empty());
  }
  return states;
}

absl::Status Service::ListSessions(const v1::ListSessionsRequest&,
                                   v1::ListSessionsReply* reply) {
  std::vector<std::shared_ptr<Session>> sessions = sessions_.List();
  std::sort(sessions.begin(), sessions.end(),
            [](const auto& a, const auto& b) { return a->id() < b->id(); });
  const int64_t now = MonotonicNs();
  for (const std::shared_ptr<Session>& session : sessions) {
    const Session::Facts facts = session->facts();
    v1::SessionDescription* out = reply->add_sessions();
    out->set_session_id(session->id());
    out->set_client_name(session->client_name());
    out->set_pid(session->peer().pid);
    out->set_uid(session->peer().uid);
    out->set_age_ms((now - session->opened_ns()) / kNsPerMs);
    out->set_buffers(facts.buffers);
    out->set_bytes(facts.bytes);
    out->set_in_flight(facts.in_flight);
    out->set_requests_ok(facts.requests_ok);
    out->set_requests_failed(facts.requests_failed);
  }
  return absl::OkStatus();
}

absl::Status Service::Stats(const v1::StatsRequest&, v1::StatsReply* reply) {
  std::vector<MetricValue> values = metrics_.Collect();
  for (const BackendStatus& backend : engine_.status()) {
    for (const BackendCounter& counter : backend.counters) {
      MetricValue& value = values.emplace_back();
      value.name = absl::StrCat("backend_", counter.name, "_total{backend=\"",
                                backend.name, "\"}");
      value.value = static_cast<double>(counter.value);
    }
  }
  std::sort(values.begin(), values.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (MetricValue& value : values) {
    v1::StatsEntry* out = reply->add_entries();
    out->set_name(std::move(value.name));
    out->set_value(value.value);
  }
  return absl::OkStatus();
}

absl::Status Service::SetLimits(const v1::SetLimitsRequest& request,
                                v1::SetLimitsReply* reply) {
  SessionLimits limits = sessions_.limits();
  RETURN_IF_ERROR(ReadLimit(request.max_sessions(), kMostSessions,
                            "max_sessions", limits.max_sessions));
  RETURN_IF_ERROR(ReadLimit(request.max_buffers_per_session(),
                            kMostBuffersPerSession, "max_buffers_per_session",
                            limits.max_buffers_per_session));
  RETURN_IF_ERROR(ReadLimit(request.max_bytes_per_session(),
                            kMostBytesPerSession, "max_bytes_per_session",
                            limits.max_bytes_per_session));
  RETURN_IF_ERROR(
      ReadLimit(request.max_in_flight_per_session(), kMostInFlightPerSession,
                "max_in_flight_per_session", limits.max_in_flight_per_session));
  sessions_.SetLimits(limits);
  reply->set_max_sessions(limits.max_sessions);
  reply->set_max_buffers_per_session(limits.max_buffers_per_session);
  reply->set_max_bytes_per_session(limits.max_bytes_per_session);
  reply->set_max_in_flight_per_session(limits.max_in_flight_per_session);
  Log(LogLevel::kInfo, "admin.set_limits",
      {{"max_sessions", limits.max_sessions},
       {"max_buffers_per_session", limits.max_buffers_per_session},
       {"max_bytes_per_session", limits.max_bytes_per_session},
       {"max_in_flight_per_session", limits.max_in_flight_per_session}});
  return absl::OkStatus();
}

absl::Status Service::SetLogLevel(const v1::SetLogLevelRequest& request,
                                  v1::SetLogLevelReply* reply) {
  const std::string previous(LogLevelName());
  RETURN_IF_ERROR(UnderField(preprocd::SetLogLevel(request.level()), "level"));
  reply->set_previous(previous);
  return absl::OkStatus();
}

}  // namespace preprocd
