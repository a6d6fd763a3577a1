#include "engine/base/memfd.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace preprocd {
namespace {

// linux/memfd.h since 6.3; older headers lack it.
constexpr unsigned kNoexecSeal = 0x0008U;

absl::Status AddSeals(int fd, int seals) {
  if (fcntl(fd, F_ADD_SEALS, seals) < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("fcntl(F_ADD_SEALS): ", strerror(errno)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UniqueFd> CreateMemfd(const std::string& name,
                                     uint64_t size_bytes) {
  const auto size = CheckedCast<off_t>(size_bytes);
  if (size_bytes == 0 || !size) {
    return absl::InvalidArgumentError(
        absl::StrCat("memfd size ", size_bytes, " is not usable"));
  }
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int fd = memfd_create(name.c_str(), kFlags | kNoexecSeal);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name.c_str(), kFlags);
  if (fd < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("memfd_create: ", strerror(errno)));
  }
  UniqueFd owned(fd);
  if (ftruncate(owned.get(), *size) < 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "ftruncate of a memfd to ", size_bytes, ": ", strerror(errno)));
  }
  return owned;
}

absl::Status SealSize(int fd) {
  return AddSeals(fd, F_SEAL_SHRINK | F_SEAL_GROW);
}

absl::Status SealImmutable(int fd) {
  return AddSeals(fd, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
}

}  // namespace preprocd
