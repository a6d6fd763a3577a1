// Grids, placements and boxes: messages <-> the engine's values.
// Thread-safety: safe (no state).
// Errors: kInvalidArgument with the field's path.
#ifndef DAEMON_SERVICE_TILE_MESSAGES_H_
#define DAEMON_SERVICE_TILE_MESSAGES_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/detections/detection.h"
#include "engine/image/geometry.h"
#include "engine/image/tile_grid.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

Size ToSize(const preproc::v1::Size& size);
Rect ToRect(const preproc::v1::Rect& rect);
void FillRect(const Rect& rect, preproc::v1::Rect* out);

// Numbers of enumerations are checked; sizes and overlap are PlanTiles'
// concern. Fields "grid.fit", "grid.letterbox_rule".
absl::StatusOr<TileGridSpec> ParseGrid(const preproc::v1::TileGrid& grid);

void FillTilePlacement(const TilePlacement& tile,
                       preproc::v1::TilePlacement* out);

Detection ToDetection(const preproc::v1::Detection& in);
void FillDetection(const Detection& in, preproc::v1::Detection* out);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_TILE_MESSAGES_H_
