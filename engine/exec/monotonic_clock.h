// Time for measuring stages and deadlines: CLOCK_MONOTONIC in nanoseconds.
// Thread-safety: safe.
#ifndef ENGINE_EXEC_MONOTONIC_CLOCK_H_
#define ENGINE_EXEC_MONOTONIC_CLOCK_H_

#include <time.h>

#include <cstdint>

namespace preprocd {

inline int64_t MonotonicNs() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

}  // namespace preprocd

#endif  // ENGINE_EXEC_MONOTONIC_CLOCK_H_
