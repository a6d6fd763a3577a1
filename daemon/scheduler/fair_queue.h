// The jobs that wait at one priority: deficit round robin between sessions.
// A session whose turn it is spends its deficit; when its next job costs
// more, the deficit grows by kQuantum and the next session has its turn. So
// sessions share by cost, not by count, and one that floods delays only
// itself.
// Owns: what was pushed. Nodes move between lists and are never allocated
// here in steady state; a session that has no work takes no room in the order.
// Thread-safety: none; the scheduler's mutex guards it.
// Limits: as many entries as the scheduler admits (max_queued).
// Source: Shreedhar and Varghese, Efficient Fair Queuing Using Deficit Round
// Robin, IEEE/ACM Transactions on Networking 4(3), 1996.
#ifndef DAEMON_SCHEDULER_FAIR_QUEUE_H_
#define DAEMON_SCHEDULER_FAIR_QUEUE_H_

#include <cstdint>
#include <list>

#include "absl/functional/function_ref.h"
#include "daemon/scheduler/scheduler.h"

namespace preprocd {

// Cost that a session may spend per turn: one 1080p picture read and one
// 640x640 tensor written, in pixels.
inline constexpr int64_t kQuantum = 1920 * 1080 + 640 * 640;

struct QueuedJob {
  Job job;
  int64_t queued_ns = 0;
};
// Nodes are passed as lists of one and moved by splice.
using JobList = std::list<QueuedJob>;

class FairQueue {
 public:
  bool empty() const { return turns_.empty(); }

  // REQUIRES: `one` holds one job. It is empty afterwards.
  void Push(JobList& one);

  // Moves the next job to the end of `to`. REQUIRES: not empty.
  void Pop(JobList& to);

  // Moves the session's jobs that match to the end of `to`, oldest first.
  // Returns how many.
  int Remove(uint64_t session_id, absl::FunctionRef<bool(const Job&)> matches,
             JobList& to);

  // Moves everything to the end of `to`. Returns how many.
  int TakeAll(JobList& to);

 private:
  struct SessionJobs {
    uint64_t session_id = 0;
    JobList jobs;  // never empty while in turns_
    int64_t deficit = 0;
  };
  using Turns = std::list<SessionJobs>;

  Turns::iterator FindSession(uint64_t session_id);
  void EndTurn();
  void GrantSkippedRounds();
  void Retire(Turns::iterator session);

  Turns turns_;  // the front has its turn
  Turns spare_;  // nodes for the next sessions; as many as ever waited at once
};

}  // namespace preprocd

#endif  // DAEMON_SCHEDULER_FAIR_QUEUE_H_
