// The result of planning: every decision of one conversion, resolved. A
// backend executes it and decides nothing about geometry or colour.
// Thread-safety: compatible (values only).
// Source: DESIGN section 5, order: source rectangle -> orientation -> fit ->
// filter -> colour -> dtype stage -> layout.
#ifndef ENGINE_CONVERT_CONVERT_PLAN_H_
#define ENGINE_CONVERT_CONVERT_PLAN_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/convert/convert_spec.h"
#include "engine/image/color_encoding.h"
#include "engine/image/geometry.h"
#include "engine/image/image_desc.h"
#include "engine/image/orientation.h"
#include "engine/image/sampling.h"

namespace preprocd {

// One backend that would not or could not run the plan.
struct Decline {
  std::string backend;
  std::string reason;
};

struct BackendChoice {
  std::string backend;
  bool accepts = false;
  std::string reason;  // why not
};

struct ConvertPlan {
  // Colour encodings are resolved (never kUnspecified) for YUV formats.
  ImageDesc source;
  ImageDesc destination;

  Rect source_rect;  // stored pixels, inside the source
  Orientation orientation = Orientation::kNormal;
  Size oriented;  // source_rect's size after orientation
  Fit fit = Fit::kStretch;
  Placement placement;  // destination pixels / oriented pixels
  Rect shown_stored;    // placement.shown in stored pixels
  AffineMap map;        // stored source -> destination, continuous

  Filter filter = Filter::kBilinear;
  ChromaUpsampling chroma = ChromaUpsampling::kReplicate;
  Precision precision = Precision::kEightBit;
  Numerics numerics = Numerics::kDefault;

  // The dtype stage, per channel in R G B A order. `normalize` is false when
  // the destination takes the plain value (u8 v, i8 v-128, u16 v*257,
  // i16 v*257-32768); then `normalization` is ignored. Always true for
  // floats (n) and with quantisation (q), never for integers without it.
  // Alpha in an integer destination is neither biased nor normalised nor
  // quantised: its element's bits are those of the unsigned v (8 bits) or
  // v*257 (16 bits), so opaque is 0xff in i8, too. In a float destination it
  // is normalised by entry 3 like the others (v/255 unless told otherwise).
  bool normalize = false;
  Normalization normalization;
  std::optional<Quantization> quantization;
  PadColor pad;

  // True when the destination has pixels outside the placement.
  bool has_padding = false;
  // True when no resampling happens (same extents on both axes).
  bool same_size = false;

  // Filled by SelectBackend.
  std::string backend;
  std::vector<BackendChoice> ranking;  // in the order they were tried
  std::vector<Decline> declines;       // better-ranked than `backend`
};

}  // namespace preprocd

#endif  // ENGINE_CONVERT_CONVERT_PLAN_H_
