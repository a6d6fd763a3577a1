// The state of one piece of work from its arrival to its reply,
// and the pool that reuses such states so that a steady stream of requests
// allocates little.
// Owns: pictures (and with them references to registered buffers); request
// and reply are borrowed until `done`.
// Thread-safety: WorkItem is used by one thread at a time, handed over by the
// scheduler; WorkPool is safe.
// Limits: kMaxPooledWork free states are kept, more are freed.
#ifndef DAEMON_SERVICE_WORK_ITEM_H_
#define DAEMON_SERVICE_WORK_ITEM_H_

#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/service/mask_request.h"
#include "daemon/service/picture_resolver.h"
#include "daemon/service/reply_builder.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "engine/image/batch_layout.h"
#include "engine/image/tile_grid.h"

namespace preprocd {

// What one busy session can have in flight.
inline constexpr int kMaxPooledWork = 32;
// A free state keeps its copies' memory up to this size, not huge ones'.
inline constexpr size_t kMaxKeptScratchBytes = 1u << 20;
inline constexpr size_t kMaxKeptPlans = 64;

// One operation's steps, in order.
struct WorkSteps {
  // Names, rights and fields; reads nothing. On the calling thread.
  absl::Status (Service::*find)(WorkItem&);
  // Headers and geometry. On the calling thread when that is cheap, else as
  // the job's first part.
  absl::Status (Service::*plan)(WorkItem&);
  // Pixels. In the job.
  absl::Status (Service::*run)(WorkItem&);
  // Fills the reply of a request that succeeded.
  void (*reply)(WorkItem&);
};

// What Tile needs beside a convert's state.
struct TileWork {
  const preproc::v1::TileRequest* request = nullptr;
  preproc::v1::TileReply* reply = nullptr;
  TileProgressSink progress;  // may be nothing
  TileGridSpec spec;
  Size frame;  // upright
  TileGrid grid;
  int first = 0;      // index in the grid of the batch's first tile
  BatchLayout batch;  // where the tiles go
  std::vector<ConvertPlan> plans;  // one per tile of the batch
  bool batch_planned = false;

  // Keeps the vectors' memory.
  void Reset();
};

struct WorkItem {
  Service* service = nullptr;
  const WorkSteps* steps = nullptr;
  CallContext call;
  Operation operation = Operation::kConvert;
  Done done;
  bool counted_in_flight = false;  // BeginRequest succeeded
  bool planned = false;
  CallBounds bounds;
  CallTimes times;
  WorkReport report;

  // Exactly one pair is set.
  const preproc::v1::ConvertRequest* convert_request = nullptr;
  preproc::v1::ConvertReply* convert_reply = nullptr;
  const preproc::v1::DecodeRequest* decode_request = nullptr;
  preproc::v1::DecodeReply* decode_reply = nullptr;
  const preproc::v1::EncodeRequest* encode_request = nullptr;
  preproc::v1::EncodeReply* encode_reply = nullptr;
  // With convert_reply.
  const preproc::v1::TileOneRequest* tile_one_request = nullptr;
  const preproc::v1::MergeDetectionsRequest* merge_request = nullptr;
  preproc::v1::MergeDetectionsReply* merge_reply = nullptr;

  // Masks and drawing; kept from request to request.
  std::unique_ptr<MaskWork> masks;

  SourcePicture source;
  DestinationPicture destination;
  ConvertSpec spec;
  OutputSpec output;
  ImageInfo info;  // encoded sources
  DecodeOptions decode;
  EncodeOptions encode;
  FileSpan file_span;  // where an encoded file goes
  TileWork tile;
  int64_t other_cost = 0;  // of work on no picture, in pixels
  // No value: a direct decode or an encode.
  std::optional<ConvertPlan> plan;
  Orientation orientation = Orientation::kNormal;  // applied
  std::string inline_result;
  std::vector<std::byte> scratch;

  // Releases everything that belongs to the request.
  void Reset();
};

// Pieces that the operations' steps share.
BufferOwner OwnerOf(const WorkItem& item);
// Opens an encoded source and reads its headers into item.info.
absl::Status OpenAndPeek(WorkItem& item);
bool IsJpeg(const WorkItem& item);
// Engine calls report into their own record, so that it does not matter
// whether they add or assign.
void Merge(WorkReport part, WorkReport& total);

// One client's picture may not fit; that must not end the daemon.
template <typename F>
absl::Status WithoutExceptions(F&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("not enough memory for this request");
  } catch (const std::length_error&) {
    return absl::ResourceExhaustedError("not enough memory for this request");
  }
}

class WorkPool {
 public:
  // Never null.
  std::unique_ptr<WorkItem> Take();
  // `item` is reset.
  void Put(std::unique_ptr<WorkItem> item);

 private:
  // std::mutex, which ThreadSanitizer understands; Debian's Abseil is built
  // without it.
  std::mutex mutex_;
  std::vector<std::unique_ptr<WorkItem>> free_;  // guarded by mutex_
};

}  // namespace preprocd

#endif  // DAEMON_SERVICE_WORK_ITEM_H_
