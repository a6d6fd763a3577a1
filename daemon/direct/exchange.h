// One request of a direct connection and its reply, reused from request to
// request, so that the steady state of a work request allocates nothing for
// messages.
// Owns: its messages and buffers. Thread-safety: one thread at a time; Begin on
// the thread that parses (the arena belongs to who begins it).
// Limits: kMaxKeptBytes.
#ifndef DAEMON_DIRECT_EXCHANGE_H_
#define DAEMON_DIRECT_EXCHANGE_H_

#include <google/protobuf/arena.h>

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include "preproc/v1/direct.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

class DirectConnection;

class Exchange {
 public:
  // A request or reply above this is not kept for reuse.
  static constexpr size_t kMaxKeptBytes = 8u << 10;

  Exchange() : arena_(block_.data(), block_.size()) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Empty messages; what was in them before is gone.
  void Begin() {
    arena_.Reset();
    request = google::protobuf::Arena::CreateMessage<preproc::v1::ClientFrame>(
        &arena_);
    frame.Clear();
    convert.Clear();
    decode.Clear();
    encode.Clear();
    tile.Clear();
    merge.Clear();
    // These may be large, and are not kept.
    materialize_masks = preproc::v1::MaterializeMasksReply();
    draw_masks = preproc::v1::DrawMasksReply();
    packet_bytes = 0;
  }
  // Whether it holds little enough to be kept.
  bool Small() const {
    return packet_bytes <= kMaxKeptBytes && out.capacity() <= kMaxKeptBytes &&
           arena_.SpaceAllocated() <= block_.size();
  }

  // On the arena: a frame is a oneof, and would free its message otherwise.
  preproc::v1::ClientFrame* request = nullptr;
  size_t packet_bytes = 0;
  // The reply: one of these, or any other in `frame`.
  preproc::v1::ServerFrame frame;
  preproc::v1::ConvertReply convert;
  preproc::v1::DecodeReply decode;
  preproc::v1::EncodeReply encode;
  preproc::v1::TileReply tile;
  preproc::v1::MergeDetectionsReply merge;
  preproc::v1::MaterializeMasksReply materialize_masks;
  preproc::v1::DrawMasksReply draw_masks;
  std::vector<std::byte> out;
  // Set while work is in flight, so that a completion needs one pointer.
  std::shared_ptr<DirectConnection> owner;

 private:
  alignas(std::max_align_t) std::array<char, kMaxKeptBytes> block_;
  google::protobuf::Arena arena_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_EXCHANGE_H_
