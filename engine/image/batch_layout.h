// Where the pictures of one batch lie in one buffer: [N,H,W,C] for packed
// formats, [N,C,H,W] for planar ones. All pictures have the same size and
// format; picture n's planes are picture 0's, moved by n * stride bytes.
// Thread-safety: safe (values only). Limits: kMaxBatchElements.
#ifndef ENGINE_IMAGE_BATCH_LAYOUT_H_
#define ENGINE_IMAGE_BATCH_LAYOUT_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/image/image_desc.h"

namespace preprocd {

// More is TOO_LARGE.
inline constexpr int kMaxBatchElements = 4096;

struct BatchLayout {
  ImageDesc first;            // picture 0 of the batch
  int count = 1;              // pictures, from 1
  uint64_t stride_bytes = 0;  // from one picture to the next
};

// The stride with which pictures follow each other without a gap and every
// row keeps its stride: from the first plane's offset to the end of the last
// plane's last row, padding of that row included. For a single plane it is
// rows * stride: the batch is then one tall picture.
// REQUIRES: a description that passed ValidateImageDesc or came from
// MakeImageDesc.
uint64_t TightBatchStride(const ImageDesc& first);

// Picture `index`. REQUIRES: a batch that passed ValidateBatch.
ImageDesc BatchElement(const BatchLayout& batch, int index);

// Bytes from the buffer's start to the end of the last picture's last row.
// REQUIRES: as BatchElement.
uint64_t RequiredBytes(const BatchLayout& batch);

// Proves that every picture lies inside its buffer and none shares bytes with
// another. `buffer_sizes[i]` is the size in bytes of buffer i.
// Errors, all kInvalidArgument: those of ValidateImageDesc;
//   TOO_LARGE         "count"         above kMaxBatchElements
//   GEOMETRY_INVALID  "count"         below 1
//   FIELD_INVALID     "planes"        a batch's planes lie in several buffers
//   FIELD_INVALID     "stride_bytes"  not a multiple of the element size, or
//                                     pictures overlap
//   BUFFER_TOO_SMALL  ""              the last picture ends outside the buffer
absl::Status ValidateBatch(const BatchLayout& batch,
                           std::span<const uint64_t> buffer_sizes);

}  // namespace preprocd

#endif  // ENGINE_IMAGE_BATCH_LAYOUT_H_
