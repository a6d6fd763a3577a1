// One stored plane, filtered to destination rows: as bytes where both axes
// pick samples, else as staged 16-bit samples; packed pixels always as RGBX
// bytes. Filters down the rows first (no shuffling), then along the row of
// the result only. Picks along the row come first, since they only shrink;
// so do filters that round to 8 bits between the axes (RoundsBetweenAxes).
// Owns: nothing; plane, tables and arena must outlive it.
// Thread-safety: compatible; one per band.
#ifndef ENGINE_BACKENDS_CPU_PLANE_SAMPLER_H_
#define ENGINE_BACKENDS_CPU_PLANE_SAMPLER_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/backends/cpu/fixed_taps.h"
#include "engine/backends/cpu/row_arena.h"
#include "engine/backends/cpu/stored_plane.h"

namespace preprocd {

class PlaneSampler {
 public:
  // `along` was made for plane.channels, `down` for 0. `raw`: rows are the
  // stored rows themselves (`along` is not applied); REQUIRES down.count == 1.
  PlaneSampler(const StoredPlane& plane, bool transposed,
               const FixedTaps& along, const FixedTaps& down, bool raw,
               RowArena& arena);

  // True when rows are int16_t (fraction as of the filter), else bytes.
  bool staged() const { return staged_; }

  // Makes destination row `y`; rising order costs least.
  void Sample(int y);

  // After Sample: channel `i` of 1- and 2-channel planes, or RGBX (i = 0).
  const void* row(size_t i) const { return rows_[i]; }

  // Bytes that a sampler takes from its arena.
  static size_t ScratchBytes(const StoredPlane& plane, bool transposed,
                             const FixedTaps& along, const FixedTaps& down);

 private:
  // One stored row to bytes of the destination's width.
  void Along(const uint8_t* in, std::array<uint8_t*, 2> out) const;
  void SamplePicked(int first);
  void SampleDown(int first, const int16_t* weights);
  void SampleFiltered(int first, const int16_t* weights);

  const FixedTaps& along_;
  const FixedTaps& down_;
  const size_t channels_;
  const size_t padded_;  // destination samples, to a whole block
  const bool raw_;
  const bool rows_first_;  // bytes between the axes
  const bool staged_;
  const int fraction_;
  PlaneReader source_;
  int last_first_ = -1;

  // Rows that went along first, by source row, for the filter down.
  int slots_ = 0;
  size_t picked_bytes_ = 0;
  uint8_t* picked_ = nullptr;
  int* held_ = nullptr;

  int16_t* column_ = nullptr;  // one staged source row
  std::array<uint8_t*, 2> bytes_ = {};
  std::array<int16_t*, 2> words_ = {};
  std::array<const void*, 2> rows_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_PLANE_SAMPLER_H_
