// Tables made from a request, kept for later requests that are equal: the
// steady state only looks up.
// Owns: its tables, shared with whoever still uses one.
// Thread-safety: safe; a table is made under the lock, so that several threads
// that need it make it once.
// Limits: kMaxBytes of tables, least recently used first to go; sizes are
// chosen by clients and must not decide what a daemon keeps. The last table
// asked for stays whatever its size.
#ifndef ENGINE_BACKENDS_CPU_TABLE_CACHE_H_
#define ENGINE_BACKENDS_CPU_TABLE_CACHE_H_

#include <algorithm>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"

namespace preprocd {

// `Table` has `request`, equality comparable, and `size_t bytes() const`.
template <typename Request, typename Table>
class TableCache {
 public:
  static constexpr size_t kMaxBytes = size_t{8} << 20;

  using Make = absl::FunctionRef<std::shared_ptr<const Table>(const Request&)>;

  // The table of `request`, made if it is not kept; null if `make` says so.
  std::shared_ptr<const Table> Get(const Request& request, Make make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = std::find_if(
        tables_.begin(), tables_.end(),
        [&request](const auto& table) { return table->request == request; });
    if (found != tables_.end()) {
      std::rotate(tables_.begin(), found, found + 1);
      return tables_.front();
    }
    std::shared_ptr<const Table> made = make(request);
    if (made == nullptr) return nullptr;
    bytes_ += made->bytes();
    tables_.insert(tables_.begin(), made);
    while (bytes_ > kMaxBytes && tables_.size() > 1) {
      bytes_ -= tables_.back()->bytes();
      tables_.pop_back();
    }
    return made;
  }

  size_t bytes() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bytes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const Table>> tables_;  // most recent first
  size_t bytes_ = 0;
};

// Bytes of a vector's elements.
template <typename T>
size_t BytesOf(const std::vector<T>& v) {
  return v.capacity() * sizeof(T);
}

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_TABLE_CACHE_H_
