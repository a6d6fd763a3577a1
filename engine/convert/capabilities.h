// What a backend can do, as data that the planner reads without touching the
// device, and the pure function that decides from it.
// Thread-safety: compatible (values only).
#ifndef ENGINE_CONVERT_CAPABILITIES_H_
#define ENGINE_CONVERT_CAPABILITIES_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/convert/convert_plan.h"

namespace preprocd {

// A set of enum values with numbers below 32.
template <typename E>
class EnumSet {
 public:
  constexpr EnumSet() = default;
  constexpr EnumSet(std::initializer_list<E> values) {
    for (E value : values) insert(value);
  }
  constexpr void insert(E value) {
    bits_ |= 1u << static_cast<unsigned>(value);
  }
  constexpr bool contains(E value) const {
    return (bits_ >> static_cast<unsigned>(value) & 1u) != 0;
  }
  constexpr bool empty() const { return bits_ == 0; }

 private:
  uint32_t bits_ = 0;
};

struct Capabilities {
  absl::string_view name;  // static storage
  // Smaller is tried first; negative = only when named by the request.
  int rank = -1;
  bool available = true;
  std::string detail;  // why not, or what it runs on
  EnumSet<PixelFormat> sources;
  EnumSet<DType> source_dtypes;
  EnumSet<PixelFormat> destinations;
  EnumSet<DType> destination_dtypes;
  EnumSet<Filter> filters;
  EnumSet<Orientation> orientations;
  EnumSet<Fit> fits;
  EnumSet<Precision> precisions;
  EnumSet<Numerics> numerics;
  int max_axis = kMaxImageAxis;
  // Rules that sets cannot express; returns why not. May be null. Pure.
  std::optional<std::string> (*decline)(const ConvertPlan&) = nullptr;
};

// Why `capabilities` cannot run `plan`, or nothing when it can. Pure.
std::optional<std::string> WhyNot(const Capabilities& capabilities,
                                  const ConvertPlan& plan);

}  // namespace preprocd

#endif  // ENGINE_CONVERT_CAPABILITIES_H_
