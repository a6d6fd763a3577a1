// What the kernel says about this process: for Status and leak tests.
// Thread-safety: safe. Source: proc(5).
#ifndef DAEMON_METRICS_PROCESS_FACTS_H_
#define DAEMON_METRICS_PROCESS_FACTS_H_

#include <cstdint>

namespace preprocd {

struct ProcessFacts {
  int64_t resident_bytes = 0;
  int open_fds = 0;
  int threads = 0;
};
ProcessFacts ReadProcessFacts();

}  // namespace preprocd

#endif  // DAEMON_METRICS_PROCESS_FACTS_H_
