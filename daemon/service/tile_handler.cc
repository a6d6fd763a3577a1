#include "absl/strings/str_cat.h"
#include "daemon/service/service.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"
#include "engine/image/tile_grid.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

static_assert(static_cast<int>(Fit::kLetterbox) == v1::FIT_LETTERBOX);

void FillRect(const Rect& rect, v1::Rect* out) {
  out->set_x(rect.x);
  out->set_y(rect.y);
  out->set_width(rect.width);
  out->set_height(rect.height);
}

absl::Status FillGrid(const v1::PlanTilesRequest& request,
                      v1::PlanTilesReply* reply) {
  if (!v1::Fit_IsValid(request.grid().fit())) {
    return InvalidField(
        "grid.fit",
        absl::StrCat("grid.fit ", request.grid().fit(), " is not known"));
  }
  TileGridSpec spec;
  spec.tile = {request.grid().tile().width(), request.grid().tile().height()};
  spec.overlap = request.grid().overlap();
  spec.fit = static_cast<Fit>(request.grid().fit());
  ASSIGN_OR_RETURN(
      const TileGrid grid,
      PlanTiles({request.frame().width(), request.frame().height()}, spec));
  reply->set_rows(grid.rows);
  reply->set_columns(grid.columns);
  for (const TilePlacement& tile : grid.tiles) {
    v1::TilePlacement* out = reply->add_tiles();
    out->set_index(tile.index);
    out->set_row(tile.row);
    out->set_column(tile.column);
    FillRect(tile.crop, out->mutable_crop());
    FillRect(tile.content, out->mutable_content());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Service::PlanTiles(const CallContext&,
                                const v1::PlanTilesRequest& request,
                                v1::PlanTilesReply* reply) {
  return Count(Operation::kPlanTiles, FillGrid(request, reply));
}

}  // namespace preprocd
