#include "tests/vm/device_memory.h"

#include <drm.h>
#include <drm_mode.h>
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/memfd.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr char kHeapPath[] = "/dev/dma_heap/system";
constexpr char kUdmabufPath[] = "/dev/udmabuf";
constexpr uint64_t kPage = 4096;
constexpr int kNodes = 16;
constexpr int kCaptureMs = 10000;

// linux/vgem_drm.h, which libdrm-dev leaves out.
struct VgemFenceAttach {
  uint32_t handle;
  uint32_t flags;
  uint32_t out_fence;
  uint32_t pad;
};
struct VgemFenceSignal {
  uint32_t fence;
  uint32_t flags;
};
constexpr uint32_t kVgemFenceWrite = 1;
#define VGEM_FENCE_ATTACH DRM_IOWR(DRM_COMMAND_BASE + 1, VgemFenceAttach)
#define VGEM_FENCE_SIGNAL DRM_IOW(DRM_COMMAND_BASE + 2, VgemFenceSignal)

uint64_t WholePages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat(what, ": ", strerror(errno)));
}

absl::Status NoDevice(const char* what) {
  return absl::NotFoundError(absl::StrCat(what, ": ", strerror(errno)));
}

int Ioctl(int fd, unsigned long request, void* argument) {
  int result = -1;
  do {
    result = ioctl(fd, request, argument);
  } while (result < 0 && errno == EINTR);
  return result;
}

class HeapExporter : public Exporter {
 public:
  explicit HeapExporter(UniqueFd device) : device_(std::move(device)) {}
  absl::StatusOr<UniqueFd> Export(uint64_t min_bytes, bool writable) override {
    dma_heap_allocation_data data = {};
    data.len = WholePages(min_bytes);
    data.fd_flags =
        static_cast<uint32_t>((writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
    if (Ioctl(device_.get(), DMA_HEAP_IOCTL_ALLOC, &data) < 0) {
      return Failed("DMA_HEAP_IOCTL_ALLOC");
    }
    return UniqueFd(static_cast<int>(data.fd));
  }

 private:
  UniqueFd device_;
};

class UdmabufExporter : public Exporter {
 public:
  explicit UdmabufExporter(UniqueFd device) : device_(std::move(device)) {}
  absl::StatusOr<UniqueFd> Export(uint64_t min_bytes, bool writable) override {
    if (!writable) {
      return absl::UnimplementedError("udmabuf exports read-write only");
    }
    udmabuf_create create = {};
    create.size = WholePages(min_bytes);
    ASSIGN_OR_RETURN(const UniqueFd memfd,
                     CreateMemfd("device_test", create.size));
    if (fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK) < 0) {
      return Failed("F_ADD_SEALS");
    }
    create.memfd = static_cast<uint32_t>(memfd.get());
    create.flags = UDMABUF_FLAGS_CLOEXEC;
    const int fd = Ioctl(device_.get(), UDMABUF_CREATE, &create);
    if (fd < 0) return Failed("UDMABUF_CREATE");
    return UniqueFd(fd);
  }

 private:
  UniqueFd device_;
};

absl::StatusOr<UniqueFd> OpenVgem() {
  for (int i = 0; i < kNodes; ++i) {
    UniqueFd fd(
        open(absl::StrCat("/dev/dri/card", i).c_str(), O_RDWR | O_CLOEXEC));
    if (!fd.valid()) continue;
    std::array<char, 32> name = {};
    drm_version version = {};
    version.name = name.data();
    version.name_len = name.size() - 1;
    if (Ioctl(fd.get(), DRM_IOCTL_VERSION, &version) == 0 &&
        strcmp(name.data(), "vgem") == 0) {
      return fd;
    }
  }
  return absl::NotFoundError("no DRM device of the driver vgem");
}

struct DumbBuffer {
  UniqueFd dma_buf;
  uint32_t handle = 0;
};

absl::StatusOr<DumbBuffer> MakeDumb(int device, uint64_t bytes, bool writable) {
  drm_mode_create_dumb dumb = {};
  dumb.width = kPage / 4;
  dumb.height = static_cast<uint32_t>(WholePages(bytes) / kPage);
  dumb.bpp = 32;
  if (Ioctl(device, DRM_IOCTL_MODE_CREATE_DUMB, &dumb) < 0) {
    return Failed("DRM_IOCTL_MODE_CREATE_DUMB");
  }
  drm_prime_handle prime = {};
  prime.handle = dumb.handle;
  prime.flags = static_cast<uint32_t>(O_CLOEXEC | (writable ? O_RDWR : 0));
  if (Ioctl(device, DRM_IOCTL_PRIME_HANDLE_TO_FD, &prime) < 0) {
    return Failed("DRM_IOCTL_PRIME_HANDLE_TO_FD");
  }
  DumbBuffer buffer;
  buffer.dma_buf = UniqueFd(prime.fd);
  buffer.handle = dumb.handle;
  return buffer;
}

class DumbExporter : public Exporter {
 public:
  explicit DumbExporter(UniqueFd device) : device_(std::move(device)) {}
  absl::StatusOr<UniqueFd> Export(uint64_t min_bytes, bool writable) override {
    ASSIGN_OR_RETURN(DumbBuffer buffer,
                     MakeDumb(device_.get(), min_bytes, writable));
    return std::move(buffer.dma_buf);
  }

 private:
  UniqueFd device_;
};

class VideoExporter : public Exporter {
 public:
  explicit VideoExporter(std::unique_ptr<VideoDevice> device)
      : device_(std::move(device)) {}
  absl::StatusOr<UniqueFd> Export(uint64_t min_bytes, bool writable) override {
    if (min_bytes > kVideoBytes || next_ == kVideoBuffers) {
      return absl::ResourceExhaustedError("no such capture buffer is left");
    }
    return device_->ExportBuffer(next_++, writable);
  }

 private:
  std::unique_ptr<VideoDevice> device_;
  uint32_t next_ = 0;
};

}  // namespace

const char* ExporterName(ExporterKind kind) {
  switch (kind) {
    case ExporterKind::kHeap:
      return "heap";
    case ExporterKind::kUdmabuf:
      return "udmabuf";
    case ExporterKind::kDumb:
      return "dumb";
    case ExporterKind::kVideo:
      return "video";
  }
  return "unknown";
}

absl::StatusOr<std::unique_ptr<Exporter>> OpenExporter(ExporterKind kind) {
  switch (kind) {
    case ExporterKind::kHeap: {
      UniqueFd fd(open(kHeapPath, O_RDONLY | O_CLOEXEC));
      if (!fd.valid()) return NoDevice(kHeapPath);
      return std::unique_ptr<Exporter>(new HeapExporter(std::move(fd)));
    }
    case ExporterKind::kUdmabuf: {
      UniqueFd fd(open(kUdmabufPath, O_RDWR | O_CLOEXEC));
      if (!fd.valid()) return NoDevice(kUdmabufPath);
      return std::unique_ptr<Exporter>(new UdmabufExporter(std::move(fd)));
    }
    case ExporterKind::kDumb: {
      ASSIGN_OR_RETURN(UniqueFd fd, OpenVgem());
      return std::unique_ptr<Exporter>(new DumbExporter(std::move(fd)));
    }
    case ExporterKind::kVideo: {
      ASSIGN_OR_RETURN(auto device, VideoDevice::Open());
      RETURN_IF_ERROR(device->AllocateBuffers());
      return std::unique_ptr<Exporter>(new VideoExporter(std::move(device)));
    }
  }
  return absl::NotFoundError("unknown exporter");
}

absl::StatusOr<std::unique_ptr<VideoDevice>> VideoDevice::Open() {
  for (int i = 0; i < kNodes; ++i) {
    UniqueFd fd(open(absl::StrCat("/dev/video", i).c_str(),
                     O_RDWR | O_CLOEXEC | O_NONBLOCK));
    v4l2_capability capability = {};
    if (!fd.valid() || Ioctl(fd.get(), VIDIOC_QUERYCAP, &capability) < 0 ||
        strcmp(reinterpret_cast<const char*>(capability.driver), "vivid") !=
            0 ||
        (capability.device_caps & V4L2_CAP_VIDEO_CAPTURE) == 0) {
      continue;
    }
    v4l2_format format = {};
    format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    format.fmt.pix.width = kVideoWidth;
    format.fmt.pix.height = kVideoHeight;
    format.fmt.pix.pixelformat = V4L2_PIX_FMT_NV12;
    format.fmt.pix.field = V4L2_FIELD_NONE;
    if (Ioctl(fd.get(), VIDIOC_S_FMT, &format) < 0) {
      return NoDevice("VIDIOC_S_FMT");
    }
    const v4l2_pix_format& got = format.fmt.pix;
    if (got.width != kVideoWidth || got.height != kVideoHeight ||
        got.pixelformat != V4L2_PIX_FMT_NV12 ||
        got.bytesperline != kVideoWidth || got.sizeimage < kVideoBytes) {
      return absl::NotFoundError("vivid does not capture 640x360 NV12");
    }
    return std::unique_ptr<VideoDevice>(new VideoDevice(std::move(fd)));
  }
  return absl::NotFoundError("no V4L2 capture device of the driver vivid");
}

absl::Status VideoDevice::AllocateBuffers() {
  v4l2_requestbuffers request = {};
  request.count = kVideoBuffers;
  request.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  request.memory = V4L2_MEMORY_MMAP;
  if (Ioctl(fd_.get(), VIDIOC_REQBUFS, &request) < 0) {
    return Failed("VIDIOC_REQBUFS");
  }
  if (request.count < kVideoBuffers) {
    return absl::InternalError("VIDIOC_REQBUFS gave fewer buffers");
  }
  return absl::OkStatus();
}

absl::Status VideoDevice::TakeBuffers(uint32_t count) {
  v4l2_requestbuffers request = {};
  request.count = count;
  request.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  request.memory = V4L2_MEMORY_DMABUF;
  if (Ioctl(fd_.get(), VIDIOC_REQBUFS, &request) < 0) {
    return Failed("VIDIOC_REQBUFS(DMABUF)");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> VideoDevice::ExportBuffer(uint32_t index,
                                                   bool writable) {
  v4l2_exportbuffer request = {};
  request.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  request.index = index;
  request.flags =
      static_cast<uint32_t>(O_CLOEXEC | (writable ? O_RDWR : O_RDONLY));
  if (Ioctl(fd_.get(), VIDIOC_EXPBUF, &request) < 0) {
    return Failed("VIDIOC_EXPBUF");
  }
  return UniqueFd(request.fd);
}

absl::Status VideoDevice::CaptureInto(uint32_t count,
                                      std::span<const int> fds) {
  const auto prepare = [&](uint32_t index) {
    v4l2_buffer buffer = {};
    buffer.type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
    buffer.memory = fds.empty() ? V4L2_MEMORY_MMAP : V4L2_MEMORY_DMABUF;
    buffer.index = index;
    if (!fds.empty()) buffer.m.fd = fds[index];
    return buffer;
  };
  for (uint32_t i = 0; i < count; ++i) {
    v4l2_buffer buffer = prepare(i);
    if (Ioctl(fd_.get(), VIDIOC_QBUF, &buffer) < 0) {
      return Failed("VIDIOC_QBUF");
    }
  }
  int type = V4L2_BUF_TYPE_VIDEO_CAPTURE;
  if (Ioctl(fd_.get(), VIDIOC_STREAMON, &type) < 0) {
    return Failed("VIDIOC_STREAMON");
  }
  absl::Status status;
  for (uint32_t i = 0; i < count && status.ok(); ++i) {
    pollfd ready = {fd_.get(), POLLIN, 0};
    if (poll(&ready, 1, kCaptureMs) != 1) {
      status = absl::InternalError("no frame was captured");
      break;
    }
    v4l2_buffer buffer = prepare(0);
    if (Ioctl(fd_.get(), VIDIOC_DQBUF, &buffer) < 0) {
      status = Failed("VIDIOC_DQBUF");
    } else if ((buffer.flags & V4L2_BUF_FLAG_ERROR) != 0) {
      status = absl::InternalError("a frame was captured with an error");
    }
  }
  if (Ioctl(fd_.get(), VIDIOC_STREAMOFF, &type) < 0 && status.ok()) {
    status = Failed("VIDIOC_STREAMOFF");
  }
  return status;
}

absl::StatusOr<FencedBuffer> FencedBuffer::Create(uint64_t size_bytes) {
  FencedBuffer made;
  ASSIGN_OR_RETURN(made.device_, OpenVgem());
  ASSIGN_OR_RETURN(DumbBuffer dumb,
                   MakeDumb(made.device_.get(), size_bytes, true));
  made.dma_buf_ = std::move(dumb.dma_buf);
  made.handle_ = dumb.handle;
  return made;
}

absl::Status FencedBuffer::Attach(bool writing) {
  VgemFenceAttach attach = {};
  attach.handle = handle_;
  attach.flags = writing ? kVgemFenceWrite : 0;
  if (Ioctl(device_.get(), VGEM_FENCE_ATTACH, &attach) < 0) {
    return Failed("VGEM_FENCE_ATTACH");
  }
  fence_ = attach.out_fence;
  return absl::OkStatus();
}

absl::Status FencedBuffer::Signal() {
  VgemFenceSignal signal = {};
  signal.fence = fence_;
  if (Ioctl(device_.get(), VGEM_FENCE_SIGNAL, &signal) < 0) {
    return Failed("VGEM_FENCE_SIGNAL");
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> ExportSyncFile(int fd, bool for_writing) {
  dma_buf_export_sync_file data = {};
  data.flags = for_writing ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ;
  data.fd = -1;
  if (Ioctl(fd, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &data) < 0) {
    return Failed("DMA_BUF_IOCTL_EXPORT_SYNC_FILE");
  }
  return UniqueFd(data.fd);
}

absl::Status ImportSyncFile(int fd, int sync_file, bool writing) {
  dma_buf_import_sync_file data = {};
  data.flags = writing ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ;
  data.fd = sync_file;
  if (Ioctl(fd, DMA_BUF_IOCTL_IMPORT_SYNC_FILE, &data) < 0) {
    return Failed("DMA_BUF_IOCTL_IMPORT_SYNC_FILE");
  }
  return absl::OkStatus();
}

uint64_t KernelSize(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  return size > 0 ? static_cast<uint64_t>(size) : 0;
}

CpuAccess::CpuAccess(int fd, bool writable)
    : fd_(fd), direction_(writable ? DMA_BUF_SYNC_RW : DMA_BUF_SYNC_READ) {
  const uint64_t size = KernelSize(fd);
  void* address =
      mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ,
           MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return;
  dma_buf_sync sync = {};
  sync.flags = DMA_BUF_SYNC_START | direction_;
  if (Ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync) < 0) {
    munmap(address, size);
    return;
  }
  bytes_ = {static_cast<uint8_t*>(address), size};
}

CpuAccess::~CpuAccess() {
  if (bytes_.empty()) return;
  dma_buf_sync sync = {};
  sync.flags = DMA_BUF_SYNC_END | direction_;
  Ioctl(fd_, DMA_BUF_IOCTL_SYNC, &sync);
  munmap(bytes_.data(), bytes_.size());
}

}  // namespace preprocd
