// A session with preprocd: connect, register memory, ask for work.
//
//   auto session = preprocd::Session::Connect({});
//   auto photo = (*session)->CreateBufferFromBytes(file_bytes);
//   auto tensor = (*session)->CreateBuffer(640 * 640 * 3);
//   preprocd::v1::ConvertRequest request;
//   *request.mutable_source()->mutable_buffer() = photo->ref();
//   *request.mutable_destination()->mutable_buffer() = tensor->ref();
//   ... layout, fit ...
//   auto reply = (*session)->Convert(request);
//
// Requests and replies are the messages of proto/preproc/v1. Errors are
// absl::Status with the daemon's code; GetErrorDetail
// (engine/base/error_detail.h) gives its reason and field, the same over both
// transports. A lost connection answers kUnavailable from then on; connect
// again to go on. Nothing throws.
// Owns: its connections. Thread-safety: safe; several threads may call at
// once, each waits for its own reply.
// Limits: kMaxRequestsInFlightPerSession, kMaxInlineBytes of inline data.
#ifndef PREPROCD_CLIENT_H_
#define PREPROCD_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/base/unique_fd.h"
#include "preproc/v1/preproc.pb.h"
#include "preprocd/buffer.h"

namespace preprocd {
inline namespace client_v1 {

// The way that calls take. The direct socket is open in both cases: it is
// the session, and it carries the descriptors. What does not fit into a frame
// of the direct socket (a reply that does not fit is asked for once more)
// goes by gRPC all the same.
enum class Transport : uint8_t { kDirect, kGrpc };

struct SessionOptions {
  // Folder of the sockets; empty = $PREPROCD_RUNTIME_DIR, else /run/preprocd.
  std::string runtime_dir;
  // Name for the daemon's logs and lists, at most 64 bytes.
  std::string client_name = "preprocd-client";
  Transport transport = Transport::kDirect;
  // Bound on connecting, Welcome included.
  absl::Duration connect_timeout = absl::Seconds(5);
  // Bound on a call that names none itself.
  absl::Duration call_timeout = absl::Seconds(60);
};

// Of several memory pieces that make one buffer.
struct ImportOptions {
  // 1..4 descriptors of memfds or dma-bufs; the buffer takes them.
  std::vector<UniqueFd> fds;
  v1::BufferAccess access = v1::BUFFER_ACCESS_READ_WRITE;
  // Fixed planes; leave empty for plain bytes.
  v1::ImageLayout layout;
};

// "" becomes $PREPROCD_RUNTIME_DIR or /run/preprocd.
std::string ResolveRuntimeDir(const std::string& runtime_dir);

class Session {
 public:
  // Errors: kUnavailable       no daemon at that place, or it went away
  //         kPermissionDenied  the sockets' mode forbids it
  //         kFailedPrecondition, kResourceExhausted  as the daemon answers
  static absl::StatusOr<std::unique_ptr<Session>> Connect(
      SessionOptions options);
  // Without a session: gRPC calls with inline data only, for addresses that
  // carry no descriptors. `address`: "unix:/path/grpc.sock" or "host:port".
  // Calls that need a session answer kFailedPrecondition.
  // Errors: kUnavailable  nothing answers there
  static absl::StatusOr<std::unique_ptr<Session>> ConnectInline(
      const std::string& address, SessionOptions options = {});
  // Ends the session: the daemon releases everything that it owned. Calls in
  // progress on other threads must have returned.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // From 1; 0 for ConnectInline.
  uint64_t session_id() const;
  // 16 bytes that gRPC calls carry; empty for ConnectInline.
  const std::string& token() const;
  const std::string& daemon_version() const;
  // Random per start of the daemon.
  const std::string& instance_id() const;
  // Bounds in force when the session opened.
  const v1::Limits& limits() const;
  // Whether buffers and the direct transport are there.
  bool has_direct() const;
  // The daemon said that it is stopping.
  bool going_away() const;

  // Zero-filled memfd, sealed against resizing, mapped read-write here.
  absl::StatusOr<Buffer> CreateBuffer(
      uint64_t size_bytes, const v1::ImageLayout& layout = {},
      v1::BufferAccess access = v1::BUFFER_ACCESS_READ_WRITE);
  // Sealed against every change, so that the daemon needs no copy to parse
  // it; mapped read-only here.
  absl::StatusOr<Buffer> CreateBufferFromBytes(
      std::span<const std::byte> bytes, const v1::ImageLayout& layout = {});
  // Registers the caller's memory as it is; not mapped here.
  absl::StatusOr<Buffer> ImportBuffer(ImportOptions options);
  // Memory that the daemon makes; memfds are mapped read-write here, dma-bufs
  // are not. buffer_id and generation of the request are set by this call.
  absl::StatusOr<Buffer> AllocateBuffer(v1::AllocateBufferRequest request);

  // Work. `timeout` 0 = the session's. A call that times out answers
  // kDeadlineExceeded; the daemon may still write to its destination until
  // its own end, which Buffer::Release waits for.
  absl::StatusOr<v1::ConvertReply> Convert(const v1::ConvertRequest& request,
                                           absl::Duration timeout = {});
  absl::StatusOr<v1::DecodeReply> Decode(const v1::DecodeRequest& request,
                                         absl::Duration timeout = {});
  absl::StatusOr<v1::EncodeReply> Encode(const v1::EncodeRequest& request,
                                         absl::Duration timeout = {});
  absl::StatusOr<v1::PeekReply> Peek(const v1::PeekRequest& request,
                                     absl::Duration timeout = {});
  absl::StatusOr<v1::ExplainReply> Explain(const v1::ExplainRequest& request,
                                           absl::Duration timeout = {});
  absl::StatusOr<v1::CapabilitiesReply> Capabilities(
      absl::Duration timeout = {});
  absl::StatusOr<v1::PlanTilesReply> PlanTiles(
      const v1::PlanTilesRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::TileReply> Tile(const v1::TileRequest& request,
                                     absl::Duration timeout = {});
  // Tile, with word of finished tiles while others are still rendered, so that
  // inference can begin. `on_progress` runs on the calling thread; it may call
  // on this session.
  absl::StatusOr<v1::TileReply> TileStream(
      v1::TileRequest request,
      const std::function<void(const v1::TileProgress&)>& on_progress,
      absl::Duration timeout = {});
  absl::StatusOr<v1::ConvertReply> TileOne(const v1::TileOneRequest& request,
                                           absl::Duration timeout = {});
  absl::StatusOr<v1::LiftBoxesReply> LiftBoxes(
      const v1::LiftBoxesRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::MergeDetectionsReply> MergeDetections(
      const v1::MergeDetectionsRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::MaterializeMasksReply> MaterializeMasks(
      const v1::MaterializeMasksRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::DrawMasksReply> DrawMasks(
      const v1::DrawMasksRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::SetPaletteReply> SetPalette(
      const v1::SetPaletteRequest& request, absl::Duration timeout = {});
  absl::StatusOr<v1::PrepareReply> Prepare(const v1::PrepareRequest& request,
                                           absl::Duration timeout = {});
  absl::StatusOr<v1::ConvertReply> Run(const v1::RunRequest& request,
                                       absl::Duration timeout = {});

  // Buffers of this session.
  absl::StatusOr<v1::ListBuffersReply> ListBuffers(absl::Duration timeout = {});
  absl::StatusOr<v1::ShareBufferReply> ShareBuffer(
      const v1::ShareBufferRequest& request, absl::Duration timeout = {});
  // The shared buffer under an id of this session; not mapped here.
  absl::StatusOr<Buffer> AcceptShare(const std::string& share_token,
                                     absl::Duration timeout = {});
  absl::Status RevokeShare(const std::string& share_token,
                           absl::Duration timeout = {});

  // Returns `payload` (at most 1 KiB) from the daemon, over the direct socket
  // whatever the transport; for measuring it.
  absl::StatusOr<std::string> Echo(const std::string& payload,
                                   absl::Duration timeout = {});

 private:
  explicit Session(std::shared_ptr<internal::SessionState> state);
  absl::StatusOr<Buffer> Register(std::vector<UniqueFd> fds,
                                  v1::BufferAccess access,
                                  const v1::ImageLayout& layout);

  std::shared_ptr<internal::SessionState> state_;
};

}  // namespace client_v1
}  // namespace preprocd

#endif  // PREPROCD_CLIENT_H_
