#include "client/cli/option_values.h"

#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/exit_code.h"
#include "client/cli/pixel_layout.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

absl::StatusOr<int32_t> ParseInteger(absl::string_view text) {
  int32_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return UsageError(absl::StrCat("'", text, "' is not an integer"));
  }
  return value;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  uint64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) {
    return UsageError(absl::StrCat("'", text, "' is not a number of bytes"));
  }
  return value;
}

absl::StatusOr<std::vector<int32_t>> ParseIntegers(const std::string& text) {
  std::vector<int32_t> values;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    ASSIGN_OR_RETURN(const int32_t value, ParseInteger(part));
    values.push_back(value);
  }
  return values;
}

// Words without what the user may leave out or write otherwise.
std::string Bare(absl::string_view name) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(name),
                             {{"-", ""}, {"_", ""}});
}

// "LetterboxRule" -> "LETTERBOX_RULE_".
std::string PrefixOf(const google::protobuf::EnumDescriptor& descriptor) {
  std::string prefix;
  for (const char c : descriptor.name()) {
    if (absl::ascii_isupper(static_cast<unsigned char>(c)) && !prefix.empty()) {
      prefix += '_';
    }
    prefix += absl::ascii_toupper(static_cast<unsigned char>(c));
  }
  return prefix + "_";
}

}  // namespace

absl::StatusOr<v1::Size> ParseSize(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, 'x');
  if (parts.size() != 2) {
    return UsageError(absl::StrCat("'", text, "' is not of the form WxH"));
  }
  v1::Size size;
  ASSIGN_OR_RETURN(const int32_t width, ParseInteger(parts[0]));
  ASSIGN_OR_RETURN(const int32_t height, ParseInteger(parts[1]));
  size.set_width(width);
  size.set_height(height);
  return size;
}

absl::StatusOr<v1::Rect> ParseRect(const std::string& text) {
  ASSIGN_OR_RETURN(const std::vector<int32_t> values, ParseIntegers(text));
  if (values.size() != 4) {
    return UsageError(absl::StrCat("'", text, "' is not of the form X,Y,W,H"));
  }
  v1::Rect rect;
  rect.set_x(values[0]);
  rect.set_y(values[1]);
  rect.set_width(values[2]);
  rect.set_height(values[3]);
  return rect;
}

absl::StatusOr<v1::Color> ParseColor(const std::string& text) {
  ASSIGN_OR_RETURN(std::vector<int32_t> values, ParseIntegers(text));
  if (values.size() == 1) values.assign(3, values[0]);
  if (values.size() == 3) values.push_back(255);
  if (values.size() != 4) {
    return UsageError(
        absl::StrCat("'", text, "' is not of the form R,G,B or R,G,B,A"));
  }
  for (const int32_t value : values) {
    if (value < 0 || value > 255) {
      return UsageError(
          absl::StrCat("colour value ", value, " is not within 0..255"));
    }
  }
  v1::Color color;
  color.set_r(static_cast<uint32_t>(values[0]));
  color.set_g(static_cast<uint32_t>(values[1]));
  color.set_b(static_cast<uint32_t>(values[2]));
  color.set_a(static_cast<uint32_t>(values[3]));
  return color;
}

absl::StatusOr<std::vector<double>> ParseNumbers(const std::string& text) {
  std::vector<double> values;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    double value = 0;
    if (!absl::SimpleAtod(part, &value) || !std::isfinite(value)) {
      return UsageError(absl::StrCat("'", part, "' is not a finite number"));
    }
    values.push_back(value);
  }
  if (values.size() > 4) {
    return UsageError(absl::StrCat(values.size(), " numbers > 4"));
  }
  return values;
}

absl::StatusOr<v1::Quantization> ParseQuantization(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  if (parts.size() != 2) {
    return UsageError(absl::StrCat("'", text, "' is not of the form M,ZP"));
  }
  ASSIGN_OR_RETURN(const std::vector<double> multiplier,
                   ParseNumbers(parts[0]));
  ASSIGN_OR_RETURN(const int32_t zero_point, ParseInteger(parts[1]));
  v1::Quantization quantization;
  quantization.set_multiplier(multiplier[0]);
  quantization.set_zero_point(zero_point);
  return quantization;
}

absl::StatusOr<v1::ImageLayout> ParseRaw(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2) {
    return UsageError(absl::StrCat(
        "'", text, "' is not of the form FORMAT:WxH[:stride=N][:offset=N]"));
  }
  v1::ImageLayout layout;
  ASSIGN_OR_RETURN(const auto format, ParseEnum<v1::PixelFormat>(parts[0]));
  ASSIGN_OR_RETURN(const v1::Size size, ParseSize(parts[1]));
  layout.set_format(format);
  layout.set_dtype(v1::DATA_TYPE_U8);
  layout.set_width(size.width());
  layout.set_height(size.height());
  uint64_t stride = 0;
  uint64_t offset = 0;
  for (size_t i = 2; i < parts.size(); ++i) {
    absl::string_view part = parts[i];
    if (absl::ConsumePrefix(&part, "stride=")) {
      ASSIGN_OR_RETURN(stride, ParseBytes(part));
    } else if (absl::ConsumePrefix(&part, "offset=")) {
      ASSIGN_OR_RETURN(offset, ParseBytes(part));
    } else {
      return UsageError(
          absl::StrCat("'", parts[i], "' is neither stride=N nor offset=N"));
    }
  }
  if (parts.size() > 2) SetPlanes(layout, offset, stride);
  return layout;
}

absl::StatusOr<LayoutChoice> ParseLayout(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  LayoutChoice choice;
  ASSIGN_OR_RETURN(choice.layout, ParseEnum<v1::TensorLayout>(parts[0]));
  const bool tiled = choice.layout == v1::TENSOR_LAYOUT_TILED_COMPACT ||
                     choice.layout == v1::TENSOR_LAYOUT_TILED_PAD16;
  if (parts.size() != (tiled ? 2U : 1U)) {
    return UsageError(
        absl::StrCat("'", text,
                     "' is none of hwc, chw, tiled-compact:TWxTH, "
                     "tiled-pad16:TWxTH"));
  }
  if (tiled) {
    ASSIGN_OR_RETURN(choice.tile, ParseSize(parts[1]));
  }
  return choice;
}

std::string EnumText(const google::protobuf::EnumValueDescriptor& value) {
  absl::string_view name = value.name();
  absl::ConsumePrefix(&name, PrefixOf(*value.type()));
  std::string text = absl::AsciiStrToLower(name);
  if (value.type() == v1::PixelFormat_descriptor()) return text;
  return absl::StrReplaceAll(text, {{"_", "-"}});
}

absl::StatusOr<int> ParseEnumNumber(
    const google::protobuf::EnumDescriptor& descriptor,
    const std::string& text) {
  const std::string wanted = Bare(text);
  std::vector<std::string> names;
  for (int i = 0; i < descriptor.value_count(); ++i) {
    const auto& value = *descriptor.value(i);
    if (value.number() == 0) continue;  // "unspecified" is said by silence
    const std::string name = EnumText(value);
    if (wanted == Bare(name) || absl::StrCat("bt", wanted) == name) {
      return value.number();
    }
    names.push_back(name);
  }
  return UsageError(
      absl::StrCat("'", text, "' is none of ", absl::StrJoin(names, ", ")));
}

}  // namespace preprocd::cli
