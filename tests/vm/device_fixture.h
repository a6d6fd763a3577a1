// What the device tests share: a session with the daemon that the job
// started, pictures in device memory, and what a convert of them must give.
// Environment: PREPROCD_RUNTIME_DIR  the daemon's sockets
//              PREPROCD_PID          the daemon's process, for its descriptors
//              PREPROCD_DEVICES      "required": a device that is missing is
//                                    a failure, not a skip
#ifndef TESTS_VM_DEVICE_FIXTURE_H_
#define TESTS_VM_DEVICE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/error_detail.h"
#include "engine/base/unique_fd.h"
#include "preprocd/client.h"
#include "tests/vm/device_memory.h"

namespace preprocd {

// One plane in bytes: where it begins and how far its rows are apart.
struct PlaneAt {
  uint32_t fd_index = 0;
  uint64_t offset_bytes = 0;
  uint64_t stride_bytes = 0;
};

v1::ImageLayout Picture(v1::PixelFormat format, int width, int height,
                        const std::vector<PlaneAt>& planes);

// Bytes of a row of a plane, and how many rows it has: grey, rgb, rgba, nv12.
uint64_t RowBytes(const v1::ImageLayout& layout, int plane);
int Rows(const v1::ImageLayout& layout, int plane);

// Writes a pattern that depends on place, plane and `seed` into the planes
// that lie in `fd_index`; nothing beside them.
void Paint(const v1::ImageLayout& layout, std::span<uint8_t> memory, int seed,
           uint32_t fd_index = 0);
// The planes' rows without what lies between them, in order.
std::string TightBytes(const v1::ImageLayout& layout,
                       std::span<const uint8_t> memory);
// The same layout without gaps.
v1::ImageLayout Tight(const v1::ImageLayout& layout);

ErrorReason ReasonOf(const absl::Status& status);
std::string FieldOf(const absl::Status& status);

// Waits until `holds`, at most ten seconds; false when it never did.
bool Await(const std::function<bool()>& holds);

// dma-bufs that the daemon holds open, by /proc.
int DaemonDmaBufs();
// All its descriptors.
int DaemonDescriptors();

class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override;

  Session& session() { return *session_; }
  // Whether the daemon takes work with this backend.
  bool HasBackend(const std::string& name);
  // The exporter, or a skip (a failure where devices are required) and null.
  std::unique_ptr<Exporter> Open(ExporterKind kind);

  // Registers a second descriptor of `fd`.
  absl::StatusOr<Buffer> Register(
      int fd, const v1::ImageLayout& layout,
      v1::BufferAccess access = v1::BUFFER_ACCESS_READ_WRITE);
  absl::StatusOr<v1::ConvertReply> Convert(
      const Buffer& source, const Buffer& destination,
      const std::string& backend = "cpu",
      v1::Filter filter = v1::FILTER_NEAREST);
  // What the exact backend makes of the same pixels, inside messages.
  std::string Expected(const v1::ImageLayout& source,
                       std::span<const uint8_t> memory,
                       const v1::ImageLayout& destination, v1::Filter filter);

 private:
  std::unique_ptr<Session> session_;
};

// Every element within `tolerance` of the expected one.
void ExpectNear(const std::string& got, const std::string& expected,
                int tolerance);

}  // namespace preprocd

#endif  // TESTS_VM_DEVICE_FIXTURE_H_
