// The backend contract: executes a plan on one picture. Every backend
// implements this and nothing else; the conformance battery runs on it.
// Owns: its device; pictures are borrowed for the call.
// Thread-safety: safe for the reference and cpu backends; a device backend is
// bound to the thread that its executor gives it.
#ifndef ENGINE_CONVERT_CONVERTER_H_
#define ENGINE_CONVERT_CONVERTER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
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

// True when what is written to the mapping is seen by others at once: memfds
// and private memory, neither copies nor device memory.
bool WritesThrough(const PictureBuffers& picture);

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

// Told about pictures of a batch as they are finished: `index` is the plan's.
// Called from several threads, also at the same time; must not throw.
using PictureFinished = absl::FunctionRef<void(size_t index)>;

// One number that a backend counts, by a name of lower-case words.
struct BackendCounter {
  absl::string_view name;  // static storage
  uint64_t value = 0;
};

class StripConverter;  // engine/convert/strip_converter.h

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

  // Runs several plans that read one source picture and write disjoint parts
  // of one set of destination buffers (tiles of a frame into a batch). Same
  // bytes as one Convert per plan; source and destination are mapped once.
  // `finished` is called once per plan, in any order: as soon as the picture
  // can be read by its owner, which for memory that is not mapped (copied
  // memfds, dma-bufs) is after all of them.
  // The default runs Convert on several threads of `pool` at once; a backend
  // that is bound to one thread, or that can read the source once for all
  // plans, has its own.
  // REQUIRES: plans of equal `source`, each accepted as for Convert;
  // destinations that share no byte.
  // Errors: as Convert, of the first plan that failed; others may have been
  // written, copied buffers stay untouched.
  virtual absl::StatusOr<uint64_t> ConvertMany(
      std::span<const ConvertPlan> plans, const PictureBuffers& source,
      const PictureBuffers& destination, RowPool& pool,
      PictureFinished finished);

  // This backend's way of converting pictures that are still being decoded;
  // null when it has none.
  virtual StripConverter* strips() { return nullptr; }

  // What is wrong now; empty when nothing is. Thread-safety: safe.
  virtual std::string health() const { return ""; }
  // Counted since the start. Thread-safety: safe.
  virtual std::vector<BackendCounter> counters() const { return {}; }
};

}  // namespace preprocd

#endif  // ENGINE_CONVERT_CONVERTER_H_
