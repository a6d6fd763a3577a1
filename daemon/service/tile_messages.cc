#include "daemon/service/tile_messages.h"

#include "absl/strings/str_cat.h"
#include "daemon/service/request_parser.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

static_assert(static_cast<int>(Fit::kLetterbox) == v1::FIT_LETTERBOX);
static_assert(static_cast<int>(LetterboxRule::kTopLeft) ==
              v1::LETTERBOX_RULE_TOP_LEFT);

}  // namespace

Size ToSize(const v1::Size& size) { return {size.width(), size.height()}; }

Rect ToRect(const v1::Rect& rect) {
  return {rect.x(), rect.y(), rect.width(), rect.height()};
}

void FillRect(const Rect& rect, v1::Rect* out) {
  out->set_x(rect.x);
  out->set_y(rect.y);
  out->set_width(rect.width);
  out->set_height(rect.height);
}

absl::StatusOr<TileGridSpec> ParseGrid(const v1::TileGrid& grid) {
  if (!v1::Fit_IsValid(grid.fit())) {
    return BadValue(ErrorReason::kFieldInvalid, "grid.fit",
                    absl::StrCat(static_cast<int>(grid.fit())), "is not known");
  }
  if (!v1::LetterboxRule_IsValid(grid.letterbox_rule())) {
    return BadValue(ErrorReason::kFieldInvalid, "grid.letterbox_rule",
                    absl::StrCat(static_cast<int>(grid.letterbox_rule())),
                    "is not known");
  }
  TileGridSpec spec;
  spec.tile = ToSize(grid.tile());
  spec.overlap = grid.overlap();
  spec.fit = static_cast<Fit>(grid.fit());
  spec.letterbox_rule = static_cast<LetterboxRule>(grid.letterbox_rule());
  return spec;
}

void FillTilePlacement(const TilePlacement& tile, v1::TilePlacement* out) {
  out->set_index(tile.index);
  out->set_row(tile.row);
  out->set_column(tile.column);
  FillRect(tile.crop, out->mutable_crop());
  FillRect(tile.content, out->mutable_content());
}

Detection ToDetection(const v1::Detection& in) {
  return {in.x0(),    in.y0(),    in.x1(),      in.y1(),
          in.score(), in.label(), in.track_id()};
}

void FillDetection(const Detection& in, v1::Detection* out) {
  out->set_x0(in.x0);
  out->set_y0(in.y0);
  out->set_x1(in.x1);
  out->set_y1(in.y1);
  out->set_score(in.score);
  out->set_label(in.label);
  out->set_track_id(in.track_id);
}

}  // namespace preprocd
