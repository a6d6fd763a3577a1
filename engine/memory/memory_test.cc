#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/memory/allocator.h"
#include "engine/memory/buffer.h"
#include "engine/memory/buffer_import.h"

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

namespace preprocd {
namespace {

constexpr uint64_t kSize = 8192;

UniqueFd Memfd(uint64_t size = kSize) {
  auto fd = CreateMemfd("test", size);
  EXPECT_TRUE(fd.ok()) << fd.status();
  return *std::move(fd);
}

UniqueFd SizedMemfd(uint64_t size = kSize) {
  UniqueFd fd = Memfd(size);
  EXPECT_TRUE(SealSize(fd.get()).ok());
  return fd;
}

absl::StatusOr<std::shared_ptr<Buffer>> Import(
    UniqueFd fd, Access access = Access::kReadWrite,
    uint64_t max_bytes = 1 << 20) {
  ImportOptions options;
  options.access = access;
  options.max_bytes = max_bytes;
  return ImportBuffer(std::move(fd), options);
}

ErrorReason ReasonOf(const absl::Status& status) {
  const auto detail = GetErrorDetail(status);
  return detail ? detail->reason : ErrorReason::kUnspecified;
}

TEST(ImportTest, ASealedMemfdIsMappedAndShared) {
  UniqueFd fd = SizedMemfd();
  const int raw = dup(fd.get());
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->kind(), BufferKind::kMemfd);
  EXPECT_EQ((*buffer)->size_bytes(), kSize);
  EXPECT_TRUE((*buffer)->writable());
  EXPECT_FALSE((*buffer)->immutable());
  auto mapping = (*buffer)->Map(Access::kReadWrite);
  ASSERT_TRUE(mapping.ok());
  mapping->bytes()[5] = std::byte{42};
  EXPECT_TRUE(mapping->Finish().ok());
  EXPECT_EQ(mapping->bytes_copied(), 0u);
  char seen = 0;
  ASSERT_EQ(pread(raw, &seen, 1, 5), 1);
  EXPECT_EQ(seen, 42);
  close(raw);
}

TEST(ImportTest, TheSameFileHasTheSameIdentity) {
  UniqueFd fd = SizedMemfd();
  const auto a = Import(*fd.Duplicate());
  const auto b = Import(*fd.Duplicate());
  const auto c = Import(SizedMemfd());
  EXPECT_EQ((*a)->identity(), (*b)->identity());
  EXPECT_FALSE((*a)->identity() == (*c)->identity());
}

TEST(ImportTest, AnUnsealedMemfdIsCopiedNeverMapped) {
  UniqueFd fd = Memfd();
  const int raw = dup(fd.get());
  ASSERT_EQ(pwrite(raw, "hello", 5, 0), 5);
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->kind(), BufferKind::kMemfdCopy);
  EXPECT_TRUE((*buffer)->copies());
  auto mapping = (*buffer)->Map(Access::kReadWrite);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(memcmp(mapping->bytes().data(), "hello", 5), 0);
  memcpy(mapping->bytes().data(), "HELLO", 5);
  char seen[5] = {};
  ASSERT_EQ(pread(raw, seen, 5, 0), 5);
  EXPECT_EQ(memcmp(seen, "hello", 5), 0) << "written before Finish";
  ASSERT_TRUE(mapping->Finish().ok());
  EXPECT_EQ(mapping->bytes_copied(), 2 * kSize);
  ASSERT_EQ(pread(raw, seen, 5, 0), 5);
  EXPECT_EQ(memcmp(seen, "HELLO", 5), 0);

  // After a failed job the client's bytes stay.
  auto second = (*buffer)->Map(Access::kReadWrite);
  memcpy(second->bytes().data(), "-----", 5);
  second->Abandon();
  ASSERT_EQ(pread(raw, seen, 5, 0), 5);
  EXPECT_EQ(memcmp(seen, "HELLO", 5), 0);
  close(raw);
}

TEST(ImportTest, AFileThatShrinksIsAnErrorNotASignal) {
  UniqueFd fd = Memfd();
  const int raw = dup(fd.get());
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok());
  auto mapping = (*buffer)->Map(Access::kReadWrite);
  ASSERT_TRUE(mapping.ok());
  ASSERT_EQ(ftruncate(raw, 10), 0);
  EXPECT_EQ(ReasonOf(mapping->Finish()), ErrorReason::kBufferTooSmall);
  EXPECT_EQ(ReasonOf((*buffer)->Map(Access::kRead).status()),
            ErrorReason::kBufferTooSmall);
  // The file did not grow behind its owner's back.
  EXPECT_EQ(lseek(raw, 0, SEEK_END), 10);
  close(raw);
}

// A size that was read before the seals were could be larger than the file
// that is mapped: a fault past its end would end the daemon.
TEST(ImportTest, AFileSealedDuringImportIsNeverMappedPastItsEnd) {
  constexpr int kRounds = 100;
  std::atomic<int> begun = 0;
  std::atomic<int> ended = 0;
  std::atomic<int> shared_fd = -1;
  std::thread client([&] {
    for (int round = 1; round <= kRounds; ++round) {
      // Spins: a thread that has to be woken comes too late.
      while (begun.load() < round) {
      }
      // Moves the seals over the whole of the import.
      for (int spin = 0; spin < (round % 100) * 64; ++spin) ended.load();
      EXPECT_EQ(ftruncate(shared_fd.load(), kSize), 0);
      EXPECT_TRUE(SealSize(shared_fd.load()).ok());
      ended = round;
    }
  });
  int past_the_end = 0;
  for (int round = 1; round <= kRounds; ++round) {
    UniqueFd fd = Memfd(64 * kSize);
    const UniqueFd owner = *fd.Duplicate();
    shared_fd = owner.get();
    begun = round;
    const auto buffer = Import(std::move(fd), Access::kRead);
    while (ended.load() < round) std::this_thread::yield();
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    if (buffer.ok() && (*buffer)->kind() == BufferKind::kMemfd &&
        (*buffer)->size_bytes() != kSize) {
      ++past_the_end;
    }
  }
  client.join();
  EXPECT_EQ(past_the_end, 0);
}

TEST(ImportTest, AHugePageMemfdIsReadByCopyNeverMapped) {
  constexpr uint64_t kHugePage = 2 << 20;
  UniqueFd fd(
      memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!fd.valid() || ftruncate(fd.get(), kHugePage) != 0 ||
      !SealSize(fd.get()).ok()) {
    GTEST_SKIP() << "no huge-page memfds here";
  }
  EXPECT_EQ(
      ReasonOf(Import(*fd.Duplicate(), Access::kReadWrite, 1 << 22).status()),
      ErrorReason::kBufferKind);
  const auto buffer = Import(std::move(fd), Access::kRead, 1 << 22);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->kind(), BufferKind::kMemfdCopy);
  // No page of it exists: mapped, the machine's pool would decide.
  const auto mapping = (*buffer)->Map(Access::kRead);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(mapping->bytes()[kHugePage - 1], std::byte{0});
}

TEST(ImportTest, AMemfdMadeWithoutSealingWorksByCopy) {
  UniqueFd fd(memfd_create("plain", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), kSize), 0);
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->kind(), BufferKind::kMemfdCopy);
  EXPECT_FALSE((*buffer)->immutable());
}

TEST(ImportTest, AMemfdSealedAfterImportIsAnErrorOfItsOwner) {
  UniqueFd fd = Memfd();
  const UniqueFd owner = *fd.Duplicate();
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok());
  auto mapping = (*buffer)->Map(Access::kWrite);
  ASSERT_TRUE(mapping.ok());
  ASSERT_TRUE(SealImmutable(owner.get()).ok());
  const absl::Status status = mapping->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kBufferSealed);
}

TEST(ImportTest, RefusedDescriptorsAreClosed) {
  std::array<int, 2> ends = {};
  ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
  const UniqueFd reader(ends[0]);
  EXPECT_FALSE(Import(UniqueFd(ends[1]), Access::kRead).ok());
  char byte = 0;
  EXPECT_EQ(read(reader.get(), &byte, 1), 0) << "the write end is still open";
}

TEST(ImportTest, PunchedHolesReadAsZeros) {
  UniqueFd fd = SizedMemfd();
  const int raw = dup(fd.get());
  const auto buffer = Import(std::move(fd));
  ASSERT_TRUE(buffer.ok());
  auto mapping = (*buffer)->Map(Access::kReadWrite);
  mapping->bytes()[0] = std::byte{1};
  ASSERT_EQ(fallocate(raw, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                      static_cast<off_t>(kSize)),
            0);
  EXPECT_EQ(mapping->bytes()[0], std::byte{0});
  close(raw);
}

TEST(ImportTest, SealsDecideWhatIsAllowed) {
  UniqueFd immutable = Memfd();
  ASSERT_TRUE(SealImmutable(immutable.get()).ok());
  EXPECT_EQ(ReasonOf(Import(*immutable.Duplicate()).status()),
            ErrorReason::kBufferSealed);
  const auto read = Import(std::move(immutable), Access::kRead);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE((*read)->immutable());
  EXPECT_FALSE((*read)->writable());
  EXPECT_EQ(ReasonOf((*read)->Map(Access::kWrite).status()),
            ErrorReason::kBufferReadOnly);
  EXPECT_TRUE((*read)->Map(Access::kRead).ok());

  // The owner may still write through its old mapping: not immutable.
  UniqueFd future = SizedMemfd();
  ASSERT_EQ(fcntl(future.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE), 0);
  EXPECT_FALSE(Import(*future.Duplicate()).ok());
  const auto future_read = Import(std::move(future), Access::kRead);
  ASSERT_TRUE(future_read.ok()) << future_read.status();
  EXPECT_FALSE((*future_read)->immutable());
}

TEST(ImportTest, AReadOnlyDescriptorCannotBeWritten) {
  const UniqueFd fd = SizedMemfd();
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  UniqueFd read_only(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_EQ(ReasonOf(Import(*read_only.Duplicate()).status()),
            ErrorReason::kBufferSealed);
  EXPECT_TRUE(Import(std::move(read_only), Access::kRead).ok());
}

TEST(ImportTest, OtherKindsAreRefused) {
  std::array<int, 2> pipe_fds = {};
  ASSERT_EQ(pipe2(pipe_fds.data(), O_CLOEXEC), 0);
  std::vector<UniqueFd> wrong;
  wrong.emplace_back(pipe_fds[0]);
  wrong.emplace_back(pipe_fds[1]);
  wrong.emplace_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  wrong.emplace_back(open("/dev/null", O_RDWR | O_CLOEXEC));
  wrong.emplace_back(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  wrong.emplace_back(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  wrong.emplace_back(open("/", O_PATH | O_CLOEXEC));
  wrong.emplace_back(eventfd(0, EFD_CLOEXEC));
  wrong.emplace_back(-1);
  for (UniqueFd& fd : wrong) {
    const absl::Status status = Import(std::move(fd), Access::kRead).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(ReasonOf(status), ErrorReason::kBufferKind) << status;
  }
}

TEST(ImportTest, AFileOfDevShmIsNotAMemfd) {
  const std::string name = "/preprocd-test-" + std::to_string(getpid());
  UniqueFd fd(shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600));
  if (!fd.valid()) GTEST_SKIP() << "no /dev/shm here";
  shm_unlink(name.c_str());
  ASSERT_EQ(ftruncate(fd.get(), 4096), 0);
  EXPECT_EQ(ReasonOf(Import(std::move(fd)).status()), ErrorReason::kBufferKind);
}

TEST(ImportTest, SizeIsBoundedAndNotEmpty) {
  EXPECT_EQ(ReasonOf(Import(SizedMemfd(1 << 21)).status()),
            ErrorReason::kTooLarge);
  // Sparse: no page is there, but reading would make them all.
  EXPECT_EQ(ReasonOf(Import(SizedMemfd(uint64_t{1} << 40)).status()),
            ErrorReason::kTooLarge);
  UniqueFd empty(memfd_create("empty", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ReasonOf(Import(std::move(empty)).status()),
            ErrorReason::kBufferTooSmall);
}

TEST(AllocatorTest, MemfdsAreSealedAgainstSizeChanges) {
  const auto buffer = AllocateBuffer(AllocatorKind::kMemfd, 100, "test");
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ((*buffer)->kind(), BufferKind::kMemfd);
  EXPECT_EQ((*buffer)->size_bytes(), 100u);
  EXPECT_NE(ftruncate((*buffer)->fd(), 50), 0);
  EXPECT_NE(ftruncate((*buffer)->fd(), 500), 0);
  EXPECT_NE(fcntl((*buffer)->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_TRUE(
      std::ranges::all_of((*buffer)->Map(Access::kRead)->bytes(),
                          [](std::byte b) { return b == std::byte{}; }));
  EXPECT_FALSE(AllocateBuffer(AllocatorKind::kMemfd, 0, "test").ok());
}

TEST(AllocatorTest, SealedCopyCannotChange) {
  const std::string text = "encoded";
  const auto fd = MakeSealedMemfd(
      std::as_bytes(std::span(text.data(), text.size())), "test");
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_LT(pwrite(fd->get(), "x", 1, 0), 0);
  const auto buffer = Import(*fd->Duplicate(), Access::kRead);
  ASSERT_TRUE(buffer.ok());
  EXPECT_TRUE((*buffer)->immutable());
}

TEST(AllocatorTest, DmaBufsRoundTripWhereTheMachineHasThem) {
  int tried = 0;
  for (const AllocatorStatus& status : ProbeAllocators()) {
    if (status.kind == AllocatorKind::kMemfd) continue;
    if (!status.available) {
      const absl::Status refused =
          AllocateBuffer(status.kind, 4096, "test").status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
      EXPECT_NE(refused.message().find(status.detail), absl::string_view::npos);
      continue;
    }
    ++tried;
    const auto buffer = AllocateBuffer(status.kind, 5000, "test");
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    EXPECT_EQ((*buffer)->kind(), BufferKind::kDmaBuf);
    EXPECT_GE((*buffer)->size_bytes(), 5000u);
    auto mapping = (*buffer)->Map(Access::kReadWrite);
    ASSERT_TRUE(mapping.ok()) << mapping.status();
    mapping->bytes()[4999] = std::byte{7};
    EXPECT_TRUE(mapping->Finish().ok());
    EXPECT_EQ((*buffer)->Map(Access::kRead)->bytes()[4999], std::byte{7});
  }
  if (tried == 0) GTEST_SKIP() << "this machine exports no dma-bufs";
}

}  // namespace
}  // namespace preprocd
