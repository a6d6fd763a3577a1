#include "engine/memory/allocator.h"

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"
#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/base/status_macros.h"
#include "engine/memory/buffer_import.h"
#include "engine/memory/memfd_buffer.h"

namespace preprocd {
namespace {

constexpr char kUdmabufPath[] = "/dev/udmabuf";
// One part of so many of the machine's memory is never given to dma-bufs.
constexpr uint64_t kKeptShare = 16;
// In order of preference: contiguous memory first, because most capture and
// display hardware wants it.
constexpr std::array<const char*, 4> kHeapPaths = {
    "/dev/dma_heap/linux,cma", "/dev/dma_heap/reserved",
    "/dev/dma_heap/default_cma_region", "/dev/dma_heap/system"};

struct OpenDevice {
  UniqueFd fd;
  std::string detail;  // path, or why not
};

OpenDevice OpenUdmabuf() {
  OpenDevice device;
  device.fd.reset(open(kUdmabufPath, O_RDWR | O_CLOEXEC));
  device.detail = device.fd.valid()
                      ? std::string(kUdmabufPath)
                      : absl::StrCat(kUdmabufPath, ": ", strerror(errno));
  return device;
}

OpenDevice OpenHeap() {
  OpenDevice device;
  int error = ENOENT;
  for (const char* path : kHeapPaths) {
    device.fd.reset(open(path, O_RDWR | O_CLOEXEC));
    if (device.fd.valid()) {
      device.detail = path;
      return device;
    }
    // A heap that is there but closed to us says more than one that is not.
    if (errno != ENOENT) error = errno;
  }
  device.detail = absl::StrCat("/dev/dma_heap: ", strerror(error));
  return device;
}

absl::Status NoAllocator(const std::string& detail) {
  ErrorDetail error;
  error.reason = ErrorReason::kDmaBuf;
  error.field = "allocator";
  return MakeError(absl::StatusCode::kUnimplemented, error,
                   absl::StrCat("allocator is not available: ", detail));
}

absl::Status KernelRefused(absl::string_view call, int error) {
  ErrorDetail detail;
  detail.reason = ErrorReason::kDmaBuf;
  detail.field = "allocator";
  return MakeError(absl::StatusCode::kResourceExhausted, detail,
                   absl::StrCat(call, ": ", strerror(error)));
}

absl::StatusOr<uint64_t> RoundToPages(uint64_t size_bytes) {
  const std::optional<uint64_t> rounded =
      CheckedAlignUp(size_bytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  if (!rounded) {
    return InvalidField(ErrorReason::kTooLarge, "size_bytes",
                        "size_bytes does not fit whole pages");
  }
  return *rounded;
}

// The pages of a dma-buf exist from its making on, are charged to nobody and
// cannot be swapped: asking for more than there is ends in the kernel killing
// some process, most likely this one. Where the kernel does not tell, it
// decides.
absl::Status CheckMemoryIsThere(uint64_t size_bytes) {
  std::ifstream file("/proc/meminfo");
  uint64_t available = UINT64_MAX;
  uint64_t total = 0;
  std::string key;
  uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "MemTotal:") total = value * 1024;
    if (key == "MemAvailable:") available = value * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (available == UINT64_MAX) return absl::OkStatus();
  // What the machine needs to go on.
  const uint64_t kept = total / kKeptShare;
  const uint64_t left = available > kept ? available - kept : 0;
  if (size_bytes <= left) return absl::OkStatus();
  ErrorDetail detail;
  detail.reason = ErrorReason::kDmaBuf;
  detail.field = "size_bytes";
  detail.got = absl::StrCat(size_bytes);
  detail.limit = absl::StrCat(left);
  return MakeError(absl::StatusCode::kResourceExhausted, std::move(detail),
                   absl::StrCat("size_bytes ", size_bytes, " > ", left,
                                ", what the machine has left for dma-bufs"));
}

absl::StatusOr<UniqueFd> AllocateUdmabuf(uint64_t size_bytes,
                                         const std::string& name) {
  OpenDevice device = OpenUdmabuf();
  if (!device.fd.valid()) return NoAllocator(device.detail);
  ASSIGN_OR_RETURN(const uint64_t rounded, RoundToPages(size_bytes));
  RETURN_IF_ERROR(CheckMemoryIsThere(rounded));
  ASSIGN_OR_RETURN(const UniqueFd memfd, CreateMemfd(name, rounded));
  // The driver requires exactly this seal and refuses a write seal.
  if (fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
    return KernelRefused("fcntl(F_ADD_SEALS)", errno);
  }
  udmabuf_create create = {};
  create.memfd = static_cast<uint32_t>(memfd.get());
  create.flags = UDMABUF_FLAGS_CLOEXEC;
  create.size = rounded;
  int fd = -1;
  do {
    fd = ioctl(device.fd.get(), UDMABUF_CREATE, &create);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) {
    return KernelRefused(errno == EINVAL
                             ? "ioctl(UDMABUF_CREATE), whose bounds are "
                               "/sys/module/udmabuf/parameters"
                             : "ioctl(UDMABUF_CREATE)",
                         errno);
  }
  return UniqueFd(fd);
}

absl::StatusOr<UniqueFd> AllocateFromHeap(uint64_t size_bytes) {
  OpenDevice device = OpenHeap();
  if (!device.fd.valid()) return NoAllocator(device.detail);
  ASSIGN_OR_RETURN(const uint64_t rounded, RoundToPages(size_bytes));
  RETURN_IF_ERROR(CheckMemoryIsThere(rounded));
  dma_heap_allocation_data data = {};
  data.len = rounded;
  data.fd_flags = O_RDWR | O_CLOEXEC;
  int result = -1;
  do {
    result = ioctl(device.fd.get(), DMA_HEAP_IOCTL_ALLOC, &data);
  } while (result < 0 && errno == EINTR);
  if (result < 0) return KernelRefused("ioctl(DMA_HEAP_IOCTL_ALLOC)", errno);
  return UniqueFd(static_cast<int>(data.fd));
}

absl::StatusOr<std::shared_ptr<Buffer>> Import(UniqueFd fd) {
  ImportOptions options;
  options.max_bytes = UINT64_MAX;
  return ImportBuffer(std::move(fd), options);
}

}  // namespace

std::vector<AllocatorStatus> ProbeAllocators() {
  const OpenDevice udmabuf = OpenUdmabuf();
  const OpenDevice heap = OpenHeap();
  return {{AllocatorKind::kMemfd, true, "memfd_create"},
          {AllocatorKind::kUdmabuf, udmabuf.fd.valid(), udmabuf.detail},
          {AllocatorKind::kDmaHeap, heap.fd.valid(), heap.detail}};
}

absl::StatusOr<std::shared_ptr<Buffer>> AllocateBuffer(AllocatorKind kind,
                                                       uint64_t size_bytes,
                                                       absl::string_view name) {
  if (size_bytes == 0) {
    return InvalidField("size_bytes", "size_bytes 0 < 1");
  }
  const std::string file_name(name);
  switch (kind) {
    case AllocatorKind::kUnspecified:
    case AllocatorKind::kMemfd: {
      ASSIGN_OR_RETURN(UniqueFd fd, CreateMemfd(file_name, size_bytes));
      RETURN_IF_ERROR(SealSize(fd.get()));
      if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SEAL) < 0) {
        return KernelRefused("fcntl(F_ADD_SEALS)", errno);
      }
      return Import(std::move(fd));
    }
    case AllocatorKind::kUdmabuf: {
      ASSIGN_OR_RETURN(UniqueFd fd, AllocateUdmabuf(size_bytes, file_name));
      return Import(std::move(fd));
    }
    case AllocatorKind::kDmaHeap: {
      ASSIGN_OR_RETURN(UniqueFd fd, AllocateFromHeap(size_bytes));
      return Import(std::move(fd));
    }
    case AllocatorKind::kHeap:
      return HeapBuffer::Create(size_bytes);
  }
  return InvalidField("allocator", "allocator is not known");
}

absl::StatusOr<UniqueFd> MakeSealedMemfd(std::span<const std::byte> bytes,
                                         absl::string_view name) {
  ASSIGN_OR_RETURN(UniqueFd fd, CreateMemfd(std::string(name), bytes.size()));
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t put = pwrite(fd.get(), bytes.data() + done,
                               bytes.size() - done, static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      return absl::ResourceExhaustedError(
          absl::StrCat("pwrite to a memfd: ", strerror(errno)));
    }
    done += static_cast<size_t>(put);
  }
  RETURN_IF_ERROR(SealImmutable(fd.get()));
  return fd;
}

}  // namespace preprocd
