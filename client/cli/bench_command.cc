#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"
#include "client/cli/latency_histogram.h"
#include "client/cli/option_values.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "client/cli/text_format.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Arguments {
  int clients = 1;
  double seconds = 3;
  bool reconnect = false;
  std::string transport;  // empty = the global one
  std::string operation = "convert";
  std::optional<v1::Size> source_size;
  std::optional<v1::Size> size;
  std::string file;
};

// A client without a daemon tries again after this long, so that it does not
// count nothing but refusals.
constexpr std::chrono::milliseconds kRetryPause{10};

// One client's registered memory and its ready request.
class Client {
 public:
  absl::Status Open(Context& context, Transport transport,
                    const Arguments& arguments, const std::string& bytes,
                    const std::optional<v1::ImageLayout>& raw) {
    ASSIGN_OR_RETURN(session_, context.NewSession(transport));
    if (arguments.operation == "echo") return absl::OkStatus();
    ASSIGN_OR_RETURN(source_, SourcePicture::Create(*session_, bytes, raw));
    v1::ImageLayout layout;
    layout.set_format(v1::PIXEL_FORMAT_RGB);
    layout.set_dtype(v1::DATA_TYPE_U8);
    const v1::Size size = arguments.size ? *arguments.size : DefaultSize();
    layout.set_width(size.width());
    layout.set_height(size.height());
    if (arguments.operation == "decode") {
      v1::PeekRequest peek;
      *peek.mutable_source() = source_->source();
      ASSIGN_OR_RETURN(const v1::PeekReply reply, session_->Peek(peek));
      layout.set_width(reply.info().width());
      layout.set_height(reply.info().height());
    }
    ASSIGN_OR_RETURN(
        place_, ResultPlace::Create(*session_, TightBytes(layout).value_or(1)));
    *convert_.mutable_source() = source_->source();
    *convert_.mutable_destination()->mutable_layout() = layout;
    convert_.mutable_spec()->set_fit(v1::FIT_LETTERBOX);
    place_->FillLocation(*convert_.mutable_destination());
    *decode_.mutable_source() = source_->source();
    *decode_.mutable_destination() = convert_.destination();
    return absl::OkStatus();
  }

  absl::Status Call(const std::string& operation) {
    if (operation == "echo") return session_->Echo("preprocctl").status();
    if (operation == "decode") return session_->Decode(decode_).status();
    return session_->Convert(convert_).status();
  }

  static v1::Size DefaultSize() {
    v1::Size size;
    size.set_width(224);
    size.set_height(224);
    return size;
  }

 private:
  // Keep first: the buffers unregister with it.
  std::unique_ptr<Session> session_;
  std::optional<SourcePicture> source_;
  std::optional<ResultPlace> place_;
  v1::ConvertRequest convert_;
  v1::DecodeRequest decode_;
};

struct Tally {
  LatencyHistogram latencies;
  uint64_t requests = 0;
  uint64_t failed = 0;
  std::map<std::string, uint64_t> reasons;
  absl::Status last_failure;

  void Fail(absl::Status status) {
    ++failed;
    ++reasons[absl::StrCat(absl::StatusCodeToString(status.code()), " ",
                           ReasonOf(status))];
    last_failure = std::move(status);
  }
};

// What all clients read: the picture.
struct Workload {
  std::string bytes;
  std::optional<v1::ImageLayout> raw;
};

// A gradient with some texture, so that it costs a decoder what a photograph
// does.
std::string MakePixels(const v1::ImageLayout& layout) {
  std::string pixels;
  pixels.reserve(TightBytes(layout).value_or(0));
  uint32_t noise = 1;
  for (int y = 0; y < layout.height(); ++y) {
    for (int x = 0; x < layout.width(); ++x) {
      noise = noise * 1664525U + 1013904223U;
      const auto grain = static_cast<int>(noise >> 28);
      pixels += static_cast<char>((x / 4 + grain) & 0xFF);
      pixels += static_cast<char>((y / 4 + grain) & 0xFF);
      pixels += static_cast<char>(((x + y) / 8 + grain) & 0xFF);
    }
  }
  return pixels;
}

absl::StatusOr<Workload> MakeWorkload(Context& context,
                                      const Arguments& arguments) {
  Workload workload;
  if (arguments.operation == "echo") return workload;
  if (!arguments.file.empty()) {
    ASSIGN_OR_RETURN(workload.bytes, ReadFile(arguments.file));
    return workload;
  }
  v1::ImageLayout layout;
  layout.set_format(v1::PIXEL_FORMAT_RGB);
  layout.set_dtype(v1::DATA_TYPE_U8);
  layout.set_width(arguments.source_size ? arguments.source_size->width()
                                         : 640);
  layout.set_height(arguments.source_size ? arguments.source_size->height()
                                          : 480);
  workload.bytes = MakePixels(layout);
  if (arguments.operation == "convert") {
    workload.raw = layout;
    return workload;
  }
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(const SourcePicture pixels,
                   SourcePicture::Create(*session, workload.bytes, layout));
  ASSIGN_OR_RETURN(const ResultPlace place,
                   ResultPlace::Create(*session, EncodedBound(layout)));
  v1::EncodeRequest request;
  *request.mutable_source() = pixels.source();
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::EncodeReply reply, session->Encode(request));
  const auto encoded =
      place.bytes(reply.inline_bytes()).first(reply.size_bytes());
  workload.bytes.assign(reinterpret_cast<const char*>(encoded.data()),
                        encoded.size());
  return workload;
}

void Drive(Context& context, Transport transport, const Arguments& arguments,
           const Workload& workload, Clock::time_point end, Tally& tally) {
  std::optional<Client> client;
  while (Clock::now() < end) {
    const Clock::time_point begin = Clock::now();
    ++tally.requests;
    absl::Status status;
    if (!client) {
      client.emplace();
      status = client->Open(context, transport, arguments, workload.bytes,
                            workload.raw);
    }
    if (status.ok()) status = client->Call(arguments.operation);
    if (status.ok()) {
      tally.latencies.Add(static_cast<uint64_t>(
          std::chrono::nanoseconds(Clock::now() - begin).count()));
      if (arguments.reconnect) client.reset();
      continue;
    }
    const bool lost = absl::IsUnavailable(status);
    tally.Fail(std::move(status));
    client.reset();
    if (lost) std::this_thread::sleep_for(kRetryPause);
  }
}

absl::StatusOr<Transport> BenchTransport(const Context& context,
                                         const Arguments& arguments) {
  if (arguments.transport == "stream") {
    return NotBuilt("bench --transport stream");
  }
  if (arguments.transport == "grpc") return Transport::kGrpc;
  if (arguments.transport == "direct") return Transport::kDirect;
  return context.options().transport;
}

void Present(Context& context, const Arguments& arguments, Transport transport,
             const Tally& sum, double seconds) {
  const auto micros = [&](double fraction) {
    return static_cast<double>(sum.latencies.Percentile(fraction)) / 1e3;
  };
  nlohmann::ordered_json& json = context.json();
  json["operation"] = arguments.operation;
  json["transport"] = transport == Transport::kGrpc ? "grpc" : "direct";
  json["clients"] = arguments.clients;
  json["reconnect"] = arguments.reconnect;
  json["seconds"] = seconds;
  json["requests"] = sum.requests;
  json["failed"] = sum.failed;
  json["rps"] = static_cast<double>(sum.requests - sum.failed) / seconds;
  json["p50_us"] = micros(0.50);
  json["p90_us"] = micros(0.90);
  json["p99_us"] = micros(0.99);
  json["max_us"] = static_cast<double>(sum.latencies.max()) / 1e3;
  json["failures"] = sum.reasons;
  context.Print(absl::StrFormat(
      "%s over %s, %d clients%s, %.1f s\n", arguments.operation,
      transport == Transport::kGrpc ? "grpc" : "direct", arguments.clients,
      arguments.reconnect ? " that reconnect" : "", seconds));
  context.Print(Line("requests",
                     absl::StrFormat("%d, %d failed, %.0f per s", sum.requests,
                                     sum.failed, json["rps"].get<double>())));
  context.Print(Line(
      "latency", absl::StrFormat("p50 %.0f us, p90 %.0f us, p99 %.0f us, max "
                                 "%.0f us",
                                 micros(0.5), micros(0.9), micros(0.99),
                                 json["max_us"].get<double>())));
  for (const auto& [reason, count] : sum.reasons) {
    context.Print(Line("failed", absl::StrCat(count, " x ", reason)));
  }
}

absl::Status RunBench(Context& context, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Transport transport,
                   BenchTransport(context, arguments));
  RETURN_IF_ERROR(context.StartDaemon());
  // Says early that there is no daemon.
  ASSIGN_OR_RETURN(Session* const first, context.session());
  if (arguments.operation == "echo" && !first->has_direct()) {
    return UsageError("--op echo needs the direct socket");
  }
  ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(context, arguments));
  std::vector<Tally> tallies(static_cast<size_t>(arguments.clients));
  std::vector<std::thread> threads;
  const Clock::time_point begin = Clock::now();
  const Clock::time_point end =
      begin + std::chrono::duration_cast<Clock::duration>(
                  std::chrono::duration<double>(arguments.seconds));
  for (Tally& tally : tallies) {
    threads.emplace_back([&, end] {
      Drive(context, transport, arguments, workload, end, tally);
    });
  }
  for (std::thread& thread : threads) thread.join();
  const double seconds =
      std::chrono::duration<double>(Clock::now() - begin).count();
  Tally sum;
  for (const Tally& tally : tallies) {
    sum.latencies.Merge(tally.latencies);
    sum.requests += tally.requests;
    sum.failed += tally.failed;
    for (const auto& [reason, count] : tally.reasons) {
      sum.reasons[reason] += count;
    }
    if (!tally.last_failure.ok()) sum.last_failure = tally.last_failure;
  }
  // When nothing went well, the reason is the answer.
  if (sum.failed == sum.requests && sum.failed > 0) return sum.last_failure;
  Present(context, arguments, transport, sum, seconds);
  return absl::OkStatus();
}

}  // namespace

void AddBenchCommand(CLI::App& app, Selection& selection) {
  CLI::App& command =
      *app.add_subcommand("bench", "Drive the daemon and measure it");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("--clients", arguments->clients, "sessions (default 1)")
      ->check(CLI::Range(1, 1024));
  command.add_option("--seconds", arguments->seconds, "how long (default 3)")
      ->check(CLI::Range(0.01, 86400.0));
  command.add_flag("--reconnect", arguments->reconnect,
                   "a session per request, its buffers included");
  command
      .add_option("--transport", arguments->transport,
                  "direct | grpc | stream (default direct; stream is not "
                  "built)")
      ->check(CLI::IsMember({"direct", "grpc", "stream"}));
  command
      .add_option("--op", arguments->operation,
                  "convert (default) | decode | echo")
      ->check(CLI::IsMember({"convert", "decode", "echo"}));
  AddParsed(command, "--source-size", &arguments->source_size, ParseSize,
            "WxH of the made-up picture (default 640x480)");
  AddParsed(command, "--size", &arguments->size, ParseSize,
            "WxH of a convert's result (default 224x224)");
  command.add_option("--file", arguments->file,
                     "JPEG or PNG to use instead of a made-up picture");
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunBench(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
