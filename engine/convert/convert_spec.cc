#include "engine/convert/convert_spec.h"

#include "absl/strings/string_view.h"

namespace preprocd {

std::optional<ChromaUpsampling> ParseChromaUpsampling(absl::string_view name) {
  if (name == "replicate") return ChromaUpsampling::kReplicate;
  if (name == "fancy") return ChromaUpsampling::kFancy;
  return std::nullopt;
}

absl::string_view ChromaUpsamplingName(ChromaUpsampling chroma) {
  switch (chroma) {
    case ChromaUpsampling::kReplicate:
      return "replicate";
    case ChromaUpsampling::kFancy:
      return "fancy";
    case ChromaUpsampling::kUnspecified:
      break;
  }
  return "unspecified";
}

std::optional<TensorLayout> ParseTensorLayout(absl::string_view name) {
  if (name == "hwc") return TensorLayout::kHwc;
  if (name == "chw") return TensorLayout::kChw;
  if (name == "tiled-compact") return TensorLayout::kTiledCompact;
  if (name == "tiled-pad16") return TensorLayout::kTiledPad16;
  return std::nullopt;
}

absl::string_view TensorLayoutName(TensorLayout layout) {
  switch (layout) {
    case TensorLayout::kHwc:
      return "hwc";
    case TensorLayout::kChw:
      return "chw";
    case TensorLayout::kTiledCompact:
      return "tiled-compact";
    case TensorLayout::kTiledPad16:
      return "tiled-pad16";
    case TensorLayout::kUnspecified:
      break;
  }
  return "unspecified";
}

}  // namespace preprocd
