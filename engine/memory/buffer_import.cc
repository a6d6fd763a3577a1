#include "engine/memory/buffer_import.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/memory/dma_buf_buffer.h"
#include "engine/memory/memfd_buffer.h"

// Since Linux 5.1; older C library headers lack it.
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace preprocd {
namespace {

absl::Status WrongKind(absl::string_view what) {
  return InvalidField(
      ErrorReason::kBufferKind, "fd",
      absl::StrCat("fd is ", what, ", neither a memfd nor a dma-buf"));
}

absl::Status Sealed(absl::string_view why) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kBufferSealed;
  detail.field = "access";
  return MakeError(
      absl::StatusCode::kFailedPrecondition, detail,
      absl::StrCat("access includes writing, but the descriptor ", why));
}

enum class MemfdKind { kNone, kPages, kHugePages };

// A file of /dev/shm answers F_GET_SEALS like a memfd made without sealing;
// only its name in /proc tells them apart.
MemfdKind KindOfMemfd(int fd) {
  struct statfs facts = {};
  if (fstatfs(fd, &facts) != 0) return MemfdKind::kNone;
  const bool huge = facts.f_type == HUGETLBFS_MAGIC;
  if (!huge && facts.f_type != TMPFS_MAGIC) return MemfdKind::kNone;
  std::array<char, 32> target = {};
  const std::string link = absl::StrCat("/proc/self/fd/", fd);
  const ssize_t length = readlink(link.c_str(), target.data(), target.size());
  if (length <= 0) return MemfdKind::kNone;
  const absl::string_view name(target.data(), static_cast<size_t>(length));
  if (!absl::StartsWith(name, "/memfd:")) return MemfdKind::kNone;
  return huge ? MemfdKind::kHugePages : MemfdKind::kPages;
}

absl::string_view KindName(mode_t mode) {
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISCHR(mode)) return "a character device";
  if (S_ISBLK(mode)) return "a block device";
  if (S_ISREG(mode)) return "a regular file";
  return "an anonymous descriptor";
}

absl::Status CheckSize(uint64_t cost, uint64_t size, uint64_t max_bytes) {
  if (size == 0) {
    return InvalidField(ErrorReason::kBufferTooSmall, "fd", "fd is empty");
  }
  if (cost > max_bytes) {
    ErrorDetail detail;
    detail.reason = ErrorReason::kTooLarge;
    detail.field = "fd";
    detail.got = absl::StrCat(cost);
    detail.limit = absl::StrCat(max_bytes);
    return MakeError(absl::StatusCode::kInvalidArgument, detail,
                     absl::StrCat("fd costs ", cost, " bytes > ", max_bytes));
  }
  return absl::OkStatus();
}

struct DescriptorMode {
  bool readable = false;
  bool writable = false;
};

absl::StatusOr<DescriptorMode> ReadMode(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  if (flags < 0) {
    return InvalidField(ErrorReason::kBufferKind, "fd",
                        absl::StrCat("fd: ", strerror(errno)));
  }
  // An O_PATH descriptor can be neither read nor mapped.
  if ((flags & O_PATH) != 0) return WrongKind("a path descriptor");
  const int mode = flags & O_ACCMODE;
  return DescriptorMode{mode != O_WRONLY, mode != O_RDONLY};
}

// What was read from the descriptor, seals first: they are never taken off
// again, so a size that is read after the size seals holds for good. Read the
// other way round, the file could shrink and be sealed in between.
struct Descriptor {
  MemfdKind memfd = MemfdKind::kNone;
  int seals = -1;  // -1: no seals known
  struct stat file = {};
  bool writable = false;
};

absl::StatusOr<std::shared_ptr<Buffer>> ImportMemfd(UniqueFd fd,
                                                    const Descriptor& from,
                                                    bool wants_write,
                                                    uint64_t max_bytes) {
  FileFacts facts;
  facts.size_bytes = static_cast<uint64_t>(from.file.st_size);
  facts.identity = {from.file.st_dev, from.file.st_ino};
  // Reading a hole through a mapping allocates its pages here, so a sparse
  // file costs its whole size; preallocation past the end costs blocks.
  const uint64_t blocks = static_cast<uint64_t>(from.file.st_blocks) * 512;
  RETURN_IF_ERROR(CheckSize(std::max(facts.size_bytes, blocks),
                            facts.size_bytes, max_bytes));
  constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  constexpr int kWriteSeals = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
  const int seals = from.seals >= 0 ? from.seals : 0;
  const bool size_sealed = (seals & kSizeSeals) == kSizeSeals;
  if (wants_write && (seals & kWriteSeals) != 0) {
    return Sealed("is sealed against writing");
  }
  if (wants_write && !from.writable) return Sealed("was opened read-only");
  facts.writable = wants_write;
  facts.immutable = size_sealed && (seals & F_SEAL_WRITE) != 0;
  // A huge page can be taken from under a mapping and the pool be empty when
  // it is touched again, which is a signal, not an error. The kernel has no
  // write(2) for these files.
  const bool huge = from.memfd == MemfdKind::kHugePages;
  if (huge && wants_write) {
    return InvalidField(ErrorReason::kBufferKind, "access",
                        "access includes writing, but fd is a memfd of huge "
                        "pages, which can only be read");
  }
  if (size_sealed && !huge) return MemfdBuffer::Create(std::move(fd), facts);
  return std::shared_ptr<Buffer>(
      std::make_shared<MemfdCopyBuffer>(std::move(fd), facts));
}

absl::StatusOr<std::shared_ptr<Buffer>> ImportDmaBuf(UniqueFd fd,
                                                     const Descriptor& from,
                                                     bool wants_write,
                                                     uint64_t max_bytes) {
  const off_t size = lseek(fd.get(), 0, SEEK_END);
  FileFacts facts;
  facts.size_bytes = size > 0 ? static_cast<uint64_t>(size) : 0;
  facts.identity = {from.file.st_dev, from.file.st_ino};
  RETURN_IF_ERROR(CheckSize(facts.size_bytes, facts.size_bytes, max_bytes));
  if (wants_write && !from.writable) return Sealed("was opened read-only");
  facts.writable = wants_write;
  return std::shared_ptr<Buffer>(
      std::make_shared<DmaBufBuffer>(std::move(fd), facts));
}

}  // namespace

absl::StatusOr<std::shared_ptr<Buffer>> ImportBuffer(
    UniqueFd fd, const ImportOptions& options) {
  const bool wants_write = options.access != Access::kRead;
  ASSIGN_OR_RETURN(const DescriptorMode mode, ReadMode(fd.get()));
  Descriptor from;
  from.writable = mode.writable;
  from.seals = fcntl(fd.get(), F_GET_SEALS);
  if (fstat(fd.get(), &from.file) != 0) {
    return InvalidField(ErrorReason::kBufferKind, "fd",
                        absl::StrCat("fd: fstat: ", strerror(errno)));
  }
  const bool dma_buf = IsDmaBuf(fd.get());
  if (!dma_buf) from.memfd = KindOfMemfd(fd.get());
  if (!dma_buf && from.memfd == MemfdKind::kNone) {
    return WrongKind(KindName(from.file.st_mode));
  }
  if (!mode.readable) return WrongKind("a write-only descriptor");
  return dma_buf
             ? ImportDmaBuf(std::move(fd), from, wants_write, options.max_bytes)
             : ImportMemfd(std::move(fd), from, wants_write, options.max_bytes);
}

}  // namespace preprocd
