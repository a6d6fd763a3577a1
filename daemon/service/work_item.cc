#include "daemon/service/work_item.h"

#include <utility>

namespace preprocd {

void WorkItem::Reset() {
  // Mappings and references go first: the reply may be all a client waits
  // for before it gives its memory another use.
  source.Reset();
  destination.Reset();
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
  spec = ConvertSpec();
  output = OutputSpec();
  info = ImageInfo();
  decode = DecodeOptions();
  encode = EncodeOptions();
  file_span = FileSpan();
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
