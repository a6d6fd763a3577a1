// A whole daemon below the transports, for tests: real engine, sessions and
// scheduler, no socket; and the pictures and memory that tests send to it.
// Owns: everything. Thread-safety: bound to the test's thread.
#ifndef DAEMON_SERVICE_SERVICE_FIXTURE_H_
#define DAEMON_SERVICE_SERVICE_FIXTURE_H_

#include <sys/types.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/exec/monotonic_clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace preprocd {

// Opens once. absl::Notification's ordering is invisible to ThreadSanitizer
// in Debian's build.
class Gate {
 public:
  void Open() {
    std::lock_guard<std::mutex> lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  void Wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    opened_.wait(lock, [this] { return open_; });
  }
  bool is_open() {
    std::lock_guard<std::mutex> lock(mutex_);
    return open_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
};

enum class Seals { kNone, kSize, kAll };

// A memfd that holds `bytes`.
UniqueFd MemfdWith(const std::string& bytes, Seals seals);
UniqueFd MemfdOfSize(size_t size, Seals seals);
// What a memfd holds now.
std::string ReadMemfd(int fd, size_t size);

// A JPEG file of a soft gradient; `orientation` 2..8 adds an EXIF block.
std::string GradientJpeg(int width, int height, int orientation = 1);
// Tight rgb pixels of a gradient.
std::string GradientRgb(int width, int height);

preproc::v1::ImageLayout MakeLayout(preproc::v1::PixelFormat format, int width,
                                    int height);

// Code, reason and field of a refusal.
void ExpectError(const absl::Status& status, absl::StatusCode code,
                 ErrorReason reason, const std::string& field = "");

class ServiceTest : public testing::Test {
 protected:
  explicit ServiceTest(const SessionLimits& limits = SessionLimits());
  ~ServiceTest() override;

  CallContext CallOf(const std::shared_ptr<Session>& session);
  CallContext Call() { return CallOf(session_); }
  CallContext AnonymousCall();

  // Runs one call to its end.
  absl::Status Convert(const preproc::v1::ConvertRequest& request,
                       preproc::v1::ConvertReply* reply);
  absl::Status ConvertAs(const CallContext& call,
                         const preproc::v1::ConvertRequest& request,
                         preproc::v1::ConvertReply* reply);
  absl::Status Decode(const preproc::v1::DecodeRequest& request,
                      preproc::v1::DecodeReply* reply);
  absl::Status Encode(const preproc::v1::EncodeRequest& request,
                      preproc::v1::EncodeReply* reply);

  // Registers one descriptor under `id`, generation 1.
  absl::Status Register(
      uint64_t id, UniqueFd fd,
      preproc::v1::BufferAccess access = preproc::v1::BUFFER_ACCESS_READ_WRITE,
      const preproc::v1::ImageLayout* layout = nullptr);
  // Registers and keeps a descriptor, to look at the memory afterwards.
  int RegisterKept(
      uint64_t id, UniqueFd fd,
      preproc::v1::BufferAccess access = preproc::v1::BUFFER_ACCESS_READ_WRITE,
      const preproc::v1::ImageLayout* layout = nullptr);

  Metrics metrics_;
  std::unique_ptr<Engine> engine_;
  SessionTable sessions_;
  Scheduler scheduler_;
  Service service_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<Session> other_session_;
  std::vector<UniqueFd> kept_;
};

// Holds the scheduler's only thread until released.
class BusyExecutor {
 public:
  explicit BusyExecutor(Scheduler& scheduler);
  ~BusyExecutor() { Release(); }
  void Release();

 private:
  Gate started_;
  Gate release_;
  Gate done_;
  bool released_ = false;
};

preproc::v1::Source BufferSource(uint64_t id);
preproc::v1::Source InlineSource(const std::string& bytes);
preproc::v1::Destination BufferDestination(uint64_t id);
preproc::v1::Destination InlineDestination();
// `source` scaled to width x height rgb.
preproc::v1::ConvertRequest ResizeRequest(preproc::v1::Source source,
                                          preproc::v1::Destination destination,
                                          int width, int height);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_SERVICE_FIXTURE_H_
