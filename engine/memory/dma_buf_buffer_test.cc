// How a dma-buf is bracketed, counted where the kernel is asked: this program
// answers fstatfs, poll and ioctl itself for one memfd that passes as a
// dma-buf. Real ones: tests/vm.
#include "engine/memory/dma_buf_buffer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/dma-buf.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/memory/buffer_import.h"

namespace preprocd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// What the pretended driver was asked, and what it answers.
struct Driver {
  int fd = -1;
  std::vector<uint64_t> syncs;
  // Errors for the next syncs, in order; 0 and the end of the list succeed.
  std::vector<int> errors;
  bool fence_pending = false;
};
Driver driver;

constexpr uint64_t kStart = DMA_BUF_SYNC_START;
constexpr uint64_t kEnd = DMA_BUF_SYNC_END;
constexpr uint64_t kRead = DMA_BUF_SYNC_READ;
constexpr uint64_t kWrite = DMA_BUF_SYNC_WRITE;

}  // namespace
}  // namespace preprocd

// The library declares that poll only writes to its argument.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

extern "C" {

int fstatfs(int fd, struct statfs* facts) noexcept {
  if (fd == preprocd::driver.fd) {
    *facts = {};
    facts->f_type = 0x444d4142;
    return 0;
  }
  return static_cast<int>(syscall(SYS_fstatfs, fd, facts));
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  va_list arguments;
  va_start(arguments, request);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  preprocd::Driver& driver = preprocd::driver;
  if (fd != driver.fd || request != DMA_BUF_IOCTL_SYNC) {
    return static_cast<int>(syscall(SYS_ioctl, fd, request, argument));
  }
  driver.syncs.push_back(static_cast<const dma_buf_sync*>(argument)->flags);
  if (driver.errors.empty()) return 0;
  const int error = driver.errors.front();
  driver.errors.erase(driver.errors.begin());
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int poll(pollfd* fds, nfds_t count, int timeout) {
  if (count == 1 && fds->fd == preprocd::driver.fd) {
    if (preprocd::driver.fence_pending) return 0;
    fds->revents = fds->events;
    return 1;
  }
  return static_cast<int>(syscall(SYS_poll, fds, count, timeout));
}

}  // extern "C"

namespace preprocd {
namespace {

class DmaBufTest : public ::testing::Test {
 protected:
  void SetUp() override {
    UniqueFd fd = CreateMemfd("dma_buf_test", 8192).value();
    driver = {};
    driver.fd = fd.get();
    ImportOptions options;
    auto buffer = ImportBuffer(std::move(fd), options);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
    ASSERT_EQ(buffer_->kind(), BufferKind::kDmaBuf);
    ASSERT_THAT(driver.syncs, ElementsAre());
  }
  void TearDown() override { driver = {}; }

  std::shared_ptr<Buffer> buffer_;
};

TEST_F(DmaBufTest, EveryAccessIsBracketedInItsDirection) {
  {
    auto mapping = buffer_->Map(Access::kRead);
    ASSERT_TRUE(mapping.ok());
    EXPECT_THAT(driver.syncs, ElementsAre(kStart | kRead));
  }
  EXPECT_THAT(driver.syncs, ElementsAre(kStart | kRead, kEnd | kRead));
  driver.syncs.clear();
  {
    auto mapping = buffer_->Map(Access::kWrite);
    ASSERT_TRUE(mapping.ok());
    EXPECT_TRUE(mapping->Finish().ok());
    // The destructor has nothing left to end.
  }
  EXPECT_THAT(driver.syncs, ElementsAre(kStart | kWrite, kEnd | kWrite));
  driver.syncs.clear();
  {
    auto mapping = buffer_->Map(Access::kReadWrite);
    ASSERT_TRUE(mapping.ok());
    mapping->Abandon();
  }
  EXPECT_THAT(driver.syncs,
              ElementsAre(kStart | kRead | kWrite, kEnd | kRead | kWrite));
}

TEST_F(DmaBufTest, AMovedMappingEndsOnce) {
  {
    auto mapping = buffer_->Map(Access::kRead);
    ASSERT_TRUE(mapping.ok());
    Mapping moved = *std::move(mapping);
    Mapping again;
    again = std::move(moved);
    EXPECT_EQ(again.bytes().size(), 8192u);
  }
  EXPECT_THAT(driver.syncs, ElementsAre(kStart | kRead, kEnd | kRead));
}

// Without the start nothing may be touched, and there is nothing to end.
TEST_F(DmaBufTest, AStartThatFailsFailsTheAccess) {
  driver.errors = {EPERM};
  const auto mapping = buffer_->Map(Access::kWrite);
  EXPECT_EQ(mapping.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(GetErrorDetail(mapping.status())->reason, ErrorReason::kDmaBuf);
  EXPECT_THAT(std::string(mapping.status().message()),
              HasSubstr("Operation not permitted"));
  EXPECT_THAT(driver.syncs, ElementsAre(kStart | kWrite));
  EXPECT_TRUE(buffer_->Map(Access::kWrite).ok());
}

TEST_F(DmaBufTest, AnEndThatFailsIsTold) {
  auto mapping = buffer_->Map(Access::kWrite);
  ASSERT_TRUE(mapping.ok());
  driver.errors = {EIO};
  const absl::Status status = mapping->Finish();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(mapping->Finish().ok()) << "ended twice";
  EXPECT_THAT(driver.syncs, ElementsAre(kStart | kWrite, kEnd | kWrite));
}

TEST_F(DmaBufTest, AnInterruptedSyncIsAskedAgain) {
  driver.errors = {EINTR, EAGAIN, 0, EAGAIN};
  auto mapping = buffer_->Map(Access::kRead);
  ASSERT_TRUE(mapping.ok());
  EXPECT_TRUE(mapping->Finish().ok());
  EXPECT_THAT(driver.syncs,
              ElementsAre(kStart | kRead, kStart | kRead, kStart | kRead,
                          kEnd | kRead, kEnd | kRead));
}

// The sync ioctl would wait for the fence without a bound.
TEST_F(DmaBufTest, AFenceThatDoesNotSignalIsNotWaitedForInTheKernel) {
  driver.fence_pending = true;
  const auto mapping = buffer_->Map(Access::kRead);
  EXPECT_EQ(mapping.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(mapping.status().message()), HasSubstr("fence"));
  EXPECT_THAT(driver.syncs, ElementsAre());
}

}  // namespace
}  // namespace preprocd
