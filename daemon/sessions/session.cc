#include "daemon/sessions/session.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/exec/monotonic_clock.h"

namespace preprocd {
namespace {

// A retry after one typical request has a fair chance.
constexpr int64_t kRetryAfterMs = 5;

absl::Status Closed() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kSessionUnknown;
  return MakeError(absl::StatusCode::kUnavailable, detail,
                   "the session has ended");
}

absl::Status OverQuota(absl::string_view what, int64_t got, int64_t limit,
                       int64_t retry_after_ms) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kQuota;
  detail.got = absl::StrCat(got);
  detail.limit = absl::StrCat(limit);
  detail.retry_after_ms = retry_after_ms;
  return MakeError(absl::StatusCode::kResourceExhausted, detail,
                   absl::StrCat(what, " ", got, " > ", limit));
}

absl::Status WrongGeneration(uint64_t id, uint32_t got, uint32_t have) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferGeneration;
  detail.field = "generation";
  detail.got = absl::StrCat(got);
  detail.limit = absl::StrCat(have);
  return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                   absl::StrCat("generation ", got, " of buffer ", id,
                                ": it is registered with ", have));
}

absl::Status Unknown(uint64_t id) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferUnknown;
  detail.field = "buffer_id";
  detail.got = absl::StrCat(id);
  return MakeError(
      absl::StatusCode::kNotFound, detail,
      absl::StrCat("buffer_id ", id, " is not registered in this session"));
}

}  // namespace

Session::Session(uint64_t id, std::string client_name, PeerCredentials peer,
                 const SessionToken& token, const SessionLimits& limits)
    : id_(id),
      client_name_(std::move(client_name)),
      peer_(peer),
      token_(token),
      opened_ns_(MonotonicNs()),
      limits_(limits) {}

Session::~Session() = default;

void Session::set_palette(Palette palette) {
  MutexLock lock(mutex_);
  palette_ = std::move(palette);
}

Session::Palette Session::palette() const {
  MutexLock lock(mutex_);
  return palette_;
}

int64_t Session::bytes_left() const {
  MutexLock lock(mutex_);
  return std::max<int64_t>(0, limits_.max_bytes_per_session - bytes_);
}

absl::Status Session::Register(std::shared_ptr<const RegisteredBuffer> buffer) {
  // Destroyed after the lock: unmapping is slow.
  std::shared_ptr<const RegisteredBuffer> replaced;
  MutexLock lock(mutex_);
  if (closed_) return Closed();
  const auto found = buffers_.find(buffer->buffer_id);
  int64_t bytes = bytes_ + static_cast<int64_t>(buffer->cost_bytes);
  size_t count = buffers_.size() + 1;
  if (found != buffers_.end()) {
    const RegisteredBuffer& old = *found->second;
    if (old.generation == buffer->generation) {
      ErrorDetail detail;
      detail.reason = ErrorReason::kFieldInvalid;
      detail.field = "buffer_id";
      return MakeError(absl::StatusCode::kAlreadyExists, detail,
                       absl::StrCat("buffer_id ", buffer->buffer_id,
                                    " is registered already; raise the "
                                    "generation to replace it"));
    }
    if (old.generation > buffer->generation) {
      return WrongGeneration(buffer->buffer_id, buffer->generation,
                             old.generation);
    }
    bytes -= static_cast<int64_t>(old.cost_bytes);
    --count;
  }
  if (count > static_cast<size_t>(limits_.max_buffers_per_session)) {
    return OverQuota("buffers", static_cast<int64_t>(count),
                     limits_.max_buffers_per_session, 0);
  }
  if (bytes > limits_.max_bytes_per_session) {
    return OverQuota("bytes", bytes, limits_.max_bytes_per_session, 0);
  }
  bytes_ = bytes;
  std::shared_ptr<const RegisteredBuffer>& slot = buffers_[buffer->buffer_id];
  replaced = std::exchange(slot, std::move(buffer));
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const RegisteredBuffer>> Session::Find(
    uint64_t buffer_id, uint32_t generation) const {
  MutexLock lock(mutex_);
  if (closed_) return Closed();
  const auto found = buffers_.find(buffer_id);
  if (found == buffers_.end()) return Unknown(buffer_id);
  if (found->second->generation != generation) {
    return WrongGeneration(buffer_id, generation, found->second->generation);
  }
  return found->second;
}

absl::Status Session::Unregister(uint64_t buffer_id, uint32_t generation) {
  std::shared_ptr<const RegisteredBuffer> removed;
  MutexLock lock(mutex_);
  if (closed_) return Closed();
  const auto found = buffers_.find(buffer_id);
  if (found == buffers_.end()) return Unknown(buffer_id);
  if (found->second->generation != generation) {
    return WrongGeneration(buffer_id, generation, found->second->generation);
  }
  bytes_ -= static_cast<int64_t>(found->second->cost_bytes);
  removed = std::move(found->second);
  buffers_.erase(found);
  return absl::OkStatus();
}

bool Session::Holds(const RegisteredBuffer& buffer) const {
  MutexLock lock(mutex_);
  const auto found = buffers_.find(buffer.buffer_id);
  return found != buffers_.end() && found->second.get() == &buffer;
}

void Session::Withdraw(const RegisteredBuffer& buffer) {
  std::shared_ptr<const RegisteredBuffer> removed;
  MutexLock lock(mutex_);
  const auto found = buffers_.find(buffer.buffer_id);
  if (found == buffers_.end() || found->second.get() != &buffer) return;
  bytes_ -= static_cast<int64_t>(buffer.cost_bytes);
  removed = std::move(found->second);
  buffers_.erase(found);
}

std::vector<std::shared_ptr<const RegisteredBuffer>> Session::List() const {
  std::vector<std::shared_ptr<const RegisteredBuffer>> list;
  {
    MutexLock lock(mutex_);
    list.reserve(buffers_.size());
    for (const auto& [id, buffer] : buffers_) list.push_back(buffer);
  }
  std::sort(list.begin(), list.end(), [](const auto& a, const auto& b) {
    return a->buffer_id < b->buffer_id;
  });
  return list;
}

absl::Status Session::BeginRequest() {
  MutexLock lock(mutex_);
  if (closed_) return Closed();
  const int now = in_flight_.load(std::memory_order_relaxed) + 1;
  if (now > limits_.max_in_flight_per_session) {
    return OverQuota("requests in flight", now,
                     limits_.max_in_flight_per_session, kRetryAfterMs);
  }
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  return absl::OkStatus();
}

void Session::EndRequest(bool ok) {
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  (ok ? requests_ok_ : requests_failed_)
      .fetch_add(1, std::memory_order_relaxed);
}

void Session::Close() {
  absl::flat_hash_map<uint64_t, std::shared_ptr<const RegisteredBuffer>>
      released;
  MutexLock lock(mutex_);
  closed_ = true;
  bytes_ = 0;
  released.swap(buffers_);
}

bool Session::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

Session::Facts Session::facts() const {
  MutexLock lock(mutex_);
  Facts facts;
  facts.buffers = static_cast<int>(buffers_.size());
  facts.bytes = bytes_;
  facts.in_flight = in_flight_.load(std::memory_order_relaxed);
  facts.requests_ok = requests_ok_.load(std::memory_order_relaxed);
  facts.requests_failed = requests_failed_.load(std::memory_order_relaxed);
  return facts;
}

void Session::set_limits(const SessionLimits& limits) {
  MutexLock lock(mutex_);
  limits_ = limits;
}

}  // namespace preprocd
