// Latencies of any number of calls in a fixed amount of memory: 32 buckets
// per power of two, so that a percentile is within 3.2 % above the truth.
// Thread-safety: compatible.
#ifndef CLIENT_CLI_LATENCY_HISTOGRAM_H_
#define CLIENT_CLI_LATENCY_HISTOGRAM_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace preprocd::cli {

class LatencyHistogram {
 public:
  void Add(uint64_t nanoseconds) {
    ++buckets_[BucketOf(nanoseconds)];
    ++count_;
    max_ = std::max(max_, nanoseconds);
  }
  void Merge(const LatencyHistogram& other) {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      buckets_[i] += other.buckets_[i];
    }
    count_ += other.count_;
    max_ = std::max(max_, other.max_);
  }
  uint64_t count() const { return count_; }
  uint64_t max() const { return max_; }
  // Smallest bucket end that at least `fraction` (0..1) of the values do not
  // exceed, nanoseconds; 0 without values.
  uint64_t Percentile(double fraction) const {
    if (count_ == 0) return 0;
    const auto wanted = std::max<uint64_t>(
        1, static_cast<uint64_t>(
               std::ceil(fraction * static_cast<double>(count_))));
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (seen >= wanted) return std::min(EndOf(i), max_);
    }
    return max_;
  }

 private:
  static constexpr unsigned kSubBits = 5;
  static constexpr uint64_t kSub = 1U << kSubBits;

  static size_t BucketOf(uint64_t value) {
    if (value < kSub) return value;
    const auto shift =
        static_cast<unsigned>(std::bit_width(value)) - kSubBits - 1;
    return (shift + 1) * kSub + ((value >> shift) - kSub);
  }
  // Largest value of a bucket.
  static uint64_t EndOf(size_t bucket) {
    if (bucket < kSub) return bucket;
    const auto shift = static_cast<unsigned>(bucket / kSub) - 1;
    return ((kSub + bucket % kSub + 1) << shift) - 1;
  }

  std::array<uint64_t, kSub*(64 - kSubBits + 1)> buckets_ = {};
  uint64_t count_ = 0;
  uint64_t max_ = 0;
};

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_LATENCY_HISTOGRAM_H_
