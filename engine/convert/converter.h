// The backend contract: executes a plan on one picture. Every backend
// implements this and nothing else; the conformance battery runs on it.
// Owns: its device; pictures are borrowed for the call.
// Thread-safety: safe for the reference and cpu backends; a device backend is
// bound to the thread that its executor gives it.
#ifndef ENGINE_CONVERT_CONVERTER_H_
#define ENGINE_CONVERT_CONVERTER_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/base/limits.h"
#include "engine/convert/capabilities.h"
#include "engine/convert/convert_plan.h"
#include "engine/exec/row_pool.h"
#include "engine/image/image_desc.h"
#include "engine/memory/buffer.h"

namespace preprocd {

// A picture whose planes lie in `buffers` (indexes of PlaneDesc). Entries may
// be the same memory (one Buffer twice, or one file imported twice); it is
// mapped once.
struct PictureBuffers {
  std::array<Buffer*, kMaxPlanes> buffers = {};
  int count = 0;
};

// The plan's source in mapped memory, kept mapped by this object.
class MappedSource {
 public:
  // Errors: those of Buffer::Map and ValidateImageDesc (field "source...").
  absl::Status Map(const ImageDesc& desc, const PictureBuffers& picture);
  const ConstImageView& view() const { return view_; }
  uint64_t bytes_copied() const;

 private:
  std::array<Mapping, kMaxPlanes> mappings_;
  ConstImageView view_;
};

// The plan's destination in mapped memory. A kMemfdCopy buffer is read first
// (kReadWrite), so that bytes between rows survive the write-back.
// Life cycle: Map -> Finish (written) or Abandon, which the destructor calls,
// so that a converter that fails half-way leaves a copied buffer untouched.
class MappedDestination {
 public:
  MappedDestination() = default;
  ~MappedDestination();
  MappedDestination(const MappedDestination&) = delete;
  MappedDestination& operator=(const MappedDestination&) = delete;

  // Errors: those of Buffer::Map and ValidateImageDesc (field
  // "destination...").
  absl::Status Map(const ImageDesc& desc, const PictureBuffers& picture);
  const ImageView& view() const { return view_; }
  // Ends the access; reports write-back errors.
  absl::Status Finish();
  // Ends the access after a failure; a copied buffer stays untouched.
  void Abandon();
  uint64_t bytes_copied() const;

 private:
  std::array<Mapping, kMaxPlanes> mappings_;
  ImageView view_;
};

class Converter {
 public:
  virtual ~Converter() = default;
  virtual const Capabilities& capabilities() const = 0;
  // Writes every pixel of the destination (picture and padding), nothing
  // between rows, and returns when it is finished (not only submitted).
  // REQUIRES: WhyNot(capabilities(), plan) is nothing.
  // Returns bytes copied beside the work (unmappable buffers).
  // Errors: kUnavailable BACKEND_FAILED; those of Map.
  virtual absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                           const PictureBuffers& source,
                                           const PictureBuffers& destination,
                                           RowPool& pool) = 0;
};

}  // namespace preprocd

#endif  // ENGINE_CONVERT_CONVERTER_H_
