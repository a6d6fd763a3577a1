#include "client/cpp/direct_channel.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/error_from_proto.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd::internal {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedOutputStream;
using preproc::v1::ClientFrame;
using preproc::v1::ServerFrame;

// A blocked receive looks at its deadline this often; nearer deadlines are
// waited for exactly, with one more system call.
constexpr std::chrono::milliseconds kReceiveTick{100};
constexpr timeval kReceiveTimeout{0, 100'000};
// The daemon always reads; a full socket for this long means it hangs.
constexpr timeval kSendTimeout{5, 0};

// Tags and lengths before the body; far above what they can take.
constexpr size_t kMaxPrefixBytes = 32;

}  // namespace

absl::StatusOr<std::unique_ptr<DirectChannel>> DirectChannel::Open(
    UniqueFd socket) {
  if (setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kReceiveTimeout,
                 sizeof(kReceiveTimeout)) < 0 ||
      setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kSendTimeout,
                 sizeof(kSendTimeout)) < 0) {
    return absl::UnavailableError(
        absl::StrCat("setsockopt on the direct socket: ", strerror(errno)));
  }
  return std::unique_ptr<DirectChannel>(new DirectChannel(std::move(socket)));
}

absl::StatusOr<DirectChannel::Reply> DirectChannel::Call(
    int field_number, const google::protobuf::MessageLite& body,
    std::span<const int> fds, absl::Duration timeout,
    const OnProgress& on_progress) {
  const Clock::time_point deadline =
      Clock::now() +
      absl::ToChronoNanoseconds(std::min(timeout, absl::Hours(24 * 365)));
  Waiter waiter;
  if (on_progress != nullptr) waiter.on_progress = &on_progress;
  uint64_t request_id = 0;
  {
    const std::lock_guard lock(mutex_);
    RETURN_IF_ERROR(lost_);
    request_id = next_request_id_++;
    waiters_.emplace(request_id, &waiter);
  }
  const absl::Status sent = Send(request_id, field_number, body, fds);
  uint64_t cancel_id = 0;
  {
    std::unique_lock lock(mutex_);
    // A peer that is gone may have said why; that is still to be read.
    if (sent.ok() || absl::IsUnavailable(sent)) Await(lock, waiter, deadline);
    if (!waiter.progress.empty()) TellProgress(lock, waiter);
    if (!waiter.done) waiters_.erase(request_id);
    PromoteReader();
    if (!waiter.done) {
      RETURN_IF_ERROR(lost_);
      RETURN_IF_ERROR(sent);
      cancel_id = next_request_id_++;
    }
  }
  if (cancel_id != 0) {
    SendCancel(cancel_id, request_id);
    return absl::DeadlineExceededError(absl::StrCat(
        "no answer from the daemon within ", absl::FormatDuration(timeout)));
  }
  if (waiter.reply.frame.has_error()) {
    return StatusFromErrorReply(waiter.reply.frame.error());
  }
  return std::move(waiter.reply);
}

bool DirectChannel::going_away() const {
  const std::lock_guard lock(mutex_);
  return going_away_;
}

// The frame is written by hand around `body`: ClientFrame would need a copy
// of the request for it.
absl::Status DirectChannel::Send(uint64_t request_id, int field_number,
                                 const google::protobuf::MessageLite& body,
                                 std::span<const int> fds) const {
  const size_t body_bytes = body.ByteSizeLong();
  if (body_bytes > kMaxFrameBytes - kMaxPrefixBytes) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kFrameInvalid;
    detail.got = absl::StrCat(body_bytes);
    detail.limit = absl::StrCat(kMaxFrameBytes - kMaxPrefixBytes);
    return MakeError(
        absl::StatusCode::kInvalidArgument, std::move(detail),
        absl::StrCat("request of ", body_bytes, " bytes is larger than ",
                     kMaxFrameBytes - kMaxPrefixBytes,
                     "; pass large data in a buffer"));
  }
  // Not initialised: only what is written is sent.
  std::array<uint8_t, kMaxFrameBytes> frame;
  uint8_t* end = frame.data();
  end = WireFormatLite::WriteUInt64ToArray(ClientFrame::kRequestIdFieldNumber,
                                           request_id, end);
  end = WireFormatLite::WriteTagToArray(
      field_number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED, end);
  end = CodedOutputStream::WriteVarint32ToArray(
      static_cast<uint32_t>(body_bytes), end);
  end = body.SerializeWithCachedSizesToArray(end);
  const auto size = static_cast<size_t>(end - frame.data());
  return SendPacket(socket_.get(), std::as_bytes(std::span(frame.data(), size)),
                    fds);
}

void DirectChannel::SendCancel(uint64_t cancel_id, uint64_t request_id) const {
  preproc::v1::CancelRequest cancel;
  cancel.set_request_id(request_id);
  // Nobody waits for it: an answer to the cancel, should there be one, is
  // dropped. A connection that takes no cancel is found out by the next call.
  Send(cancel_id, ClientFrame::kCancelFieldNumber, cancel, {}).IgnoreError();
}

void DirectChannel::Await(std::unique_lock<std::mutex>& lock, Waiter& waiter,
                          Clock::time_point deadline) {
  while (!waiter.done && lost_.ok()) {
    if (!waiter.progress.empty()) TellProgress(lock, waiter);
    if (waiter.done) break;
    if (Clock::now() >= deadline) return;
    if (reading_) {
      waiter.wake.wait_until(lock, deadline);
    } else {
      ReadOne(lock, deadline);
    }
  }
}

void DirectChannel::TellProgress(std::unique_lock<std::mutex>& lock,
                                 Waiter& waiter) {
  // What is told may take long.
  PromoteReader(&waiter);
  const auto progress = std::exchange(waiter.progress, {});
  lock.unlock();
  for (const preproc::v1::TileProgress& part : progress) {
    (*waiter.on_progress)(part);
  }
  lock.lock();
}

void DirectChannel::ReadOne(std::unique_lock<std::mutex>& lock,
                            Clock::time_point deadline) {
  reading_ = true;
  lock.unlock();
  absl::StatusOr<ReceiveOutcome> outcome = Receive(deadline);
  lock.lock();
  Dispatch(std::move(outcome));
  reading_ = false;
}

absl::StatusOr<ReceiveOutcome> DirectChannel::Receive(
    Clock::time_point deadline) {
  const auto left = deadline - Clock::now();
  if (left < kReceiveTick) {
    const auto nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{0, std::max<int64_t>(nanoseconds, 0)};
    pollfd poller{socket_.get(), POLLIN, 0};
    if (ppoll(&poller, 1, &wait, nullptr) <= 0) {
      return ReceiveOutcome::kWouldBlock;
    }
  }
  return ReceivePacket(socket_.get(), packet_);
}

void DirectChannel::Dispatch(absl::StatusOr<ReceiveOutcome> outcome) {
  if (!outcome.ok()) return Lose(std::move(outcome).status());
  if (*outcome == ReceiveOutcome::kWouldBlock) return;
  if (*outcome == ReceiveOutcome::kClosed) {
    return Lose(last_words_.ok()
                    ? absl::UnavailableError("the daemon closed the session")
                    : last_words_);
  }
  ServerFrame frame;
  if (packet_.oversized ||
      !frame.ParseFromArray(packet_.buffer.data(),
                            static_cast<int>(packet_.size))) {
    return Lose(absl::UnavailableError(
        absl::StrCat("the daemon sent a frame of ", packet_.size,
                     " bytes that does not parse")));
  }
  if (frame.request_id() == 0) {
    if (frame.has_going_away()) going_away_ = true;
    if (frame.has_error()) last_words_ = StatusFromErrorReply(frame.error());
    packet_.fds.clear();
    return;
  }
  const auto found = waiters_.find(frame.request_id());
  if (found == waiters_.end()) {  // Its caller has timed out.
    packet_.fds.clear();
    return;
  }
  Waiter& waiter = *found->second;
  if (frame.has_tile_progress()) {
    packet_.fds.clear();
    if (waiter.on_progress == nullptr) return;
    waiter.progress.push_back(std::move(*frame.mutable_tile_progress()));
    waiter.wake.notify_one();
    return;
  }
  waiters_.erase(found);
  waiter.reply.frame = std::move(frame);
  waiter.reply.fds = std::exchange(packet_.fds, {});
  waiter.reply.fds_lost = packet_.fds_lost;
  waiter.done = true;
  waiter.wake.notify_one();
}

void DirectChannel::Lose(absl::Status status) {
  lost_ = std::move(status);
  for (const auto& [id, waiter] : waiters_) waiter->wake.notify_one();
}

void DirectChannel::PromoteReader(const Waiter* self) {
  if (reading_) return;
  for (const auto& [id, waiter] : waiters_) {
    if (waiter == self) continue;
    waiter->wake.notify_one();
    return;
  }
}

}  // namespace preprocd::internal
