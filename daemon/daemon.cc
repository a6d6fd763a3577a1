#include "daemon/daemon.h"

#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "daemon/direct/direct_server.h"
#include "daemon/lifecycle/listen_sockets.h"
#include "daemon/lifecycle/service_notify.h"
#include "daemon/lifecycle/signal_waiter.h"
#include "daemon/metrics/log.h"
#include "daemon/metrics/metrics.h"
#include "daemon/progress_probe.h"
#include "daemon/rpc/grpc_server.h"
#include "daemon/scheduler/scheduler.h"
#include "daemon/service/service.h"
#include "daemon/sessions/session_table.h"
#include "engine/base/status_macros.h"
#include "engine/engine.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

// How often a drain looks whether the last job is done.
constexpr int kDrainPollMs = 20;
// How often watchers of a backend's health hear of a change at the latest.
constexpr int kHealthPeriodMs = 1000;

std::string BackendList(const Engine& engine) {
  std::vector<std::string> names;
  for (const Capabilities* c : engine.backends()) {
    names.push_back(absl::StrCat(c->name, c->available ? "" : "(unavailable)"));
  }
  return absl::StrJoin(names, ",");
}

std::string AllocatorList() {
  std::vector<std::string> names;
  for (const AllocatorStatus& status : ProbeAllocators()) {
    if (!status.available) continue;
    switch (status.kind) {
      case AllocatorKind::kUdmabuf:
        names.push_back("udmabuf");
        break;
      case AllocatorKind::kDmaHeap:
        names.push_back("dma_heap");
        break;
      default:
        names.push_back("memfd");
        break;
    }
  }
  return absl::StrJoin(names, ",");
}

rlim_t DescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// Clients' buffers are descriptors. The soft limit is low only for programs
// that use select, which this one does not.
void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    Log(LogLevel::kWarn, "daemon.descriptors", {{"limit", DescriptorLimit()}});
  }
}

}  // namespace

// How a drain ended.
enum class Drained { kIdle, kTimeout, kSecondSignal };

struct Daemon::State {
  State(const DaemonOptions& o, SignalWaiter s)
      : options(o), signals(std::move(s)) {}

  DaemonOptions options;
  SignalWaiter signals;
  ListenSockets sockets;
  Metrics metrics;
  std::atomic<bool> drain_requested = false;
  std::atomic<int64_t> drain_timeout_ms = 0;  // from Admin.Drain; 0 = option
  // In the order they are made; Stop takes them down in reverse.
  std::unique_ptr<Engine> engine;
  std::unique_ptr<SessionTable> sessions;
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<Service> service;
  std::unique_ptr<DirectServer> direct;
  std::unique_ptr<GrpcServer> grpc;
  std::unique_ptr<ProgressProbe> probe;
  std::unique_ptr<WatchdogFeeder> watchdog;

  absl::Status Start();
  absl::Status StartTransports();
  void LogStart() const;
  void Reload();
  Drained Drain();
  void Stop();
};

absl::Status Daemon::State::Start() {
  RETURN_IF_ERROR(SetLogLevel(options.log_level));
  RaiseDescriptorLimit();
  EngineOptions engine_options;
  engine_options.backends = options.backends;
  engine_options.row_threads = options.row_threads;
  engine_options.backend_settings = options.backend_settings;
  ASSIGN_OR_RETURN(engine, Engine::Create(engine_options));
  ASSIGN_OR_RETURN(sockets, OpenListenSockets(options.runtime_dir));
  sessions = std::make_unique<SessionTable>(options.limits, metrics);
  SchedulerOptions scheduler_options;
  scheduler_options.cpu_threads = options.cpu_threads;
  scheduler_options.max_queued = options.max_queued_jobs;
  scheduler = std::make_unique<Scheduler>(scheduler_options, metrics);
  ServiceOptions service_options;
  service_options.version = Version();
  service_options.runtime_dir = options.runtime_dir;
  service_options.max_inline_bytes = options.max_inline_bytes;
  service = std::make_unique<Service>(service_options, *engine, *sessions,
                                      *scheduler, metrics);
  RETURN_IF_ERROR(StartTransports());
  probe = std::make_unique<ProgressProbe>(
      *scheduler,
      ProgressProbe::Sources{[this] { direct->Ping(); },
                             [this] { return direct->pongs(); }, MonotonicNs,
                             ProgressProbe::ProcessCpuNs});
  watchdog =
      std::make_unique<WatchdogFeeder>([this] { return probe->Alive(); });
  LogStart();
  NotifyReady("serving");
  return absl::OkStatus();
}

absl::Status Daemon::State::StartTransports() {
  ASSIGN_OR_RETURN(direct,
                   DirectServer::Start(std::move(sockets.direct), *service));
  GrpcServerOptions grpc_options;
  grpc_options.tenant_listener = std::move(sockets.grpc);
  grpc_options.admin_listener = std::move(sockets.admin);
  grpc_options.tcp_address = options.listen_tcp;
  grpc_options.on_drain = [this](int64_t timeout_ms) {
    drain_timeout_ms = timeout_ms;
    drain_requested = true;
    signals.Wake();
  };
  ASSIGN_OR_RETURN(grpc, GrpcServer::Start(std::move(grpc_options), *service));
  return absl::OkStatus();
}

void Daemon::State::LogStart() const {
  const SessionLimits& limits = options.limits;
  Log(LogLevel::kInfo, "daemon.start",
      {{"version", Version()},
       {"runtime_dir", options.runtime_dir},
       {"sockets", sockets.activated ? "passed" : "own"},
       {"tcp_port", grpc->tcp_port()},
       {"config", options.config_path},
       {"backends", BackendList(*engine)},
       {"allocators", AllocatorList()},
       {"sessions", limits.max_sessions},
       {"buffers_per_session", limits.max_buffers_per_session},
       {"bytes_per_session", limits.max_bytes_per_session},
       {"requests_in_flight", limits.max_in_flight_per_session},
       {"queued", options.max_queued_jobs},
       {"inline_bytes", options.max_inline_bytes},
       {"drain_timeout_ms", options.drain_timeout_ms},
       {"descriptors", DescriptorLimit()}});
  for (const Capabilities* c : engine->backends()) {
    // One line for each that is not there, with what an administrator can do
    // something about; the same text as in Status.
    if (c->available) continue;
    Log(LogLevel::kInfo, "backend.unavailable",
        {{"backend", c->name}, {"reason", c->detail}});
  }
}

// What can change while serving: log level, session limits, drain timeout.
void Daemon::State::Reload() {
  NotifyReloading();
  const absl::StatusOr<DaemonOptions> fresh = ReloadOptions(options);
  if (!fresh.ok()) {
    // The running configuration stays.
    Log(LogLevel::kError, "config.refused",
        {{"error", fresh.status().message()}});
    NotifyReady("serving; the new configuration was refused");
    return;
  }
  SetLogLevel(fresh->log_level).IgnoreError();  // checked by ReloadOptions
  sessions->SetLimits(fresh->limits);
  options.log_level = fresh->log_level;
  options.limits = fresh->limits;
  options.drain_timeout_ms = fresh->drain_timeout_ms;
  Log(LogLevel::kInfo, "config.reload",
      {{"config", options.config_path},
       {"log_level", options.log_level},
       {"sessions", options.limits.max_sessions},
       {"need_restart", KeysThatNeedRestart(options, *fresh)}});
  NotifyReady("serving");
}

Drained Daemon::State::Drain() {
  const int64_t asked = drain_timeout_ms;
  const int64_t timeout_ms = asked > 0 ? asked : options.drain_timeout_ms;
  NotifyStopping();
  Log(LogLevel::kInfo, "daemon.drain",
      {{"timeout_ms", timeout_ms},
       {"sessions", sessions->size()},
       {"queued", scheduler->queued()},
       {"running", scheduler->running()}});
  service->BeginDrain();
  grpc->BeginDrain();
  direct->BeginDrain(timeout_ms);
  scheduler->Stop();
  const int64_t deadline_ns = MonotonicNs() + timeout_ms * 1'000'000;
  while (!scheduler->WaitIdle(kDrainPollMs)) {
    if (signals.Wait(0) == SignalEvent::kStop) return Drained::kSecondSignal;
    if (MonotonicNs() >= deadline_ns) return Drained::kTimeout;
  }
  return Drained::kIdle;
}

void Daemon::State::Stop() {
  watchdog.reset();
  // No new calls from here on; replies of running jobs are dropped.
  direct.reset();
  grpc.reset();
  // Joins the executors, so that nothing uses the service any more.
  scheduler.reset();
  service.reset();
  sessions.reset();
  engine.reset();
  RemoveMadePaths(sockets);
}

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(
    const DaemonOptions& options) {
  ASSIGN_OR_RETURN(SignalWaiter signals, SignalWaiter::Block());
  auto state = std::make_unique<State>(options, std::move(signals));
  const absl::Status status = state->Start();
  if (!status.ok()) {
    state->Stop();
    return status;
  }
  return std::unique_ptr<Daemon>(new Daemon(std::move(state)));
}

Daemon::Daemon(std::unique_ptr<State> state) : state_(std::move(state)) {}

Daemon::~Daemon() { state_->Stop(); }

int Daemon::Run() {
  while (!state_->drain_requested) {
    switch (state_->signals.Wait(kHealthPeriodMs)) {
      case SignalEvent::kStop:
        state_->drain_requested = true;
        break;
      case SignalEvent::kReload:
        state_->Reload();
        break;
      case SignalEvent::kWoken:
        break;
      case SignalEvent::kTimeout:
        state_->grpc->RefreshHealth();
        break;
    }
  }
  const Drained drained = state_->Drain();
  Log(LogLevel::kInfo, "daemon.stop",
      {{"drained", drained == Drained::kIdle ? "yes" : "no"},
       {"queued", state_->scheduler->queued()},
       {"running", state_->scheduler->running()}});
  if (drained == Drained::kIdle) return 0;
  // Work that still runs is not waited for, so its threads cannot be joined:
  // the kernel takes everything back. Clients see the end of their sockets.
  RemoveMadePaths(state_->sockets);
  _exit(drained == Drained::kTimeout ? 0 : 1);
}

}  // namespace preprocd
