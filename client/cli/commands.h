// The subcommands of preprocctl. Each function adds one subcommand to `app`;
// when the command line names it, `selection` gets what it does.
// Thread-safety: bound to the main thread.
#ifndef CLIENT_CLI_COMMANDS_H_
#define CLIENT_CLI_COMMANDS_H_

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/command_context.h"

namespace preprocd::cli {

// What the chosen subcommand does; its results go to the context.
using Selection = std::function<absl::Status(Context&)>;

void AddPeekCommand(CLI::App& app, Selection& selection);  // "info"
void AddDecodeCommand(CLI::App& app, Selection& selection);
void AddConvertCommand(CLI::App& app, Selection& selection);
void AddEncodeCommand(CLI::App& app, Selection& selection);
void AddExplainCommand(CLI::App& app, Selection& selection);
void AddTileCommand(CLI::App& app, Selection& selection);
void AddMergeCommand(CLI::App& app, Selection& selection);
void AddMaskCommand(CLI::App& app, Selection& selection);
void AddStatusCommand(CLI::App& app, Selection& selection);
void AddCapabilitiesCommand(CLI::App& app, Selection& selection);
void AddSessionsCommand(CLI::App& app, Selection& selection);
void AddStatsCommand(CLI::App& app, Selection& selection);
void AddBenchCommand(CLI::App& app, Selection& selection);
// A subcommand that is documented and not there yet: takes any arguments and
// answers UNIMPLEMENTED, reason NOT_BUILT.
void AddUnbuiltCommand(CLI::App& app, Selection& selection,
                       const std::string& name, const std::string& text);

// An option whose text `parser` (returning absl::StatusOr of something that
// is assignable to *target) understands.
template <typename Target, typename Parser>
CLI::Option* AddParsed(CLI::App& command, const std::string& name,
                       Target* target, Parser parser,
                       const std::string& description) {
  return command
      .add_option_function<std::string>(
          name,
          [name, target, parser](const std::string& text) {
            auto value = parser(text);
            if (!value.ok()) {
              throw CLI::ValidationError(name,
                                         std::string(value.status().message()));
            }
            *target = *std::move(value);
          },
          description)
      ->type_name("");
}

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_COMMANDS_H_
