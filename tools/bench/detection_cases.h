// Detection cases of preproc_bench: the merge of a tiled frame's boxes.
// Thread-safety: safe; a case is run by one thread at a time.
#ifndef TOOLS_BENCH_DETECTION_CASES_H_
#define TOOLS_BENCH_DETECTION_CASES_H_

#include <functional>
#include <string>

namespace preprocd {

// Adds W6m: 50,000 boxes of 16 classes in a 4K frame, 30 pixels on average.
// One thread whatever the engine has.
void AddDetectionCases(
    const std::function<void(const std::string& name,
                             std::function<void()> run)>& add);

}  // namespace preprocd

#endif  // TOOLS_BENCH_DETECTION_CASES_H_
