#include "tests/vm/device_fixture.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace preprocd {
namespace {

int CountDescriptors(const std::string& prefix) {
  const char* pid = getenv("PREPROCD_PID");
  if (pid == nullptr) return -1;
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(
           absl::StrCat("/proc/", pid, "/fd"), error)) {
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (!error && target.string().rfind(prefix, 0) == 0) ++count;
  }
  return count;
}

int Planes(const v1::ImageLayout& layout) {
  return layout.format() == v1::PIXEL_FORMAT_NV12 ? 2 : 1;
}

}  // namespace

v1::ImageLayout Picture(v1::PixelFormat format, int width, int height,
                        const std::vector<PlaneAt>& planes) {
  v1::ImageLayout layout;
  layout.set_format(format);
  layout.set_width(width);
  layout.set_height(height);
  layout.mutable_color()->set_matrix(v1::MATRIX_COEFFICIENTS_BT601);
  layout.mutable_color()->set_range(v1::COLOR_RANGE_FULL);
  for (const PlaneAt& at : planes) {
    v1::Plane* plane = layout.add_planes();
    plane->set_fd_index(at.fd_index);
    plane->set_offset_bytes(at.offset_bytes);
    plane->set_stride_bytes(at.stride_bytes);
  }
  return layout;
}

uint64_t RowBytes(const v1::ImageLayout& layout, int plane) {
  const auto width = static_cast<uint64_t>(layout.width());
  switch (layout.format()) {
    case v1::PIXEL_FORMAT_RGB:
      return 3 * width;
    case v1::PIXEL_FORMAT_RGBA:
      return 4 * width;
    case v1::PIXEL_FORMAT_NV12:
      return plane == 0 ? width : (width + 1) / 2 * 2;
    default:
      return width;
  }
}

int Rows(const v1::ImageLayout& layout, int plane) {
  return plane == 0 ? layout.height() : (layout.height() + 1) / 2;
}

void Paint(const v1::ImageLayout& layout, std::span<uint8_t> memory, int seed,
           uint32_t fd_index) {
  for (int p = 0; p < Planes(layout); ++p) {
    const v1::Plane& plane = layout.planes(p);
    if (plane.fd_index() != fd_index) continue;
    for (int y = 0; y < Rows(layout, p); ++y) {
      const std::span<uint8_t> row =
          memory.subspan(plane.offset_bytes() +
                             static_cast<uint64_t>(y) * plane.stride_bytes(),
                         RowBytes(layout, p));
      for (size_t x = 0; x < row.size(); ++x) {
        row[x] = static_cast<uint8_t>(x * 5 + static_cast<size_t>(y) * 3 +
                                      static_cast<size_t>(p) * 61 +
                                      static_cast<size_t>(seed) * 37);
      }
    }
  }
}

std::string TightBytes(const v1::ImageLayout& layout,
                       std::span<const uint8_t> memory) {
  std::string tight;
  for (int p = 0; p < Planes(layout); ++p) {
    const v1::Plane& plane = layout.planes(p);
    for (int y = 0; y < Rows(layout, p); ++y) {
      const auto row =
          memory.subspan(plane.offset_bytes() +
                             static_cast<uint64_t>(y) * plane.stride_bytes(),
                         RowBytes(layout, p));
      tight.append(row.begin(), row.end());
    }
  }
  return tight;
}

v1::ImageLayout Tight(const v1::ImageLayout& layout) {
  v1::ImageLayout tight = layout;
  tight.clear_planes();
  return tight;
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->reason : ErrorReason::kUnspecified;
}

std::string FieldOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->field : "";
}

bool Await(const std::function<bool()>& holds) {
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (!holds()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(2));
  }
  return true;
}

int DaemonDmaBufs() { return CountDescriptors("/dmabuf"); }
int DaemonDescriptors() { return CountDescriptors(""); }

void DeviceTest::SetUp() {
  ASSERT_NE(getenv("PREPROCD_RUNTIME_DIR"), nullptr)
      << "tests/vm/device_job.sh runs this program beside a daemon";
  SessionOptions options;
  options.client_name = "device_test";
  auto session = Session::Connect(std::move(options));
  ASSERT_TRUE(session.ok()) << session.status();
  session_ = *std::move(session);
}

bool DeviceTest::HasBackend(const std::string& name) {
  const auto capabilities = session_->Capabilities();
  EXPECT_TRUE(capabilities.ok()) << capabilities.status();
  if (!capabilities.ok()) return false;
  for (const v1::BackendCapability& backend : capabilities->backends()) {
    if (backend.name() == name) return backend.available();
  }
  return false;
}

std::unique_ptr<Exporter> DeviceTest::Open(ExporterKind kind) {
  auto exporter = OpenExporter(kind);
  if (exporter.ok()) return *std::move(exporter);
  const char* devices = getenv("PREPROCD_DEVICES");
  if (devices != nullptr && strcmp(devices, "required") == 0) {
    ADD_FAILURE() << exporter.status();
  }
  return nullptr;
}

absl::StatusOr<Buffer> DeviceTest::Register(int fd,
                                            const v1::ImageLayout& layout,
                                            v1::BufferAccess access) {
  ImportOptions options;
  options.fds.emplace_back(dup(fd));
  options.layout = layout;
  options.access = access;
  return session_->ImportBuffer(std::move(options));
}

absl::StatusOr<v1::ConvertReply> DeviceTest::Convert(const Buffer& source,
                                                     const Buffer& destination,
                                                     const std::string& backend,
                                                     v1::Filter filter) {
  v1::ConvertRequest request;
  *request.mutable_source()->mutable_buffer() = source.ref();
  *request.mutable_destination()->mutable_buffer() = destination.ref();
  request.mutable_spec()->set_filter(filter);
  request.mutable_options()->add_backends(backend);
  return session_->Convert(request);
}

std::string DeviceTest::Expected(const v1::ImageLayout& source,
                                 std::span<const uint8_t> memory,
                                 const v1::ImageLayout& destination,
                                 v1::Filter filter) {
  const std::string pixels = TightBytes(source, memory);
  const auto buffer = session_->CreateBufferFromBytes(
      std::as_bytes(std::span(pixels.data(), pixels.size())), Tight(source));
  EXPECT_TRUE(buffer.ok()) << buffer.status();
  if (!buffer.ok()) return "";
  v1::ConvertRequest request;
  *request.mutable_source()->mutable_buffer() = buffer->ref();
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
  *request.mutable_destination()->mutable_layout() = Tight(destination);
  request.mutable_spec()->set_filter(filter);
  request.mutable_options()->add_backends("reference");
  const auto reply = session_->Convert(request);
  EXPECT_TRUE(reply.ok()) << reply.status();
  return reply.ok() ? reply->inline_bytes() : std::string();
}

void ExpectNear(const std::string& got, const std::string& expected,
                int tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    const int a = static_cast<uint8_t>(got[i]);
    const int b = static_cast<uint8_t>(expected[i]);
    ASSERT_LE(std::abs(a - b), tolerance)
        << "element " << i << ": " << a << " instead of " << b;
  }
}

}  // namespace preprocd
