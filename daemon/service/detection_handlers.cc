#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/service/request_parser.h"
#include "daemon/service/service.h"
#include "daemon/service/tile_messages.h"
#include "daemon/service/work_item.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/detections/lift_boxes.h"
#include "engine/detections/mask_union.h"
#include "engine/detections/merge_detections.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

static_assert(static_cast<int>(MatchMetric::kIoU) == v1::MATCH_METRIC_IOU);
static_assert(static_cast<int>(MergeRule::kSuppress) ==
              v1::MERGE_RULE_SUPPRESS);

template <typename Boxes>
std::vector<Detection> ToDetections(const Boxes& boxes) {
  std::vector<Detection> out;
  out.reserve(static_cast<size_t>(boxes.size()));
  for (const v1::Detection& box : boxes) out.push_back(ToDetection(box));
  return out;
}

absl::Status Lift(const v1::LiftBoxesRequest& request,
                  v1::LiftBoxesReply* reply) {
  RETURN_IF_ERROR(
      CheckDetectionCount(static_cast<size_t>(request.boxes_size())));
  LiftSpec spec;
  spec.crop = ToRect(request.placement().crop());
  if (request.placement().has_content()) {
    spec.content = ToRect(request.placement().content());
  }
  spec.tile = ToSize(request.tile());
  spec.pixels = request.pixels();
  if (request.has_frame()) spec.frame = ToSize(request.frame());
  std::vector<Detection> boxes = ToDetections(request.boxes());
  RETURN_IF_ERROR(preprocd::LiftBoxes(spec, boxes));
  reply->mutable_boxes()->Reserve(request.boxes_size());
  for (const Detection& box : boxes) FillDetection(box, reply->add_boxes());
  return absl::OkStatus();
}

absl::StatusOr<MergeSpec> ParseMerge(const v1::MergeDetectionsRequest& in) {
  if (!v1::MatchMetric_IsValid(in.metric())) {
    return BadValue(ErrorReason::kFieldInvalid, "metric",
                    absl::StrCat(static_cast<int>(in.metric())),
                    "is not a number of this enumeration");
  }
  if (!v1::MergeRule_IsValid(in.rule())) {
    return BadValue(ErrorReason::kFieldInvalid, "rule",
                    absl::StrCat(static_cast<int>(in.rule())),
                    "is not a number of this enumeration");
  }
  if (in.max_detections() < 0) {
    return BadValue(ErrorReason::kFieldInvalid, "max_detections",
                    absl::StrCat(in.max_detections()), "< 0");
  }
  MergeSpec spec;
  spec.metric = static_cast<MatchMetric>(in.metric());
  spec.rule = static_cast<MergeRule>(in.rule());
  if (in.threshold() != 0) spec.threshold = in.threshold();
  spec.class_agnostic = in.class_agnostic();
  if (in.max_detections() != 0) {
    spec.max_detections = static_cast<size_t>(in.max_detections());
  }
  spec.score_threshold = in.score_threshold();
  return spec;
}

// Views into the request.
absl::StatusOr<std::vector<MaskPiece>> ParseMasks(
    const v1::MergeDetectionsRequest& in) {
  std::vector<MaskPiece> pieces;
  if (in.masks().empty()) return pieces;
  if (in.masks_size() != in.boxes_size()) {
    return BadValue(ErrorReason::kFieldInvalid, "masks",
                    absl::StrCat(in.masks_size()),
                    absl::StrCat("entries, but ", in.boxes_size(), " boxes"));
  }
  if (!in.has_frame()) {
    return InvalidField("frame", "frame is required with masks");
  }
  const Size frame = ToSize(in.frame());
  if (frame.width < 1 || frame.height < 1 || frame.width > kMaxImageAxis ||
      frame.height > kMaxImageAxis) {
    return BadValue(ErrorReason::kGeometryInvalid, "frame",
                    absl::StrCat(frame.width, "x", frame.height),
                    absl::StrCat("is not in 1..", kMaxImageAxis));
  }
  uint64_t runs = 0;
  for (const v1::MaskPiece& mask : in.masks()) {
    MaskPiece piece;
    piece.bounds = ToRect(mask.bounds());
    piece.dense = {reinterpret_cast<const uint8_t*>(mask.dense().data()),
                   mask.dense().size()};
    piece.rle_counts = {mask.rle_counts().data(),
                        static_cast<size_t>(mask.rle_counts_size())};
    RETURN_IF_ERROR(CheckMaskPiece(piece, pieces.size(), frame, runs));
    pieces.push_back(piece);
  }
  return pieces;
}

void FillMasks(const v1::MergeDetectionsRequest& request,
               const std::vector<MaskPiece>& pieces, const MergeResult& merged,
               v1::MergeDetectionsReply* reply) {
  if (pieces.empty()) return;
  std::vector<std::vector<int32_t>> members(merged.boxes.size());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const int32_t into = merged.merged_into[i];
    if (into < 0) continue;
    std::vector<int32_t>& of = members[static_cast<size_t>(into)];
    if (request.rule() == v1::MERGE_RULE_SUPPRESS &&
        merged.bases[static_cast<size_t>(into)] != static_cast<int32_t>(i)) {
      continue;
    }
    of.push_back(static_cast<int32_t>(i));
  }
  for (const std::vector<int32_t>& of : members) {
    UnitedMask united = UniteMasks(pieces, of);
    if (request.whole_frame_masks()) {
      united = OverFrame(united, ToSize(request.frame()));
    }
    v1::MaskPiece* mask = reply->add_masks();
    FillRect(united.bounds, mask->mutable_bounds());
    mask->mutable_rle_counts()->Add(united.rle_counts.begin(),
                                    united.rle_counts.end());
  }
}

}  // namespace

absl::Status Service::LiftBoxes(const CallContext&,
                                const v1::LiftBoxesRequest& request,
                                v1::LiftBoxesReply* reply) {
  return Count(Operation::kLiftBoxes,
               WithoutExceptions([&] { return Lift(request, reply); }));
}

const WorkSteps Service::kMergeSteps = {&Service::FindMerge,
                                        &Service::PlanNothing,
                                        &Service::RunMerge, [](WorkItem&) {}};

void Service::MergeDetections(const CallContext& call,
                              const v1::MergeDetectionsRequest& request,
                              v1::MergeDetectionsReply* reply, Done done) {
  std::unique_ptr<WorkItem> item = pool_->Take();
  item->steps = &kMergeSteps;
  item->call = call;
  item->operation = Operation::kMergeDetections;
  item->done = std::move(done);
  item->merge_request = &request;
  item->merge_reply = reply;
  Begin(std::move(item), request.options());
}

absl::Status Service::FindMerge(WorkItem& item) {
  const v1::MergeDetectionsRequest& request = *item.merge_request;
  RETURN_IF_ERROR(
      CheckDetectionCount(static_cast<size_t>(request.boxes_size())));
  // A box costs about as much as some hundred pixels.
  item.other_cost = 256 * int64_t{request.boxes_size()} +
                    static_cast<int64_t>(request.ByteSizeLong());
  return ParseMerge(request).status();
}

absl::Status Service::PlanNothing(WorkItem&) { return absl::OkStatus(); }

absl::Status Service::RunMerge(WorkItem& item) {
  const v1::MergeDetectionsRequest& request = *item.merge_request;
  v1::MergeDetectionsReply* reply = item.merge_reply;
  ASSIGN_OR_RETURN(const MergeSpec spec, ParseMerge(request));
  ASSIGN_OR_RETURN(const std::vector<MaskPiece> pieces, ParseMasks(request));
  ASSIGN_OR_RETURN(
      const MergeResult merged,
      preprocd::MergeDetections(ToDetections(request.boxes()), spec));
  reply->mutable_boxes()->Reserve(static_cast<int>(merged.boxes.size()));
  for (const Detection& box : merged.boxes) {
    FillDetection(box, reply->add_boxes());
  }
  reply->mutable_merged_into()->Add(merged.merged_into.begin(),
                                    merged.merged_into.end());
  FillMasks(request, pieces, merged, reply);
  return absl::OkStatus();
}

}  // namespace preprocd
