#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/convert_options.h"
#include "client/cli/json_format.h"
#include "client/cli/npy_file.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "client/cli/text_format.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

struct Arguments {
  ConvertOptions options;
  std::vector<std::string> outputs;
  int quality = 0;
};

// Bytes that the result takes. Counted here when the size is given and sane;
// in every other case the daemon's plan says it, or why there is none.
absl::StatusOr<uint64_t> ResultBytes(Session& session,
                                     const v1::ConvertRequest& request) {
  const v1::Destination& destination = request.destination();
  const bool tiled =
      destination.tensor_layout() == v1::TENSOR_LAYOUT_TILED_COMPACT ||
      destination.tensor_layout() == v1::TENSOR_LAYOUT_TILED_PAD16;
  const std::optional<uint64_t> tight = TightBytes(destination.layout());
  if (!tiled && tight && destination.layout().width() <= kMaxImageAxis &&
      destination.layout().height() <= kMaxImageAxis) {
    return *tight;
  }
  v1::ExplainRequest explain;
  *explain.mutable_convert() = request;
  ASSIGN_OR_RETURN(const v1::ExplainReply plan, session.Explain(explain));
  if (tiled) return plan.bytes_written();
  const std::optional<uint64_t> planned = TightBytes(plan.destination());
  return planned ? *planned : plan.bytes_written();
}

void Present(Context& context, const Arguments& arguments,
             const v1::ConvertRequest& request, const v1::ConvertReply& reply) {
  const bool channels_first =
      request.destination().tensor_layout() == v1::TENSOR_LAYOUT_CHW;
  const auto shape = NpyShape(reply.layout(), channels_first);
  nlohmann::ordered_json& json = context.json();
  json["file"] = arguments.options.file;
  json["output"] = arguments.outputs[0];
  json["outputs"] = arguments.outputs;
  json["width"] = reply.layout().width();
  json["height"] = reply.layout().height();
  json["format"] = EnumText(reply.layout().format());
  json["dtype"] = EnumText(reply.layout().dtype());
  json["shape"] = shape;
  json["backend"] = reply.report().backend();
  json["bytes_copied"] = reply.report().bytes_copied();
  json["warnings"] = nlohmann::ordered_json::array();
  for (const std::string& warning : reply.report().warnings()) {
    json["warnings"].push_back(warning);
  }
  json.update(MessageToJson(reply));

  context.Print(absl::StrCat(arguments.options.file, " -> ",
                             absl::StrJoin(arguments.outputs, " "), "\n"));
  if (reply.has_info()) context.Print(Line("source", InfoText(reply.info())));
  if (arguments.options.raw) {
    context.Print(Line("source", LayoutText(*arguments.options.raw)));
  }
  context.Print(Line("result", absl::StrCat(LayoutText(reply.layout()), ", [",
                                            absl::StrJoin(shape, ","), "]")));
  if (reply.orientation_applied() > 1) {
    context.Print(Line("orientation",
                       absl::StrCat(reply.orientation_applied(), " applied")));
  }
  context.Print(PlacementText(reply.placement()));
  context.Print(ReportText(reply.report()));
}

absl::Status RunConvert(Context& context, const Arguments& arguments) {
  ASSIGN_OR_RETURN(v1::ConvertRequest request,
                   MakeConvertRequest(arguments.options));
  std::vector<OutputKind> kinds;
  for (const std::string& output : arguments.outputs) {
    ASSIGN_OR_RETURN(kinds.emplace_back(), OutputKindOf(output));
    RETURN_IF_ERROR(CheckOutput(kinds.back(),
                                request.destination().layout().dtype(),
                                request.destination()));
  }
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.options.file));
  ASSIGN_OR_RETURN(Session* const session, context.session());
  const std::optional<v1::ImageLayout> raw =
      arguments.options.raw ? std::optional(request.source().layout())
                            : std::nullopt;
  ASSIGN_OR_RETURN(const SourcePicture source,
                   SourcePicture::Create(*session, std::move(bytes), raw));
  *request.mutable_source() = source.source();
  ASSIGN_OR_RETURN(const uint64_t result_bytes,
                   session->has_direct() ? ResultBytes(*session, request) : 0);
  ASSIGN_OR_RETURN(const ResultPlace place,
                   ResultPlace::Create(*session, result_bytes));
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::ConvertReply reply, session->Convert(request));

  ResultPicture picture;
  picture.layout = reply.layout();
  picture.tensor_layout = request.destination().tensor_layout();
  picture.bytes = place.bytes(reply.inline_bytes());
  place.FillSource(picture.source, reply.inline_bytes());
  for (size_t i = 0; i < kinds.size(); ++i) {
    RETURN_IF_ERROR(WriteResult(*session, arguments.outputs[i], kinds[i],
                                picture, arguments.quality));
  }
  Present(context, arguments, request, reply);
  return absl::OkStatus();
}

}  // namespace

void AddConvertCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "convert", "Decode and convert a picture to a tensor or picture");
  auto arguments = std::make_shared<Arguments>();
  command
      .add_option("FILE", arguments->options.file, "JPEG, PNG or raw pixels")
      ->required();
  command
      .add_option("-o,--output", arguments->outputs,
                  "result: .npy .raw .ppm .pgm .png .jpg; again for more "
                  "files of the same result")
      ->allow_extra_args(false)
      ->required();
  command
      .add_option("--quality", arguments->quality,
                  "of a .jpg result, 1..100 (default 90)")
      ->check(CLI::Range(1, 100));
  AddConvertOptions(command, arguments->options);
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunConvert(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
