#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/convert_options.h"
#include "client/cli/exit_code.h"
#include "client/cli/json_format.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/text_format.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

struct Arguments {
  ConvertOptions options;
  std::string output;  // accepted, so that a convert line can be pasted
};

std::string PlanText(const v1::ExplainReply& plan) {
  std::string text = Line("source", LayoutText(plan.source()));
  text += Line("result", LayoutText(plan.destination()));
  text += PlacementText(plan.placement());
  text += Line("orientation", absl::StrCat(plan.orientation()));
  text += Line("filter", EnumText(plan.filter()));
  if (!plan.yuv_to_rgb().empty()) {
    text += Line("chroma", EnumText(plan.chroma()));
    text += Line("yuv to rgb",
                 absl::StrCat("[", absl::StrJoin(plan.yuv_to_rgb(), ", "), "]",
                              " (y0, y, vr, ug, vg, ub)"));
  }
  for (int i = 0; i < plan.normalization().multiplier_size(); ++i) {
    const double offset = i < plan.normalization().offset_size()
                              ? plan.normalization().offset(i)
                              : 0.0;
    text += Line(i == 0 ? "normalise" : "",
                 absl::StrFormat("(v - %.6g) * %.6g", offset,
                                 plan.normalization().multiplier(i)));
  }
  if (plan.has_quantization()) {
    text += Line("quantise", absl::StrFormat("round(n * %.6g) + %d",
                                             plan.quantization().multiplier(),
                                             plan.quantization().zero_point()));
  }
  text += Line("bytes",
               absl::StrCat("reads ", BytesText(plan.bytes_read()), ", writes ",
                            BytesText(plan.bytes_written()), ", scratch ",
                            BytesText(plan.scratch_bytes())));
  text += "backends\n";
  for (const v1::BackendChoice& choice : plan.ranking()) {
    text += absl::StrFormat(
        "  %d %-10s %s%s\n", choice.rank(), choice.backend(),
        choice.accepts() ? "accepts" : choice.reason(),
        choice.backend() == plan.backend() ? "  <- runs it" : "");
  }
  text += "steps\n";
  for (int i = 0; i < plan.steps_size(); ++i) {
    absl::StrAppendFormat(&text, "  %d %s\n", i + 1, plan.steps(i));
  }
  return text;
}

absl::Status RunExplain(Context& context, const Arguments& arguments) {
  if (arguments.options.file.empty() && !arguments.options.raw) {
    return UsageError("explain needs a FILE, or --raw FORMAT:WxH");
  }
  v1::ExplainRequest request;
  ASSIGN_OR_RETURN(*request.mutable_convert(),
                   MakeConvertRequest(arguments.options));
  v1::Source& source = *request.mutable_convert()->mutable_source();
  std::string bytes;
  if (!arguments.options.file.empty()) {
    ASSIGN_OR_RETURN(bytes, ReadFile(arguments.options.file));
  }
  ASSIGN_OR_RETURN(Session* const session, context.session());
  // Without a file the layout alone stands for the source.
  SourcePicture picture;
  if (!arguments.options.file.empty()) {
    const std::optional<v1::ImageLayout> raw =
        arguments.options.raw ? std::optional(source.layout()) : std::nullopt;
    ASSIGN_OR_RETURN(picture,
                     SourcePicture::Create(*session, std::move(bytes), raw));
    source = picture.source();
  }
  ASSIGN_OR_RETURN(const v1::ExplainReply plan, session->Explain(request));
  context.json()["file"] = arguments.options.file;
  context.json().update(MessageToJson(plan));
  context.Print(
      absl::StrCat("plan ", arguments.options.file, "\n", PlanText(plan)));
  return absl::OkStatus();
}

}  // namespace

void AddExplainCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "explain", "Print the plan of a convert without touching a pixel");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->options.file,
                     "JPEG, PNG or raw pixels; may be left out with --raw");
  command.add_option("-o,--output", arguments->output, "not written");
  AddConvertOptions(command, arguments->options);
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunExplain(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
