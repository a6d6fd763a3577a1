#include "daemon/lifecycle/listen_sockets.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace preprocd {
namespace {

class ListenSocketsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "lsXXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string Path(const std::string& name) const { return root_ + "/" + name; }

  static bool Connects(const std::string& path, int type) {
    const UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    return connect(fd.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)) == 0;
  }
  static mode_t Mode(const std::string& path) {
    struct stat facts = {};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 0777;
  }

  std::string root_;
};

TEST_F(ListenSocketsTest, MakesTheDirectoryAndSocketsWithTheirModes) {
  const mode_t old = umask(0077);
  const auto sockets = OpenListenSockets(Path("run"));
  umask(old);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_EQ(Mode(Path("run")), 0750u);
  EXPECT_EQ(Mode(Path("run/grpc.sock")), 0660u);
  EXPECT_EQ(Mode(Path("run/direct.sock")), 0660u);
  EXPECT_EQ(Mode(Path("run/admin.sock")), 0600u);
  EXPECT_TRUE(Connects(Path("run/grpc.sock"), SOCK_STREAM));
  EXPECT_TRUE(Connects(Path("run/direct.sock"), SOCK_SEQPACKET));
  EXPECT_FALSE(sockets->activated);
}

TEST_F(ListenSocketsTest, ALiveDaemonIsNotDisturbed) {
  const auto first = OpenListenSockets(root_);
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = OpenListenSockets(root_);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Connects(Path("grpc.sock"), SOCK_STREAM));
  EXPECT_TRUE(Connects(Path("direct.sock"), SOCK_SEQPACKET));
}

TEST_F(ListenSocketsTest, SocketsOfADeadDaemonAreReplaced) {
  {
    const auto dead = OpenListenSockets(root_);
    ASSERT_TRUE(dead.ok());
  }
  ASSERT_TRUE(std::filesystem::exists(Path("grpc.sock")));
  EXPECT_FALSE(Connects(Path("grpc.sock"), SOCK_STREAM));
  const auto sockets = OpenListenSockets(root_);
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EXPECT_TRUE(Connects(Path("grpc.sock"), SOCK_STREAM));
  RemoveMadePaths(*sockets);
  EXPECT_FALSE(std::filesystem::exists(Path("grpc.sock")));
}

TEST_F(ListenSocketsTest, AnotherProgramsLiveSocketIsLeftAlone) {
  const UniqueFd other(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, Path("grpc.sock").c_str(),
          sizeof(address.sun_path) - 1);
  ASSERT_EQ(
      bind(other.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  ASSERT_EQ(listen(other.get(), 1), 0);
  EXPECT_EQ(OpenListenSockets(root_).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Connects(Path("grpc.sock"), SOCK_STREAM));
}

TEST_F(ListenSocketsTest, FilesAndLongPathsAreRefused) {
  std::ofstream(Path("direct.sock")) << "not a socket";
  EXPECT_EQ(OpenListenSockets(root_).status().code(),
            absl::StatusCode::kInvalidArgument);
  // What was made before the failure is gone again.
  EXPECT_FALSE(std::filesystem::exists(Path("grpc.sock")));
  EXPECT_EQ(OpenListenSockets(Path(std::string(120, 'x'))).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(OpenListenSockets("/proc/nowhere/run").ok());
}

}  // namespace
}  // namespace preprocd
