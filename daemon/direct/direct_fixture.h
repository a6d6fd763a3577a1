// A direct server on a real socket with a whole daemon below it, and clients
// that speak the protocol byte by byte.
// Owns: everything. Thread-safety: bound to the test's thread.
#ifndef DAEMON_DIRECT_DIRECT_FIXTURE_H_
#define DAEMON_DIRECT_DIRECT_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/direct/direct_server.h"
#include "daemon/service/service_fixture.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {

class DirectClient {
 public:
  enum class Start { kHello, kSilent };
  explicit DirectClient(const std::string& path, Start start = Start::kHello);

  // Frames get the next request id unless they have one.
  uint64_t Send(preproc::v1::ClientFrame frame,
                const std::vector<int>& fds = {});
  void SendBytes(const std::string& bytes, const std::vector<int>& fds = {});
  // The next frame and its descriptors (in `fds`).
  preproc::v1::ServerFrame Receive();
  preproc::v1::ServerFrame Call(const preproc::v1::ClientFrame& frame,
                                const std::vector<int>& fds = {});
  // Whether the daemon closed the connection; waits for it.
  bool AtEnd();
  // Whether an echo comes back: the session goes on.
  bool Works();
  void Close() { socket_.reset(); }
  int socket() const { return socket_.get(); }

  preproc::v1::Welcome welcome;
  std::vector<UniqueFd> fds;

 private:
  UniqueFd socket_;
  uint64_t next_id_ = 1;
};

preproc::v1::ClientFrame HelloFrame(uint32_t min_version, uint32_t max_version);
preproc::v1::ClientFrame EchoFrame(const std::string& payload);
preproc::v1::ClientFrame RegisterFrame(
    uint64_t buffer_id,
    preproc::v1::BufferAccess access = preproc::v1::BUFFER_ACCESS_READ_WRITE);
preproc::v1::ClientFrame ConvertFrame(
    const preproc::v1::ConvertRequest& request);

// The reply is an error with this code and reason.
void ExpectErrorReply(const preproc::v1::ServerFrame& frame,
                      absl::StatusCode code, preproc::v1::ErrorReason reason);

// The process may open no descriptor while it lives.
class NoDescriptors {
 public:
  NoDescriptors();
  ~NoDescriptors();

 private:
  uint64_t old_soft_ = 0;
};

int OpenDescriptors();

class DirectTest : public ServiceTest {
 protected:
  explicit DirectTest(const SessionLimits& limits = SessionLimits());
  ~DirectTest() override;

  void StartServer(const DirectServerOptions& options = {});
  // Waits until the condition holds; false after a long time.
  template <typename Condition>
  static bool Eventually(Condition condition) {
    const int64_t end_ns = MonotonicNs() + 20'000'000'000;
    while (!condition()) {
      if (MonotonicNs() > end_ns) return false;
      Yield();
    }
    return true;
  }
  static void Yield();

  // A client with a gradient of 64x48 rgb in buffer 1 and room for
  // 32x24 rgb in buffer 2, which is returned for reading.
  UniqueFd RegisterPictures(DirectClient& client);
  static preproc::v1::ClientFrame SmallConvert();

  std::string folder_;
  std::string path_;
  std::unique_ptr<DirectServer> server_;
};

}  // namespace preprocd

#endif  // DAEMON_DIRECT_DIRECT_FIXTURE_H_
