#include <google/protobuf/util/json_util.h>

#include <memory>
#include <nlohmann/json.hpp>
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
#include "client/cli/text_format.h"
#include "engine/base/error_detail.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

using Json = nlohmann::json;

// Larger requests take gRPC whatever the transport: replies to them may not
// fit a direct frame.
constexpr size_t kMaxDirectBytes = kMaxFrameBytes / 4;

struct Arguments {
  std::string file;
  std::string output;
  v1::MatchMetric metric = v1::MATCH_METRIC_UNSPECIFIED;
  v1::MergeRule rule = v1::MERGE_RULE_UNSPECIFIED;
  float threshold = 0;
  float score_threshold = 0;
  int max_detections = 0;
  bool class_agnostic = false;
  bool whole_frame_masks = false;
};

absl::Status Refused(absl::string_view field, absl::string_view why) {
  return InvalidField(field, absl::StrCat(field, ": ", why));
}

// `json` as a message; members that the message has not are left alone.
absl::Status ToMessage(const Json& json, const std::string& field,
                       google::protobuf::Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const auto status = google::protobuf::util::JsonStringToMessage(
      json.dump(-1, ' ', false, Json::error_handler_t::replace), message,
      options);
  if (status.ok()) return absl::OkStatus();
  return Refused(field, std::string(status.message()));
}

// Calls `each(entry, its path)` for the entries of an array, if there is one.
template <typename Each>
absl::Status ForEach(const Json& json, const std::string& name,
                     const std::string& prefix, Each each) {
  const auto found = json.find(name);
  if (found == json.end()) return absl::OkStatus();
  if (!found->is_array()) {
    return Refused(absl::StrCat(prefix, name), "is not an array");
  }
  for (size_t i = 0; i < found->size(); ++i) {
    RETURN_IF_ERROR(each((*found)[i], absl::StrCat(prefix, name, "[", i, "]")));
  }
  return absl::OkStatus();
}

absl::StatusOr<Json> ReadJson(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(file == "-" ? "/dev/stdin" : file));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Refused(file, "is not a JSON object");
  return json;
}

// A tile as `tile --json` prints it, with "boxes" added.
absl::Status LiftTile(Session& session, const Json& tile,
                      const std::string& path, const Json& all,
                      v1::MergeDetectionsRequest& request) {
  if (!tile.is_object()) return Refused(path, "is not an object");
  v1::LiftBoxesRequest lift;
  RETURN_IF_ERROR(ForEach(tile, "boxes", absl::StrCat(path, "."),
                          [&](const Json& box, const std::string& at) {
                            return ToMessage(box, at, lift.add_boxes());
                          }));
  if (lift.boxes().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(
      ToMessage(tile, path, lift.mutable_placement()->mutable_crop()));
  if (tile.contains("content") && tile["content"].is_object()) {
    RETURN_IF_ERROR(ToMessage(tile["content"], absl::StrCat(path, ".content"),
                              lift.mutable_placement()->mutable_content()));
  }
  if (all.contains("tile")) {
    RETURN_IF_ERROR(ToMessage(all["tile"], "tile", lift.mutable_tile()));
  }
  if (request.has_frame()) *lift.mutable_frame() = request.frame();
  const auto pixels = all.find("pixels");
  lift.set_pixels(pixels != all.end() && pixels->is_boolean() &&
                  pixels->get<bool>());
  const absl::StatusOr<v1::LiftBoxesReply> reply = session.LiftBoxes(lift);
  if (!reply.ok()) {
    return PrefixField(reply.status(), absl::StrCat(path, "."));
  }
  request.mutable_boxes()->MergeFrom(reply->boxes());
  return absl::OkStatus();
}

absl::Status ReadScene(Session& session, const Json& json,
                       v1::MergeDetectionsRequest& request) {
  if (json.contains("frame")) {
    RETURN_IF_ERROR(ToMessage(json["frame"], "frame", request.mutable_frame()));
  }
  RETURN_IF_ERROR(
      ForEach(json, "boxes", "", [&](const Json& box, const std::string& at) {
        return ToMessage(box, at, request.add_boxes());
      }));
  RETURN_IF_ERROR(
      ForEach(json, "masks", "", [&](const Json& mask, const std::string& at) {
        return ToMessage(mask, at, request.add_masks());
      }));
  return ForEach(json, "tiles", "",
                 [&](const Json& tile, const std::string& at) {
                   return LiftTile(session, tile, at, json, request);
                 });
}

void Present(Context& context, const v1::MergeDetectionsRequest& request,
             const v1::MergeDetectionsReply& reply) {
  context.json() = MessageToJson(reply);
  context.Print(absl::StrCat(request.boxes_size(), " boxes -> ",
                             reply.boxes_size(), "\n"));
  for (const v1::Detection& box : reply.boxes()) {
    context.Print(absl::StrFormat(
        "  label %d score %.3f  %.1f,%.1f %.1f,%.1f\n", box.label(),
        box.score(), box.x0(), box.y0(), box.x1(), box.y1()));
  }
}

absl::Status RunMerge(Context& context, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const Json json, ReadJson(arguments.file));
  ASSIGN_OR_RETURN(Session * session, context.session());
  v1::MergeDetectionsRequest request;
  RETURN_IF_ERROR(ReadScene(*session, json, request));
  request.set_metric(arguments.metric);
  request.set_rule(arguments.rule);
  request.set_threshold(arguments.threshold);
  request.set_score_threshold(arguments.score_threshold);
  request.set_max_detections(arguments.max_detections);
  request.set_class_agnostic(arguments.class_agnostic);
  request.set_whole_frame_masks(arguments.whole_frame_masks);
  std::unique_ptr<Session> over_grpc;
  if (session->has_direct() && request.ByteSizeLong() > kMaxDirectBytes) {
    ASSIGN_OR_RETURN(over_grpc, context.NewSession(Transport::kGrpc));
    session = over_grpc.get();
  }
  ASSIGN_OR_RETURN(const v1::MergeDetectionsReply reply,
                   session->MergeDetections(request));
  Present(context, request, reply);
  if (arguments.output.empty()) return absl::OkStatus();
  const std::string text = absl::StrCat(DumpJson(context.json()), "\n");
  context.Print(Line("output", arguments.output));
  return WriteFile(arguments.output, text, {});
}

}  // namespace

void AddMergeCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "merge",
      "Merge the boxes (and masks) of overlapping tiles. FILE is JSON: "
      "\"boxes\" [{x0,y0,x1,y1,score,label}] in frame pixels, or \"tiles\" as "
      "tile --json prints them with such \"boxes\" in each, normalised to the "
      "tile (\"pixels\": true = tile pixels); \"masks\" as MaskPiece");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->file, "JSON, - = standard input")
      ->required();
  command.add_option("-o,--output", arguments->output,
                     "also write the result's JSON here");
  AddParsed(command, "--metric", &arguments->metric, ParseEnum<v1::MatchMetric>,
            "ios | iou (default ios)");
  AddParsed(command, "--rule", &arguments->rule, ParseEnum<v1::MergeRule>,
            "union | suppress (default union)");
  command.add_option("--threshold", arguments->threshold,
                     "least overlap of a match, inclusive (default 0.5)");
  command.add_flag("--class-agnostic", arguments->class_agnostic,
                   "merge over classes");
  command.add_option("--max-detections", arguments->max_detections,
                     "boxes kept at most (default 300)");
  command.add_option("--score-threshold", arguments->score_threshold,
                     "boxes below are dropped after merging");
  command.add_flag("--whole-frame-masks", arguments->whole_frame_masks,
                   "run lengths over the whole frame");
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunMerge(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
