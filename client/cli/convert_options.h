// The options of `convert`, `explain` and `tile`, and the request that they
// make. Thread-safety: compatible (values only).
#ifndef CLIENT_CLI_CONVERT_OPTIONS_H_
#define CLIENT_CLI_CONVERT_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/option_values.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd::cli {

struct ConvertOptions {
  std::string file;
  std::optional<v1::ImageLayout> raw;  // the file holds raw pixels
  std::optional<v1::Size> size;
  v1::Fit fit = v1::FIT_UNSPECIFIED;
  std::optional<v1::Rect> place;
  v1::LetterboxRule letterbox_rule = v1::LETTERBOX_RULE_UNSPECIFIED;
  std::optional<v1::Color> pad;
  std::optional<v1::Rect> crop;
  std::string orientation;  // "1".."8", "exif", empty = 1
  v1::Filter filter = v1::FILTER_UNSPECIFIED;
  v1::PixelFormat format = v1::PIXEL_FORMAT_UNSPECIFIED;
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  LayoutChoice layout;
  std::vector<double> mean;  // 0..1 units, empty = not given
  std::vector<double> std;
  std::optional<v1::Quantization> quantization;
  v1::MatrixCoefficients matrix = v1::MATRIX_COEFFICIENTS_UNSPECIFIED;
  v1::ColorRange range = v1::COLOR_RANGE_UNSPECIFIED;
  v1::ChromaUpsampling chroma = v1::CHROMA_UPSAMPLING_UNSPECIFIED;
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
  v1::Numerics numerics = v1::NUMERICS_UNSPECIFIED;
  std::vector<std::string> backends;  // empty = automatic
  int priority = 0;
  bool lenient = false;
  bool fast_scale = false;
};

// Adds every option but the file and the output to `command`.
void AddConvertOptions(CLI::App& command, ConvertOptions& options);
// Of these the ones that do not say which part of the source goes where:
// neither size, fit, place nor crop, nor fast-scale.
void AddRenderOptions(CLI::App& command, ConvertOptions& options);

// The request without the places of its pictures; for raw input the source
// has its layout.
// Errors: reason USAGE          options that contradict each other
//         kInvalidArgument with GEOMETRY_INVALID  a size below 1, which the
//         wire would take for "as the operation gives"
absl::StatusOr<v1::ConvertRequest> MakeConvertRequest(
    const ConvertOptions& options);

// "auto" is no name at all; else names separated by commas.
// Errors: reason USAGE
absl::StatusOr<std::vector<std::string>> ParseBackends(const std::string& text);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_CONVERT_OPTIONS_H_
