// What a request over the direct transport costs beside the engine's own
// work, measured against a bare SEQPACKET echo between two processes.
//
//   build/bin/direct_latency [--iterations N] [--runtime-dir DIR]
//
// Rows: a bare echo (two processes, packets of the request's size), the
// daemon's own echo, a small convert over the direct socket and over gRPC.
// "overhead" is the round trip without the decode, convert and device times
// that the reply reports; it should be at most twice the bare echo. The
// second table says where a convert's round trip goes. The variants are
// measured in turn, round by round, so that a change in the machine's speed
// meets all of them.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cli/private_daemon.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"
#include "preprocd/client.h"
#include "proto/packet/packet_socket.h"

namespace preprocd {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kRounds = 10;
constexpr int kSourceSide = 64;
constexpr int kResultSide = 32;

int64_t NanosecondsSince(Clock::time_point begin) {
  return std::chrono::nanoseconds(Clock::now() - begin).count();
}

// Round trips of one variant, nanoseconds.
struct Series {
  const char* name;
  std::vector<int64_t> round_trips = {};
  std::vector<int64_t> overheads = {};  // without the engine's time
  // Parts of a convert's round trip.
  std::vector<int64_t> admit = {};   // parse, validate, plan
  std::vector<int64_t> queue = {};   // hand-off to the executor
  std::vector<int64_t> engine = {};  // decode, convert, device
  std::vector<int64_t> finish = {};  // the rest of the daemon's time
  std::vector<int64_t> wire = {};    // outside the daemon's time
};

double Percentile(std::vector<int64_t> values, double fraction) {
  if (values.empty()) return 0;
  const auto index =
      static_cast<size_t>(fraction * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<long>(index),
                   values.end());
  return static_cast<double>(values[index]) / 1e3;
}

// A child process that returns every packet.
class EchoProcess {
 public:
  static absl::StatusOr<std::unique_ptr<EchoProcess>> Start() {
    int sockets[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
      return absl::InternalError("socketpair");
    }
    UniqueFd ours(sockets[0]);
    UniqueFd theirs(sockets[1]);
    const pid_t pid = fork();
    if (pid < 0) return absl::InternalError("fork");
    if (pid == 0) {
      ours.reset();
      Serve(theirs.get());
    }
    return std::unique_ptr<EchoProcess>(new EchoProcess(std::move(ours), pid));
  }
  ~EchoProcess() {
    socket_.reset();
    waitpid(pid_, nullptr, 0);
  }
  EchoProcess(const EchoProcess&) = delete;
  EchoProcess& operator=(const EchoProcess&) = delete;

  absl::Status RoundTrip(std::span<std::byte> packet) {
    if (send(socket_.get(), packet.data(), packet.size(), MSG_NOSIGNAL) < 0 ||
        recv(socket_.get(), packet.data(), packet.size(), 0) <= 0) {
      return absl::InternalError("the echo process is gone");
    }
    return absl::OkStatus();
  }

 private:
  EchoProcess(UniqueFd socket, pid_t pid)
      : socket_(std::move(socket)), pid_(pid) {}

  [[noreturn]] static void Serve(int socket) {
    std::array<std::byte, 4096> packet;
    while (true) {
      const ssize_t size = recv(socket, packet.data(), packet.size(), 0);
      if (size <= 0) _exit(0);
      if (send(socket, packet.data(), static_cast<size_t>(size), MSG_NOSIGNAL) <
          0) {
        _exit(0);
      }
    }
  }

  UniqueFd socket_;
  pid_t pid_;
};

// A session with registered buffers and a small convert that uses them.
class SmallConvert {
 public:
  static absl::StatusOr<std::unique_ptr<SmallConvert>> Open(
      const std::string& runtime_dir, Transport transport) {
    auto convert = std::make_unique<SmallConvert>();
    SessionOptions options;
    options.runtime_dir = runtime_dir;
    options.client_name = "direct_latency";
    options.transport = transport;
    ASSIGN_OR_RETURN(convert->session_, Session::Connect(std::move(options)));
    const v1::ImageLayout source = Square(kSourceSide);
    const v1::ImageLayout result = Square(kResultSide);
    ASSIGN_OR_RETURN(
        convert->source_,
        convert->session_->CreateBuffer(kSourceSide * kSourceSide * 3, source));
    ASSIGN_OR_RETURN(
        convert->result_,
        convert->session_->CreateBuffer(kResultSide * kResultSide * 3, result));
    v1::ConvertRequest& request = convert->request_;
    *request.mutable_source()->mutable_buffer() = convert->source_.ref();
    *request.mutable_source()->mutable_layout() = source;
    *request.mutable_destination()->mutable_buffer() = convert->result_.ref();
    *request.mutable_destination()->mutable_layout() = result;
    return convert;
  }

  absl::Status Measure(Series& series) {
    const Clock::time_point begin = Clock::now();
    ASSIGN_OR_RETURN(const v1::ConvertReply reply, session_->Convert(request_));
    const int64_t taken = NanosecondsSince(begin);
    const v1::StageTimes& times = reply.report().times();
    const int64_t engine =
        times.decode_ns() + times.convert_ns() + times.device_ns();
    series.round_trips.push_back(taken);
    series.overheads.push_back(taken - engine);
    series.admit.push_back(times.admit_ns());
    series.queue.push_back(times.queue_ns());
    series.engine.push_back(engine);
    series.finish.push_back(times.total_ns() - times.admit_ns() -
                            times.queue_ns() - engine);
    series.wire.push_back(taken - times.total_ns());
    return absl::OkStatus();
  }

  Session& session() { return *session_; }
  size_t request_bytes() const { return request_.ByteSizeLong(); }

 private:
  static v1::ImageLayout Square(int side) {
    v1::ImageLayout layout;
    layout.set_format(v1::PIXEL_FORMAT_RGB);
    layout.set_dtype(v1::DATA_TYPE_U8);
    layout.set_width(side);
    layout.set_height(side);
    return layout;
  }

  // Keep first: the buffers unregister with it.
  std::unique_ptr<Session> session_;
  Buffer source_;
  Buffer result_;
  v1::ConvertRequest request_;
};

struct Table {
  Series bare{"bare SEQPACKET echo"};
  Series echo{"daemon echo, direct"};
  Series direct{"convert 64x64, direct"};
  Series grpc{"convert 64x64, gRPC"};
};

absl::Status MeasureRound(int iterations, EchoProcess& process,
                          SmallConvert& direct, SmallConvert& grpc,
                          Table& table) {
  std::vector<std::byte> packet(direct.request_bytes());
  for (int i = 0; i < iterations; ++i) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(process.RoundTrip(packet));
    table.bare.round_trips.push_back(NanosecondsSince(begin));
  }
  const std::string payload(direct.request_bytes(), 'x');
  for (int i = 0; i < iterations; ++i) {
    const Clock::time_point begin = Clock::now();
    RETURN_IF_ERROR(direct.session().Echo(payload).status());
    table.echo.round_trips.push_back(NanosecondsSince(begin));
  }
  for (int i = 0; i < iterations; ++i) {
    RETURN_IF_ERROR(direct.Measure(table.direct));
  }
  for (int i = 0; i < iterations; ++i) {
    RETURN_IF_ERROR(grpc.Measure(table.grpc));
  }
  return absl::OkStatus();
}

void Print(const Table& table, size_t packet_bytes) {
  printf("%-24s %10s %10s %14s %14s   (us)\n", "", "p50", "p99", "overhead p50",
         "overhead p99");
  for (const Series* series :
       {&table.bare, &table.echo, &table.direct, &table.grpc}) {
    const std::vector<int64_t>& overheads =
        series->overheads.empty() ? series->round_trips : series->overheads;
    printf("%-24s %10.1f %10.1f %14.1f %14.1f\n", series->name,
           Percentile(series->round_trips, 0.5),
           Percentile(series->round_trips, 0.99), Percentile(overheads, 0.5),
           Percentile(overheads, 0.99));
  }
  printf("\n%-24s %10s %10s %10s %10s %10s   (us, p50)\n", "", "admit", "queue",
         "engine", "finish", "wire");
  for (const Series* series : {&table.direct, &table.grpc}) {
    printf("%-24s %10.1f %10.1f %10.1f %10.1f %10.1f\n", series->name,
           Percentile(series->admit, 0.5), Percentile(series->queue, 0.5),
           Percentile(series->engine, 0.5), Percentile(series->finish, 0.5),
           Percentile(series->wire, 0.5));
  }
  const double bare = Percentile(table.bare.round_trips, 0.5);
  printf("\npackets of %zu bytes, %zu round trips each\n", packet_bytes,
         table.bare.round_trips.size());
  printf("daemon echo / bare echo = %.2f\n",
         Percentile(table.echo.round_trips, 0.5) / bare);
  printf("(direct - engine) / bare echo = %.2f\n",
         Percentile(table.direct.overheads, 0.5) / bare);
  printf("(gRPC - engine) / bare echo = %.2f\n",
         Percentile(table.grpc.overheads, 0.5) / bare);
}

absl::Status Run(std::string runtime_dir, int iterations) {
  // Forked first: gRPC's threads do not survive a fork.
  ASSIGN_OR_RETURN(const std::unique_ptr<EchoProcess> process,
                   EchoProcess::Start());
  std::unique_ptr<cli::PrivateDaemon> daemon;
  if (runtime_dir.empty()) {
    ASSIGN_OR_RETURN(daemon, cli::PrivateDaemon::Start(""));
    runtime_dir = daemon->runtime_dir();
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<SmallConvert> direct,
                   SmallConvert::Open(runtime_dir, Transport::kDirect));
  ASSIGN_OR_RETURN(const std::unique_ptr<SmallConvert> grpc,
                   SmallConvert::Open(runtime_dir, Transport::kGrpc));
  Table warm_up;
  const int per_round = std::max(iterations / kRounds, 1);
  RETURN_IF_ERROR(MeasureRound(per_round, *process, *direct, *grpc, warm_up));
  Table table;
  for (int round = 0; round < kRounds; ++round) {
    RETURN_IF_ERROR(MeasureRound(per_round, *process, *direct, *grpc, table));
  }
  Print(table, direct->request_bytes());
  return absl::OkStatus();
}

}  // namespace
}  // namespace preprocd

int main(int argc, char** argv) {
  CLI::App app("Round trips of the direct transport");
  std::string runtime_dir;
  int iterations = 5000;
  app.add_option("--runtime-dir", runtime_dir,
                 "a running daemon's folder (default: a private daemon)");
  app.add_option("--iterations", iterations, "per row (default 5000)")
      ->check(CLI::Range(10, 1'000'000));
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = preprocd::Run(runtime_dir, iterations);
  if (status.ok()) return 0;
  fprintf(stderr, "direct_latency: %s\n", status.ToString().c_str());
  return 1;
}
