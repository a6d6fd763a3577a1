#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/reply_builder.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/memory/allocator.h"
#include "engine/memory/buffer_import.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

// Dma-bufs are read by devices that want rows on cache lines.
constexpr uint64_t kDeviceStrideAlignment = 64;

absl::Status NeedsSession(const CallContext& call) {
  if (!call.anonymous) return absl::OkStatus();
  ErrorDetail detail;
  detail.reason = ErrorReason::kSessionUnknown;
  return MakeError(absl::StatusCode::kUnauthenticated, std::move(detail),
                   "buffers belong to sessions, but the call carries no "
                   "session token (metadata preproc-session-bin)");
}

absl::Status CheckId(uint64_t id) {
  if (id != 0) return absl::OkStatus();
  return BadValue(ErrorReason::kFieldInvalid, "buffer_id", "0", "< 1");
}

// What a buffer can cost at most: blocks that lie past the end of the file
// are memory too.
uint64_t CostBytes(const Buffer& buffer) {
  struct stat facts = {};
  if (buffer.fd() < 0 || fstat(buffer.fd(), &facts) != 0) {
    return buffer.size_bytes();
  }
  return std::max(buffer.size_bytes(),
                  static_cast<uint64_t>(facts.st_blocks) * 512);
}

absl::Status CheckFdCount(const v1::RegisterBufferRequest& request,
                          size_t received) {
  if (request.fd_count() < 1 || request.fd_count() > kMaxPlanes) {
    return BadValue(ErrorReason::kFdCount, "fd_count",
                    absl::StrCat(request.fd_count()),
                    absl::StrCat("is not in 1..", kMaxPlanes));
  }
  if (request.fd_count() != received) {
    return BadValue(
        ErrorReason::kFdCount, "fd_count", absl::StrCat(request.fd_count()),
        absl::StrCat("declared, but ", received, " descriptors arrived"));
  }
  return absl::OkStatus();
}

absl::Status ValidateLayout(const ImageDesc& desc,
                            const RegisteredBuffer& buffer) {
  std::array<uint64_t, kMaxPlanes> sizes = {};
  for (size_t i = 0; i < buffer.memory.size(); ++i) {
    sizes[i] = buffer.memory[i]->size_bytes();
  }
  return UnderField(
      ValidateImageDesc(
          desc, std::span<const uint64_t>(sizes.data(), buffer.memory.size())),
      "layout");
}

absl::StatusOr<UniqueFd> DuplicateFd(int fd) {
  UniqueFd copy(fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no descriptor to send: ", strerror(errno)));
  }
  return copy;
}

struct AllocationPlan {
  AllocatorKind kind = AllocatorKind::kMemfd;
  uint64_t size_bytes = 0;
  std::optional<ImageDesc> desc;
};

absl::StatusOr<AllocationPlan> PlanAllocation(
    const v1::AllocateBufferRequest& request) {
  AllocationPlan plan;
  RETURN_IF_ERROR(CheckId(request.buffer_id()));
  ASSIGN_OR_RETURN(plan.kind,
                   ParseAllocatorKind(request.allocator(), "allocator"));
  plan.size_bytes = request.size_bytes();
  if (!request.has_layout()) {
    if (plan.size_bytes == 0) {
      return BadValue(ErrorReason::kFieldInvalid, "size_bytes", "0",
                      "needs a layout that says how much");
    }
    return plan;
  }
  ASSIGN_OR_RETURN(
      plan.desc,
      ParseImageLayout(
          request.layout(), "layout",
          plan.kind == AllocatorKind::kMemfd ? 1 : kDeviceStrideAlignment));
  // Proves that no plane's end overflows before anything is added up.
  const uint64_t unbounded =
      plan.size_bytes != 0 ? plan.size_bytes
                           : static_cast<uint64_t>(kMaxBytesPerSession) * 4096;
  RETURN_IF_ERROR(
      UnderField(ValidateImageDesc(*plan.desc, {&unbounded, 1}), "layout"));
  if (plan.size_bytes == 0) plan.size_bytes = RequiredBytes(*plan.desc);
  return plan;
}

}  // namespace

absl::Status Service::Register(const CallContext& call,
                               const v1::RegisterBufferRequest& request,
                               std::vector<UniqueFd> fds,
                               v1::RegisterBufferReply* reply) {
  RETURN_IF_ERROR(NeedsSession(call));
  RETURN_IF_ERROR(CheckId(request.buffer_id()));
  RETURN_IF_ERROR(CheckFdCount(request, fds.size()));
  auto buffer = std::make_shared<RegisteredBuffer>();
  buffer->buffer_id = request.buffer_id();
  buffer->generation = request.generation();
  ASSIGN_OR_RETURN(buffer->access, ParseAccess(request.access(), "access"));
  if (request.has_layout()) {
    ASSIGN_OR_RETURN(buffer->desc,
                     ParseImageLayout(request.layout(), "layout"));
  }
  ImportOptions import;
  import.access = buffer->access;
  import.max_bytes =
      static_cast<uint64_t>(sessions_.limits().max_bytes_per_session);
  for (size_t i = 0; i < fds.size(); ++i) {
    absl::StatusOr<std::shared_ptr<Buffer>> memory =
        ImportBuffer(std::move(fds[i]), import);
    if (!memory.ok()) {
      return UnderField(std::move(memory).status(),
                        absl::StrCat("fds[", i, "]"));
    }
    buffer->cost_bytes += CostBytes(**memory);
    buffer->memory.push_back(*std::move(memory));
  }
  if (buffer->desc) {
    RETURN_IF_ERROR(ValidateLayout(*buffer->desc, *buffer));
  }
  RETURN_IF_ERROR(call.session->Register(buffer));
  reply->set_buffer_id(buffer->buffer_id);
  reply->set_generation(buffer->generation);
  for (size_t i = 0; i < buffer->memory.size(); ++i) {
    const Buffer& memory = *buffer->memory[i];
    reply->add_kinds(static_cast<v1::BufferKind>(memory.kind()));
    reply->add_sizes_bytes(memory.size_bytes());
    if (memory.copies()) {
      reply->add_warnings(absl::StrCat("fds[", i,
                                       "] lacks the shrink and grow seals or "
                                       "has huge pages: every use copies it"));
    }
  }
  return absl::OkStatus();
}

absl::Status Service::RegisterBuffer(const CallContext& call,
                                     const v1::RegisterBufferRequest& request,
                                     std::vector<UniqueFd> fds,
                                     v1::RegisterBufferReply* reply) {
  return Count(Operation::kRegisterBuffer,
               Register(call, request, std::move(fds), reply));
}

absl::Status Service::Allocate(const CallContext& call,
                               const v1::AllocateBufferRequest& request,
                               v1::AllocateBufferReply* reply,
                               std::vector<UniqueFd>* fds) {
  RETURN_IF_ERROR(NeedsSession(call));
  ASSIGN_OR_RETURN(const AllocationPlan plan, PlanAllocation(request));
  const int64_t left = call.session->bytes_left();
  if (left < 0 || plan.size_bytes > static_cast<uint64_t>(left)) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kQuota;
    detail.field = "size_bytes";
    detail.got = absl::StrCat(plan.size_bytes);
    detail.limit = absl::StrCat(left);
    return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                     absl::StrCat("size_bytes ", plan.size_bytes, " > ", left,
                                  ", what is left of the session's bytes"));
  }
  auto buffer = std::make_shared<RegisteredBuffer>();
  buffer->buffer_id = request.buffer_id();
  buffer->generation = request.generation();
  buffer->desc = plan.desc;
  ASSIGN_OR_RETURN(
      std::shared_ptr<Buffer> memory,
      preprocd::AllocateBuffer(plan.kind, plan.size_bytes,
                               absl::StrCat("preprocd-", call.session->id(),
                                            "-", request.buffer_id())));
  buffer->memory.push_back(std::move(memory));
  buffer->cost_bytes = CostBytes(*buffer->memory[0]);
  // Before the registration, so that a failure leaves nothing behind.
  ASSIGN_OR_RETURN(UniqueFd fd, DuplicateFd(buffer->memory[0]->fd()));
  RETURN_IF_ERROR(call.session->Register(buffer));
  fds->push_back(std::move(fd));
  reply->set_buffer_id(buffer->buffer_id);
  reply->set_generation(buffer->generation);
  reply->set_kind(static_cast<v1::BufferKind>(buffer->memory[0]->kind()));
  reply->set_size_bytes(buffer->memory[0]->size_bytes());
  if (buffer->desc) FillLayout(*buffer->desc, reply->mutable_layout());
  return absl::OkStatus();
}

absl::Status Service::AllocateBuffer(const CallContext& call,
                                     const v1::AllocateBufferRequest& request,
                                     v1::AllocateBufferReply* reply,
                                     std::vector<UniqueFd>* fds) {
  return Count(Operation::kAllocateBuffer, Allocate(call, request, reply, fds));
}

absl::Status Service::UnregisterBuffer(
    const CallContext& call, const v1::UnregisterBufferRequest& request,
    v1::UnregisterBufferReply*) {
  absl::Status status = NeedsSession(call);
  if (status.ok()) {
    status =
        call.session->Unregister(request.buffer_id(), request.generation());
  }
  return Count(Operation::kUnregisterBuffer, std::move(status));
}

absl::Status Service::ListBuffers(const CallContext& call,
                                  const v1::ListBuffersRequest&,
                                  v1::ListBuffersReply* reply) {
  absl::Status status = NeedsSession(call);
  if (status.ok()) {
    auto buffers = call.session->List();
    std::sort(buffers.begin(), buffers.end(), [](const auto& a, const auto& b) {
      return a->buffer_id < b->buffer_id;
    });
    for (const auto& buffer : buffers) {
      FillDescription(*buffer, reply->add_buffers());
    }
  }
  return Count(Operation::kListBuffers, std::move(status));
}

absl::Status Service::ShareBuffer(const CallContext& call,
                                  const v1::ShareBufferRequest& request,
                                  v1::ShareBufferReply* reply) {
  const auto share = [&]() -> absl::Status {
    RETURN_IF_ERROR(NeedsSession(call));
    // Unset asks for all that the owner may do, not for more.
    Access access = Access::kReadWrite;
    if (request.access() == v1::BUFFER_ACCESS_UNSPECIFIED) {
      ASSIGN_OR_RETURN(
          const auto buffer,
          call.session->Find(request.buffer_id(), request.generation()));
      access = buffer->access;
    } else {
      ASSIGN_OR_RETURN(access, ParseAccess(request.access(), "access"));
    }
    ASSIGN_OR_RETURN(std::string token,
                     sessions_.Share(call.session, request.buffer_id(),
                                     request.generation(), access));
    reply->set_share_token(std::move(token));
    return absl::OkStatus();
  };
  return Count(Operation::kShareBuffer, share());
}

absl::Status Service::AcceptShare(const CallContext& call,
                                  const v1::AcceptShareRequest& request,
                                  v1::AcceptShareReply* reply) {
  const auto accept = [&]() -> absl::Status {
    RETURN_IF_ERROR(NeedsSession(call));
    RETURN_IF_ERROR(CheckId(request.buffer_id()));
    ASSIGN_OR_RETURN(
        const std::shared_ptr<const RegisteredBuffer> buffer,
        sessions_.AcceptShare(call.session, request.share_token(),
                              request.buffer_id(), request.generation()));
    FillDescription(*buffer, reply->mutable_buffer());
    return absl::OkStatus();
  };
  return Count(Operation::kAcceptShare, accept());
}

absl::Status Service::RevokeShare(const CallContext& call,
                                  const v1::RevokeShareRequest& request,
                                  v1::RevokeShareReply*) {
  absl::Status status = NeedsSession(call);
  if (status.ok()) {
    status = sessions_.RevokeShare(call.session, request.share_token());
  }
  return Count(Operation::kRevokeShare, std::move(status));
}

}  // namespace preprocd
