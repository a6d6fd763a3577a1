// The mask cases of preproc_bench.
// Thread-safety: safe; a case is run by one thread at a time.
#ifndef TOOLS_BENCH_MASKS_CASES_H_
#define TOOLS_BENCH_MASKS_CASES_H_

#include <functional>
#include <string>
#include <vector>

namespace preprocd {

struct BenchCase {
  std::string name;  // WORKLOAD/preprocd_VARIANT, without the thread suffix
  std::function<void()> run;
};

// W7: masks made and drawn on the peers' inputs (50 detections, 32 prototypes
// of 160x160). `threads` split each call.
std::vector<BenchCase> MaskCases(int threads);

}  // namespace preprocd

#endif  // TOOLS_BENCH_MASKS_CASES_H_
