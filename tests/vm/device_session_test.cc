// What belongs to a session: memory that the daemon allocates, and everything
// when a client dies.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "preprocd/admin.h"
#include "tests/vm/device_fixture.h"
#include "tests/vm/device_memory.h"

namespace preprocd {
namespace {

using ::testing::HasSubstr;

constexpr int kHeld = 5;
constexpr char kHoldVariable[] = "DEVICE_TEST_HOLD";

class AllocationTest : public DeviceTest,
                       public ::testing::WithParamInterface<v1::AllocatorKind> {
};

INSTANTIATE_TEST_SUITE_P(Daemon, AllocationTest,
                         ::testing::Values(v1::ALLOCATOR_KIND_DMA_HEAP,
                                           v1::ALLOCATOR_KIND_UDMABUF),
                         [](const auto& param) {
                           return v1::AllocatorKind_Name(param.param);
                         });

// Strides that devices want, whole pages, and the same bytes at both ends.
TEST_P(AllocationTest, TheDaemonsBufferServesBothEnds) {
  v1::AllocateBufferRequest request;
  request.set_allocator(GetParam());
  request.mutable_layout()->set_format(v1::PIXEL_FORMAT_RGB);
  request.mutable_layout()->set_width(50);
  request.mutable_layout()->set_height(30);
  auto destination = session().AllocateBuffer(request);
  ASSERT_TRUE(destination.ok()) << destination.status();
  ASSERT_EQ(destination->layout().planes_size(), 1);
  EXPECT_EQ(destination->layout().planes(0).stride_bytes(), 192u);
  EXPECT_EQ(destination->size_bytes(), KernelSize(destination->fd()));
  EXPECT_EQ(destination->size_bytes() % 4096, 0u);
  {
    const CpuAccess memory(destination->fd());
    ASSERT_FALSE(memory.bytes().empty());
    EXPECT_TRUE(std::all_of(memory.bytes().begin(), memory.bytes().end(),
                            [](uint8_t byte) { return byte == 0; }));
  }
  v1::ImageLayout source_layout = Picture(v1::PIXEL_FORMAT_RGB, 50, 30, {});
  auto source = session().CreateBuffer(50 * 30 * 3, source_layout);
  ASSERT_TRUE(source.ok()) << source.status();
  const std::span<uint8_t> bytes(
      reinterpret_cast<uint8_t*>(source->bytes().data()),
      source->bytes().size());
  *source_layout.add_planes() = v1::Plane();
  source_layout.mutable_planes(0)->set_stride_bytes(150);
  Paint(source_layout, bytes, 7);
  ASSERT_TRUE(Convert(*source, *destination).ok());
  const CpuAccess memory(destination->fd(), false);
  EXPECT_EQ(TightBytes(destination->layout(), memory.bytes()),
            TightBytes(source_layout, bytes));
}

// What the session may not have is refused, and costs the kernel nothing.
TEST_P(AllocationTest, MoreThanTheQuotaIsRefused) {
  const int before = DaemonDmaBufs();
  v1::AllocateBufferRequest request;
  request.set_allocator(GetParam());
  request.set_size_bytes(
      static_cast<uint64_t>(session().limits().max_bytes_per_session() + 1));
  const absl::Status status = session().AllocateBuffer(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kQuota);
  // Fewer when an earlier session was still ending.
  EXPECT_LE(DaemonDmaBufs(), before);
}

// More than the machine has, within the quota: an answer, not an end.
TEST_P(AllocationTest, MoreThanTheMachineHasIsAnAnswer) {
  auto admin = Admin::Connect(AdminAddress(""));
  ASSERT_TRUE(admin.ok()) << admin.status();
  v1::SetLimitsRequest limits;
  limits.set_max_bytes_per_session(int64_t{1} << 40);
  ASSERT_TRUE((*admin)->SetLimits(limits).ok());
  v1::AllocateBufferRequest request;
  request.set_allocator(GetParam());
  request.set_size_bytes(uint64_t{1} << 38);
  const absl::Status status = session().AllocateBuffer(request).status();
  limits.set_max_bytes_per_session(session().limits().max_bytes_per_session());
  ASSERT_TRUE((*admin)->SetLimits(limits).ok());
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  EXPECT_EQ(ReasonOf(status), ErrorReason::kDmaBuf);
  EXPECT_EQ(FieldOf(status), "size_bytes");
  request.set_size_bytes(4096);
  EXPECT_TRUE(session().AllocateBuffer(request).ok());
}

// A client that holds buffers of every exporter, has one convert in flight
// that waits for a fence, and is killed.
class DeadClientTest : public DeviceTest {
 protected:
  void StartClient() {
    std::array<int, 2> ends = {-1, -1};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, write_end.get(), STDOUT_FILENO);
    std::array<char*, 2> arguments = {const_cast<char*>("device_test"),
                                      nullptr};
    ASSERT_EQ(setenv(kHoldVariable, "1", 1), 0);
    const int started = posix_spawn(&client_, "/proc/self/exe", &actions,
                                    nullptr, arguments.data(), environ);
    unsetenv(kHoldVariable);
    posix_spawn_file_actions_destroy(&actions);
    ASSERT_EQ(started, 0);
    write_end.reset();
    std::string said;
    char byte = 0;
    while (said.find("ready\n") == std::string::npos &&
           read(read_end.get(), &byte, 1) == 1) {
      said.push_back(byte);
    }
    ASSERT_THAT(said, HasSubstr("ready\n"));
  }

  pid_t client_ = -1;
};

int Sessions(Admin& admin) {
  const auto sessions = admin.ListSessions();
  return sessions.ok() ? sessions->sessions_size() : -1;
}

TEST_F(DeadClientTest, EverythingItHeldIsReleased) {
  auto admin = Admin::Connect(AdminAddress(""));
  ASSERT_TRUE(admin.ok()) << admin.status();
  ASSERT_TRUE(Await([&] { return DaemonDmaBufs() == 0; }));
  const int sessions = Sessions(**admin);
  const int descriptors = DaemonDescriptors();
  StartClient();
  ASSERT_FALSE(HasFatalFailure());
  // A descriptor that was received is closed after its reply was sent.
  EXPECT_TRUE(Await([&] { return DaemonDmaBufs() == kHeld; }))
      << DaemonDmaBufs();
  EXPECT_EQ(Sessions(**admin), sessions + 1);
  ASSERT_EQ(kill(client_, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(client_, &status, 0), client_);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(Await([&] { return Sessions(**admin) == sessions; }));
  EXPECT_TRUE(Await([&] { return DaemonDmaBufs() == 0; })) << DaemonDmaBufs();
  EXPECT_TRUE(Await([&] { return DaemonDescriptors() == descriptors; }));
}

// Memory that the daemon makes and fills is the daemon's: beyond the bound of
// its unit the kernel ends it. The client is told, and nothing hangs.
TEST(MemoryLimitTest, ADaemonThatIsEndedIsUnavailable) {
  const char* bound = getenv("PREPROCD_MEMORY_MAX");
  if (bound == nullptr) GTEST_SKIP() << "for service_job.sh";
  auto session = Session::Connect({});
  ASSERT_TRUE(session.ok()) << session.status();
  v1::AllocateBufferRequest allocation;
  allocation.set_allocator(v1::ALLOCATOR_KIND_MEMFD);
  allocation.mutable_layout()->set_format(v1::PIXEL_FORMAT_RGBA);
  allocation.mutable_layout()->set_width(16384);
  allocation.mutable_layout()->set_height(4096);
  auto destination = (*session)->AllocateBuffer(allocation);
  ASSERT_TRUE(destination.ok()) << destination.status();
  ASSERT_GT(destination->size_bytes(), strtoull(bound, nullptr, 10));
  v1::ConvertRequest request;
  request.mutable_source()->set_inline_bytes(std::string(16 * 16 * 4, 'x'));
  request.mutable_source()->mutable_layout()->set_format(v1::PIXEL_FORMAT_RGBA);
  request.mutable_source()->mutable_layout()->set_width(16);
  request.mutable_source()->mutable_layout()->set_height(16);
  *request.mutable_destination()->mutable_buffer() = destination->ref();
  request.mutable_spec()->set_filter(v1::FILTER_NEAREST);
  const absl::Status status = (*session)->Convert(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
}

// The client's side of EverythingItHeldIsReleased; never returns.
void Hold() {
  auto session = Session::Connect({});
  std::vector<Buffer> held;
  const auto keep = [&](absl::StatusOr<Buffer> buffer) {
    if (!buffer.ok()) {
      printf("%s\n", buffer.status().ToString().c_str());
      exit(1);
    }
    held.push_back(*std::move(buffer));
  };
  const auto import = [&](int fd) {
    ImportOptions options;
    options.fds.emplace_back(dup(fd));
    options.layout = Picture(v1::PIXEL_FORMAT_GREY, 16, 16, {{0, 0, 16}});
    keep((*session)->ImportBuffer(std::move(options)));
  };
  auto fenced = FencedBuffer::Create(4096);
  if (!session.ok() || !fenced.ok() || !fenced->Attach(true).ok()) exit(1);
  import(fenced->fd());
  for (const ExporterKind kind :
       {ExporterKind::kHeap, ExporterKind::kUdmabuf}) {
    const auto exporter = OpenExporter(kind);
    if (!exporter.ok()) exit(1);
    const auto fd = (*exporter)->Export(4096, true);
    if (!fd.ok()) exit(1);
    import(fd->get());
  }
  for (const v1::AllocatorKind kind :
       {v1::ALLOCATOR_KIND_DMA_HEAP, v1::ALLOCATOR_KIND_UDMABUF}) {
    v1::AllocateBufferRequest request;
    request.set_allocator(kind);
    request.set_size_bytes(8192);
    keep((*session)->AllocateBuffer(request));
  }
  printf("ready\n");
  fflush(stdout);
  // Waits for the fence, and for the end.
  v1::ConvertRequest request;
  *request.mutable_source()->mutable_buffer() = held[0].ref();
  *request.mutable_destination()->mutable_buffer() = held[1].ref();
  while (true) (void)(*session)->Convert(request);
}

}  // namespace
}  // namespace preprocd

int main(int argc, char** argv) {
  if (getenv(preprocd::kHoldVariable) != nullptr) preprocd::Hold();
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
