// Stage 1 of the CPU backend: unpacks one row of the shown, oriented picture
// into one float row per channel (0..255; R G B A, or Y, or Y U V with chroma
// at the luma positions). Any source format and orientation; nothing outside
// the source rectangle is read.
// Owns: nothing; the view must outlive it. Thread-safety: compatible.
#ifndef ENGINE_BACKENDS_CPU_ROW_SOURCE_H_
#define ENGINE_BACKENDS_CPU_ROW_SOURCE_H_

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/convert/convert_plan.h"
#include "engine/image/image_desc.h"

namespace preprocd {

class RowSource {
 public:
  // REQUIRES: a view of plan.source.
  RowSource(const ConvertPlan& plan, const ConstImageView& view);

  // Channels that Fetch writes: 1, 3 or 4.
  int channels() const { return channels_; }
  // Floats per row: placement.shown.width.
  int width() const { return width_; }

  // Row `y` of the shown rectangle into rows[0..channels()-1].
  void Fetch(int y, const std::array<float*, kMaxChannels>& rows) const;

 private:
  // One channel as samples in memory; positions are in the channel's own
  // (subsampled) grid, inside [min_x, max_x] x [min_y, max_y].
  struct Channel {
    const std::byte* base = nullptr;
    ptrdiff_t step_bytes = 0;
    ptrdiff_t stride_bytes = 0;
    uint8_t flip = 0;  // XOR of every byte
    int x_shift = 0;
    int y_shift = 0;
    int min_x = 0, max_x = 0, min_y = 0, max_y = 0;
  };
  // The stored pixels of one row: start and step.
  struct Walk {
    int x = 0, y = 0, dx = 0, dy = 0;
  };

  void AddChannel(int plane, int offset_bytes, int step_bytes, bool chroma);
  void AddYuvChannels();
  void FetchFull(const Channel& channel, const Walk& walk, float* row) const;
  void FetchReplicated(const Channel& channel, const Walk& walk,
                       float* row) const;
  void FetchFancy(const Channel& channel, const Walk& walk, float* row) const;

  const ConvertPlan& plan_;
  const ConstImageView& view_;
  const OrientationMap orientation_;
  const int width_;
  int channels_ = 0;
  std::array<Channel, kMaxChannels> channel_ = {};
};

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_CPU_ROW_SOURCE_H_
