// A picture that comes into being strip by strip, from its top: what a decoder
// offers to whoever converts while the strip is still in cache. Neither side
// knows the other, and the frame is never held.
// Owns: nothing. Thread-safety: Read on one thread at a time, Complete on one
// thread at a time; the two may run at once, for different strips.
//
//   RETURN_IF_ERROR(source.Defer(0));
//   for (int strip = 0; strip < source.strip_count(); ++strip) {
//     // Memory of the caller's choice, most often a ring of rows.
//     RETURN_IF_ERROR(source.Read(targets));
//     source.Complete(strip);
//     ... rows [strip * strip_rows, ...) of every plane are there ...
//   }
#ifndef ENGINE_IMAGE_STRIP_SOURCE_H_
#define ENGINE_IMAGE_STRIP_SOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace preprocd {

inline constexpr int kMaxStripPlanes = 3;

// Where a plane's next strip goes: row r of the strip at data + r * stride.
// Without data the plane's strip is read and not written.
struct PlaneTarget {
  uint8_t* data = nullptr;
  size_t stride_bytes = 0;
};
using StripTargets = std::array<PlaneTarget, kMaxStripPlanes>;

// One plane of 8-bit samples.
struct StripPlane {
  int width = 0;   // samples
  int height = 0;  // samples
  // Bytes written in every row of a strip, at least `width`.
  int row_bytes = 0;
  // Rows of a strip. The last strip may reach below `height`; those rows may
  // be written, too.
  int strip_rows = 0;
};

class StripSource {
 public:
  virtual ~StripSource() = default;

  // Planes in the order of the format that the decode was begun for; the
  // chroma of an nv format comes as the two planes U and V.
  virtual int plane_count() const = 0;
  // REQUIRES: 0 <= index < plane_count().
  virtual StripPlane plane(int index) const = 0;
  virtual int strip_count() const = 0;

  // Before the first Read: work that can be done later is left to Complete,
  // so that another thread can do it; at most `strips` strips wait for it. 0:
  // Read does everything.
  // Errors: kResourceExhausted
  virtual absl::Status Defer(int strips) = 0;

  // Takes the next strip in. The targets belong to the source until its
  // Complete. REQUIRES: fewer than strip_count() strips were read; all but the
  // last (`strips` of Defer - 1) are completed; row_bytes x strip_rows
  // writable bytes per target that has data.
  // Errors: those of the decoder; nothing can be read after one.
  virtual absl::Status Read(const StripTargets& targets) = 0;

  // The samples of a strip that was read are in its targets afterwards.
  // REQUIRES: called once per strip, in order.
  virtual void Complete(int strip) = 0;
};

}  // namespace preprocd

#endif  // ENGINE_IMAGE_STRIP_SOURCE_H_
