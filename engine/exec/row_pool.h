// Splits the rows of one picture over a fixed set of threads; the caller's
// thread works too. Several callers may use one pool at once.
// Owns: its threads, joined by the destructor. Thread-safety: safe.
// Limits: ranges of one call = at most 4 * threads() (no queue grows with
// work). Threads look around for some 20 microseconds after their last range
// before they sleep, so that a stream of pictures pays no wake-ups.
#ifndef ENGINE_EXEC_ROW_POOL_H_
#define ENGINE_EXEC_ROW_POOL_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"

namespace preprocd {

class RowPool {
 public:
  // `threads` counts the caller's: 1 means no thread is started.
  explicit RowPool(int threads);
  ~RowPool();
  RowPool(const RowPool&) = delete;
  RowPool& operator=(const RowPool&) = delete;

  int threads() const;

  // Calls work(begin, end) for disjoint ranges that cover [0, rows), each at
  // least `min_rows` long except the last, and returns when all are done.
  // Ranges may run on any thread in any order; `work` must not throw. Nested
  // calls run on the caller's thread. No allocation.
  void ParallelRows(int rows, int min_rows,
                    absl::FunctionRef<void(int begin, int end)> work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // ENGINE_EXEC_ROW_POOL_H_
