// What the check pages of the kernels share: instruction sets, guarded
// outputs, extreme fills, the fixed-point steps, and timing.
// Only for tests. Thread-safety: single-threaded (it switches instruction
// sets of the whole program).
#ifndef ENGINE_BACKENDS_CPU_KERNEL_CHECK_SUPPORT_H_
#define ENGINE_BACKENDS_CPU_KERNEL_CHECK_SUPPORT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "engine/backends/cpu/filter_kernels.h"
#include "engine/exec/monotonic_clock.h"
#include "hwy/highway.h"

namespace preprocd {

// Time the kernels of one instruction set: one line each.
void TimeFilterKernels(int64_t target);
void TimePixelKernels(int64_t target);

inline constexpr size_t kMaxSize = 130;
inline constexpr size_t kGuard = 64;
inline constexpr uint8_t kGuardByte = 0xa5;

inline std::vector<int64_t> VectorTargets() {
  std::vector<int64_t> targets = hwy::SupportedAndGeneratedTargets();
  std::erase_if(targets,
                [](int64_t t) { return t == HWY_SCALAR || t == HWY_EMU128; });
  return targets;
}

inline void UseTarget(int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(target);
}

// Runs `check` on every target and puts the choice back.
inline void OnEveryTarget(const std::function<void()>& check) {
  for (const int64_t target : VectorTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    UseTarget(target);
    check();
    if (testing::Test::HasFailure()) break;
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

// Output of `size` values between guards, at an odd address.
template <typename T>
class Guarded {
 public:
  // `slack`: values behind the end that a padded output may write.
  explicit Guarded(size_t size, size_t slack = 0)
      : size_(size), bytes_(2 * kGuard + (size + slack) * sizeof(T)) {
    std::fill(bytes_.begin(), bytes_.end(), kGuardByte);
    slack_ = slack;
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + kGuard); }
  T operator[](size_t i) {
    T value;
    memcpy(&value, data() + i, sizeof(T));
    return value;
  }
  bool Intact() const {
    const auto is_guard = [](uint8_t b) { return b == kGuardByte; };
    return std::all_of(bytes_.begin(), bytes_.begin() + kGuard, is_guard) &&
           std::all_of(bytes_.end() - kGuard, bytes_.end(), is_guard);
  }

 private:
  size_t size_;
  size_t slack_ = 0;
  std::vector<uint8_t> bytes_;
};

enum class Fill { kNoise, kZeros, kOnes, kAlternate, kCount };

template <typename T>
std::vector<T> Filled(size_t size, Fill fill, uint32_t seed) {
  std::minstd_rand random(seed + 7);
  std::vector<T> v(size);
  for (size_t i = 0; i < size; ++i) {
    const auto noise = static_cast<T>(random() >> 5);
    switch (fill) {
      case Fill::kNoise:
        v[i] = noise;
        break;
      case Fill::kZeros:
        v[i] = std::numeric_limits<T>::min();
        break;
      case Fill::kOnes:
        v[i] = std::numeric_limits<T>::max();
        break;
      default:
        v[i] = (noise & 2) != 0 ? std::numeric_limits<T>::max()
                                : std::numeric_limits<T>::min();
        break;
    }
  }
  return v;
}

// Staged samples as the filters make them: inside the range of their format.
inline std::vector<int16_t> StagedRow(size_t size, int fraction, Fill fill,
                                      uint32_t seed) {
  std::vector<int16_t> v = Filled<int16_t>(size, fill, seed);
  const int limit = 128 << fraction;
  for (int16_t& s : v) {
    s = static_cast<int16_t>(
        std::clamp<int>(s, -limit, limit - (1 << fraction)));
  }
  v.resize(size + kStagedPadding);
  return v;
}

inline int RoundedProduct(int a, int b) { return (a * b + (1 << 14)) >> 15; }
inline int Saturated(int v) { return std::clamp(v, -32768, 32767); }
inline uint8_t ToByte(int v) {
  return static_cast<uint8_t>(std::clamp(v, 0, 255));
}

// Lowest time of many runs, per sample.
inline double LowestNs(size_t samples, const std::function<void()>& run) {
  int64_t lowest = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 300; ++i) {
    const int64_t start = MonotonicNs();
    for (int j = 0; j < 16; ++j) run();
    lowest = std::min(lowest, MonotonicNs() - start);
  }
  return static_cast<double>(lowest) / 16 / static_cast<double>(samples);
}

inline void Print(const char* kernel, int64_t target, size_t samples,
                  const std::function<void()>& run) {
  printf("%-34s %-6s %.4f ns\n", kernel, hwy::TargetName(target),
         LowestNs(samples, run));
}

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_KERNEL_CHECK_SUPPORT_H_
