#include "daemon/scheduler/fair_queue.h"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace preprocd {
namespace {

// Far above the cost of the largest request, far below overflow.
constexpr int64_t kMaxCost = int64_t{1} << 40;

int64_t CostOf(const QueuedJob& queued) {
  return std::clamp<int64_t>(queued.job.cost, 1, kMaxCost);
}

}  // namespace

FairQueue::Turns::iterator FairQueue::FindSession(uint64_t session_id) {
  return std::find_if(turns_.begin(), turns_.end(),
                      [session_id](const SessionJobs& session) {
                        return session.session_id == session_id;
                      });
}

void FairQueue::Push(JobList& one) {
  const uint64_t session_id = one.front().job.session_id;
  auto session = FindSession(session_id);
  if (session == turns_.end()) {
    if (spare_.empty()) spare_.emplace_back();
    session = spare_.begin();
    turns_.splice(turns_.end(), spare_, session);
    session->session_id = session_id;
    session->deficit = kQuantum;
  }
  session->jobs.splice(session->jobs.end(), one);
}

void FairQueue::Pop(JobList& to) {
  size_t turns_without_work = 0;
  while (true) {
    SessionJobs& session = turns_.front();
    const int64_t cost = CostOf(session.jobs.front());
    const bool alone = turns_.size() == 1;
    if (session.deficit < cost && !alone) {
      EndTurn();
      if (++turns_without_work == turns_.size()) GrantSkippedRounds();
      continue;
    }
    // Time that nobody else wanted is not owed to anybody later.
    session.deficit = std::max<int64_t>(0, session.deficit - cost);
    to.splice(to.end(), session.jobs, session.jobs.begin());
    if (session.jobs.empty()) Retire(turns_.begin());
    return;
  }
}

void FairQueue::EndTurn() {
  turns_.front().deficit += kQuantum;
  turns_.splice(turns_.end(), turns_, turns_.begin());
}

// Nobody could afford a job for a whole round: adds at once the rounds that
// would pass until somebody can, because the mutex is held meanwhile.
void FairQueue::GrantSkippedRounds() {
  int64_t rounds = std::numeric_limits<int64_t>::max();
  for (const SessionJobs& session : turns_) {
    const int64_t missing = CostOf(session.jobs.front()) - session.deficit;
    rounds = std::min(rounds,
                      std::max<int64_t>(0, missing + kQuantum - 1) / kQuantum);
  }
  for (SessionJobs& session : turns_) session.deficit += rounds * kQuantum;
}

void FairQueue::Retire(Turns::iterator session) {
  session->deficit = 0;
  spare_.splice(spare_.begin(), turns_, session);
}

int FairQueue::Remove(uint64_t session_id,
                      absl::FunctionRef<bool(const Job&)> matches,
                      JobList& to) {
  const auto session = FindSession(session_id);
  if (session == turns_.end()) return 0;
  int removed = 0;
  for (auto it = session->jobs.begin(); it != session->jobs.end();) {
    const auto next = std::next(it);
    if (matches(it->job)) {
      to.splice(to.end(), session->jobs, it);
      ++removed;
    }
    it = next;
  }
  if (session->jobs.empty()) Retire(session);
  return removed;
}

int FairQueue::TakeAll(JobList& to) {
  int taken = 0;
  while (!turns_.empty()) {
    JobList& jobs = turns_.front().jobs;
    taken += static_cast<int>(jobs.size());
    to.splice(to.end(), jobs);
    Retire(turns_.begin());
  }
  return taken;
}

}  // namespace preprocd
