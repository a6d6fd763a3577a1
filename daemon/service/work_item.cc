#include "daemon/service/work_item.h"

#include <iterator>
#include <utility>

#include "daemon/service/request_parser.h"
#include "engine/base/status_macros.h"

namespace preprocd {

void TileWork::Reset() {
  request = nullptr;
  reply = nullptr;
  progress = nullptr;
  spec = TileGridSpec();
  frame = Size();
  grid.tiles.clear();
  first = 0;
  batch = BatchLayout();
  batch_planned = false;
  // Plans of the next call are assigned over these.
  if (plans.size() > kMaxKeptPlans) plans = std::vector<ConvertPlan>();
}

void WorkItem::Reset() {
  // Mappings and references go first: the reply may be all a client waits
  // for before it gives its memory another use.
  source.Reset();
  destination.Reset();
  if (masks != nullptr) masks->Reset();
  if (masks != nullptr && masks->kept_bytes() > kMaxKeptScratchBytes) {
    masks.reset();
  }
  call = CallContext();
  done = nullptr;
  counted_in_flight = false;
  planned = false;
  service = nullptr;
  steps = nullptr;
  bounds = CallBounds();
  times = CallTimes();
  report = WorkReport();
  convert_request = nullptr;
  convert_reply = nullptr;
  decode_request = nullptr;
  decode_reply = nullptr;
  encode_request = nullptr;
  encode_reply = nullptr;
  tile_one_request = nullptr;
  merge_request = nullptr;
  merge_reply = nullptr;
  spec = ConvertSpec();
  output = OutputSpec();
  info = ImageInfo();
  decode = DecodeOptions();
  encode = EncodeOptions();
  file_span = FileSpan();
  tile.Reset();
  other_cost = 0;
  plan.reset();
  orientation = Orientation::kNormal;
  inline_result = std::string();
  for (std::vector<std::byte>* memory : {&scratch, &source.copy}) {
    memory->clear();
    if (memory->capacity() > kMaxKeptScratchBytes) {
      *memory = std::vector<std::byte>();
    }
  }
}

BufferOwner OwnerOf(const WorkItem& item) {
  return {*item.call.session, item.call.anonymous};
}

absl::Status OpenAndPeek(WorkItem& item) {
  RETURN_IF_ERROR(OpenEncoded(item.source, item.report));
  absl::StatusOr<ImageInfo> info = PeekImage(item.source.bytes);
  if (!info.ok()) return UnderField(std::move(info).status(), "source");
  item.info = *std::move(info);
  return absl::OkStatus();
}

bool IsJpeg(const WorkItem& item) {
  return item.source.encoded && item.info.file_format == FileFormat::kJpeg;
}

void Merge(WorkReport part, WorkReport& total) {
  total.decode_ns += part.decode_ns;
  total.convert_ns += part.convert_ns;
  total.encode_ns += part.encode_ns;
  total.bytes_copied += part.bytes_copied;
  std::move(part.warnings.begin(), part.warnings.end(),
            std::back_inserter(total.warnings));
}

std::unique_ptr<WorkItem> WorkPool::Take() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<WorkItem> item = std::move(free_.back());
      free_.pop_back();
      return item;
    }
  }
  return std::make_unique<WorkItem>();
}

void WorkPool::Put(std::unique_ptr<WorkItem> item) {
  item->Reset();
  std::lock_guard<std::mutex> lock(mutex_);
  if (free_.size() < static_cast<size_t>(kMaxPooledWork)) {
    free_.push_back(std::move(item));
  }
}

}  // namespace preprocd
