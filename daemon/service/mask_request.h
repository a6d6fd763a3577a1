// MaterializeMasks and DrawMasks messages -> the engine's values, and the
// memory of their tensors.
// Owns: references to registered buffers, mappings, private copies; inline
// bytes and the lists that spans point into stay in the request, which must
// outlive the work.
// Thread-safety: compatible (one request's work, one thread at a time).
// Limits: engine/masks/mask_plan.h, kMaxPaletteColors.
#ifndef DAEMON_SERVICE_MASK_REQUEST_H_
#define DAEMON_SERVICE_MASK_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "daemon/service/picture_resolver.h"
#include "daemon/sessions/session.h"
#include "engine/masks/draw_masks.h"
#include "engine/masks/mask_plan.h"
#include "engine/masks/mask_rows.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// A tensor's bytes in memory.
// Life cycle: Find (names, rights, sizes) -> Open (mapped) -> work -> Reset.
struct TensorMemory {
  std::shared_ptr<const RegisteredBuffer> registered;  // null when inline
  const std::string* inline_bytes = nullptr;
  uint64_t offset_bytes = 0;
  uint64_t size_bytes = 0;          // of the tensor; the location may hold more
  const std::byte* data = nullptr;  // after Open

  std::vector<std::byte> copy;  // inline bytes that were not aligned
  Mapping mapping;

  // `element` bytes each; at least `needed` bytes must be there.
  // Errors: as FindReadable; kInvalidArgument FIELD_INVALID (no location,
  // offset not a multiple of the element), BUFFER_TOO_SMALL.
  absl::Status Find(const BufferOwner& owner, const preproc::v1::TensorRef& ref,
                    absl::string_view field, uint64_t needed, uint64_t element);
  absl::Status Open(absl::string_view field, WorkReport& report);
  void Reset();
};

// The state of one mask request beside its WorkItem.
struct MaskWork {
  // Exactly one pair is set.
  const preproc::v1::MaterializeMasksRequest* materialize_request = nullptr;
  preproc::v1::MaterializeMasksReply* materialize_reply = nullptr;
  const preproc::v1::DrawMasksRequest* draw_request = nullptr;
  preproc::v1::DrawMasksReply* draw_reply = nullptr;

  PrototypeTensor prototypes;
  CoefficientTensor coefficients;
  std::vector<MaskBox> boxes;
  std::vector<DrawnObject> objects;
  MaskSpec spec;
  MaskPlan plan;
  MaskWorkspace workspace;
  // False when there is nothing to compute: no boxes and no prototypes.
  bool has_masks = false;

  // Drawing.
  DrawStyle style;
  std::vector<MaskColor> palette;
  std::vector<DenseMask> dense;
  Size dense_grid;
  std::vector<uint8_t> class_map;
  Backdrop backdrop = Backdrop::kZeros;
  // The background is converted into the destination first.
  bool convert_background = false;

  // Keep last: what the tensors' data point into.
  TensorMemory prototype_bytes;
  TensorMemory coefficient_bytes;
  TensorMemory dense_bytes;

  // Memory that stays for the next request.
  size_t kept_bytes() const;
  void Reset();
};

// Tensors, boxes and spec of `request`; finds the tensors' memory. Fields are
// relative to the request.
absl::Status ParseMasks(const BufferOwner& owner,
                        const preproc::v1::MaterializeMasksRequest& request,
                        MaskWork& work);

// Whether the request's forms and destination fit each other.
absl::Status CheckMaskOutput(
    const preproc::v1::MaterializeMasksRequest& request);

// A palette. Errors: FIELD_INVALID "field[i]", TOO_LARGE "field".
absl::Status ParseColors(
    const google::protobuf::RepeatedPtrField<preproc::v1::Color>& colors,
    absl::string_view field, std::vector<MaskColor>& out);

// Colours and opacity; a request without colours draws with the session's
// (null = the default palette). Errors: FIELD_INVALID, TOO_LARGE.
absl::Status ParseDrawStyle(const preproc::v1::DrawMasksRequest& request,
                            const Session::Palette& session_palette,
                            MaskWork& work);

// Masks made before: proves that they lie inside their grid and their memory.
absl::Status ParseDense(const BufferOwner& owner,
                        const preproc::v1::DenseMasks& dense, MaskWork& work);

// Points the dense masks into their opened memory.
void PointDense(const preproc::v1::DenseMasks& dense, MaskWork& work);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_MASK_REQUEST_H_
