#include "daemon/daemon.h"

#include <algorithm>
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

}  // namespace

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
  std::unique_ptr<WatchdogFeeder> watchdog;

  absl::Status Start();
  void Reload();
  bool Drain();
  void Stop();
};

absl::Status Daemon::State::Start() {
  RETURN_IF_ERROR(SetLogLevel(options.log_level));
  EngineOptions engine_options;
  engine_options.backends = options.backends;
  engine_options.row_threads = options.row_threads;
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
  // Progress: the main loop's parts answer without blocking when healthy.
  watchdog = std::make_unique<WatchdogFeeder>([this] {
    return scheduler->queued() < options.max_queued_jobs ||
           scheduler->running() > 0;
  });
  Log(LogLevel::kInfo, "daemon.start",
      {{"version", Version()},
       {"runtime_dir", options.runtime_dir},
       {"activated", sockets.activated ? "yes" : "no"},
       {"tcp_port", grpc->tcp_port()},
       {"backends", BackendList(*engine)},
       {"allocators", AllocatorList()},
       {"max_sessions", options.limits.max_sessions},
       {"bytes_per_session", options.limits.max_bytes_per_session}});
  NotifyReady("serving");
  return absl::OkStatus();
}

// What can change while serving: log level and session limits.
void Daemon::State::Reload() {
  if (options.config_path.empty()) {
    Log(LogLevel::kInfo, "config.reload", {{"file", "none"}});
    return;
  }
  NotifyReloading();
  DaemonOptions fresh;
  fresh.runtime_dir = options.runtime_dir;
  const absl::Status status = ApplyConfigFile(options.config_path, fresh);
  if (!status.ok()) {
    // The running configuration stays.
    Log(LogLevel::kError, "config.reload", {{"error", status.message()}});
    NotifyReady("serving; the new configuration was refused");
    return;
  }
  SetLogLevel(fresh.log_level).IgnoreError();
  sessions->SetLimits(fresh.limits);
  const bool restart = fresh.backends != options.backends ||
                       fresh.listen_tcp != options.listen_tcp ||
                       fresh.cpu_threads != options.cpu_threads ||
                       fresh.row_threads != options.row_threads ||
                       fresh.max_queued_jobs != options.max_queued_jobs ||
                       fresh.runtime_dir != options.runtime_dir;
  options.drain_timeout_ms = fresh.drain_timeout_ms;
  Log(LogLevel::kInfo, "config.reload",
      {{"file", options.config_path},
       {"log_level", fresh.log_level},
       {"restart_needed", restart ? "yes" : "no"}});
  NotifyReady("serving");
}

// True when everything finished in time and no second signal came.
bool Daemon::State::Drain() {
  const int64_t asked = drain_timeout_ms;
  const int64_t timeout_ms = asked > 0 ? asked : options.drain_timeout_ms;
  NotifyStopping();
  Log(LogLevel::kInfo, "daemon.drain",
      {{"timeout_ms", timeout_ms},
       {"queued", scheduler->queued()},
       {"running", scheduler->running()}});
  service->BeginDrain();
  grpc->BeginDrain();
  direct->BeginDrain(timeout_ms);
  scheduler->Stop();
  const int64_t deadline_ns = MonotonicNs() + timeout_ms * 1'000'000;
  while (!scheduler->WaitIdle(kDrainPollMs)) {
    if (MonotonicNs() >= deadline_ns) {
      Log(LogLevel::kWarn, "daemon.drain_timeout",
          {{"running", scheduler->running()}});
      return false;
    }
    if (signals.Wait(0) == SignalEvent::kStop) {
      Log(LogLevel::kWarn, "daemon.second_signal", {});
      return false;
    }
  }
  return true;
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
    switch (state_->signals.Wait(-1)) {
      case SignalEvent::kStop:
        state_->drain_requested = true;
        break;
      case SignalEvent::kReload:
        state_->Reload();
        break;
      case SignalEvent::kWoken:
      case SignalEvent::kTimeout:
        break;
    }
  }
  const bool clean = state_->Drain();
  Log(LogLevel::kInfo, "daemon.stop", {{"clean", clean ? "yes" : "no"}});
  return clean ? 0 : 1;
}

}  // namespace preprocd
