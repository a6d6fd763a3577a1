#include "client/cpp/grpc_calls.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "engine/base/error_detail.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "preproc/v1/error.pb.h"
#include "preproc/v1/preproc.grpc.pb.h"
#include "preprocd/client.h"

namespace preprocd::internal {
namespace {

using ::testing::HasSubstr;

// Answers Convert, refuses Decode with a detail, never answers Peek in time.
class FakePreproc final : public preproc::v1::Preproc::Service {
 public:
  grpc::Status Convert(grpc::ServerContext* context,
                       const preproc::v1::ConvertRequest* request,
                       preproc::v1::ConvertReply* reply) override {
    const auto token = context->client_metadata().find("preproc-session-bin");
    const std::lock_guard lock(mutex_);
    token_ = token == context->client_metadata().end()
                 ? "none"
                 : std::string(token->second.data(), token->second.size());
    reply->set_inline_bytes(request->source().inline_bytes());
    return grpc::Status::OK;
  }
  grpc::Status Decode(grpc::ServerContext*, const preproc::v1::DecodeRequest*,
                      preproc::v1::DecodeReply*) override {
    preproc::v1::ErrorDetail detail;
    detail.set_reason(preproc::v1::ERROR_REASON_IMAGE_CORRUPT);
    detail.set_field("source");
    preproc::v1::RpcStatus rpc;
    rpc.set_code(3);
    rpc.add_details()->PackFrom(detail);
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "source is damaged",
                        rpc.SerializeAsString());
  }
  grpc::Status Peek(grpc::ServerContext* context,
                    const preproc::v1::PeekRequest*,
                    preproc::v1::PeekReply*) override {
    const std::lock_guard lock(mutex_);
    peek_had_deadline_ =
        context->deadline() <
        std::chrono::system_clock::now() + std::chrono::hours(1);
    return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "late");
  }

  std::string token() {
    const std::lock_guard lock(mutex_);
    return token_;
  }
  bool peek_had_deadline() {
    const std::lock_guard lock(mutex_);
    return peek_had_deadline_;
  }

 private:
  std::mutex mutex_;
  std::string token_;
  bool peek_had_deadline_ = false;
};

class FakeHealth final : public grpc::health::v1::Health::Service {
  grpc::Status Check(grpc::ServerContext*,
                     const grpc::health::v1::HealthCheckRequest* request,
                     grpc::health::v1::HealthCheckResponse* reply) override {
    if (request->service() == "gl") {
      return grpc::Status(grpc::StatusCode::NOT_FOUND, "no service gl");
    }
    reply->set_status(grpc::health::v1::HealthCheckResponse::SERVING);
    return grpc::Status::OK;
  }
};

class GrpcCallsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // A name that gRPC's URI parser would misread without escapes.
    std::string pattern =
        (std::filesystem::temp_directory_path() / "grpc%20 calls_XXXXXX")
            .string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
    address_ = UnixTarget(folder_ + "/grpc.sock");
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address_, grpc::InsecureServerCredentials());
    builder.RegisterService(&preproc_);
    builder.RegisterService(&health_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }
  void TearDown() override {
    server_->Shutdown();
    server_.reset();
    std::filesystem::remove_all(folder_);
  }

  std::string folder_;
  std::string address_;
  FakePreproc preproc_;
  FakeHealth health_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcCallsTest, TokenTravelsAsBinaryMetadata) {
  const std::string token("\x00\xff\n tokenbytes!!!", 16);
  GrpcCalls calls(address_, token);
  preproc::v1::ConvertReply reply;
  EXPECT_EQ(
      calls.Call(preproc::v1::ConvertRequest(), &reply, absl::Seconds(30)),
      absl::OkStatus());
  EXPECT_EQ(preproc_.token(), token);
}

TEST_F(GrpcCallsTest, WithoutATokenThereIsNoMetadata) {
  GrpcCalls calls(address_, "");
  preproc::v1::ConvertReply reply;
  ASSERT_EQ(
      calls.Call(preproc::v1::ConvertRequest(), &reply, absl::Seconds(30)),
      absl::OkStatus());
  EXPECT_EQ(preproc_.token(), "none");
}

TEST_F(GrpcCallsTest, ErrorDetailComesOutOfTheTrailer) {
  GrpcCalls calls(address_, "");
  preproc::v1::DecodeReply reply;
  const absl::Status status =
      calls.Call(preproc::v1::DecodeRequest(), &reply, absl::Seconds(30));
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(GetErrorDetail(status).has_value());
  EXPECT_EQ(GetErrorDetail(status)->reason, ErrorReason::kImageCorrupt);
  EXPECT_EQ(GetErrorDetail(status)->field, "source");
}

TEST_F(GrpcCallsTest, TimeoutIsTheCallsDeadline) {
  GrpcCalls calls(address_, "");
  preproc::v1::PeekReply reply;
  EXPECT_EQ(
      calls.Call(preproc::v1::PeekRequest(), &reply, absl::Seconds(30)).code(),
      absl::StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(preproc_.peek_had_deadline());
}

TEST_F(GrpcCallsTest, MethodThatIsNotServedIsUnimplemented) {
  GrpcCalls calls(address_, "");
  preproc::v1::StatusReply reply;
  EXPECT_EQ(calls.Call(preproc::v1::StatusRequest(), &reply, absl::Seconds(30))
                .code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(GrpcCallsTest, HealthGivesNamesAndErrors) {
  GrpcCalls calls(address_, "");
  EXPECT_EQ(*calls.Health("", absl::Seconds(30)), "SERVING");
  EXPECT_EQ(calls.Health("gl", absl::Seconds(30)).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(GrpcCallsTest, InlineSessionCallsButCannotPassDescriptors) {
  auto session = Session::ConnectInline(address_);
  ASSERT_TRUE(session.ok()) << session.status();
  preproc::v1::ConvertRequest request;
  request.mutable_source()->set_inline_bytes("pixels");
  EXPECT_EQ((*session)->Convert(request)->inline_bytes(), "pixels");
  EXPECT_FALSE((*session)->has_direct());
  EXPECT_EQ((*session)->CreateBuffer(1).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(GrpcCallsTest, ServerThatIsGoneIsUnavailable) {
  GrpcCalls calls(address_, "");
  server_->Shutdown();
  preproc::v1::ConvertReply reply;
  EXPECT_EQ(calls.Call(preproc::v1::ConvertRequest(), &reply, absl::Seconds(30))
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST(UnixTarget, EscapesWhatAUriWouldRead) {
  EXPECT_EQ(UnixTarget("/run/preprocd/grpc.sock"),
            "unix:/run/preprocd/grpc.sock");
  EXPECT_EQ(UnixTarget("/a b/%#?.sock"), "unix:/a%20b/%25%23%3F.sock");
}

TEST(CheckUnixTarget, MissingSocketIsUnavailableAndOthersAreLeftAlone) {
  const absl::Status status = CheckUnixTarget("unix:/no/such/grpc.sock");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/such/grpc.sock"));
  EXPECT_EQ(CheckUnixTarget("localhost:1"), absl::OkStatus());
}

}  // namespace
}  // namespace preprocd::internal
