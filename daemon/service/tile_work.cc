#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "daemon/service/tile_messages.h"
#include "daemon/service/work_item.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/convert/planner.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

// Progress messages of one call: what a slow reader may still have to read is
// bounded.
constexpr size_t kMaxProgressMessages = 64;

// Groups finished tiles into few messages.
class ProgressTeller {
 public:
  explicit ProgressTeller(TileWork& tile)
      : tile_(tile),
        group_((tile.plans.size() + kMaxProgressMessages - 1) /
               kMaxProgressMessages) {}

  void Finished(size_t index) {
    if (tile_.progress == nullptr) return;
    const std::lock_guard lock(mutex_);
    FillTilePlacement(
        tile_.grid.tiles[static_cast<size_t>(tile_.first) + index],
        message_.add_tiles());
    ++finished_;
    if (static_cast<size_t>(message_.tiles_size()) < group_ &&
        finished_ < tile_.plans.size()) {
      return;
    }
    tile_.progress(message_);
    message_.clear_tiles();
  }

 private:
  TileWork& tile_;
  const size_t group_;
  std::mutex mutex_;
  // Guarded by mutex_.
  v1::TileProgress message_;
  size_t finished_ = 0;
};

// A field of the spec that the grid or the placement decides.
absl::Status RefuseSet(bool set, absl::string_view field,
                       absl::string_view instead) {
  if (!set) return absl::OkStatus();
  return InvalidField(
      field, absl::StrCat(field, " is set, but ", instead, " decides it"));
}

absl::Status CheckTileSpec(const v1::ConvertSpec& spec,
                           const v1::TileGrid& grid) {
  RETURN_IF_ERROR(
      RefuseSet(spec.has_source_rect(), "spec.source_rect", "the grid"));
  RETURN_IF_ERROR(RefuseSet(spec.has_place(), "spec.place", "the grid"));
  const v1::Fit fit =
      grid.fit() == v1::FIT_UNSPECIFIED ? v1::FIT_STRETCH : grid.fit();
  RETURN_IF_ERROR(
      RefuseSet(spec.fit() != v1::FIT_UNSPECIFIED && spec.fit() != fit,
                "spec.fit", "grid.fit"));
  return RefuseSet(spec.letterbox_rule() != v1::LETTERBOX_RULE_UNSPECIFIED &&
                       spec.letterbox_rule() != grid.letterbox_rule(),
                   "spec.letterbox_rule", "grid.letterbox_rule");
}

// What the destination says but its size, which is the batch's.
absl::StatusOr<OutputSpec> TileOutput(const v1::Destination& destination,
                                      const DestinationPicture& picture) {
  v1::Destination sizeless = destination;
  if (sizeless.has_layout()) {
    sizeless.mutable_layout()->clear_width();
    sizeless.mutable_layout()->clear_height();
  }
  return DestinationOutput(sizeless, picture);
}

// Width and height that the message or the registered layout states; 0 = not.
Size StatedSize(const v1::Destination& destination,
                const DestinationPicture& picture) {
  if (destination.has_layout()) {
    return {destination.layout().width(), destination.layout().height()};
  }
  if (picture.registered != nullptr && picture.registered->desc) {
    return {picture.registered->desc->width, picture.registered->desc->height};
  }
  return {};
}

absl::Status CheckStatedSize(Size stated, Size tile, int count) {
  if (stated.width != 0 && stated.width != tile.width) {
    return BadValue(ErrorReason::kGeometryInvalid, "destination.layout.width",
                    absl::StrCat(stated.width),
                    absl::StrCat("is not the tile's ", tile.width));
  }
  const int64_t needed = int64_t{tile.height} * count;
  if (stated.height != 0 && stated.height < needed) {
    return BadValue(ErrorReason::kBufferTooSmall, "destination.layout.height",
                    absl::StrCat(stated.height),
                    absl::StrCat("< ", needed, ", the height of ", count,
                                 " tiles of ", tile.height));
  }
  return absl::OkStatus();
}

// Tiles [first, first + count) of `total`.
absl::StatusOr<int> TileCount(const v1::TileRequest& request, int total) {
  const int first = request.first_tile();
  if (first < 0 || first >= total) {
    return BadValue(ErrorReason::kFieldInvalid, "first_tile",
                    absl::StrCat(first),
                    absl::StrCat("is not in 0..", total - 1));
  }
  const int rest = total - first;
  if (request.tile_count() < 0 || request.tile_count() > rest) {
    return BadValue(ErrorReason::kFieldInvalid, "tile_count",
                    absl::StrCat(request.tile_count()),
                    absl::StrCat("is not in 0..", rest,
                                 ", what the grid has "
                                 "from tile ",
                                 first, " on"));
  }
  const int count = request.tile_count() == 0 ? rest : request.tile_count();
  if (count > kMaxTilesPerCall) {
    return BadValue(ErrorReason::kTooLarge, "tile_count", absl::StrCat(count),
                    absl::StrCat("tiles > ", kMaxTilesPerCall,
                                 "; render them by several calls with "
                                 "first_tile and tile_count"));
  }
  return count;
}

// The stored picture, and its upright size.
absl::StatusOr<ImageDesc> FrameOf(WorkItem& item, const v1::ConvertSpec& spec,
                                  Size* upright) {
  ImageDesc source = item.source.desc;
  if (item.source.encoded) {
    RETURN_IF_ERROR(OpenAndPeek(item));
    if (WantsFileOrientation(spec)) {
      item.spec.orientation = item.info.orientation;
    }
    ASSIGN_OR_RETURN(
        source, Engine::DecodedDesc(
                    item.info, item.output.format == PixelFormat::kUnspecified
                                   ? PixelFormat::kRgb
                                   : item.output.format));
  }
  item.orientation = item.spec.orientation;
  *upright = OrientedSize(item.orientation, {source.width, source.height});
  return source;
}

// Planning speaks of the spec's fields; the client's are these.
absl::Status RenameField(absl::Status status, absl::string_view from,
                         absl::string_view to) {
  std::optional<ErrorDetail> detail = GetErrorDetail(status);
  if (!detail || detail->field != from) return status;
  detail->field = std::string(to);
  return MakeError(status.code(), *std::move(detail),
                   absl::StrCat(to, ": ", status.message()));
}

absl::Status CheckFileOrientation(const v1::ConvertSpec& spec,
                                  const WorkItem& item) {
  if (!WantsFileOrientation(spec) || item.source.encoded) {
    return absl::OkStatus();
  }
  return InvalidField("spec.orientation_from_file",
                      "spec.orientation_from_file true needs an encoded "
                      "source; raw pixels state no orientation");
}

}  // namespace

const WorkSteps Service::kTileSteps = {&Service::FindTile, &Service::PlanTile,
                                       &Service::RunTile, &Service::ReplyTile};
const WorkSteps Service::kTileOneSteps = {
    &Service::FindTileOne, &Service::PlanTileOne, &Service::RunConvert,
    &Service::ReplyConvert};

void Service::Tile(const CallContext& call, const v1::TileRequest& request,
                   v1::TileReply* reply, Done done) {
  if (request.progress()) {
    done(Count(Operation::kTile,
               InvalidField("progress",
                            "progress needs TileStream or the direct "
                            "transport")));
    return;
  }
  TileWithProgress(call, request, reply, nullptr, std::move(done));
}

void Service::TileWithProgress(const CallContext& call,
                               const v1::TileRequest& request,
                               v1::TileReply* reply, TileProgressSink sink,
                               Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kTileSteps;
  item->call = call;
  item->operation = Operation::kTile;
  item->done = std::move(done);
  item->tile.request = &request;
  item->tile.reply = reply;
  item->tile.progress = std::move(sink);
  Begin(std::move(item), request.options());
}

void Service::TileOne(const CallContext& call,
                      const v1::TileOneRequest& request,
                      v1::ConvertReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kTileOneSteps;
  item->call = call;
  item->operation = Operation::kTileOne;
  item->done = std::move(done);
  item->tile_one_request = &request;
  item->convert_reply = reply;
  Begin(std::move(item), request.options());
}

absl::Status Service::FindTile(WorkItem& item) {
  const v1::TileRequest& request = *item.tile.request;
  ASSIGN_OR_RETURN(item.tile.spec, ParseGrid(request.grid()));
  // Everything of the grid but its frame, before the source is looked at.
  RETURN_IF_ERROR(preprocd::PlanTiles({1, 1}, item.tile.spec).status());
  RETURN_IF_ERROR(CheckTileSpec(request.spec(), request.grid()));
  ASSIGN_OR_RETURN(item.spec,
                   ParseConvertSpec(request.spec(), request.options()));
  item.spec.fit = item.tile.spec.fit;
  item.spec.letterbox_rule = item.tile.spec.letterbox_rule;
  RETURN_IF_ERROR(FindSource(OwnerOf(item), request.source(), item.source));
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  ASSIGN_OR_RETURN(item.output,
                   TileOutput(request.destination(), item.destination));
  RETURN_IF_ERROR(CheckFileOrientation(request.spec(), item));
  item.decode.lenient = request.lenient();
  item.decode.fancy_chroma = item.spec.chroma != ChromaUpsampling::kReplicate;
  return absl::OkStatus();
}

absl::Status Service::PlanTile(WorkItem& item) {
  TileWork& tile = item.tile;
  const v1::TileRequest& request = *tile.request;
  ASSIGN_OR_RETURN(const ImageDesc source,
                   FrameOf(item, request.spec(), &tile.frame));
  ASSIGN_OR_RETURN(tile.grid, preprocd::PlanTiles(tile.frame, tile.spec));
  ASSIGN_OR_RETURN(
      const int count,
      TileCount(request, static_cast<int>(tile.grid.tiles.size())));
  tile.first = request.first_tile();
  RETURN_IF_ERROR(
      CheckStatedSize(StatedSize(request.destination(), item.destination),
                      tile.spec.tile, count));
  item.output.size = tile.spec.tile;
  ASSIGN_OR_RETURN(const ImageDesc resolved,
                   ResolveDestination(source, item.output, item.spec));
  RETURN_IF_ERROR(CheckChannelCounts(request.spec(), resolved.format));
  ASSIGN_OR_RETURN(tile.batch,
                   CompleteBatch(request.destination(), resolved, count,
                                 request.element_stride_bytes(),
                                 options_.max_inline_bytes, item.destination));
  tile.plans.resize(static_cast<size_t>(count));
  const Size stored = {source.width, source.height};
  for (int i = 0; i < count; ++i) {
    const TilePlacement& placement =
        tile.grid.tiles[static_cast<size_t>(tile.first + i)];
    item.spec.source_rect =
        StoredCrop(placement.crop, item.orientation, stored);
    ASSIGN_OR_RETURN(tile.plans[static_cast<size_t>(i)],
                     engine_.Plan(source, BatchElement(tile.batch, i),
                                  item.spec, IsJpeg(item)));
  }
  tile.batch_planned = true;
  return absl::OkStatus();
}

absl::Status Service::RunTile(WorkItem& item) {
  TileWork& tile = item.tile;
  RETURN_IF_ERROR(OpenDestination(item.destination, item.report));
  ProgressTeller teller(tile);
  const bool in_place = !item.destination.is_inline();
  const auto finished = [&](size_t index) {
    if (in_place) teller.Finished(index);
  };
  WorkReport part;
  if (item.source.encoded) {
    RETURN_IF_ERROR(engine_.DecodeAndConvertBatch(
        item.source.bytes, item.decode, tile.plans, item.destination.buffers,
        finished, part));
  } else {
    RETURN_IF_ERROR(OpenRaw(item.source, item.report));
    RETURN_IF_ERROR(engine_.ConvertBatch(tile.plans, item.source.buffers,
                                         item.destination.buffers, finished,
                                         part));
  }
  Merge(std::move(part), item.report);
  if (in_place) return absl::OkStatus();
  WorkReport taken;
  RETURN_IF_ERROR(TakeInline(engine_, item.destination,
                             options_.max_inline_bytes, item.scratch,
                             &item.inline_result, taken));
  Merge(std::move(taken), item.report);
  for (size_t i = 0; i < tile.plans.size(); ++i) teller.Finished(i);
  return absl::OkStatus();
}

void Service::ReplyTile(WorkItem& item) {
  const TileWork& tile = item.tile;
  v1::TileReply& reply = *tile.reply;
  const auto first = static_cast<size_t>(tile.first);
  for (size_t i = 0; i < tile.plans.size(); ++i) {
    FillTilePlacement(tile.grid.tiles[first + i], reply.add_tiles());
  }
  // With the colour encoding that was resolved.
  FillLayout(tile.plans[0].destination, reply.mutable_layout());
  reply.mutable_layout()->set_height(tile.batch.first.height *
                                     tile.batch.count);
  reply.set_element_stride_bytes(tile.batch.stride_bytes);
  reply.set_rows(tile.grid.rows);
  reply.set_columns(tile.grid.columns);
  reply.mutable_frame()->set_width(tile.frame.width);
  reply.mutable_frame()->set_height(tile.frame.height);
  FillReport(item.report, item.times, &tile.plans[0], reply.mutable_report());
  if (item.source.encoded) FillImageInfo(item.info, reply.mutable_info());
  reply.set_orientation_applied(static_cast<int>(item.orientation));
  reply.set_inline_bytes(std::move(item.inline_result));
}

absl::Status Service::FindTileOne(WorkItem& item) {
  const v1::TileOneRequest& request = *item.tile_one_request;
  const v1::ConvertSpec& spec = request.spec();
  constexpr absl::string_view kPlacement = "the placement";
  RETURN_IF_ERROR(
      RefuseSet(spec.has_source_rect(), "spec.source_rect", kPlacement));
  RETURN_IF_ERROR(RefuseSet(spec.has_place(), "spec.place", kPlacement));
  RETURN_IF_ERROR(
      RefuseSet(spec.fit() != v1::FIT_UNSPECIFIED, "spec.fit", kPlacement));
  if (!request.placement().has_crop()) {
    return InvalidField("placement.crop", "placement.crop is not set");
  }
  ASSIGN_OR_RETURN(item.spec, ParseConvertSpec(spec, request.options()));
  if (request.placement().has_content()) {
    item.spec.fit = Fit::kPlace;
    item.spec.place = ToRect(request.placement().content());
  }
  RETURN_IF_ERROR(FindSource(OwnerOf(item), request.source(), item.source));
  RETURN_IF_ERROR(FindDestination(OwnerOf(item), request.destination(),
                                  /*optional=*/false, item.destination));
  ASSIGN_OR_RETURN(item.output,
                   DestinationOutput(request.destination(), item.destination));
  RETURN_IF_ERROR(CheckFileOrientation(spec, item));
  item.decode.lenient = request.lenient();
  item.decode.fancy_chroma = item.spec.chroma != ChromaUpsampling::kReplicate;
  return absl::OkStatus();
}

absl::Status Service::PlanTileOne(WorkItem& item) {
  const v1::TileOneRequest& request = *item.tile_one_request;
  Size frame;
  ASSIGN_OR_RETURN(const ImageDesc source,
                   FrameOf(item, request.spec(), &frame));
  const Rect crop = ToRect(request.placement().crop());
  RETURN_IF_ERROR(ValidateRectInside(crop, frame, "placement.crop"));
  item.spec.source_rect =
      StoredCrop(crop, item.orientation, {source.width, source.height});
  ASSIGN_OR_RETURN(const ImageDesc resolved,
                   ResolveDestination(source, item.output, item.spec));
  RETURN_IF_ERROR(CompleteDestination(request.destination(), resolved,
                                      options_.max_inline_bytes,
                                      item.destination));
  RETURN_IF_ERROR(CheckChannelCounts(request.spec(), resolved.format));
  absl::StatusOr<ConvertPlan> plan =
      engine_.Plan(source, item.destination.desc, item.spec, IsJpeg(item));
  if (!plan.ok()) {
    return RenameField(plan.status(), "spec.place", "placement.content");
  }
  item.plan = *std::move(plan);
  return absl::OkStatus();
}

}  // namespace preprocd
