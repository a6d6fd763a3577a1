#include "daemon/service/service.h"
#include "daemon/service/tile_messages.h"
#include "engine/base/status_macros.h"
#include "engine/image/tile_grid.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

absl::Status FillGrid(const v1::PlanTilesRequest& request,
                      v1::PlanTilesReply* reply) {
  ASSIGN_OR_RETURN(const TileGridSpec spec, ParseGrid(request.grid()));
  ASSIGN_OR_RETURN(const TileGrid grid,
                   preprocd::PlanTiles(ToSize(request.frame()), spec));
  reply->set_rows(grid.rows);
  reply->set_columns(grid.columns);
  for (const TilePlacement& tile : grid.tiles) {
    FillTilePlacement(tile, reply->add_tiles());
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
