// A backend that breaks while it runs is no answer for a client: the plans
// that it owes go to the next backend that accepts them, or, when the request
// named no other, to the same one again, which may have recovered.
// Thread-safety: safe (no state).
#ifndef ENGINE_FAILOVER_H_
#define ENGINE_FAILOVER_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/convert/converter.h"

namespace preprocd {

// Which backend did the work, when it was not the plan's, and which ones
// broke, with their messages.
struct FailoverReport {
  std::string backend;  // empty = the plan's
  std::vector<Decline> failures;
};

// True for a backend's own failure: kUnavailable with BACKEND_FAILED.
bool IsBackendFailure(const absl::Status& status);

// The converter of that name; null when there is none.
using FindConverter = absl::FunctionRef<Converter*(absl::string_view name)>;

// Runs one plan. Nothing is allocated unless a backend breaks.
// Errors: as Converter::Convert, the last backend's.
absl::StatusOr<uint64_t> ConvertWithFailover(const ConvertPlan& plan,
                                             const PictureBuffers& source,
                                             const PictureBuffers& destination,
                                             RowPool& pool, FindConverter find,
                                             FailoverReport& report);

// Runs a batch of plans of the same backend; plans that were finished before a
// backend broke are not run again. Errors: as Converter::ConvertMany.
absl::StatusOr<uint64_t> ConvertManyWithFailover(
    std::span<const ConvertPlan> plans, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& pool, PictureFinished finished,
    FindConverter find, FailoverReport& report);

}  // namespace preprocd

#endif  // ENGINE_FAILOVER_H_
