#include "engine/failover.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

#include "engine/base/check.h"
#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

// The backends to try after the plan's own one broke: those behind it in the
// ranking that accept, else itself once more.
std::vector<std::string> Substitutes(const ConvertPlan& plan) {
  std::vector<std::string> names;
  bool behind = false;
  for (const BackendChoice& choice : plan.ranking) {
    if (behind && choice.accepts) names.push_back(choice.backend);
    behind |= choice.backend == plan.backend;
  }
  if (names.empty()) names.push_back(plan.backend);
  return names;
}

// `run` gets each converter in turn until one does not break.
absl::StatusOr<uint64_t> TryInTurn(
    const ConvertPlan& plan, FindConverter find, FailoverReport& report,
    absl::FunctionRef<absl::StatusOr<uint64_t>(Converter&)> run) {
  Converter* converter = find(plan.backend);
  PREPROCD_ENSURE(converter != nullptr);
  absl::StatusOr<uint64_t> result = run(*converter);
  if (result.ok() || !IsBackendFailure(result.status())) return result;
  std::string failed = plan.backend;
  for (const std::string& name : Substitutes(plan)) {
    report.failures.push_back(
        {std::move(failed), std::string(result.status().message())});
    converter = find(name);
    PREPROCD_ENSURE(converter != nullptr);
    report.backend = name;
    result = run(*converter);
    if (result.ok() || !IsBackendFailure(result.status())) return result;
    failed = name;
  }
  return result;
}

}  // namespace

bool IsBackendFailure(const absl::Status& status) {
  if (status.code() != absl::StatusCode::kUnavailable) return false;
  const std::optional<ErrorDetail> detail = GetErrorDetail(status);
  return detail && detail->reason == ErrorReason::kBackendFailed;
}

absl::StatusOr<uint64_t> ConvertWithFailover(const ConvertPlan& plan,
                                             const PictureBuffers& source,
                                             const PictureBuffers& destination,
                                             RowPool& pool, FindConverter find,
                                             FailoverReport& report) {
  return TryInTurn(plan, find, report, [&](Converter& converter) {
    return converter.Convert(plan, source, destination, pool);
  });
}

absl::StatusOr<uint64_t> ConvertManyWithFailover(
    std::span<const ConvertPlan> plans, const PictureBuffers& source,
    const PictureBuffers& destination, RowPool& pool, PictureFinished finished,
    FindConverter find, FailoverReport& report) {
  PREPROCD_CHECK(!plans.empty());
  const auto done = std::make_unique<std::atomic<bool>[]>(plans.size());
  std::vector<ConvertPlan> rest;
  std::vector<size_t> indexes;
  bool first = true;
  return TryInTurn(plans[0], find, report,
                   [&](Converter& converter) -> absl::StatusOr<uint64_t> {
                     if (first) {
                       first = false;
                       return converter.ConvertMany(plans, source, destination,
                                                    pool, [&](size_t i) {
                                                      done[i] = true;
                                                      finished(i);
                                                    });
                     }
                     rest.clear();
                     indexes.clear();
                     for (size_t i = 0; i < plans.size(); ++i) {
                       if (done[i]) continue;
                       rest.push_back(plans[i]);
                       indexes.push_back(i);
                     }
                     if (rest.empty()) return 0;
                     return converter.ConvertMany(rest, source, destination,
                                                  pool, [&](size_t i) {
                                                    done[indexes[i]] = true;
                                                    finished(indexes[i]);
                                                  });
                   });
}

}  // namespace preprocd
