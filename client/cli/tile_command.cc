#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/convert_options.h"
#include "client/cli/exit_code.h"
#include "client/cli/json_format.h"
#include "client/cli/npy_file.h"
#include "client/cli/option_values.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "client/cli/text_format.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

// Tiles are rendered in groups whose memory stays below this.
constexpr uint64_t kMaxGroupBytes = 256u << 20;

struct Arguments {
  ConvertOptions options;
  std::string output;
  std::optional<v1::Size> frame;
  std::optional<v1::Size> tile;
  float overlap = 0.2F;
  bool plan_only = false;
};

v1::Size MakeSize(int width, int height) {
  v1::Size size;
  size.set_width(width);
  size.set_height(height);
  return size;
}

v1::TileGrid MakeGrid(const Arguments& arguments) {
  v1::TileGrid grid;
  *grid.mutable_tile() = *arguments.tile;
  grid.set_overlap(arguments.overlap);
  grid.set_fit(arguments.options.fit);
  grid.set_letterbox_rule(arguments.options.letterbox_rule);
  return grid;
}

// The frame as it is stored, or given; turned upright.
absl::StatusOr<v1::Size> FrameSize(Session& session, const v1::Source& source,
                                   const v1::ConvertSpec& spec) {
  int orientation = spec.orientation();
  v1::Size size = MakeSize(source.layout().width(), source.layout().height());
  if (!source.has_layout()) {
    v1::PeekRequest request;
    *request.mutable_source() = source;
    ASSIGN_OR_RETURN(const v1::PeekReply reply, session.Peek(request));
    size = MakeSize(reply.info().width(), reply.info().height());
    if (spec.orientation_from_file()) orientation = reply.info().orientation();
  }
  if (orientation >= 5) return MakeSize(size.height(), size.width());
  return size;
}

void PresentGrid(Context& context, const Arguments& arguments,
                 const v1::Size& frame, const v1::PlanTilesReply& plan) {
  nlohmann::ordered_json tiles = nlohmann::ordered_json::array();
  context.Print(absl::StrCat(plan.tiles_size(), " tiles in ", plan.rows(),
                             " rows and ", plan.columns(), " columns\n"));
  for (const v1::TilePlacement& tile : plan.tiles()) {
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
  context.json()["rows"] = plan.rows();
  context.json()["columns"] = plan.columns();
  context.json()["frame"] = MessageToJson(frame);
  context.json()["tile"] = MessageToJson(*arguments.tile);
  context.json()["overlap"] = arguments.overlap;
}

absl::StatusOr<v1::PlanTilesReply> PlanGrid(Context& context, Session& session,
                                            const Arguments& arguments,
                                            const v1::Size& frame) {
  v1::PlanTilesRequest request;
  *request.mutable_frame() = frame;
  *request.mutable_grid() = MakeGrid(arguments);
  absl::StatusOr<v1::PlanTilesReply> plan = session.PlanTiles(request);
  const auto detail = GetErrorDetail(plan.status());
  if (!detail || detail->field != "body") return plan;
  // Thousands of tiles do not fit a direct frame.
  ASSIGN_OR_RETURN(const auto over_grpc, context.NewSession(Transport::kGrpc));
  return over_grpc->PlanTiles(request);
}

// The format that the pixels have in memory.
v1::PixelFormat FormatInMemory(const v1::Destination& destination) {
  const v1::PixelFormat format = destination.layout().format();
  if (destination.tensor_layout() != v1::TENSOR_LAYOUT_CHW) return format;
  switch (format) {
    case v1::PIXEL_FORMAT_RGB:
      return v1::PIXEL_FORMAT_PLANAR_RGB;
    case v1::PIXEL_FORMAT_BGR:
      return v1::PIXEL_FORMAT_PLANAR_BGR;
    case v1::PIXEL_FORMAT_RGBA:
      return v1::PIXEL_FORMAT_PLANAR_RGBA;
    default:
      return format;
  }
}

// The request of all tiles, without the places of its pictures.
absl::StatusOr<v1::TileRequest> MakeTileRequest(const Arguments& arguments) {
  ConvertOptions options = arguments.options;
  options.fit = v1::FIT_UNSPECIFIED;
  options.letterbox_rule = v1::LETTERBOX_RULE_UNSPECIFIED;
  ASSIGN_OR_RETURN(v1::ConvertRequest convert, MakeConvertRequest(options));
  v1::TileRequest request;
  request.mutable_spec()->Swap(convert.mutable_spec());
  request.mutable_source()->Swap(convert.mutable_source());
  request.mutable_destination()->Swap(convert.mutable_destination());
  request.mutable_destination()->mutable_layout()->set_format(
      FormatInMemory(request.destination()));
  request.mutable_options()->Swap(convert.mutable_options());
  request.set_lenient(options.lenient);
  *request.mutable_grid() = MakeGrid(arguments);
  return request;
}

// Renders groups of tiles and hands them on.
class TileRenderer {
 public:
  TileRenderer(Context& context, Session& session, v1::TileRequest request)
      : context_(context), session_(session), request_(std::move(request)) {}

  // `count` tiles as one array file.
  absl::Status WriteArray(const std::string& path, int count) {
    std::vector<std::byte> all;
    std::span<const std::byte> bytes;
    for (int first = 0; first < count;) {
      const int group = GroupSize(count - first);
      ASSIGN_OR_RETURN(bytes, Render(first, group, nullptr));
      first += group;
      // What fits one group needs no copy.
      if (group != count) {
        all.insert(all.end(), bytes.begin(), bytes.end());
        bytes = all;
      }
    }
    const v1::ImageLayout layout = TileLayout(0);
    std::vector<int64_t> shape =
        NpyShape(layout, request_.destination().tensor_layout() ==
                             v1::TENSOR_LAYOUT_CHW);
    shape.insert(shape.begin(), count);
    context_.json()["shape"] = shape;
    context_.Print(Line(
        "result",
        absl::StrCat(EnumText(layout.format()), " ", EnumText(layout.dtype()),
                     ", [", absl::StrJoin(shape, ","), "]")));
    const std::string header =
        absl::EndsWith(path, ".raw") ? "" : NpyHeader(layout.dtype(), shape);
    return WriteFile(path, header, bytes);
  }

  // `count` tiles as files tile_00000.EXTENSION, each as soon as it is
  // finished.
  absl::Status WriteFiles(const std::string& folder, int count) {
    if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) {
      return WithReason(
          absl::InternalError(absl::StrCat(folder, ": ", strerror(errno))),
          kReasonFile);
    }
    OutputKind kind = OutputKind::kPng;
    if (!CheckOutput(kind, request_.destination().layout().dtype(),
                     request_.destination())
             .ok() ||
        PlanesOf(request_.destination().layout().format()).size() != 1) {
      kind = OutputKind::kNpy;
    }
    for (int first = 0; first < count;) {
      const int group = GroupSize(count - first);
      absl::Status written;
      const auto write = [&](const v1::TileProgress& progress) {
        for (const v1::TilePlacement& tile : progress.tiles()) {
          if (written.ok()) {
            written =
                WriteTile(folder, kind, tile.index(), tile.index() - first);
          }
        }
      };
      RETURN_IF_ERROR(Render(first, group, write).status());
      RETURN_IF_ERROR(written);
      first += group;
    }
    context_.json()["tile_files"] =
        kind == OutputKind::kPng ? "tile_%05d.png" : "tile_%05d.npy";
    return absl::OkStatus();
  }

  const v1::TileReply& reply() const { return reply_; }

 private:
  using OnProgress = std::function<void(const v1::TileProgress&)>;

  // The layout of one tile at `offset_bytes`.
  v1::ImageLayout TileLayout(uint64_t offset_bytes) const {
    v1::ImageLayout layout = request_.destination().layout();
    layout.set_width(request_.grid().tile().width());
    layout.set_height(request_.grid().tile().height());
    SetPlanes(layout, offset_bytes, 0);
    return layout;
  }

  uint64_t TileBytes() const {
    v1::ImageLayout layout = request_.destination().layout();
    layout.set_width(request_.grid().tile().width());
    layout.set_height(request_.grid().tile().height());
    return TightBytes(layout).value_or(1);
  }

  int GroupSize(int left) const {
    const uint64_t most = session_.has_direct()
                              ? kMaxGroupBytes
                              : static_cast<uint64_t>(kMaxInlineBytes);
    const uint64_t fits = std::max<uint64_t>(1, most / TileBytes());
    const int per_call = session_.limits().max_tiles_per_call() > 0
                             ? session_.limits().max_tiles_per_call()
                             : 1024;
    return static_cast<int>(std::min<uint64_t>(
        fits, static_cast<uint64_t>(std::min(left, per_call))));
  }

  // The bytes of tiles [first, first + count); they live until the next call.
  absl::StatusOr<std::span<const std::byte>> Render(
      int first, int count, const OnProgress& on_progress) {
    const auto size = static_cast<uint64_t>(count) * TileBytes();
    ASSIGN_OR_RETURN(place_, ResultPlace::Create(session_, size));
    place_->FillLocation(*request_.mutable_destination());
    request_.set_first_tile(first);
    request_.set_tile_count(count);
    if (on_progress == nullptr) {
      ASSIGN_OR_RETURN(reply_, session_.Tile(request_));
      return place_->bytes(reply_.inline_bytes());
    }
    if (session_.has_direct()) {
      ASSIGN_OR_RETURN(reply_, session_.TileStream(request_, on_progress));
      return place_->bytes(reply_.inline_bytes());
    }
    // Inline pixels come with the reply.
    ASSIGN_OR_RETURN(reply_, session_.Tile(request_));
    v1::TileProgress all;
    *all.mutable_tiles() = reply_.tiles();
    on_progress(all);
    return place_->bytes(reply_.inline_bytes());
  }

  absl::Status WriteTile(const std::string& folder, OutputKind kind, int index,
                         int element) {
    ResultPicture picture;
    picture.layout = TileLayout(static_cast<uint64_t>(element) * TileBytes());
    picture.tensor_layout = request_.destination().tensor_layout();
    picture.bytes = place_->bytes(reply_.inline_bytes());
    place_->FillSource(picture.source, reply_.inline_bytes());
    return WriteResult(
        session_,
        absl::StrCat(folder, "/",
                     absl::StrFormat("tile_%05d.%s", index,
                                     kind == OutputKind::kPng ? "png" : "npy")),
        kind, picture, 0);
  }

  Context& context_;
  Session& session_;
  v1::TileRequest request_;
  v1::TileReply reply_;
  std::optional<ResultPlace> place_;
};

absl::Status RenderTiles(Context& context, Session& session,
                         const Arguments& arguments, v1::TileRequest request,
                         int count) {
  TileRenderer renderer(context, session, std::move(request));
  const bool array = absl::EndsWith(arguments.output, ".npy") ||
                     absl::EndsWith(arguments.output, ".raw");
  RETURN_IF_ERROR(array ? renderer.WriteArray(arguments.output, count)
                        : renderer.WriteFiles(arguments.output, count));
  const v1::TileReply& reply = renderer.reply();
  context.json()["file"] = arguments.options.file;
  context.json()["output"] = arguments.output;
  context.json()["format"] = EnumText(reply.layout().format());
  context.json()["dtype"] = EnumText(reply.layout().dtype());
  context.json()["backend"] = reply.report().backend();
  context.json()["bytes_copied"] = reply.report().bytes_copied();
  context.json()["report"] = MessageToJson(reply.report());
  context.Print(
      absl::StrCat(arguments.options.file, " -> ", arguments.output, "\n"));
  context.Print(ReportText(reply.report()));
  return absl::OkStatus();
}

absl::Status RunTile(Context& context, const Arguments& arguments) {
  if (!arguments.plan_only && arguments.output.empty()) {
    return UsageError("tile needs -o FOLDER, -o FILE.npy or --plan-only");
  }
  if (!arguments.plan_only && arguments.options.file.empty()) {
    return UsageError("tile needs a FILE to cut");
  }
  if (!arguments.plan_only && arguments.frame) {
    return UsageError("--frame goes with --plan-only");
  }
  ASSIGN_OR_RETURN(v1::TileRequest request, MakeTileRequest(arguments));
  std::optional<SourcePicture> source;
  v1::Size frame;
  Session* session = nullptr;
  if (arguments.frame) {
    ASSIGN_OR_RETURN(session, context.session());
    frame = *arguments.frame;
  } else {
    const std::optional<v1::ImageLayout> raw =
        arguments.options.raw ? std::optional(request.source().layout())
                              : std::nullopt;
    if (arguments.options.file.empty() && !raw) {
      return UsageError("tile needs a FILE, --raw FORMAT:WxH or --frame WxH");
    }
    if (!arguments.options.file.empty()) {
      ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.options.file));
      ASSIGN_OR_RETURN(session, context.session());
      ASSIGN_OR_RETURN(source,
                       SourcePicture::Create(*session, std::move(bytes), raw));
      *request.mutable_source() = source->source();
    } else {
      ASSIGN_OR_RETURN(session, context.session());
    }
    ASSIGN_OR_RETURN(frame,
                     FrameSize(*session, request.source(), request.spec()));
  }
  ASSIGN_OR_RETURN(const v1::PlanTilesReply plan,
                   PlanGrid(context, *session, arguments, frame));
  PresentGrid(context, arguments, frame, plan);
  if (arguments.plan_only) return absl::OkStatus();
  return RenderTiles(context, *session, arguments, std::move(request),
                     plan.tiles_size());
}

}  // namespace

void AddTileCommand(CLI::App& app, Selection& selection) {
  CLI::App& command =
      *app.add_subcommand("tile", "Cut a large picture into overlapping tiles");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->options.file,
                     "JPEG, PNG or raw pixels");
  command.add_option("-o,--output", arguments->output,
                     "FILE.npy: all tiles as one array [N,H,W,C] or "
                     "[N,C,H,W]; FILE.raw: its bytes; else a folder for one "
                     "file per tile, .png where the pixels are a picture, "
                     ".npy otherwise");
  AddParsed(command, "--frame", &arguments->frame, ParseSize,
            "WxH of the frame, instead of a FILE, with --plan-only");
  AddParsed(command, "--tile", &arguments->tile, ParseSize, "WxH of a tile")
      ->required();
  command.add_option("--overlap", arguments->overlap,
                     "smallest overlap of neighbours, 0..1 (default 0.2)");
  AddParsed(command, "--fit", &arguments->options.fit, ParseEnum<v1::Fit>,
            "stretch | letterbox, for frames smaller than a tile");
  command.add_flag("--plan-only", arguments->plan_only, "print the grid");
  AddRenderOptions(command, arguments->options);
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
