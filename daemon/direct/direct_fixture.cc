#include "daemon/direct/direct_fixture.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace preprocd {

namespace v1 = preproc::v1;

namespace {

constexpr int kReceiveBoundMs = 20'000;
constexpr int kBacklog = 64;

UniqueFd Listen(const std::string& path) {
  UniqueFd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0)
      << strerror(errno);
  EXPECT_EQ(listen(fd.get(), kBacklog), 0);
  return fd;
}

}  // namespace

DirectClient::DirectClient(const std::string& path, Start start) {
  auto connected = ConnectPacketSocket(path);
  EXPECT_TRUE(connected.ok()) << connected.status();
  if (!connected.ok()) return;
  socket_ = *std::move(connected);
  if (start == Start::kSilent) return;
  const v1::ServerFrame reply = Call(HelloFrame(1, 1));
  EXPECT_TRUE(reply.has_welcome()) << reply.ShortDebugString();
  welcome = reply.welcome();
}

uint64_t DirectClient::Send(v1::ClientFrame frame,
                            const std::vector<int>& sent_fds) {
  if (frame.request_id() == 0) frame.set_request_id(next_id_++);
  SendBytes(frame.SerializeAsString(), sent_fds);
  return frame.request_id();
}

void DirectClient::SendBytes(const std::string& bytes,
                             const std::vector<int>& sent_fds) {
  // By hand: SendPacket would refuse what hostile tests send.
  iovec part = {const_cast<char*>(bytes.data()), bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  std::vector<char> control(CMSG_SPACE(sent_fds.size() * sizeof(int)));
  if (!sent_fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sent_fds.size() * sizeof(int));
    memcpy(CMSG_DATA(header), sent_fds.data(), sent_fds.size() * sizeof(int));
  }
  EXPECT_EQ(sendmsg(socket_.get(), &message, MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()))
      << strerror(errno);
}

v1::ServerFrame DirectClient::Receive() {
  v1::ServerFrame frame;
  fds.clear();
  pollfd entry = {socket_.get(), POLLIN, 0};
  if (poll(&entry, 1, kReceiveBoundMs) != 1) {
    ADD_FAILURE() << "no packet came";
    return frame;
  }
  Packet packet;
  const auto outcome = ReceivePacket(socket_.get(), packet);
  if (!outcome.ok() || *outcome != ReceiveOutcome::kPacket) {
    ADD_FAILURE() << "the daemon closed the connection";
    return frame;
  }
  EXPECT_TRUE(frame.ParseFromArray(packet.bytes().data(),
                                   static_cast<int>(packet.size)));
  fds = std::move(packet.fds);
  return frame;
}

v1::ServerFrame DirectClient::Call(const v1::ClientFrame& frame,
                                   const std::vector<int>& sent_fds) {
  const uint64_t id = Send(frame, sent_fds);
  v1::ServerFrame reply = Receive();
  EXPECT_EQ(reply.request_id(), id) << reply.ShortDebugString();
  return reply;
}

bool DirectClient::AtEnd() {
  pollfd entry = {socket_.get(), POLLIN, 0};
  if (poll(&entry, 1, kReceiveBoundMs) != 1) return false;
  Packet packet;
  const auto outcome = ReceivePacket(socket_.get(), packet);
  return outcome.ok() && *outcome == ReceiveOutcome::kClosed;
}

bool DirectClient::Works() {
  const v1::ServerFrame reply = Call(EchoFrame("still here"));
  return reply.echo().payload() == "still here";
}

v1::ClientFrame HelloFrame(uint32_t min_version, uint32_t max_version) {
  v1::ClientFrame frame;
  frame.mutable_hello()->set_min_version(min_version);
  frame.mutable_hello()->set_max_version(max_version);
  frame.mutable_hello()->set_client_name("direct-test");
  return frame;
}

v1::ClientFrame EchoFrame(const std::string& payload) {
  v1::ClientFrame frame;
  frame.mutable_echo()->set_payload(payload);
  return frame;
}

v1::ClientFrame RegisterFrame(uint64_t buffer_id, v1::BufferAccess access) {
  v1::ClientFrame frame;
  v1::RegisterBufferRequest* request = frame.mutable_register_buffer();
  request->set_buffer_id(buffer_id);
  request->set_generation(1);
  request->set_access(access);
  request->set_fd_count(1);
  return frame;
}

v1::ClientFrame ConvertFrame(const v1::ConvertRequest& request) {
  v1::ClientFrame frame;
  *frame.mutable_convert() = request;
  return frame;
}

void ExpectErrorReply(const v1::ServerFrame& frame, absl::StatusCode code,
                      v1::ErrorReason reason) {
  ASSERT_TRUE(frame.has_error()) << frame.ShortDebugString();
  EXPECT_EQ(frame.error().code(), static_cast<int>(code))
      << frame.ShortDebugString();
  EXPECT_EQ(frame.error().detail().reason(), reason)
      << frame.ShortDebugString();
}

NoDescriptors::NoDescriptors() {
  const int lowest_free = fcntl(0, F_DUPFD_CLOEXEC, 0);
  EXPECT_GE(lowest_free, 0);
  close(lowest_free);
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  old_soft_ = limit.rlim_cur;
  limit.rlim_cur = static_cast<rlim_t>(lowest_free);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

NoDescriptors::~NoDescriptors() {
  rlimit limit = {};
  EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = old_soft_;
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

DirectTest::DirectTest(const SessionLimits& limits) : ServiceTest(limits) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "directXXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  path_ = folder_ + "/direct.sock";
}

DirectTest::~DirectTest() {
  server_.reset();
  std::filesystem::remove_all(folder_);
}

void DirectTest::StartServer(const DirectServerOptions& options) {
  auto server = DirectServer::Start(Listen(path_), service_, options);
  ASSERT_TRUE(server.ok()) << server.status();
  server_ = *std::move(server);
}

void DirectTest::Yield() { sched_yield(); }

UniqueFd DirectTest::RegisterPictures(DirectClient& client) {
  const UniqueFd source = MemfdWith(GradientRgb(64, 48), Seals::kAll);
  v1::ClientFrame frame = RegisterFrame(1, v1::BUFFER_ACCESS_READ);
  *frame.mutable_register_buffer()->mutable_layout() =
      MakeLayout(v1::PIXEL_FORMAT_RGB, 64, 48);
  v1::ServerFrame reply = client.Call(frame, {source.get()});
  EXPECT_TRUE(reply.has_register_buffer()) << reply.ShortDebugString();
  UniqueFd target = MemfdOfSize(32 * 24 * 3, Seals::kSize);
  frame = RegisterFrame(2);
  reply = client.Call(frame, {target.get()});
  EXPECT_TRUE(reply.has_register_buffer()) << reply.ShortDebugString();
  return target;
}

v1::ClientFrame DirectTest::SmallConvert() {
  return ConvertFrame(
      ResizeRequest(BufferSource(1), BufferDestination(2), 32, 24));
}

}  // namespace preprocd
