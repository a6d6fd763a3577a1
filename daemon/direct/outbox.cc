#include "daemon/direct/outbox.h"

#include <poll.h>

#include <array>
#include <utility>

#include "engine/base/limits.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {
namespace {

bool HasRoom(int socket) {
  pollfd entry = {socket, POLLOUT, 0};
  return poll(&entry, 1, 0) == 1 && (entry.revents & POLLOUT) != 0;
}

}  // namespace

Outbox::Outbox(int socket, std::function<void(Event)> notify)
    : socket_(socket), notify_(std::move(notify)) {}

Outbox::Attempt Outbox::Try(std::span<const std::byte> bytes,
                            std::span<const UniqueFd> fds) const {
  if (fds.size() > static_cast<size_t>(kMaxFdsPerFrame)) return Attempt::kBad;
  std::array<int, kMaxFdsPerFrame> raw = {};
  for (size_t i = 0; i < fds.size(); ++i) raw[i] = fds[i].get();
  const std::span<const int> borrowed(raw.data(), fds.size());
  absl::Status sent = SendPacket(socket_, bytes, borrowed);
  // With room left it is the number of descriptors in flight that the kernel
  // refuses (ETOOMANYREFS), and waiting for room would spin. The second try
  // tells that from a peer that has just read.
  if (absl::IsResourceExhausted(sent) && !fds.empty() && HasRoom(socket_)) {
    sent = SendPacket(socket_, bytes, borrowed);
    if (absl::IsResourceExhausted(sent)) return Attempt::kStuck;
  }
  if (absl::IsResourceExhausted(sent)) return Attempt::kFull;
  // A peer that is gone is the reader's business.
  return sent.ok() || absl::IsUnavailable(sent) ? Attempt::kDone
                                                : Attempt::kBad;
}

absl::Status Outbox::Send(std::span<const std::byte> bytes,
                          std::vector<UniqueFd> fds) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_ || overflowed_) return absl::OkStatus();
  if (waiting_.empty()) {
    switch (Try(bytes, fds)) {
      case Attempt::kDone:
        return absl::OkStatus();
      case Attempt::kStuck:
        return absl::ResourceExhaustedError(
            "the kernel takes no more descriptors in flight");
      case Attempt::kBad:
        return absl::InvalidArgumentError("not a packet that can be sent");
      case Attempt::kFull:
        break;
    }
  }
  waiting_bytes_ += bytes.size();
  waiting_.push_back({{bytes.begin(), bytes.end()}, std::move(fds)});
  if (waiting_.size() > kMaxOutboxFrames || waiting_bytes_ > kMaxOutboxBytes) {
    overflowed_ = true;
    waiting_.clear();
    waiting_bytes_ = 0;
    notify_(Event::kOverflow);
  } else if (waiting_.size() == 1) {
    notify_(Event::kWaiting);
  }
  return absl::OkStatus();
}

Outbox::Progress Outbox::Flush() {
  const std::lock_guard<std::mutex> lock(mutex_);
  while (!closed_ && !waiting_.empty()) {
    const Waiting& next = waiting_.front();
    const Attempt attempt = Try(next.bytes, next.fds);
    if (attempt == Attempt::kFull) return Progress::kWaiting;
    if (attempt == Attempt::kStuck) return Progress::kStuck;
    waiting_bytes_ -= next.bytes.size();
    waiting_.pop_front();
  }
  return Progress::kEmpty;
}

void Outbox::Close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closed_ = true;
  waiting_.clear();
  waiting_bytes_ = 0;
}

}  // namespace preprocd
