// Requests as any client can write them: the first byte chooses the message,
// the rest is its wire form. Whatever parses must be answered, never crash.
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

// A daemon below its transports, made once; never destroyed, because its
// threads would be joined after libFuzzer's own teardown.
struct Daemon {
  Metrics metrics;
  std::unique_ptr<Engine> engine = [] {
    EngineOptions options;
    options.row_threads = 1;
    return *Engine::Create(options);
  }();
  SessionTable sessions{SessionLimits(), metrics};
  Scheduler scheduler{SchedulerOptions{1, kMaxQueuedJobs}, metrics};
  Service service{
      {"fuzz", "", kMaxInlineBytes}, *engine, sessions, scheduler, metrics};
  std::shared_ptr<Session> session = *sessions.Open("fuzz", {1, 1, 1});
};

CallContext Call(Daemon& daemon) {
  CallContext call;
  call.session = daemon.session;
  call.arrival_ns = MonotonicNs();
  return call;
}

template <typename Request>
bool Parse(const uint8_t* data, size_t size, Request& request) {
  return request.ParseFromArray(data, static_cast<int>(size));
}

// First bytes from here on are the operations on tiles, boxes and masks.
constexpr uint8_t kFirstTileKind = 0xf0;

// Waits until the work is answered; its request lives here.
template <typename Request, typename Reply>
void Work(Daemon& daemon, const uint8_t* data, size_t size,
          void (Service::*method)(const CallContext&, const Request&, Reply*,
                                  Done)) {
  Request request;
  if (!Parse(data, size, request)) return;
  Reply reply;
  std::mutex mutex;
  std::condition_variable answered;
  bool done = false;
  (daemon.service.*method)(Call(daemon), request, &reply,
                           [&](const absl::Status&) {
                             const std::lock_guard lock(mutex);
                             done = true;
                             answered.notify_one();
                           });
  std::unique_lock lock(mutex);
  answered.wait(lock, [&done] { return done; });
}

void TileKind(Daemon& daemon, uint8_t kind, const uint8_t* data, size_t size) {
  switch ((kind - kFirstTileKind) % 7) {
    case 0:
      Work(daemon, data, size, &Service::Tile);
      break;
    case 1:
      Work(daemon, data, size, &Service::TileOne);
      break;
    case 2:
      Work(daemon, data, size, &Service::MergeDetections);
      break;
    case 4:
      Work(daemon, data, size, &Service::MaterializeMasks);
      break;
    case 5:
      Work(daemon, data, size, &Service::DrawMasks);
      break;
    case 6: {
      v1::SetPaletteRequest request;
      v1::SetPaletteReply reply;
      if (Parse(data, size, request)) {
        (void)daemon.service.SetPalette(Call(daemon), request, &reply);
      }
      break;
    }
    default: {
      v1::LiftBoxesRequest request;
      v1::LiftBoxesReply reply;
      if (Parse(data, size, request)) {
        (void)daemon.service.LiftBoxes(Call(daemon), request, &reply);
      }
      break;
    }
  }
}

void ParseAlone(const v1::ConvertRequest& request) {
  (void)ParseConvertSpec(request.spec(), request.options()).status();
  (void)ParseOutputSpec(request.destination()).status();
  (void)ParseCallOptions(request.options(), 1, 0).status();
  const auto desc = ParseImageLayout(request.source().layout(), "layout", 64);
  if (!desc.ok()) return;
  const uint64_t sizes[] = {4096, 1 << 20};
  if (ValidateImageDesc(*desc, sizes).ok() && RequiredBytes(*desc) > sizes[0]) {
    __builtin_trap();
  }
}

}  // namespace
}  // namespace preprocd

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace preprocd;  // NOLINT: one function, one file
  static Daemon& daemon = *new Daemon;
  if (size < 1) return 0;
  const uint8_t first = data[0];
  const uint8_t kind = first % 5;
  ++data;
  --size;
  if (first >= kFirstTileKind) {
    TileKind(daemon, first, data, size);
    return 0;
  }
  if (kind == 0) {
    v1::ConvertRequest request;
    if (Parse(data, size, request)) ParseAlone(request);
  } else if (kind == 1) {
    v1::ExplainRequest request;
    v1::ExplainReply reply;
    if (Parse(data, size, request)) {
      (void)daemon.service.Explain(Call(daemon), request, &reply);
    }
  } else if (kind == 2) {
    v1::PeekRequest request;
    v1::PeekReply reply;
    if (Parse(data, size, request)) {
      (void)daemon.service.Peek(Call(daemon), request, &reply);
    }
  } else if (kind == 3) {
    v1::EncodeRequest request;
    if (Parse(data, size, request)) {
      (void)ParseEncodeOptions(request).status();
    }
  } else {
    v1::RegisterBufferRequest request;
    v1::RegisterBufferReply reply;
    if (Parse(data, size, request)) {
      (void)daemon.service.RegisterBuffer(Call(daemon), request, {}, &reply);
    }
  }
  return 0;
}
