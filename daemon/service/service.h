// One handler per operation, written once for every transport: request
// messages in, reply messages out, no socket. A handler validates, plans and
// submits a job; the job's completion fills the reply and calls `done`.
// Owns: reusable request states; all parts are borrowed and must outlive it.
// Thread-safety: safe. Handlers never block on work; `done` runs on the
// calling thread (refusals, cheap calls) or on an executor thread.
#ifndef DAEMON_SERVICE_SERVICE_H_
#define DAEMON_SERVICE_SERVICE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "daemon/metrics/metrics.h"
#include "daemon/scheduler/scheduler.h"
#include "daemon/sessions/session_table.h"
#include "engine/base/unique_fd.h"
#include "engine/engine.h"
#include "preproc/v1/admin.pb.h"
#include "preproc/v1/buffers.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// Who calls, and when the request arrived.
struct CallContext {
  std::shared_ptr<Session> session;  // never null
  // Unique among the session's open requests; 0 = cannot be cancelled alone.
  uint64_t request_id = 0;
  int64_t arrival_ns = 0;   // monotonic, when the bytes were received
  int64_t deadline_ns = 0;  // monotonic, from the transport; 0 = none
  // A gRPC call without a session token (its session is
  // SessionTable::Anonymous): naming a buffer is kUnauthenticated.
  bool anonymous = false;
};

// Called exactly once. Request and reply must stay alive until then.
using Done = absl::AnyInvocable<void(absl::Status)>;
// Told about finished tiles, one call at a time, before `done`; on any thread.
using TileProgressSink =
    absl::AnyInvocable<void(const preproc::v1::TileProgress&)>;

struct ServiceOptions {
  std::string version;
  std::string runtime_dir;
  int64_t max_inline_bytes = kMaxInlineBytes;
};

struct WorkItem;
struct WorkSteps;
class WorkPool;

class Service {
 public:
  Service(const ServiceOptions& options, Engine& engine, SessionTable& sessions,
          Scheduler& scheduler, Metrics& metrics);
  // REQUIRES: no work is queued or running.
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Work; replies come from an executor thread. Errors, beside those of the
  // fields, the planner and the codecs:
  //   kUnavailable       DRAINING; the session was closed
  //   kUnauthenticated   SESSION_UNKNOWN  a buffer is named without a session
  //   kResourceExhausted QUOTA, QUEUE_FULL (both with a retry hint); memory
  //   kDeadlineExceeded  DEADLINE         before or during the work
  //   kCancelled         CANCELLED
  // Nothing of the destination is written unless planning succeeded.
  void Convert(const CallContext& call,
               const preproc::v1::ConvertRequest& request,
               preproc::v1::ConvertReply* reply, Done done);
  void Decode(const CallContext& call,
              const preproc::v1::DecodeRequest& request,
              preproc::v1::DecodeReply* reply, Done done);
  void Encode(const CallContext& call,
              const preproc::v1::EncodeRequest& request,
              preproc::v1::EncodeReply* reply, Done done);
  // Refuses requests that want progress: nobody would hear of it.
  void Tile(const CallContext& call, const preproc::v1::TileRequest& request,
            preproc::v1::TileReply* reply, Done done);
  void TileWithProgress(const CallContext& call,
                        const preproc::v1::TileRequest& request,
                        preproc::v1::TileReply* reply, TileProgressSink sink,
                        Done done);
  void TileOne(const CallContext& call,
               const preproc::v1::TileOneRequest& request,
               preproc::v1::ConvertReply* reply, Done done);
  // Pure. Errors: those of MergeDetections (engine/detections) and
  // CheckMaskPiece.
  void MergeDetections(const CallContext& call,
                       const preproc::v1::MergeDetectionsRequest& request,
                       preproc::v1::MergeDetectionsReply* reply, Done done);
  void MaterializeMasks(const CallContext& call,
                        const preproc::v1::MaterializeMasksRequest& request,
                        preproc::v1::MaterializeMasksReply* reply, Done done);
  void DrawMasks(const CallContext& call,
                 const preproc::v1::DrawMasksRequest& request,
                 preproc::v1::DrawMasksReply* reply, Done done);
  // Cheap. Errors: kInvalidArgument FIELD_INVALID "colors[i]", TOO_LARGE
  // "colors"; kUnauthenticated SESSION_UNKNOWN without a session.
  absl::Status SetPalette(const CallContext& call,
                          const preproc::v1::SetPaletteRequest& request,
                          preproc::v1::SetPaletteReply* reply);

  // Cheap; answered on the calling thread.
  absl::Status Peek(const CallContext& call,
                    const preproc::v1::PeekRequest& request,
                    preproc::v1::PeekReply* reply);
  absl::Status Explain(const CallContext& call,
                       const preproc::v1::ExplainRequest& request,
                       preproc::v1::ExplainReply* reply);
  absl::Status Capabilities(const CallContext& call,
                            const preproc::v1::CapabilitiesRequest& request,
                            preproc::v1::CapabilitiesReply* reply);
  // Pure. Errors: those of PlanTiles (engine/image/tile_grid.h).
  absl::Status PlanTiles(const CallContext& call,
                         const preproc::v1::PlanTilesRequest& request,
                         preproc::v1::PlanTilesReply* reply);
  // Pure. Errors: those of LiftBoxes (engine/detections/lift_boxes.h).
  absl::Status LiftBoxes(const CallContext& call,
                         const preproc::v1::LiftBoxesRequest& request,
                         preproc::v1::LiftBoxesReply* reply);
  // Every backend's name, and whether its device is there and well.
  std::vector<std::pair<std::string, bool>> BackendStates() const;
  // An operation of the contract that this build lacks: counts the request
  // and answers UNIMPLEMENTED with reason NOT_BUILT.
  absl::Status NotBuiltYet(const CallContext& call, Operation operation);

  // Buffers. `fds` are consumed. Errors: FD_COUNT, those of ImportBuffer,
  // ValidateImageDesc and Session::Register.
  absl::Status RegisterBuffer(const CallContext& call,
                              const preproc::v1::RegisterBufferRequest& request,
                              std::vector<UniqueFd> fds,
                              preproc::v1::RegisterBufferReply* reply);
  // `fds` receives descriptors to send with the reply.
  absl::Status AllocateBuffer(const CallContext& call,
                              const preproc::v1::AllocateBufferRequest& request,
                              preproc::v1::AllocateBufferReply* reply,
                              std::vector<UniqueFd>* fds);
  absl::Status UnregisterBuffer(
      const CallContext& call,
      const preproc::v1::UnregisterBufferRequest& request,
      preproc::v1::UnregisterBufferReply* reply);
  absl::Status ListBuffers(const CallContext& call,
                           const preproc::v1::ListBuffersRequest& request,
                           preproc::v1::ListBuffersReply* reply);
  absl::Status ShareBuffer(const CallContext& call,
                           const preproc::v1::ShareBufferRequest& request,
                           preproc::v1::ShareBufferReply* reply);
  absl::Status AcceptShare(const CallContext& call,
                           const preproc::v1::AcceptShareRequest& request,
                           preproc::v1::AcceptShareReply* reply);
  absl::Status RevokeShare(const CallContext& call,
                           const preproc::v1::RevokeShareRequest& request,
                           preproc::v1::RevokeShareReply* reply);

  // Admin; the transport guarantees that only admin.sock calls these.
  absl::Status Status(const preproc::v1::StatusRequest& request,
                      preproc::v1::StatusReply* reply);
  absl::Status ListSessions(const preproc::v1::ListSessionsRequest& request,
                            preproc::v1::ListSessionsReply* reply);
  absl::Status Stats(const preproc::v1::StatsRequest& request,
                     preproc::v1::StatsReply* reply);
  absl::Status SetLimits(const preproc::v1::SetLimitsRequest& request,
                         preproc::v1::SetLimitsReply* reply);
  absl::Status SetLogLevel(const preproc::v1::SetLogLevelRequest& request,
                           preproc::v1::SetLogLevelReply* reply);

  // The bounds in force, for Welcome and Capabilities.
  void FillLimits(preproc::v1::Limits* limits) const;

  // From here on new work is answered kUnavailable DRAINING.
  void BeginDrain() { draining_ = true; }
  bool draining() const { return draining_; }
  int64_t max_inline_bytes() const { return options_.max_inline_bytes; }
  const std::string& version() const { return options_.version; }

  SessionTable& sessions() { return sessions_; }
  Scheduler& scheduler() { return scheduler_; }
  Metrics& metrics() { return metrics_; }

 private:
  void Begin(std::unique_ptr<WorkItem> item,
             const preproc::v1::CallOptions& options);
  absl::Status Admit(WorkItem& item, const preproc::v1::CallOptions& options);
  absl::Status Submit(std::unique_ptr<WorkItem>& item);
  absl::Status RunItem(WorkItem& item);
  void Finish(std::unique_ptr<WorkItem> item, absl::Status status);
  void CountStages(const WorkItem& item);

  absl::Status FindConvert(WorkItem& item);
  absl::Status PlanConvert(WorkItem& item);
  absl::Status RunConvert(WorkItem& item);
  absl::Status FindDecode(WorkItem& item);
  absl::Status PlanDecode(WorkItem& item);
  absl::Status RunDecode(WorkItem& item);
  absl::Status FindEncode(WorkItem& item);
  absl::Status PlanEncode(WorkItem& item);
  absl::Status RunEncode(WorkItem& item);
  absl::Status FindTile(WorkItem& item);
  absl::Status PlanTile(WorkItem& item);
  absl::Status RunTile(WorkItem& item);
  absl::Status FindTileOne(WorkItem& item);
  absl::Status PlanTileOne(WorkItem& item);
  absl::Status FindMerge(WorkItem& item);
  absl::Status PlanNothing(WorkItem& item);
  absl::Status RunMerge(WorkItem& item);
  static void ReplyTile(WorkItem& item);
  absl::Status FindMaterialize(WorkItem& item);
  absl::Status PlanMaterialize(WorkItem& item);
  absl::Status RunMaterialize(WorkItem& item);
  absl::Status FindDraw(WorkItem& item);
  absl::Status PlanDraw(WorkItem& item);
  absl::Status RunDraw(WorkItem& item);
  static void ReplyMaterialize(WorkItem& item);
  static void ReplyDraw(WorkItem& item);
  static void ReplyConvert(WorkItem& item);
  static void ReplyDecode(WorkItem& item);
  static void ReplyEncode(WorkItem& item);
  static const WorkSteps kConvertSteps;
  static const WorkSteps kDecodeSteps;
  static const WorkSteps kEncodeSteps;
  static const WorkSteps kTileSteps;
  static const WorkSteps kTileOneSteps;
  static const WorkSteps kMergeSteps;
  static const WorkSteps kMaterializeSteps;
  static const WorkSteps kDrawSteps;

  absl::Status ExplainConvert(const CallContext& call,
                              const preproc::v1::ExplainRequest& request,
                              preproc::v1::ExplainReply* reply);
  absl::Status Register(const CallContext& call,
                        const preproc::v1::RegisterBufferRequest& request,
                        std::vector<UniqueFd> fds,
                        preproc::v1::RegisterBufferReply* reply);
  absl::Status Allocate(const CallContext& call,
                        const preproc::v1::AllocateBufferRequest& request,
                        preproc::v1::AllocateBufferReply* reply,
                        std::vector<UniqueFd>* fds);
  // Counts an operation that was answered on the calling thread.
  absl::Status Count(Operation operation, absl::Status status);

  const ServiceOptions options_;
  Engine& engine_;
  SessionTable& sessions_;
  Scheduler& scheduler_;
  Metrics& metrics_;
  const int64_t started_ns_;
  std::atomic<bool> draining_ = false;
  std::unique_ptr<WorkPool> pool_;
};

// Fills preproc.v1.ErrorDetail from a status, for both transports. A status
// without a detail gets the reason that its code implies (kCancelled ->
// CANCELLED and so on), INTERNAL when it implies none.
void FillErrorDetail(const absl::Status& status,
                     preproc::v1::ErrorDetail* detail);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_SERVICE_H_
