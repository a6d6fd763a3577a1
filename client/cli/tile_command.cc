#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"
#include "client/cli/json_format.h"
#include "client/cli/option_values.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/text_format.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

struct Arguments {
  std::string file;
  std::string output;
  std::optional<v1::ImageLayout> raw;
  std::optional<v1::Size> frame;
  std::optional<v1::Size> tile;
  float overlap = 0.2F;
  v1::Fit fit = v1::FIT_UNSPECIFIED;
  bool plan_only = false;
};

// The frame's size: given, that of the raw pixels, or that in the file.
absl::StatusOr<v1::Size> FrameSize(Context& context,
                                   const Arguments& arguments) {
  if (arguments.frame) return *arguments.frame;
  v1::Size size;
  if (arguments.raw) {
    size.set_width(arguments.raw->width());
    size.set_height(arguments.raw->height());
    return size;
  }
  if (arguments.file.empty()) {
    return UsageError("tile needs a FILE, --raw FORMAT:WxH or --frame WxH");
  }
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.file));
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(
      const SourcePicture source,
      SourcePicture::Create(*session, std::move(bytes), std::nullopt));
  v1::PeekRequest request;
  *request.mutable_source() = source.source();
  ASSIGN_OR_RETURN(const v1::PeekReply reply, session->Peek(request));
  size.set_width(reply.info().width());
  size.set_height(reply.info().height());
  return size;
}

absl::Status RunTile(Context& context, const Arguments& arguments) {
  if (!arguments.plan_only) return NotBuilt("tile without --plan-only");
  v1::PlanTilesRequest request;
  ASSIGN_OR_RETURN(*request.mutable_frame(), FrameSize(context, arguments));
  *request.mutable_grid()->mutable_tile() = *arguments.tile;
  request.mutable_grid()->set_overlap(arguments.overlap);
  request.mutable_grid()->set_fit(arguments.fit);
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(const v1::PlanTilesReply reply, session->PlanTiles(request));
  nlohmann::ordered_json tiles = nlohmann::ordered_json::array();
  context.Print(absl::StrCat(reply.tiles_size(), " tiles in ", reply.rows(),
                             " rows and ", reply.columns(), " columns\n"));
  for (const v1::TilePlacement& tile : reply.tiles()) {
    nlohmann::ordered_json entry;
    entry["index"] = tile.index();
    entry["x"] = tile.crop().x();
    entry["y"] = tile.crop().y();
    entry["width"] = tile.crop().width();
    entry["height"] = tile.crop().height();
    entry["row"] = tile.row();
    entry["column"] = tile.column();
    entry["content"] = MessageToJson(tile.content());
    tiles.push_back(std::move(entry));
    context.Print(absl::StrFormat("  %3d  row %d column %d  %s\n", tile.index(),
                                  tile.row(), tile.column(),
                                  RectText(tile.crop())));
  }
  context.json()["tiles"] = std::move(tiles);
  context.json()["rows"] = reply.rows();
  context.json()["columns"] = reply.columns();
  context.json()["frame"] = MessageToJson(request.frame());
  context.json()["tile"] = MessageToJson(*arguments.tile);
  context.json()["overlap"] = arguments.overlap;
  return absl::OkStatus();
}

}  // namespace

void AddTileCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "tile",
      "Cut a large picture into overlapping tiles (only --plan-only "
      "is built)");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->file, "JPEG or PNG");
  command.add_option("-o,--output", arguments->output, "folder or .npy");
  AddParsed(command, "--raw", &arguments->raw, ParseRaw,
            "FILE holds raw pixels: FORMAT:WxH[:stride=N][:offset=N]");
  AddParsed(command, "--frame", &arguments->frame, ParseSize,
            "WxH of the frame, instead of a FILE");
  AddParsed(command, "--tile", &arguments->tile, ParseSize, "WxH of a tile")
      ->required();
  command.add_option("--overlap", arguments->overlap,
                     "smallest overlap of neighbours, 0..1 (default 0.2)");
  AddParsed(command, "--fit", &arguments->fit, ParseEnum<v1::Fit>,
            "stretch | letterbox, for frames smaller than a tile");
  command.add_flag("--plan-only", arguments->plan_only, "print the grid");
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunTile(context, *arguments);
    };
  });
}

void AddUnbuiltCommand(CLI::App& app, Selection& selection,
                       const std::string& name, const std::string& text) {
  CLI::App& command =
      *app.add_subcommand(name, text + " (not part of this build)");
  // Whatever follows, --json included, is left alone.
  command.prefix_command()->fallthrough(false);
  command.callback([&selection, name] {
    selection = [name](Context&) { return NotBuilt(name); };
  });
}

}  // namespace preprocd::cli
