// Texts of the command line as values: sizes, rectangles, lists, names of
// enumerations. Only the syntax is checked here; ranges are the daemon's.
// Thread-safety: safe (no state).
#ifndef CLIENT_CLI_OPTION_VALUES_H_
#define CLIENT_CLI_OPTION_VALUES_H_

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "preproc/v1/image.pb.h"

namespace preprocd::cli {

namespace v1 = ::preproc::v1;

// "640x480".
absl::StatusOr<v1::Size> ParseSize(const std::string& text);
// "X,Y,W,H".
absl::StatusOr<v1::Rect> ParseRect(const std::string& text);
// "R,G,B" or "R,G,B,A", each 0..255; alpha defaults to 255. One number is
// taken for R, G and B.
absl::StatusOr<v1::Color> ParseColor(const std::string& text);
// "0.485,0.456,0.406": 1..4 finite numbers.
absl::StatusOr<std::vector<double>> ParseNumbers(const std::string& text);
// "M,ZP".
absl::StatusOr<v1::Quantization> ParseQuantization(const std::string& text);
// "nv12:640x480[:stride=N][:offset=N]": the planes are filled in when a
// stride or an offset is given.
absl::StatusOr<v1::ImageLayout> ParseRaw(const std::string& text);

struct LayoutChoice {
  v1::TensorLayout layout = v1::TENSOR_LAYOUT_UNSPECIFIED;
  std::optional<v1::Size> tile;  // of the tiled ones
};
// "hwc", "chw", "tiled-compact:TWxTH", "tiled-pad16:TWxTH".
absl::StatusOr<LayoutChoice> ParseLayout(const std::string& text);

// Name of an enumeration's value as the command line writes it: without the
// enumeration's prefix, lower case, '-' between words (pixel formats: '_').
std::string EnumText(const google::protobuf::EnumValueDescriptor& value);
// Number of the value that `text` names; '-' and '_' do not matter, and the
// "bt" of the matrices may be left out. The message of an error lists the
// names.
absl::StatusOr<int> ParseEnumNumber(
    const google::protobuf::EnumDescriptor& descriptor,
    const std::string& text);

template <typename Enum>
std::string EnumText(Enum value) {
  const auto* descriptor = google::protobuf::GetEnumDescriptor<Enum>();
  const auto* found = descriptor->FindValueByNumber(static_cast<int>(value));
  return found == nullptr ? std::to_string(static_cast<int>(value))
                          : EnumText(*found);
}

template <typename Enum>
absl::StatusOr<Enum> ParseEnum(const std::string& text) {
  const absl::StatusOr<int> number =
      ParseEnumNumber(*google::protobuf::GetEnumDescriptor<Enum>(), text);
  if (!number.ok()) return number.status();
  return static_cast<Enum>(*number);
}

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_OPTION_VALUES_H_
