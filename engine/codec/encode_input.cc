#include "engine/codec/encode_input.h"

#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"

namespace preprocd {

absl::Status CheckEncodeSize(const ImageDesc& desc) {
  // Making a tight description of the same size applies every check.
  return PrefixField(
      MakeImageDesc(desc.format, desc.dtype, desc.width, desc.height).status(),
      "source.");
}

absl::Status CannotEncode(const ImageDesc& desc, absl::string_view file) {
  return InvalidField(
      ErrorReason::kFormatPair, "source.format",
      absl::StrCat("source.format ", PixelFormatName(desc.format), " of ",
                   DTypeName(desc.dtype), " is not encoded as ", file));
}

}  // namespace preprocd
