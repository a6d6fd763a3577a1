#include "engine/base/unique_fd.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace preprocd {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) {
    const int saved_errno = errno;
    // Linux frees the number even when close reports EINTR.
    close(fd_);
    errno = saved_errno;
  }
  fd_ = fd;
}

absl::StatusOr<UniqueFd> UniqueFd::Duplicate() const {
  if (fd_ < 0) return absl::FailedPreconditionError("no descriptor is held");
  const int copy = fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("fcntl(F_DUPFD_CLOEXEC): ", strerror(errno)));
  }
  return UniqueFd(copy);
}

}  // namespace preprocd
