// preprocctl: the operator's and the script's way to preprocd.
#include <CLI/CLI.hpp>
#include <iostream>
#include <string>

#include "absl/strings/string_view.h"
#include "client/cli/command_context.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"

namespace preprocd::cli {
namespace {

constexpr char kDescription[] =
    "preprocctl asks preprocd for image pre-processing.\n"
    "Exit codes: 0 ok, 2 usage, 3 no daemon, 4 request refused, 5 resource "
    "exhausted, 6 unavailable, 1 other.";

void AddGlobalOptions(CLI::App& app, GlobalOptions& options) {
  CLI::Option* runtime_dir = app.add_option(
      "--runtime-dir", options.runtime_dir,
      "folder of the sockets (default $PREPROCD_RUNTIME_DIR, else "
      "/run/preprocd)");
  CLI::Option* address =
      app.add_option("--address", options.address,
                     "gRPC address instead, unix:PATH or HOST:PORT; pictures "
                     "then travel inside the messages")
          ->excludes(runtime_dir);
  app.add_flag("--json", options.json, "print one JSON object");
  app.add_flag("--private", options.private_daemon,
               "start the preprocd beside this program for this call")
      ->excludes(address)
      ->excludes(runtime_dir);
  app.add_option("--daemon-backend", options.daemon_backends,
                 "--backend of the private daemon");
  AddParsed(
      app, "--transport", &options.transport,
      [](const std::string& text) -> absl::StatusOr<Transport> {
        if (text == "direct") return Transport::kDirect;
        if (text == "grpc") return Transport::kGrpc;
        return UsageError("'" + text + "' is neither direct nor grpc");
      },
      "direct | grpc: the way that calls take (default direct)");
  app.add_option("--timeout", options.timeout_s,
                 "seconds that a call may take (default 60)")
      ->check(CLI::Range(0.001, 86400.0));
}

void AddCommands(CLI::App& app, Selection& selection) {
  AddPeekCommand(app, selection);
  AddDecodeCommand(app, selection);
  AddConvertCommand(app, selection);
  AddEncodeCommand(app, selection);
  AddExplainCommand(app, selection);
  AddTileCommand(app, selection);
  AddMergeCommand(app, selection);
  AddMaskCommand(app, selection);
  AddStatusCommand(app, selection);
  AddCapabilitiesCommand(app, selection);
  AddSessionsCommand(app, selection);
  AddStatsCommand(app, selection);
  AddBenchCommand(app, selection);
  AddUnbuiltCommand(app, selection, "batch", "Convert a folder");
  AddUnbuiltCommand(app, selection, "top", "Watch the sessions work");
  AddUnbuiltCommand(app, selection, "trace", "Record spans of the daemon");
}

int Report(const absl::Status& status, bool json) {
  if (json) {
    std::cout << DumpJson(ErrorToJson(status)) << std::endl;
  } else {
    std::cerr << "preprocctl: " << status.message() << " ["
              << absl::StatusCodeToString(status.code()) << " "
              << ReasonOf(status) << "]" << std::endl;
  }
  return ExitCodeOf(status);
}

// Whether the command line asks for JSON, also when it cannot be parsed.
bool WantsJson(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (absl::string_view(argv[i]) == "--json") return true;
  }
  return false;
}

int Run(int argc, char** argv) {
  GlobalOptions options;
  Selection selection;
  CLI::App app(kDescription, "preprocctl");
  app.set_version_flag("--version", "preprocctl " PREPROCD_VERSION);
  app.require_subcommand(1);
  app.fallthrough();  // inherited: global options may follow the command
  AddGlobalOptions(app, options);
  AddCommands(app, selection);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return Report(UsageError(error.what()), WantsJson(argc, argv));
  }
  options.json = WantsJson(argc, argv);
  Context context(options);
  const absl::Status status = selection(context);
  if (!status.ok()) {
    // What was found out before the refusal is for people only.
    if (!options.json) std::cout << context.text() << std::flush;
    return Report(status, options.json);
  }
  if (!options.json) {
    std::cout << context.text() << std::flush;
  } else if (!context.json().is_null()) {
    std::cout << DumpJson(context.json()) << std::endl;
  }
  return kExitOk;
}

}  // namespace
}  // namespace preprocd::cli

int main(int argc, char** argv) { return preprocd::cli::Run(argc, argv); }
