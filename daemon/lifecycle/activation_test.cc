// Sockets passed by the service manager. Each case runs in a child, because
// passed descriptors have fixed numbers.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

#include "daemon/lifecycle/listen_sockets.h"

namespace preprocd {
namespace {

constexpr int kFirstPassed = 3;

struct Passed {
  const char* name;
  int type;
  bool listening = true;
};

class ActivationTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "actXXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // In a child: passes the sockets, opens them, prints what came of it and
  // exits with 0 if they were taken.
  [[noreturn]] void OpenPassed(const std::vector<Passed>& passed) const {
    std::vector<int> fds;
    std::string names;
    for (const Passed& p : passed) {
      sockaddr_un address = {};
      address.sun_family = AF_UNIX;
      const std::string path =
          root_ + "/" + std::to_string(fds.size()) + p.name;
      strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
      unlink(path.c_str());  // of the case before
      const int fd = socket(AF_UNIX, p.type, 0);
      if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) !=
              0 ||
          (p.listening && listen(fd, 1) != 0)) {
        _exit(50);
      }
      // Out of the way of the numbers that they shall have.
      fds.push_back(fcntl(fd, F_DUPFD, 100));
      names += (names.empty() ? "" : ":") + std::string(p.name);
    }
    for (size_t i = 0; i < fds.size(); ++i) {
      dup2(fds[i], kFirstPassed + static_cast<int>(i));
    }
    setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
    setenv("LISTEN_FDS", std::to_string(fds.size()).c_str(), 1);
    setenv("LISTEN_FDNAMES", names.c_str(), 1);
    const auto sockets = OpenListenSockets(root_ + "/unused");
    if (!sockets.ok()) {
      std::cerr << sockets.status() << "\n";
      _exit(1);
    }
    const bool as_passed = sockets->activated && !sockets->lock.valid() &&
                           sockets->made_paths.empty() &&
                           sockets->grpc.get() == kFirstPassed + 1 &&
                           getenv("LISTEN_FDS") == nullptr &&
                           !std::filesystem::exists(root_ + "/unused");
    const int flags = fcntl(sockets->grpc.get(), F_GETFD);
    _exit(as_passed && (flags & FD_CLOEXEC) != 0 ? 0 : 51);
  }

  void ExpectRefused(const std::vector<Passed>& passed,
                     const std::string& reason) const {
    EXPECT_EXIT(OpenPassed(passed), testing::ExitedWithCode(1), reason);
  }

  std::string root_;
};

TEST_F(ActivationTest, SocketsAreTakenByName) {
  EXPECT_EXIT(OpenPassed({{"direct", SOCK_SEQPACKET},
                          {"grpc", SOCK_STREAM},
                          {"admin", SOCK_STREAM}}),
              testing::ExitedWithCode(0), "");
}

TEST_F(ActivationTest, UnknownMissingDoubleAndWrongSocketsAreRefused) {
  ExpectRefused({{"direct", SOCK_SEQPACKET}, {"rpc", SOCK_STREAM}}, "rpc");
  ExpectRefused({{"direct", SOCK_SEQPACKET}, {"grpc", SOCK_STREAM}},
                "all three");
  ExpectRefused({{"grpc", SOCK_STREAM}, {"grpc", SOCK_STREAM}}, "two passed");
  ExpectRefused({{"direct", SOCK_STREAM}}, "seqpacket");
  ExpectRefused({{"grpc", SOCK_SEQPACKET}}, "stream");
  ExpectRefused({{"grpc", SOCK_STREAM, false}}, "listening");
}

}  // namespace
}  // namespace preprocd
