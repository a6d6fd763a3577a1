// A std::mutex that clang's thread-safety analysis understands. Debian's
// Abseil is built without ThreadSanitizer, which cannot see the locks of
// absl::Mutex and would report every field that they guard.
// Thread-safety: safe.
#ifndef ENGINE_BASE_MUTEX_H_
#define ENGINE_BASE_MUTEX_H_

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace preprocd {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

// Holds a Mutex for a scope.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace preprocd

#endif  // ENGINE_BASE_MUTEX_H_
