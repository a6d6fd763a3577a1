// Cases of the codec: W1 (JPEG decode), W8 (PNG decode), W9 (JPEG encode), on
// the peers' pictures or, without them, on pictures made here.
// Thread-safety: safe (no state).
#ifndef TOOLS_BENCH_CODEC_CASES_H_
#define TOOLS_BENCH_CODEC_CASES_H_

#include <functional>
#include <string>

#include "engine/engine.h"

namespace preprocd {

// Takes a case: its name and one run of it, whose captures own what it needs.
using AddBenchCase =
    std::function<void(const std::string& name, std::function<void()> run)>;

// `data` is the folder of the peers' inputs (mid_1920x1080_420.jpg and so
// on); empty, or without a file, a picture like it is made. False when a file
// there cannot be decoded.
bool AddCodecCases(const std::string& data, const AddBenchCase& add);

// W4: JPEG bytes to tensors through `engine`, which must outlive the cases.
bool AddFusedCases(const std::string& data, Engine& engine,
                   const AddBenchCase& add);

}  // namespace preprocd

#endif  // TOOLS_BENCH_CODEC_CASES_H_
