#include "client/cli/convert_options.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

bool IsYuv(v1::PixelFormat format) { return format >= v1::PIXEL_FORMAT_NV12; }

absl::Status CheckSize(const v1::Size& size, absl::string_view prefix) {
  const std::pair<absl::string_view, int> sides[] = {{"width", size.width()},
                                                     {"height", size.height()}};
  for (const auto& [name, value] : sides) {
    if (value >= 1) continue;
    const std::string field = absl::StrCat(prefix, ".", name);
    ErrorDetail detail;
    detail.reason = ErrorReason::kGeometryInvalid;
    detail.field = field;
    detail.got = absl::StrCat(value);
    detail.limit = "1";
    return MakeError(absl::StatusCode::kInvalidArgument, std::move(detail),
                     absl::StrCat(field, " ", value, " < 1"));
  }
  return absl::OkStatus();
}

// Entry `i` of a list whose single entry stands for all.
double Entry(const std::vector<double>& values, size_t i, double otherwise) {
  if (values.empty()) return otherwise;
  return values.size() == 1 ? values[0] : values[i];
}

// mean and std in 0..1 units, as in torchvision, to offset and multiplier in
// 0..255 units (DESIGN 5).
absl::Status SetNormalization(const ConvertOptions& options,
                              v1::ConvertSpec& spec) {
  const size_t count = std::max(options.mean.size(), options.std.size());
  if (count == 0) return absl::OkStatus();
  for (const std::vector<double>* list : {&options.mean, &options.std}) {
    if (list->size() > 1 && list->size() != count) {
      return UsageError(absl::StrCat("--mean has ", options.mean.size(),
                                     " values, --std ", options.std.size()));
    }
  }
  for (size_t i = 0; i < count; ++i) {
    const double deviation = Entry(options.std, i, 1.0);
    if (deviation == 0) return UsageError("--std 0 cannot be divided by");
    spec.mutable_normalization()->add_offset(255.0 *
                                             Entry(options.mean, i, 0.0));
    spec.mutable_normalization()->add_multiplier(1.0 / (255.0 * deviation));
  }
  return absl::OkStatus();
}

absl::Status SetOrientation(const std::string& text, v1::ConvertSpec& spec) {
  if (text.empty()) return absl::OkStatus();
  if (text == "exif") {
    spec.set_orientation_from_file(true);
    return absl::OkStatus();
  }
  if (text.size() != 1 || text[0] < '1' || text[0] > '8') {
    return UsageError(
        absl::StrCat("--orientation '", text, "' is neither 1..8 nor exif"));
  }
  spec.set_orientation(text[0] - '0');
  return absl::OkStatus();
}

absl::StatusOr<v1::ConvertSpec> MakeSpec(const ConvertOptions& options) {
  v1::ConvertSpec spec;
  if (options.crop) *spec.mutable_source_rect() = *options.crop;
  RETURN_IF_ERROR(SetOrientation(options.orientation, spec));
  spec.set_fit(options.fit);
  if (options.place) {
    // --place says the fit by itself; another fit contradicts it.
    if (options.fit != v1::FIT_UNSPECIFIED && options.fit != v1::FIT_PLACE) {
      return UsageError("--place goes with --fit place only");
    }
    spec.set_fit(v1::FIT_PLACE);
    *spec.mutable_place() = *options.place;
  } else if (options.fit == v1::FIT_PLACE) {
    return UsageError("--fit place needs --place X,Y,W,H");
  }
  spec.set_letterbox_rule(options.letterbox_rule);
  if (options.pad) *spec.mutable_pad() = *options.pad;
  spec.set_filter(options.filter);
  RETURN_IF_ERROR(SetNormalization(options, spec));
  if (options.quantization) {
    *spec.mutable_quantization() = *options.quantization;
  }
  spec.set_chroma(options.chroma);
  spec.set_precision(options.precision);
  spec.set_numerics(options.numerics);
  return spec;
}

void SetColor(const ConvertOptions& options, v1::ImageLayout& layout) {
  if (!IsYuv(layout.format())) return;
  layout.mutable_color()->set_matrix(options.matrix);
  layout.mutable_color()->set_range(options.range);
}

void AddPixelOptions(CLI::App& command, ConvertOptions& options) {
  AddParsed(command, "--filter", &options.filter, ParseEnum<v1::Filter>,
            "nearest | bilinear | bilinear-aa | area | bicubic | bicubic-aa | "
            "lanczos3 (default bilinear)");
  AddParsed(command, "--format", &options.format, ParseEnum<v1::PixelFormat>,
            "pixel format of the result, for example rgb, grey, nv12 "
            "(default rgb)");
  AddParsed(command, "--dtype", &options.dtype, ParseEnum<v1::DataType>,
            "u8 | i8 | u16 | i16 | f16 | bf16 | f32 (default u8)");
  AddParsed(command, "--layout", &options.layout, ParseLayout,
            "hwc | chw | tiled-compact:TWxTH | tiled-pad16:TWxTH "
            "(default: as the format says)");
  AddParsed(command, "--mean", &options.mean, ParseNumbers,
            "a,b,c in 0..1 units: n = (v/255 - mean) / std");
  AddParsed(command, "--std", &options.std, ParseNumbers,
            "a,b,c in 0..1 units");
  AddParsed(command, "--quant", &options.quantization, ParseQuantization,
            "M,ZP: q = clamp(round(n * M) + ZP)");
  AddParsed(command, "--matrix", &options.matrix,
            ParseEnum<v1::MatrixCoefficients>,
            "601 | 709 | 2020 of raw YUV input and YUV output");
  AddParsed(command, "--range", &options.range, ParseEnum<v1::ColorRange>,
            "full | limited of raw YUV input and YUV output");
  AddParsed(command, "--chroma", &options.chroma,
            ParseEnum<v1::ChromaUpsampling>,
            "replicate | fancy (default fancy for JPEG, replicate for raw)");
  AddParsed(command, "--precision", &options.precision,
            ParseEnum<v1::Precision>,
            "eight-bit | full: round to 8 bits before normalising (default) "
            "or never");
  AddParsed(command, "--numerics", &options.numerics, ParseEnum<v1::Numerics>,
            "default | ev74 (bit for bit as that kernel)");
}

}  // namespace

void AddConvertOptions(CLI::App& command, ConvertOptions& options) {
  AddParsed(command, "--size", &options.size, ParseSize,
            "WxH of the result (default: that of the upright source)");
  AddParsed(command, "--fit", &options.fit, ParseEnum<v1::Fit>,
            "stretch | letterbox | cover | place (default stretch)");
  AddParsed(command, "--place", &options.place, ParseRect,
            "X,Y,W,H in the result where the picture goes");
  AddParsed(command, "--crop", &options.crop, ParseRect,
            "X,Y,W,H of the stored source that is used");
  AddRenderOptions(command, options);
  command.add_flag("--fast-scale", options.fast_scale,
                   "let the JPEG decoder shrink by itself; less exact");
}

void AddRenderOptions(CLI::App& command, ConvertOptions& options) {
  AddParsed(command, "--raw", &options.raw, ParseRaw,
            "FILE holds raw pixels: FORMAT:WxH[:stride=N][:offset=N]");
  AddParsed(command, "--letterbox-rule", &options.letterbox_rule,
            ParseEnum<v1::LetterboxRule>,
            "center | ultralytics | topleft (default center)");
  AddParsed(command, "--pad", &options.pad, ParseColor,
            "R,G,B[,A] of the padding (default 114,114,114)");
  command.add_option("--orientation", options.orientation,
                     "1..8 turns the source as EXIF defines it; exif takes "
                     "what the file states (default 1: as stored)");
  AddPixelOptions(command, options);
  AddParsed(command, "--backend", &options.backends, ParseBackends,
            "auto, or reference | cpu | gl | g2d | ev74, in this order");
  command.add_option("--priority", options.priority,
                     "-1 background, 0 normal, 1 high");
  command.add_flag("--lenient", options.lenient,
                   "damaged files: give what can be read, with a warning");
}

absl::StatusOr<std::vector<std::string>> ParseBackends(
    const std::string& text) {
  std::vector<std::string> names = absl::StrSplit(text, ',');
  if (names == std::vector<std::string>{"auto"}) names.clear();
  for (const std::string& name : names) {
    if (name.empty() || name == "auto") {
      return UsageError(absl::StrCat(
          "'", text, "' is neither auto nor a list of backend names"));
    }
  }
  return names;
}

absl::StatusOr<v1::ConvertRequest> MakeConvertRequest(
    const ConvertOptions& options) {
  v1::ConvertRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), MakeSpec(options));
  if (options.raw) {
    RETURN_IF_ERROR(CheckSize(
        [&] {
          v1::Size size;
          size.set_width(options.raw->width());
          size.set_height(options.raw->height());
          return size;
        }(),
        "source.layout"));
    *request.mutable_source()->mutable_layout() = *options.raw;
    SetColor(options, *request.mutable_source()->mutable_layout());
  }
  v1::Destination& destination = *request.mutable_destination();
  v1::ImageLayout& layout = *destination.mutable_layout();
  if (options.size) {
    RETURN_IF_ERROR(CheckSize(*options.size, "destination.layout"));
    layout.set_width(options.size->width());
    layout.set_height(options.size->height());
  }
  layout.set_format(options.format == v1::PIXEL_FORMAT_UNSPECIFIED
                        ? v1::PIXEL_FORMAT_RGB
                        : options.format);
  layout.set_dtype(options.dtype == v1::DATA_TYPE_UNSPECIFIED ? v1::DATA_TYPE_U8
                                                              : options.dtype);
  SetColor(options, layout);
  destination.set_tensor_layout(options.layout.layout);
  if (options.layout.tile) {
    RETURN_IF_ERROR(CheckSize(*options.layout.tile, "destination.tensor_tile"));
    *destination.mutable_tensor_tile() = *options.layout.tile;
  }
  for (const std::string& name : options.backends) {
    request.mutable_options()->add_backends(name);
  }
  request.mutable_options()->set_priority(options.priority);
  request.set_lenient(options.lenient);
  request.set_fast_scale(options.fast_scale);
  return request;
}

}  // namespace preprocd::cli
