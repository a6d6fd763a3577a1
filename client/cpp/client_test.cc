#include "preprocd/client.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/error_detail.h"
#include "engine/base/memfd.h"
#include "engine/base/unique_fd.h"
#include "preproc/v1/direct.pb.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {
namespace {

using ::testing::ElementsAre;
using v1::ClientFrame;
using v1::ServerFrame;

// Serves one session at a time: opens it, keeps a list of what it was asked
// and of what it was sent.
class FakeDaemon {
 public:
  explicit FakeDaemon(const std::string& folder)
      : listener_(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    const std::string path = folder + "/direct.sock";
    strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address),
                   sizeof(address)),
              0);
    EXPECT_EQ(listen(listener_.get(), 4), 0);
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeDaemon() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }

  // Names of the frames' bodies, Hello included, in order.
  std::vector<std::string> asked() {
    const std::lock_guard lock(mutex_);
    return asked_;
  }
  // A second descriptor of the n-th one received.
  UniqueFd received(size_t n) {
    const std::lock_guard lock(mutex_);
    return n < fds_.size() ? fds_[n].Duplicate().value() : UniqueFd();
  }
  void RefuseHello() { refuse_hello_ = true; }
  void LoseDescriptors() { lose_descriptors_ = true; }
  void HangUpAtNextFrame() { hang_up_ = true; }

 private:
  void Serve() {
    while (true) {
      UniqueFd connection(
          accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!connection.valid()) return;
      Packet packet;
      while (true) {
        const auto outcome = ReceivePacket(connection.get(), packet);
        if (!outcome.ok() || *outcome != ReceiveOutcome::kPacket) break;
        if (hang_up_) break;
        Answer(connection.get(), packet);
      }
    }
  }

  void Answer(int connection, Packet& packet) {
    ClientFrame frame;
    ASSERT_TRUE(frame.ParseFromArray(packet.buffer.data(),
                                     static_cast<int>(packet.size)));
    {
      const std::lock_guard lock(mutex_);
      asked_.push_back(ClientFrame::descriptor()
                           ->FindFieldByNumber(int{frame.body_case()})
                           ->name());
      for (UniqueFd& fd : packet.fds) fds_.push_back(std::move(fd));
    }
    if (frame.tile().progress()) {
      for (int i = 0; i < 3; ++i) SendProgress(connection, frame, i);
    }
    ServerFrame reply;
    reply.set_request_id(frame.request_id());
    UniqueFd memory;
    Fill(frame, reply, memory);
    const std::string bytes = reply.SerializeAsString();
    std::vector<int> fds;
    if (memory.valid() && !lose_descriptors_) fds.push_back(memory.get());
    EXPECT_EQ(
        SendPacket(connection,
                   std::as_bytes(std::span(bytes.data(), bytes.size())), fds),
        absl::OkStatus());
  }

  static void SendProgress(int connection, const ClientFrame& frame,
                           int index) {
    ServerFrame progress;
    progress.set_request_id(frame.request_id());
    progress.mutable_tile_progress()->add_tiles()->set_index(index);
    const std::string bytes = progress.SerializeAsString();
    EXPECT_EQ(
        SendPacket(connection,
                   std::as_bytes(std::span(bytes.data(), bytes.size())), {}),
        absl::OkStatus());
  }

  void Fill(const ClientFrame& frame, ServerFrame& reply, UniqueFd& memory) {
    switch (frame.body_case()) {
      case ClientFrame::kHello:
        if (refuse_hello_) {
          reply.mutable_error()->set_code(9);
          reply.mutable_error()->mutable_detail()->set_reason(
              v1::ERROR_REASON_VERSION_MISMATCH);
          return;
        }
        reply.mutable_welcome()->set_session_id(7);
        reply.mutable_welcome()->set_token(std::string(16, 't'));
        reply.mutable_welcome()->set_daemon_version("1.2.3");
        return;
      case ClientFrame::kRegisterBuffer:
        reply.mutable_register_buffer()->set_buffer_id(
            frame.register_buffer().buffer_id());
        reply.mutable_register_buffer()->add_sizes_bytes(4096);
        reply.mutable_register_buffer()->add_warnings("slow");
        return;
      case ClientFrame::kUnregisterBuffer:
        reply.mutable_unregister_buffer();
        return;
      case ClientFrame::kAllocateBuffer:
        memory = CreateMemfd("daemon", 8192).value();
        reply.mutable_allocate_buffer()->set_size_bytes(8192);
        reply.mutable_allocate_buffer()->set_kind(v1::BUFFER_KIND_MEMFD);
        return;
      case ClientFrame::kConvert:
        reply.mutable_convert()->mutable_layout()->set_width(
            static_cast<int>(frame.convert().source().buffer().buffer_id()));
        return;
      case ClientFrame::kPeek:  // answered with another call's reply
        reply.mutable_decode();
        return;
      case ClientFrame::kTile:
        reply.mutable_tile()->set_rows(3);
        return;
      case ClientFrame::kEcho:
        reply.mutable_echo()->set_payload(frame.echo().payload());
        return;
      default:
        reply.mutable_error()->set_code(12);
        return;
    }
  }

  UniqueFd listener_;
  std::atomic<bool> refuse_hello_{false};
  std::atomic<bool> lose_descriptors_{false};
  std::atomic<bool> hang_up_{false};
  std::mutex mutex_;
  std::vector<std::string> asked_;
  std::vector<UniqueFd> fds_;
  // Keep last: it uses everything above.
  std::thread thread_;
};

class ClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "client_XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    daemon_.emplace(folder_);
  }
  void TearDown() override {
    session_.reset();
    daemon_.reset();
    std::filesystem::remove_all(folder_);
  }
  Session& Open() {
    SessionOptions options;
    options.runtime_dir = folder_;
    auto session = Session::Connect(options);
    EXPECT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    return *session_;
  }

  std::string folder_;
  std::optional<FakeDaemon> daemon_;
  std::unique_ptr<Session> session_;
};

TEST_F(ClientTest, TilesAreToldBeforeTheReply) {
  Session& session = Open();
  std::vector<int> told;
  const auto reply = session.TileStream(
      v1::TileRequest(), [&](const v1::TileProgress& progress) {
        told.push_back(progress.tiles(0).index());
        // Inference would go on from here: other calls work meanwhile.
        EXPECT_EQ(session.Echo("x").value(), "x");
      });
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(told, ElementsAre(0, 1, 2));
  EXPECT_EQ(reply->rows(), 3);
}

TEST_F(ClientTest, ProgressThatWasNotAskedForIsDropped) {
  v1::TileRequest request;
  request.set_progress(true);
  const auto reply = Open().Tile(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->rows(), 3);
}

TEST_F(ClientTest, WelcomeIsKept) {
  const Session& session = Open();
  EXPECT_EQ(session.session_id(), 7U);
  EXPECT_EQ(session.token(), std::string(16, 't'));
  EXPECT_EQ(session.daemon_version(), "1.2.3");
  EXPECT_TRUE(session.has_direct());
}

TEST_F(ClientTest, RefusedHelloKeepsItsReason) {
  daemon_->RefuseHello();
  SessionOptions options;
  options.runtime_dir = folder_;
  const absl::Status status = Session::Connect(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kVersionMismatch);
}

TEST_F(ClientTest, NoDaemonIsUnavailable) {
  SessionOptions options;
  options.runtime_dir = folder_ + "/nowhere";
  EXPECT_EQ(Session::Connect(options).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(Session::ConnectInline("unix:" + folder_ + "/nowhere.sock")
                .status()
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, CreatedBufferIsSealedAgainstResizingAndShared) {
  Session& session = Open();
  auto buffer = session.CreateBuffer(4096);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_THAT(buffer->warnings(), ElementsAre("slow"));
  const UniqueFd theirs = daemon_->received(0);
  ASSERT_TRUE(theirs.valid());
  EXPECT_EQ(fcntl(theirs.get(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW),
            F_SEAL_SHRINK | F_SEAL_GROW);
  buffer->bytes()[5] = std::byte{42};
  char seen = 0;
  EXPECT_EQ(pread(theirs.get(), &seen, 1, 5), 1);
  EXPECT_EQ(seen, 42);
}

TEST_F(ClientTest, BufferFromBytesCannotBeChangedByAnybody) {
  Session& session = Open();
  const std::string text = "encoded";
  auto buffer = session.CreateBufferFromBytes(
      std::as_bytes(std::span(text.data(), text.size())));
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const UniqueFd theirs = daemon_->received(0);
  EXPECT_NE(fcntl(theirs.get(), F_GET_SEALS) & F_SEAL_WRITE, 0);
  EXPECT_LT(pwrite(theirs.get(), "x", 1, 0), 0);
  EXPECT_EQ(std::memcmp(buffer->bytes().data(), text.data(), text.size()), 0);
}

TEST_F(ClientTest, BufferUnregistersWhenItGoes) {
  Session& session = Open();
  { ASSERT_TRUE(session.CreateBuffer(4096).ok()); }
  EXPECT_THAT(daemon_->asked(),
              ElementsAre("hello", "register_buffer", "unregister_buffer"));
}

TEST_F(ClientTest, MovedBufferUnregistersOnce) {
  Session& session = Open();
  {
    Buffer first = *session.CreateBuffer(4096);
    Buffer second = std::move(first);
    first = *session.CreateBuffer(4096);
    EXPECT_NE(first.id(), second.id());
  }
  EXPECT_THAT(daemon_->asked(),
              ElementsAre("hello", "register_buffer", "register_buffer",
                          "unregister_buffer", "unregister_buffer"));
}

TEST_F(ClientTest, BufferOutlivesItsSession) {
  Buffer buffer = *Open().CreateBuffer(4096);
  session_.reset();
  buffer.bytes()[0] = std::byte{1};
  EXPECT_EQ(buffer.Release(), absl::OkStatus());
  EXPECT_FALSE(buffer.registered());
}

TEST_F(ClientTest, AllocatedBufferIsMappedHere) {
  Session& session = Open();
  auto buffer = session.AllocateBuffer({});
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->bytes().size(), 8192U);
  buffer->bytes()[8191] = std::byte{1};
}

TEST_F(ClientTest, AllocationWhoseDescriptorIsLostIsGivenBack) {
  Session& session = Open();
  daemon_->LoseDescriptors();
  const absl::Status status = session.AllocateBuffer({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kFdsLost);
  EXPECT_THAT(daemon_->asked(),
              ElementsAre("hello", "allocate_buffer", "unregister_buffer"));
}

TEST_F(ClientTest, CallCarriesTheRequestAndReturnsTheReply) {
  Session& session = Open();
  v1::ConvertRequest request;
  request.mutable_source()->mutable_buffer()->set_buffer_id(11);
  const auto reply = session.Convert(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->layout().width(), 11);
  EXPECT_EQ(*session.Echo("ping"), "ping");
}

TEST_F(ClientTest, ReplyOfAnotherCallIsNotTakenForThisOne) {
  EXPECT_EQ(Open().Peek({}).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(ClientTest, LostDaemonIsUnavailableAndBuffersStillGo) {
  Session& session = Open();
  Buffer buffer = *session.CreateBuffer(4096);
  daemon_->HangUpAtNextFrame();
  EXPECT_EQ(session.Convert({}).status().code(),
            absl::StatusCode::kUnavailable);
  EXPECT_EQ(buffer.Release().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(buffer.bytes().empty());
}

}  // namespace
}  // namespace preprocd
