#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/json_format.h"
#include "client/cli/option_values.h"
#include "client/cli/text_format.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

template <typename List>
std::string Names(const List& values,
                  const google::protobuf::EnumDescriptor& descriptor) {
  std::vector<std::string> names;
  for (const int value : values) {
    const auto* found = descriptor.FindValueByNumber(value);
    names.push_back(found == nullptr ? absl::StrCat(value) : EnumText(*found));
  }
  return absl::StrJoin(names, " ");
}

template <typename Message>
std::string AvailabilityLine(const Message& message, int rank) {
  return absl::StrFormat(
      "  %s %-10s %s\n", message.available() ? "+" : "-", message.name(),
      rank > 0 ? absl::StrCat("rank ", rank, ", ", message.detail())
               : message.detail());
}

absl::Status RunStatus(Context& context) {
  ASSIGN_OR_RETURN(Admin* const admin, context.admin());
  ASSIGN_OR_RETURN(const v1::StatusReply reply, admin->Status());
  context.json() = MessageToJson(reply);
  context.Print(absl::StrCat(
      "preprocd ", reply.version(), ", ", reply.state(), ", pid ", reply.pid(),
      ", up ", DurationText(reply.uptime_ms() * 1'000'000), "\n"));
  context.Print(Line("runtime dir", reply.runtime_dir()));
  context.Print(Line("sessions", absl::StrCat(reply.sessions())));
  context.Print(Line("requests", absl::StrCat(reply.running(), " running, ",
                                              reply.queued(), " queued")));
  context.Print(Line(
      "process",
      absl::StrCat(BytesText(static_cast<uint64_t>(reply.resident_bytes())),
                   " resident, ", reply.open_fds(), " descriptors, ",
                   reply.threads(), " threads")));
  context.Print("backends\n");
  for (const v1::BackendStatus& backend : reply.backends()) {
    context.Print(AvailabilityLine(backend, backend.rank()));
  }
  context.Print("allocators\n");
  for (const v1::AllocatorStatus& allocator : reply.allocators()) {
    context.Print(AvailabilityLine(allocator, 0));
  }
  return absl::OkStatus();
}

absl::Status RunCapabilities(Context& context) {
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(const v1::CapabilitiesReply reply, session->Capabilities());
  context.json() = MessageToJson(reply);
  context.Print(absl::StrCat("preprocd ", reply.version(), "\noperations\n"));
  for (const v1::OperationCapability& operation : reply.operations()) {
    context.Print(absl::StrFormat("  %s %-18s %s\n",
                                  operation.available() ? "+" : "-",
                                  operation.operation(), operation.reason()));
  }
  context.Print("files\n");
  for (const v1::CodecCapability& codec : reply.codecs()) {
    context.Print(absl::StrFormat("  %-6s %s%s%s  %s\n", codec.file_format(),
                                  codec.decode() ? "decode" : "",
                                  codec.decode() && codec.encode() ? ", " : "",
                                  codec.encode() ? "encode" : "",
                                  absl::StrJoin(codec.features(), " ")));
  }
  context.Print("backends\n");
  for (const v1::BackendCapability& backend : reply.backends()) {
    context.Print(AvailabilityLine(backend, backend.rank()));
    context.Print(Line(
        "  reads", Names(backend.sources(), *v1::PixelFormat_descriptor())));
    context.Print(Line(
        "  writes",
        absl::StrCat(
            Names(backend.destinations(), *v1::PixelFormat_descriptor()), "; ",
            Names(backend.destination_dtypes(), *v1::DataType_descriptor()))));
    context.Print(
        Line("  filters", Names(backend.filters(), *v1::Filter_descriptor())));
    context.Print(Line("  fits", Names(backend.fits(), *v1::Fit_descriptor())));
  }
  context.Print(Line("allocators", Names(reply.allocators(),
                                         *v1::AllocatorKind_descriptor())));
  const v1::Limits& limits = reply.limits();
  context.Print(absl::StrCat(
      "limits\n",
      Line("pictures",
           absl::StrCat(
               "axis ", limits.max_image_axis(), ", ",
               limits.max_decoded_pixels(), " pixels, file ",
               BytesText(static_cast<uint64_t>(limits.max_encoded_bytes())))),
      Line(
          "session",
          absl::StrCat(
              limits.max_buffers_per_session(), " buffers, ",
              BytesText(static_cast<uint64_t>(limits.max_bytes_per_session())),
              ", ", limits.max_in_flight_per_session(), " requests in flight")),
      Line("daemon", absl::StrCat(limits.max_sessions(), " sessions"))));
  return absl::OkStatus();
}

absl::Status RunSessions(Context& context) {
  ASSIGN_OR_RETURN(Admin* const admin, context.admin());
  ASSIGN_OR_RETURN(const v1::ListSessionsReply reply, admin->ListSessions());
  context.json() = MessageToJson(reply);
  context.Print(absl::StrFormat("%6s %-20s %8s %6s %10s %8s %10s %8s %8s %7s\n",
                                "id", "client", "pid", "uid", "age", "buffers",
                                "bytes", "flying", "ok", "failed"));
  for (const v1::SessionDescription& session : reply.sessions()) {
    context.Print(absl::StrFormat(
        "%6d %-20s %8d %6d %10s %8d %10s %8d %8d %7d\n", session.session_id(),
        session.client_name(), session.pid(), session.uid(),
        DurationText(session.age_ms() * 1'000'000), session.buffers(),
        BytesText(static_cast<uint64_t>(session.bytes())), session.in_flight(),
        session.requests_ok(), session.requests_failed()));
  }
  if (reply.sessions().empty()) context.Print("no sessions\n");
  return absl::OkStatus();
}

struct StatsArguments {
  bool watch = false;
  double interval_s = 1.0;
  int count = 0;
};

using Values = std::map<std::string, double>;

absl::StatusOr<Values> FetchStats(Admin& admin) {
  ASSIGN_OR_RETURN(const v1::StatsReply reply, admin.Stats());
  Values values;
  for (const v1::StatsEntry& entry : reply.entries()) {
    values[entry.name()] = entry.value();
  }
  return values;
}

std::string StatsText(const Values& values, const Values* before,
                      double seconds) {
  std::string text;
  for (const auto& [name, value] : values) {
    absl::StrAppendFormat(&text, "%-60s %14.10g", name, value);
    if (before != nullptr) {
      const auto old = before->find(name);
      const double change = value - (old == before->end() ? 0 : old->second);
      if (change != 0) {
        absl::StrAppendFormat(&text, "  %+.4g/s", change / seconds);
      }
    }
    text += '\n';
  }
  return text;
}

// Prints a round at once: with --json one object per line, else the table
// over the one before.
void PrintRound(const Context& context, const Values& values,
                const Values* before, double seconds) {
  if (context.json_mode()) {
    nlohmann::ordered_json json;
    json["stats"] = values;
    std::cout << DumpJson(json) << std::endl;
    return;
  }
  if (before != nullptr) std::cout << "\033[H\033[2J";
  std::cout << StatsText(values, before, seconds) << std::endl;
}

absl::Status RunStats(Context& context, const StatsArguments& arguments) {
  ASSIGN_OR_RETURN(Admin* const admin, context.admin());
  ASSIGN_OR_RETURN(Values values, FetchStats(*admin));
  if (!arguments.watch) {
    context.json()["stats"] = values;
    context.Print(StatsText(values, nullptr, 0));
    return absl::OkStatus();
  }
  PrintRound(context, values, nullptr, arguments.interval_s);
  for (int round = 1; arguments.count == 0 || round < arguments.count;
       ++round) {
    std::this_thread::sleep_for(
        std::chrono::duration<double>(arguments.interval_s));
    Values before = std::exchange(values, {});
    ASSIGN_OR_RETURN(values, FetchStats(*admin));
    PrintRound(context, values, &before, arguments.interval_s);
  }
  context.json() = nullptr;  // every round has been printed
  return absl::OkStatus();
}

}  // namespace

void AddStatusCommand(CLI::App& app, Selection& selection) {
  app.add_subcommand("status", "How the daemon is")->callback([&selection] {
    selection = RunStatus;
  });
}

void AddCapabilitiesCommand(CLI::App& app, Selection& selection) {
  app.add_subcommand("capabilities", "What can be done here")
      ->callback([&selection] { selection = RunCapabilities; });
}

void AddSessionsCommand(CLI::App& app, Selection& selection) {
  app.add_subcommand("sessions", "Who is connected")->callback([&selection] {
    selection = RunSessions;
  });
}

void AddStatsCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand("stats", "Counters");
  auto arguments = std::make_shared<StatsArguments>();
  command.add_flag("--watch", arguments->watch,
                   "again and again, with changes per second; with --json "
                   "one object per line");
  command
      .add_option("--interval", arguments->interval_s,
                  "seconds between rounds (default 1)")
      ->check(CLI::Range(0.01, 3600.0));
  command.add_option("--count", arguments->count,
                     "rounds (default 0: until interrupted)");
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunStats(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
