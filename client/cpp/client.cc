#include "preprocd/client.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/session_state.h"
#include "client/cpp/wire_table.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/memfd.h"
#include "engine/base/status_macros.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {
namespace internal {

absl::StatusOr<DirectChannel::Reply> SessionState::CallDirect(
    int field_number, const google::protobuf::MessageLite& body,
    std::span<const int> fds, absl::Duration timeout,
    const DirectChannel::OnProgress& on_progress) {
  if (direct == nullptr) {
    return absl::FailedPreconditionError(
        "this connection has no direct socket; descriptors cannot be passed");
  }
  return direct->Call(field_number, body, fds, timeout, on_progress);
}

GrpcCalls* SessionState::LargeCalls() {
  if (grpc_target.empty()) return nullptr;
  std::call_once(large_once_, [this] {
    large_ = std::make_unique<GrpcCalls>(grpc_target, welcome.token());
  });
  return large_.get();
}

}  // namespace internal

inline namespace client_v1 {
namespace {

using internal::SessionState;
using preproc::v1::ClientFrame;
using preproc::v1::ServerFrame;

constexpr uint32_t kProtocolVersion = 1;
constexpr char kDefaultRuntimeDir[] = "/run/preprocd";

absl::Status UnexpectedReply(const ServerFrame& frame) {
  return absl::UnavailableError(absl::StrCat(
      "the daemon answered with frame body ", int{frame.body_case()},
      ", which is not the reply of this call"));
}

// A request, or a reply that was refused, that is larger than a frame.
template <typename Request>
bool FitsAFrame(const Request& request) {
  constexpr size_t kMostAround = 64;
  return request.ByteSizeLong() + kMostAround <= kMaxFrameBytes;
}

bool ReplyWasTooLarge(const absl::Status& status) {
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail && detail->reason == ErrorReason::kTooLarge &&
         detail->limit == absl::StrCat(kMaxFrameBytes);
}

// The reply of an operation, by whichever transport the session uses; by gRPC
// when it does not fit into frames (operations may be repeated: they write the
// same bytes again).
template <typename Request>
auto Invoke(SessionState& state, const Request& request, absl::Duration timeout)
    -> absl::StatusOr<typename internal::Wire<Request>::Reply> {
  using Wire = internal::Wire<Request>;
  timeout = state.TimeoutOr(timeout);
  internal::GrpcCalls* calls = state.grpc.get();
  if (calls == nullptr && !FitsAFrame(request)) calls = state.LargeCalls();
  if (calls == nullptr) {
    absl::StatusOr<internal::DirectChannel::Reply> answer =
        state.CallDirect(Wire::kField, request, {}, timeout);
    if (answer.ok()) {
      if (!(answer->frame.*Wire::kHas)()) return UnexpectedReply(answer->frame);
      return std::move(*(answer->frame.*Wire::kMutable)());
    }
    if (ReplyWasTooLarge(answer.status())) calls = state.LargeCalls();
    if (calls == nullptr) return answer.status();
  }
  typename Wire::Reply reply;
  RETURN_IF_ERROR(calls->Call(request, &reply, timeout));
  return reply;
}

absl::Status WriteAll(int fd, std::span<const std::byte> bytes) {
  off_t offset = 0;
  while (!bytes.empty()) {
    const ssize_t written = pwrite(fd, bytes.data(), bytes.size(), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("write to a memfd: ", strerror(errno)));
    }
    offset += written;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status OpenDirect(SessionState& state, const SessionOptions& options) {
  const std::string path = ResolveRuntimeDir(options.runtime_dir);
  ASSIGN_OR_RETURN(UniqueFd socket,
                   ConnectPacketSocket(absl::StrCat(path, "/direct.sock")));
  ASSIGN_OR_RETURN(state.direct,
                   internal::DirectChannel::Open(std::move(socket)));
  v1::Hello hello;
  hello.set_min_version(kProtocolVersion);
  hello.set_max_version(kProtocolVersion);
  hello.set_client_name(options.client_name);
  ASSIGN_OR_RETURN(internal::DirectChannel::Reply answer,
                   state.direct->Call(ClientFrame::kHelloFieldNumber, hello, {},
                                      options.connect_timeout));
  if (!answer.frame.has_welcome()) return UnexpectedReply(answer.frame);
  state.welcome = std::move(*answer.frame.mutable_welcome());
  return absl::OkStatus();
}

}  // namespace

std::string ResolveRuntimeDir(const std::string& runtime_dir) {
  if (!runtime_dir.empty()) return runtime_dir;
  const char* from_environment = getenv("PREPROCD_RUNTIME_DIR");
  if (from_environment != nullptr && *from_environment != '\0') {
    return from_environment;
  }
  return kDefaultRuntimeDir;
}

absl::StatusOr<std::unique_ptr<Session>> Session::Connect(
    SessionOptions options) {
  auto state = std::make_shared<SessionState>();
  state->call_timeout = options.call_timeout;
  RETURN_IF_ERROR(OpenDirect(*state, options));
  std::string target = internal::UnixTarget(
      absl::StrCat(ResolveRuntimeDir(options.runtime_dir), "/grpc.sock"));
  if (options.transport == Transport::kGrpc) {
    state->grpc = std::make_unique<internal::GrpcCalls>(std::move(target),
                                                        state->welcome.token());
  } else {
    state->grpc_target = std::move(target);
  }
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

absl::StatusOr<std::unique_ptr<Session>> Session::ConnectInline(
    const std::string& address, SessionOptions options) {
  RETURN_IF_ERROR(internal::CheckUnixTarget(address));
  auto state = std::make_shared<SessionState>();
  state->call_timeout = options.call_timeout;
  state->grpc = std::make_unique<internal::GrpcCalls>(address, "");
  // Any answer of the health service proves that something gRPC is there.
  const auto health = state->grpc->Health("", options.connect_timeout);
  if (absl::IsUnavailable(health.status()) ||
      absl::IsDeadlineExceeded(health.status())) {
    return absl::UnavailableError(
        absl::StrCat(address, ": ", health.status().message()));
  }
  return std::unique_ptr<Session>(new Session(std::move(state)));
}

Session::Session(std::shared_ptr<SessionState> state)
    : state_(std::move(state)) {}

Session::~Session() = default;

uint64_t Session::session_id() const { return state_->welcome.session_id(); }
const std::string& Session::token() const { return state_->welcome.token(); }
const std::string& Session::daemon_version() const {
  return state_->welcome.daemon_version();
}
const std::string& Session::instance_id() const {
  return state_->welcome.instance_id();
}
const v1::Limits& Session::limits() const { return state_->welcome.limits(); }
bool Session::has_direct() const { return state_->direct != nullptr; }
bool Session::going_away() const {
  return state_->direct != nullptr && state_->direct->going_away();
}

absl::StatusOr<Buffer> Session::Register(std::vector<UniqueFd> fds,
                                         v1::BufferAccess access,
                                         const v1::ImageLayout& layout) {
  std::vector<int> borrowed;
  for (const UniqueFd& fd : fds) borrowed.push_back(fd.get());
  v1::RegisterBufferRequest request;
  request.set_buffer_id(state_->next_buffer_id.fetch_add(1));
  request.set_generation(1);
  request.set_access(access);
  request.set_fd_count(static_cast<uint32_t>(fds.size()));
  if (layout.format() != v1::PIXEL_FORMAT_UNSPECIFIED) {
    *request.mutable_layout() = layout;
  }
  ASSIGN_OR_RETURN(internal::DirectChannel::Reply answer,
                   state_->CallDirect(ClientFrame::kRegisterBufferFieldNumber,
                                      request, borrowed, state_->call_timeout));
  if (!answer.frame.has_register_buffer()) {
    return UnexpectedReply(answer.frame);
  }
  const v1::RegisterBufferReply& reply = answer.frame.register_buffer();
  Buffer buffer;
  buffer.session_ = state_;
  buffer.id_ = request.buffer_id();
  buffer.generation_ = request.generation();
  for (const uint64_t size : reply.sizes_bytes()) buffer.size_bytes_ += size;
  buffer.fds_ = std::move(fds);
  buffer.layout_ = layout;
  buffer.warnings_.assign(reply.warnings().begin(), reply.warnings().end());
  return buffer;
}

absl::StatusOr<Buffer> Session::CreateBuffer(uint64_t size_bytes,
                                             const v1::ImageLayout& layout,
                                             v1::BufferAccess access) {
  ASSIGN_OR_RETURN(UniqueFd memory, CreateMemfd("preprocd-client", size_bytes));
  RETURN_IF_ERROR(SealSize(memory.get()));
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(memory));
  ASSIGN_OR_RETURN(Buffer buffer, Register(std::move(fds), access, layout));
  RETURN_IF_ERROR(buffer.Map(size_bytes, /*writable=*/true));
  return buffer;
}

absl::StatusOr<Buffer> Session::CreateBufferFromBytes(
    std::span<const std::byte> bytes, const v1::ImageLayout& layout) {
  ASSIGN_OR_RETURN(UniqueFd memory,
                   CreateMemfd("preprocd-client", bytes.size()));
  RETURN_IF_ERROR(WriteAll(memory.get(), bytes));
  RETURN_IF_ERROR(SealImmutable(memory.get()));
  std::vector<UniqueFd> fds;
  fds.push_back(std::move(memory));
  ASSIGN_OR_RETURN(Buffer buffer,
                   Register(std::move(fds), v1::BUFFER_ACCESS_READ, layout));
  RETURN_IF_ERROR(buffer.Map(bytes.size(), /*writable=*/false));
  return buffer;
}

absl::StatusOr<Buffer> Session::ImportBuffer(ImportOptions options) {
  return Register(std::move(options.fds), options.access, options.layout);
}

absl::StatusOr<Buffer> Session::AllocateBuffer(
    v1::AllocateBufferRequest request) {
  request.set_buffer_id(state_->next_buffer_id.fetch_add(1));
  request.set_generation(1);
  ASSIGN_OR_RETURN(internal::DirectChannel::Reply answer,
                   state_->CallDirect(ClientFrame::kAllocateBufferFieldNumber,
                                      request, {}, state_->call_timeout));
  if (!answer.frame.has_allocate_buffer()) {
    return UnexpectedReply(answer.frame);
  }
  v1::AllocateBufferReply& reply = *answer.frame.mutable_allocate_buffer();
  // From here on the buffer unregisters itself when something is wrong.
  Buffer buffer;
  buffer.session_ = state_;
  buffer.id_ = request.buffer_id();
  buffer.generation_ = request.generation();
  buffer.size_bytes_ = reply.size_bytes();
  buffer.layout_ = std::move(*reply.mutable_layout());
  if (answer.fds_lost || answer.fds.empty()) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFdsLost;
    return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                     "the buffer's descriptors did not arrive");
  }
  buffer.fds_ = std::move(answer.fds);
  if (reply.kind() != v1::BUFFER_KIND_DMA_BUF) {
    RETURN_IF_ERROR(buffer.Map(buffer.size_bytes_, /*writable=*/true));
  }
  return buffer;
}

#define PREPROCD_OPERATION(NAME, REPLY)                                     \
  absl::StatusOr<v1::REPLY> Session::NAME(const v1::NAME##Request& request, \
                                          absl::Duration timeout) {         \
    return Invoke(*state_, request, timeout);                               \
  }
PREPROCD_OPERATION(Convert, ConvertReply)
PREPROCD_OPERATION(Decode, DecodeReply)
PREPROCD_OPERATION(Encode, EncodeReply)
PREPROCD_OPERATION(Peek, PeekReply)
PREPROCD_OPERATION(Explain, ExplainReply)
PREPROCD_OPERATION(PlanTiles, PlanTilesReply)
PREPROCD_OPERATION(Tile, TileReply)
PREPROCD_OPERATION(TileOne, ConvertReply)
PREPROCD_OPERATION(LiftBoxes, LiftBoxesReply)
PREPROCD_OPERATION(MergeDetections, MergeDetectionsReply)
PREPROCD_OPERATION(MaterializeMasks, MaterializeMasksReply)
PREPROCD_OPERATION(DrawMasks, DrawMasksReply)
PREPROCD_OPERATION(SetPalette, SetPaletteReply)
PREPROCD_OPERATION(Prepare, PrepareReply)
PREPROCD_OPERATION(Run, ConvertReply)
PREPROCD_OPERATION(ShareBuffer, ShareBufferReply)
#undef PREPROCD_OPERATION

absl::StatusOr<v1::TileReply> Session::TileStream(
    v1::TileRequest request,
    const std::function<void(const v1::TileProgress&)>& on_progress,
    absl::Duration timeout) {
  timeout = state_->TimeoutOr(timeout);
  if (state_->grpc != nullptr) {
    v1::TileReply reply;
    RETURN_IF_ERROR(
        state_->grpc->TileStream(request, on_progress, &reply, timeout));
    return reply;
  }
  request.set_progress(true);
  ASSIGN_OR_RETURN(internal::DirectChannel::Reply answer,
                   state_->CallDirect(ClientFrame::kTileFieldNumber, request,
                                      {}, timeout, on_progress));
  if (!answer.frame.has_tile()) return UnexpectedReply(answer.frame);
  return std::move(*answer.frame.mutable_tile());
}

absl::StatusOr<v1::CapabilitiesReply> Session::Capabilities(
    absl::Duration timeout) {
  return Invoke(*state_, v1::CapabilitiesRequest(), timeout);
}

absl::StatusOr<v1::ListBuffersReply> Session::ListBuffers(
    absl::Duration timeout) {
  return Invoke(*state_, v1::ListBuffersRequest(), timeout);
}

absl::StatusOr<Buffer> Session::AcceptShare(const std::string& share_token,
                                            absl::Duration timeout) {
  v1::AcceptShareRequest request;
  request.set_share_token(share_token);
  request.set_buffer_id(state_->next_buffer_id.fetch_add(1));
  request.set_generation(1);
  ASSIGN_OR_RETURN(v1::AcceptShareReply reply,
                   Invoke(*state_, request, timeout));
  Buffer buffer;
  buffer.session_ = state_;
  buffer.id_ = request.buffer_id();
  buffer.generation_ = request.generation();
  buffer.size_bytes_ = reply.buffer().size_bytes();
  buffer.layout_ = reply.buffer().layout();
  return buffer;
}

absl::Status Session::RevokeShare(const std::string& share_token,
                                  absl::Duration timeout) {
  v1::RevokeShareRequest request;
  request.set_share_token(share_token);
  return Invoke(*state_, request, timeout).status();
}

absl::StatusOr<std::string> Session::Echo(const std::string& payload,
                                          absl::Duration timeout) {
  v1::EchoRequest request;
  request.set_payload(payload);
  ASSIGN_OR_RETURN(internal::DirectChannel::Reply answer,
                   state_->CallDirect(ClientFrame::kEchoFieldNumber, request,
                                      {}, state_->TimeoutOr(timeout)));
  if (!answer.frame.has_echo()) return UnexpectedReply(answer.frame);
  return std::move(*answer.frame.mutable_echo()->mutable_payload());
}

}  // namespace client_v1
}  // namespace preprocd
