#include "daemon/sessions/session_table.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/error_detail.h"
#include "engine/base/mutex.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr size_t kMaxNameBytes = 64;

SessionToken RandomToken() {
  SessionToken token = {};
  size_t done = 0;
  while (done < token.size()) {
    const ssize_t got = getrandom(token.data() + done, token.size() - done, 0);
    if (got < 0) {
      // The kernel documents EINTR only for requests this small.
      PREPROCD_CHECK(errno == EINTR);
      continue;
    }
    done += static_cast<size_t>(got);
  }
  return token;
}

// Time must not tell how many leading bytes were right.
bool EqualInConstantTime(const SessionToken& token, absl::string_view other) {
  if (other.size() != token.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < token.size(); ++i) {
    difference |= unsigned{token[i]} ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

// How many bytes follow this lead byte of UTF-8, and the bounds of the first
// of them, which rule out overlong forms, surrogates and what is above
// U+10FFFF. Source: RFC 3629, section 4.
struct Utf8Tail {
  int bytes = -1;  // -1: no lead byte
  unsigned char first_min = 0x80;
  unsigned char first_max = 0xbf;
};

Utf8Tail TailOf(unsigned char lead) {
  if (lead < 0x80) return {0};
  if (lead >= 0xc2 && lead <= 0xdf) return {1};
  if (lead == 0xe0) return {2, 0xa0, 0xbf};
  if (lead == 0xed) return {2, 0x80, 0x9f};
  if (lead >= 0xe1 && lead <= 0xef) return {2};
  if (lead == 0xf0) return {3, 0x90, 0xbf};
  if (lead >= 0xf1 && lead <= 0xf3) return {3};
  if (lead == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const Utf8Tail tail = TailOf(static_cast<unsigned char>(text[i++]));
    if (tail.bytes < 0) return false;
    for (int k = 0; k < tail.bytes; ++k) {
      if (i == text.size()) return false;
      const auto byte = static_cast<unsigned char>(text[i++]);
      const unsigned char min = k == 0 ? tail.first_min : 0x80;
      const unsigned char max = k == 0 ? tail.first_max : 0xbf;
      if (byte < min || byte > max) return false;
    }
  }
  return true;
}

absl::Status NoShare() {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferUnknown;
  detail.field = "share_token";
  return MakeError(absl::StatusCode::kNotFound, detail,
                   "share_token is not known");
}

}  // namespace

struct SessionTable::State {
  // A share, offered or taken. It holds nothing: what an offer kept alive
  // after its owner forgot the buffer would count against nobody's quota.
  struct Share {
    std::weak_ptr<Session> owner;
    std::weak_ptr<const RegisteredBuffer> offered;
    Access access = Access::kRead;
    bool taken = false;
    std::weak_ptr<Session> taker;
    std::weak_ptr<const RegisteredBuffer> taken_as;

    // The offered buffer while its owner still has it, else null.
    std::shared_ptr<const RegisteredBuffer> Offered() const {
      const std::shared_ptr<Session> by = owner.lock();
      std::shared_ptr<const RegisteredBuffer> buffer = offered.lock();
      if (by == nullptr || buffer == nullptr || !by->Holds(*buffer)) {
        return nullptr;
      }
      return buffer;
    }
    bool Ended() const { return !taken && Offered() == nullptr; }

    // Takes the buffer away from who took it. Not under the table's mutex:
    // the last reference may unmap.
    void TakeBack() const {
      const std::shared_ptr<Session> from = taker.lock();
      const std::shared_ptr<const RegisteredBuffer> buffer = taken_as.lock();
      if (from != nullptr && buffer != nullptr) from->Withdraw(*buffer);
    }
  };

  explicit State(Metrics& m) : metrics(m) {}

  Metrics& metrics;
  mutable Mutex mutex;
  SessionLimits limits ABSL_GUARDED_BY(mutex);
  uint64_t next_id ABSL_GUARDED_BY(mutex) = 1;
  std::map<uint64_t, std::shared_ptr<Session>> sessions ABSL_GUARDED_BY(mutex);
  // Pruned of idle ones when it grows, see Anonymous.
  std::map<uid_t, std::shared_ptr<Session>> anonymous ABSL_GUARDED_BY(mutex);
  std::map<std::string, Share> shares ABSL_GUARDED_BY(mutex);
};

SessionTable::SessionTable(const SessionLimits& limits, Metrics& metrics)
    : state_(std::make_unique<State>(metrics)) {
  MutexLock lock(state_->mutex);
  state_->limits = limits;
}

SessionTable::~SessionTable() = default;

absl::StatusOr<std::shared_ptr<Session>> SessionTable::Open(
    absl::string_view client_name, const PeerCredentials& peer) {
  if (client_name.size() > kMaxNameBytes) {
    return InvalidField("client_name",
                        absl::StrCat("client_name of ", client_name.size(),
                                     " bytes > ", kMaxNameBytes));
  }
  if (!IsUtf8(client_name)) {
    return InvalidField("client_name", "client_name is not UTF-8");
  }
  const SessionToken token = RandomToken();
  MutexLock lock(state_->mutex);
  const size_t limit = static_cast<size_t>(state_->limits.max_sessions);
  if (state_->sessions.size() >= limit) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kQuota;
    detail.got = absl::StrCat(state_->sessions.size() + 1);
    detail.limit = absl::StrCat(limit);
    return MakeError(
        absl::StatusCode::kResourceExhausted, detail,
        absl::StrCat("sessions ", state_->sessions.size() + 1, " > ", limit));
  }
  const uint64_t id = state_->next_id++;
  auto session = std::make_shared<Session>(id, std::string(client_name), peer,
                                           token, state_->limits);
  state_->sessions[id] = session;
  state_->metrics.SetSessions(static_cast<double>(state_->sessions.size()));
  return session;
}

std::shared_ptr<Session> SessionTable::Anonymous(const PeerCredentials& peer) {
  MutexLock lock(state_->mutex);
  const size_t limit = static_cast<size_t>(state_->limits.max_sessions);
  if (state_->anonymous.size() >= limit &&
      state_->anonymous.count(peer.uid) == 0) {
    // Nobody but this table can reach those that it alone holds.
    std::erase_if(state_->anonymous, [](const auto& entry) {
      return entry.second.use_count() == 1;
    });
  }
  std::shared_ptr<Session>& session = state_->anonymous[peer.uid];
  if (session == nullptr) {
    // Its token is random and never told to anybody.
    session = std::make_shared<Session>(state_->next_id++, "anonymous", peer,
                                        RandomToken(), state_->limits);
  }
  return session;
}

absl::StatusOr<std::shared_ptr<Session>> SessionTable::FindByToken(
    absl::string_view token, const PeerCredentials& peer) const {
  std::shared_ptr<Session> found;
  {
    MutexLock lock(state_->mutex);
    for (const auto& [id, session] : state_->sessions) {
      if (EqualInConstantTime(session->token(), token)) found = session;
    }
  }
  if (found == nullptr) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kSessionUnknown;
    detail.field = "preproc-session-bin";
    return MakeError(absl::StatusCode::kNotFound, detail,
                     "preproc-session-bin names no open session");
  }
  // A pid of 0 means a peer in another pid namespace: only the uid is known.
  const bool pids_known = peer.pid != 0 && found->peer().pid != 0;
  if (peer.uid != found->peer().uid ||
      (pids_known && peer.pid != found->peer().pid)) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kSessionPeer;
    detail.field = "preproc-session-bin";
    return MakeError(absl::StatusCode::kPermissionDenied, detail,
                     "preproc-session-bin belongs to another process");
  }
  return found;
}

void SessionTable::Close(const std::shared_ptr<Session>& session) {
  std::vector<State::Share> withdrawn;
  {
    MutexLock lock(state_->mutex);
    state_->sessions.erase(session->id());
    state_->metrics.SetSessions(static_cast<double>(state_->sessions.size()));
    for (auto it = state_->shares.begin(); it != state_->shares.end();) {
      const bool mine = it->second.owner.lock() == session ||
                        it->second.taker.lock() == session;
      if (mine) {
        withdrawn.push_back(std::move(it->second));
        it = state_->shares.erase(it);
      } else {
        ++it;
      }
    }
  }
  for (const State::Share& share : withdrawn) share.TakeBack();
  session->Close();
}

std::vector<std::shared_ptr<Session>> SessionTable::List() const {
  std::vector<std::shared_ptr<Session>> list;
  MutexLock lock(state_->mutex);
  for (const auto& [id, session] : state_->sessions) list.push_back(session);
  return list;
}

int SessionTable::size() const {
  MutexLock lock(state_->mutex);
  return static_cast<int>(state_->sessions.size());
}

SessionLimits SessionTable::limits() const {
  MutexLock lock(state_->mutex);
  return state_->limits;
}

void SessionTable::SetLimits(const SessionLimits& limits) {
  MutexLock lock(state_->mutex);
  state_->limits = limits;
  for (const auto& [id, session] : state_->sessions) {
    session->set_limits(limits);
  }
  for (const auto& [uid, session] : state_->anonymous) {
    session->set_limits(limits);
  }
}

absl::StatusOr<std::string> SessionTable::Share(
    const std::shared_ptr<Session>& owner, uint64_t buffer_id,
    uint32_t generation, Access access) {
  ASSIGN_OR_RETURN(std::shared_ptr<const RegisteredBuffer> buffer,
                   owner->Find(buffer_id, generation));
  const int wanted = static_cast<int>(access);
  if ((static_cast<int>(buffer->access) & wanted) != wanted) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kBufferReadOnly;
    detail.field = "access";
    return MakeError(absl::StatusCode::kFailedPrecondition, detail,
                     "access is more than the buffer was registered with");
  }
  const SessionToken random = RandomToken();
  const std::string token(random.begin(), random.end());
  MutexLock lock(state_->mutex);
  std::erase_if(state_->shares, [](const auto& entry) {
    return entry.second.owner.expired() || entry.second.Ended();
  });
  int count = 0;
  for (const auto& [key, share] : state_->shares) {
    if (share.owner.lock() == owner) ++count;
  }
  if (count >= kMaxSharesPerSession) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kQuota;
    detail.got = absl::StrCat(count + 1);
    detail.limit = absl::StrCat(kMaxSharesPerSession);
    return MakeError(
        absl::StatusCode::kResourceExhausted, detail,
        absl::StrCat("shares ", count + 1, " > ", kMaxSharesPerSession));
  }
  State::Share& share = state_->shares[token];
  share.owner = owner;
  share.offered = buffer;
  share.access = access;
  return token;
}

absl::StatusOr<std::shared_ptr<const RegisteredBuffer>>
SessionTable::AcceptShare(const std::shared_ptr<Session>& taker,
                          absl::string_view share_token, uint64_t buffer_id,
                          uint32_t generation) {
  auto copy = std::make_shared<RegisteredBuffer>();
  const std::string key(share_token);
  {
    MutexLock lock(state_->mutex);
    const auto found = state_->shares.find(key);
    if (found == state_->shares.end() || found->second.taken ||
        found->second.owner.lock() == taker) {
      return NoShare();
    }
    State::Share& share = found->second;
    const std::shared_ptr<const RegisteredBuffer> offered = share.Offered();
    if (offered == nullptr) return NoShare();
    *copy = *offered;
    copy->buffer_id = buffer_id;
    copy->generation = generation;
    copy->access = share.access;
    share.taken = true;
    share.taker = taker;
    share.taken_as = copy;
  }
  absl::Status status = taker->Register(copy);
  MutexLock lock(state_->mutex);
  const auto found = state_->shares.find(key);
  if (!status.ok()) {
    if (found != state_->shares.end()) found->second.taken = false;
    return status;
  }
  // Revoked, or its owner closed, while it was being registered: whoever did
  // that found nothing yet to take back.
  if (found == state_->shares.end()) {
    taker->Withdraw(*copy);
    return NoShare();
  }
  return std::shared_ptr<const RegisteredBuffer>(std::move(copy));
}

absl::Status SessionTable::RevokeShare(const std::shared_ptr<Session>& owner,
                                       absl::string_view share_token) {
  State::Share share;
  {
    MutexLock lock(state_->mutex);
    const auto found = state_->shares.find(std::string(share_token));
    if (found == state_->shares.end() || found->second.owner.lock() != owner) {
      return NoShare();
    }
    share = std::move(found->second);
    state_->shares.erase(found);
    if (share.Ended()) return NoShare();
  }
  share.TakeBack();
  return absl::OkStatus();
}

}  // namespace preprocd
