// Aborts on a broken invariant of our own. Never used on anything that a
// client, a file, a device or the environment controls: those get a Status.
// Thread-safety: safe.
#ifndef ENGINE_BASE_CHECK_H_
#define ENGINE_BASE_CHECK_H_

#include "absl/status/status.h"

namespace preprocd::internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* text);
absl::Status EnsureFailed(const char* file, int line, const char* text);
}  // namespace preprocd::internal

// Aborts with file and line when `condition` is false, in every build.
#define PREPROCD_CHECK(condition)                                        \
  do {                                                                   \
    if (!(condition)) [[unlikely]] {                                     \
      ::preprocd::internal::CheckFailed(__FILE__, __LINE__, #condition); \
    }                                                                    \
  } while (false)

// Returns kInternal from the enclosing function when `condition` is false;
// aborts instead in debug builds, so that tests see it.
#ifdef NDEBUG
#define PREPROCD_ENSURE(condition)                                  \
  do {                                                              \
    if (!(condition)) [[unlikely]] {                                \
      return ::preprocd::internal::EnsureFailed(__FILE__, __LINE__, \
                                                #condition);        \
    }                                                               \
  } while (false)
#else
#define PREPROCD_ENSURE(condition) PREPROCD_CHECK(condition)
#endif

#endif  // ENGINE_BASE_CHECK_H_
