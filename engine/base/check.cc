#include "engine/base/check.h"

#include <cstdio>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace preprocd::internal {

void CheckFailed(const char* file, int line, const char* text) {
  fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, text);
  fflush(stderr);
  abort();
}

absl::Status EnsureFailed(const char* file, int line, const char* text) {
  return absl::InternalError(
      absl::StrCat(file, ":", line, ": invariant broken: ", text));
}

}  // namespace preprocd::internal
