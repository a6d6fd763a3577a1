// The engine's only door: plan, convert, decode, encode and draw on pictures
// in buffers. The daemon calls this and nothing deeper.
// Owns: backends, row pool, decoders' scratch. Thread-safety: safe.
// Limits: engine/base/limits.h.
#ifndef ENGINE_ENGINE_H_
#define ENGINE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/registry.h"
#include "engine/codec/image_decoder.h"
#include "engine/codec/image_encoder.h"
#include "engine/convert/convert_plan.h"
#include "engine/convert/convert_spec.h"
#include "engine/convert/converter.h"
#include "engine/failover.h"
#include "engine/image/image_desc.h"
#include "engine/masks/draw_masks.h"
#include "engine/memory/buffer.h"

namespace preprocd {

struct EngineOptions {
  // Threads that split one picture, the caller's included; 0 = one per core.
  int row_threads = 0;
  // Backends to allow, best first; empty = all that are built in, by rank.
  std::vector<std::string> backends;
  BackendSettings backend_settings;
};

// Encoded bytes in memory that nobody else can change (immutable buffer or a
// private copy). Borrowed for the call.
using EncodedBytes = std::span<const std::byte>;

// Times and facts of one call; zeros for stages that did not happen.
struct WorkReport {
  int64_t decode_ns = 0;
  int64_t convert_ns = 0;
  int64_t encode_ns = 0;
  uint64_t bytes_copied = 0;
  std::vector<std::string> warnings;
  // Backends that broke, and who did the work instead.
  FailoverReport failover;
};

// What a backend reports about itself while it runs.
struct BackendStatus {
  absl::string_view name;
  bool available = false;
  std::string health;  // empty = all is well
  std::vector<BackendCounter> counters;
};

// Whether a JPEG that is shrunk by 2 or more may be decoded at 1/2, 1/4 or 1/8
// of its size (engine/codec/reduced_dct.h tells the error).
enum class DecodeScaling : uint8_t { kFull, kFast };

class Engine {
 public:
  // Errors: kInvalidArgument BACKEND_UNKNOWN
  static absl::StatusOr<std::unique_ptr<Engine>> Create(
      const EngineOptions& options);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Backends in the order they are tried (forced-only ones last).
  std::span<const Capabilities* const> backends() const;

  // The same backends, as they are doing now.
  std::vector<BackendStatus> status() const;

  // Plans and selects a backend; pure. `destination` is complete (its memory
  // layout is what the plan writes). Errors: those of PlanConvert and
  // SelectBackend.
  absl::StatusOr<ConvertPlan> Plan(const ImageDesc& source,
                                   const ImageDesc& destination,
                                   const ConvertSpec& spec,
                                   bool from_jpeg) const;

  // The picture that an encoded file is decoded to before a convert to
  // `destination_format`, tight: a JPEG's coded planes (nv12, nv16, nv24,
  // grey) where it has them, else rgb, grey or rgba.
  // Errors: those of MakeImageDesc.
  static absl::StatusOr<ImageDesc> DecodedDesc(const ImageInfo& info,
                                               PixelFormat destination_format);

  // Runs a plan on raw pixels. Errors: those of Converter::Convert;
  // kInvalidArgument BUFFER_OVERLAP when source and destination share bytes.
  absl::Status Convert(const ConvertPlan& plan, const PictureBuffers& source,
                       const PictureBuffers& destination, WorkReport& report);

  // Runs plans of one source picture, all of the same backend, that write
  // disjoint parts of one set of buffers (tiles into a batch). Same bytes as
  // one Convert per plan. `finished`: see Converter::ConvertMany.
  // Errors: as Convert. REQUIRES: at least one plan.
  absl::Status ConvertBatch(std::span<const ConvertPlan> plans,
                            const PictureBuffers& source,
                            const PictureBuffers& destination,
                            PictureFinished finished, WorkReport& report);

  // Decodes `bytes` once, to plans[0].source in private scratch memory, and
  // runs the plans from there.
  absl::Status DecodeAndConvertBatch(EncodedBytes bytes,
                                     const DecodeOptions& decode,
                                     std::span<const ConvertPlan> plans,
                                     const PictureBuffers& destination,
                                     PictureFinished finished,
                                     WorkReport& report);

  // Decodes `bytes` to plan.source (which must be DecodedDesc's) and converts.
  // Coded planes are converted strip by strip as they are decoded, where the
  // plan's backend can (StripConverter): the frame is never held. Else it is
  // decoded to private scratch memory first; the bytes are the same.
  // Damage is found on the way: after an error the destination holds
  // unspecified pixels (a copied buffer is untouched). With kFast a warning
  // tells the size that was decoded; decode.shrink is chosen here.
  absl::Status DecodeAndConvert(EncodedBytes bytes, const DecodeOptions& decode,
                                const ConvertPlan& plan,
                                const PictureBuffers& destination,
                                WorkReport& report,
                                DecodeScaling scaling = DecodeScaling::kFull);

  // Decodes into `destination` (described by `desc`), whose size is the
  // file's: no orientation, no conversion.
  absl::StatusOr<DecodeResult> Decode(EncodedBytes bytes,
                                      const DecodeOptions& options,
                                      const ImageDesc& desc,
                                      const PictureBuffers& destination,
                                      WorkReport& report);

  // Encodes a picture. `out` is replaced.
  absl::Status EncodeJpegFile(const ImageDesc& desc,
                              const PictureBuffers& source,
                              const JpegEncodeOptions& options,
                              std::vector<std::byte>& out, WorkReport& report);
  absl::Status EncodePngFile(const ImageDesc& desc,
                             const PictureBuffers& source,
                             const PngEncodeOptions& options,
                             std::vector<std::byte>& out, WorkReport& report);

  // Computes the masks of a prepared workspace into `out`. Errors: those of
  // preprocd::MaterializeMasks (engine/masks/materialize.h).
  absl::Status Materialize(MaskWorkspace& workspace, std::span<std::byte> out,
                           WorkReport& report);

  // Draws over `destination`, which is described by `desc`. `background` is
  // given exactly for Backdrop::kPicture, `background_desc` describes it.
  // Errors: those of CheckDraw (engine/masks/draw_masks.h) and Buffer::Map;
  // kInvalidArgument BUFFER_OVERLAP.
  absl::Status Draw(const DrawnMasks& masks, const DrawStyle& style,
                    Backdrop backdrop, const ImageDesc& background_desc,
                    const PictureBuffers& background, const ImageDesc& desc,
                    const PictureBuffers& destination, WorkReport& report);

 private:
  absl::Status DecodeAtSize(EncodedBytes bytes, const DecodeOptions& decode,
                            const ConvertPlan& plan,
                            const PictureBuffers& destination,
                            WorkReport& report);
  // True when the fused way did all of it; false when nothing was done.
  absl::StatusOr<bool> DecodeIntoConvert(EncodedBytes bytes,
                                         const DecodeOptions& decode,
                                         const ConvertPlan& plan,
                                         const PictureBuffers& destination,
                                         WorkReport& report);

  struct State;
  explicit Engine(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace preprocd

#endif  // ENGINE_ENGINE_H_
