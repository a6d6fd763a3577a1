#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/exit_code.h"
#include "client/cli/json_format.h"
#include "client/cli/npy_file.h"
#include "client/cli/option_values.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "client/cli/text_format.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

struct Arguments {
  std::string prototypes;
  std::string coefficients;
  std::string boxes;
  std::string output;
  bool chw = false;
  bool semantic = false;
  std::optional<v1::Quantization> prototype_quantization;
  std::optional<v1::Quantization> coefficient_quantization;
  std::optional<v1::Size> size;
  std::optional<v1::Rect> content;
  std::optional<v1::Size> input;
  v1::MaskValues values = v1::MASK_VALUES_UNSPECIFIED;
  v1::MaskOutput form = v1::MASK_OUTPUT_UNSPECIFIED;
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  bool uncropped = false;
  std::string draw_on;
  v1::ColorMode color = v1::COLOR_MODE_UNSPECIFIED;
  std::optional<float> opacity;
  std::vector<std::string> palette;
  bool draw_boxes = false;
};

// A .npy file as a tensor of a request.
struct TensorFile {
  NpyArray array;
  SourcePicture memory;
};

absl::StatusOr<TensorFile> OpenTensor(
    Session& session, const std::string& path,
    const std::optional<v1::Quantization>& quantization,
    v1::TensorRef& tensor) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(path));
  TensorFile file;
  ASSIGN_OR_RETURN(file.array, ParseNpy(path, bytes));
  const size_t offset = file.array.data_offset;
  if (session.has_direct()) {
    ASSIGN_OR_RETURN(file.memory, SourcePicture::Create(
                                      session, std::move(bytes), std::nullopt));
    *tensor.mutable_buffer() = file.memory.source().buffer();
    tensor.mutable_buffer()->set_offset_bytes(offset);
  } else {
    ASSIGN_OR_RETURN(
        file.memory,
        SourcePicture::Create(session, bytes.substr(offset), std::nullopt));
    tensor.set_inline_bytes(file.memory.source().inline_bytes());
  }
  tensor.mutable_shape()->Add(file.array.shape.begin(), file.array.shape.end());
  tensor.set_dtype(file.array.dtype);
  if (quantization) {
    tensor.add_scales(static_cast<float>(quantization->multiplier()));
    tensor.add_zero_points(quantization->zero_point());
  }
  return file;
}

// Rows of x0 y0 x1 y1 [score [label [track]]], f32.
absl::Status ReadBoxes(const std::string& path,
                       v1::MaterializeMasksRequest& request) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  ASSIGN_OR_RETURN(const NpyArray array, ParseNpy(path, bytes));
  if (array.dtype != v1::DATA_TYPE_F32 || array.shape.size() != 2 ||
      array.shape[1] < 4 || array.shape[1] > 7) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat(
            path,
            ": boxes are f32 of shape [N,4] to [N,7]: x0 y0 x1 y1 score "
            "label track")),
        kReasonFile);
  }
  const auto columns = static_cast<size_t>(array.shape[1]);
  for (int64_t i = 0; i < array.shape[0]; ++i) {
    float row[7] = {};
    std::memcpy(row,
                bytes.data() + array.data_offset +
                    static_cast<size_t>(i) * columns * sizeof(float),
                columns * sizeof(float));
    v1::Detection* box = request.add_boxes();
    box->set_x0(row[0]);
    box->set_y0(row[1]);
    box->set_x1(row[2]);
    box->set_y1(row[3]);
    box->set_score(row[4]);
    // Numbers that are no label or track are left at 0.
    if (row[5] >= -2147483648.0F && row[5] < 2147483648.0F) {
      box->set_label(static_cast<int32_t>(row[5]));
    }
    if (row[6] >= 0 && row[6] < 1.0e19F) {
      box->set_track_id(static_cast<uint64_t>(row[6]));
    }
  }
  return absl::OkStatus();
}

struct Inputs {
  TensorFile prototypes;
  TensorFile coefficients;
};

absl::StatusOr<Inputs> FillTensors(Session& session, const Arguments& arguments,
                                   v1::MaterializeMasksRequest& request) {
  Inputs inputs;
  ASSIGN_OR_RETURN(inputs.prototypes,
                   OpenTensor(session, arguments.prototypes,
                              arguments.prototype_quantization,
                              *request.mutable_prototypes()));
  request.set_prototypes_chw(arguments.chw);
  request.set_semantic(arguments.semantic);
  if (!arguments.coefficients.empty()) {
    ASSIGN_OR_RETURN(inputs.coefficients,
                     OpenTensor(session, arguments.coefficients,
                                arguments.coefficient_quantization,
                                *request.mutable_coefficients()));
  }
  if (!arguments.boxes.empty()) {
    RETURN_IF_ERROR(ReadBoxes(arguments.boxes, request));
  }
  if (arguments.content) *request.mutable_content() = *arguments.content;
  if (arguments.input) *request.mutable_input() = *arguments.input;
  return inputs;
}

void PresentMasks(Context& context, const Arguments& arguments,
                  const v1::MaterializeMasksReply& reply) {
  context.json()["output"] = arguments.output;
  context.json().update(MessageToJson(reply));
  context.Print(
      absl::StrCat(arguments.prototypes, " -> ", arguments.output, "\n"));
  context.Print(Line(
      "masks", absl::StrCat(reply.masks_size(), " of ", reply.size().width(),
                            "x", reply.size().height())));
  context.Print(ReportText(reply.report()));
}

// Whole planes in one array, [N,H,W].
absl::Status WriteDense(Context& context, Session& session,
                        const Arguments& arguments,
                        v1::MaterializeMasksRequest& request) {
  request.set_extent(arguments.uncropped ? v1::MASK_EXTENT_UNCROPPED
                                         : v1::MASK_EXTENT_PLANE);
  request.set_dtype(arguments.dtype);
  // Height and width without --size are the prototypes'.
  const int rows = arguments.chw ? 1 : 0;
  const bool sized = request.prototypes().shape_size() == 3;
  const int64_t height = arguments.size ? arguments.size->height()
                         : sized        ? request.prototypes().shape(rows)
                                        : 1;
  const int64_t width = arguments.size ? arguments.size->width()
                        : sized        ? request.prototypes().shape(rows + 1)
                                       : 1;
  const int64_t count = arguments.semantic ? 1 : request.boxes_size();
  const int64_t element = arguments.dtype == v1::DATA_TYPE_F32 ? 4 : 1;
  // The daemon refuses what is larger than its bounds anyway.
  const int64_t bytes =
      std::clamp<int64_t>(std::clamp<int64_t>(count * element, 1, 1 << 16) *
                              std::clamp<int64_t>(height, 1, 1 << 14) *
                              std::clamp<int64_t>(width, 1, 1 << 14),
                          1, int64_t{1} << 30);
  ASSIGN_OR_RETURN(const ResultPlace place,
                   ResultPlace::Create(session, static_cast<uint64_t>(bytes)));
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::MaterializeMasksReply reply,
                   session.MaterializeMasks(request));
  const auto memory = place.bytes(reply.inline_bytes());
  const std::vector<int64_t> shape = {reply.masks_size(), reply.size().height(),
                                      reply.size().width()};
  if (reply.size_bytes() > memory.size()) {
    return absl::InternalError("the daemon reports more masks than fit");
  }
  const v1::DataType dtype =
      element == 4 ? v1::DATA_TYPE_F32 : v1::DATA_TYPE_U8;
  RETURN_IF_ERROR(WriteFile(arguments.output, NpyHeader(dtype, shape),
                            memory.first(reply.size_bytes())));
  context.json()["shape"] = shape;
  v1::MaterializeMasksReply shown = reply;
  shown.clear_inline_bytes();
  PresentMasks(context, arguments, shown);
  return absl::OkStatus();
}

// One JSON array, in COCO's terms where it has them.
absl::Status WriteJson(Context& context, Session& session,
                       const Arguments& arguments,
                       v1::MaterializeMasksRequest& request) {
  request.set_output(arguments.form == v1::MASK_OUTPUT_UNSPECIFIED
                         ? v1::MASK_OUTPUT_RLE_TEXT
                         : arguments.form);
  ASSIGN_OR_RETURN(const v1::MaterializeMasksReply reply,
                   session.MaterializeMasks(request));
  nlohmann::ordered_json masks = nlohmann::ordered_json::array();
  for (const v1::Mask& mask : reply.masks()) {
    nlohmann::ordered_json entry;
    const v1::Rect& b = mask.bounds();
    entry["bbox"] = {b.x(), b.y(), b.width(), b.height()};
    if (request.output() == v1::MASK_OUTPUT_POLYGONS) {
      nlohmann::ordered_json rings = nlohmann::ordered_json::array();
      int at = 0;
      for (const uint32_t corners : mask.ring_sizes()) {
        nlohmann::ordered_json ring = nlohmann::ordered_json::array();
        for (uint32_t i = 0; i < 2 * corners; ++i) {
          ring.push_back(mask.polygon(at++));
        }
        rings.push_back(std::move(ring));
      }
      entry["segmentation"] = std::move(rings);
    } else {
      entry["segmentation"]["size"] = {reply.size().height(),
                                       reply.size().width()};
      if (request.output() == v1::MASK_OUTPUT_RLE) {
        entry["segmentation"]["counts"] = mask.rle_counts();
      } else {
        entry["segmentation"]["counts"] = mask.rle_text();
      }
    }
    masks.push_back(std::move(entry));
  }
  const std::string text = DumpJson(masks) + "\n";
  RETURN_IF_ERROR(
      WriteFile(arguments.output, "",
                std::as_bytes(std::span(text.data(), text.size()))));
  v1::MaterializeMasksReply shown = reply;
  for (v1::Mask& mask : *shown.mutable_masks()) {
    mask.clear_rle_counts();
    mask.clear_rle_text();
    mask.clear_polygon();
    mask.clear_ring_sizes();
  }
  PresentMasks(context, arguments, shown);
  return absl::OkStatus();
}

absl::Status DrawMasks(Context& context, Session& session,
                       const Arguments& arguments,
                       v1::MaterializeMasksRequest masks) {
  ASSIGN_OR_RETURN(const OutputKind kind, OutputKindOf(arguments.output));
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.draw_on));
  ASSIGN_OR_RETURN(
      const SourcePicture picture,
      SourcePicture::Create(session, std::move(bytes), std::nullopt));
  v1::PeekRequest peek;
  *peek.mutable_source() = picture.source();
  ASSIGN_OR_RETURN(const v1::PeekReply peeked, session.Peek(peek));
  v1::DrawMasksRequest request;
  *request.mutable_background() = picture.source();
  *request.mutable_masks() = std::move(masks);
  request.set_color_mode(arguments.color);
  if (arguments.opacity) request.set_opacity(*arguments.opacity);
  for (const std::string& text : arguments.palette) {
    absl::StatusOr<v1::Color> color = ParseColor(text);
    if (!color.ok()) {
      return UsageError(absl::StrCat("--palette: ", color.status().message()));
    }
    *request.add_palette() = *std::move(color);
  }
  request.set_draw_boxes(arguments.draw_boxes);
  v1::ImageLayout& layout = *request.mutable_destination()->mutable_layout();
  layout.set_format(v1::PIXEL_FORMAT_RGB);
  RETURN_IF_ERROR(CheckOutput(kind, layout.dtype(), request.destination()));
  v1::ImageLayout expected = layout;
  expected.set_width(peeked.info().width());
  expected.set_height(peeked.info().height());
  ASSIGN_OR_RETURN(
      const ResultPlace place,
      ResultPlace::Create(session, TightBytes(expected).value_or(1)));
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::DrawMasksReply reply, session.DrawMasks(request));
  ResultPicture result;
  result.layout = reply.layout();
  result.bytes = place.bytes(reply.inline_bytes());
  place.FillSource(result.source, reply.inline_bytes());
  RETURN_IF_ERROR(
      WriteResult(session, arguments.output, kind, result, /*quality=*/0));
  context.json()["file"] = arguments.draw_on;
  context.json()["output"] = arguments.output;
  context.json()["masks"] = request.masks().boxes_size();
  context.json()["report"] = MessageToJson(reply.report());
  context.Print(
      absl::StrCat(arguments.draw_on, " -> ", arguments.output, "\n"));
  context.Print(Line("masks", absl::StrCat(request.masks().boxes_size())));
  context.Print(Line("result", LayoutText(reply.layout())));
  context.Print(ReportText(reply.report()));
  return absl::OkStatus();
}

absl::Status RunMask(Context& context, const Arguments& arguments) {
  const bool json = absl::EndsWithIgnoreCase(arguments.output, ".json");
  const bool npy = absl::EndsWithIgnoreCase(arguments.output, ".npy");
  if (arguments.draw_on.empty() && !json && !npy) {
    return UsageError(absl::StrCat(arguments.output,
                                   ": masks are .npy or .json; pictures need "
                                   "--draw-on"));
  }
  if (!arguments.draw_on.empty() && arguments.size) {
    return UsageError("--size: a drawing has the size of its picture");
  }
  ASSIGN_OR_RETURN(Session* const session, context.session());
  v1::MaterializeMasksRequest request;
  ASSIGN_OR_RETURN(const Inputs inputs,
                   FillTensors(*session, arguments, request));
  if (!arguments.draw_on.empty()) {
    return DrawMasks(context, *session, arguments, std::move(request));
  }
  if (arguments.size) *request.mutable_size() = *arguments.size;
  request.set_values(arguments.values);
  return json ? WriteJson(context, *session, arguments, request)
              : WriteDense(context, *session, arguments, request);
}

void AddDrawing(CLI::App& command, Arguments& arguments) {
  command.add_option("--draw-on", arguments.draw_on,
                     "JPEG or PNG to draw the masks over");
  AddParsed(command, "--color", &arguments.color, ParseEnum<v1::ColorMode>,
            "class | instance | track (default class)");
  command
      .add_option("--opacity", arguments.opacity,
                  "of the masks, 0..1 (default 1 of the palette's 0.7)")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--palette", arguments.palette,
                     "colours R,G,B[,A] of 0..255, one argument each (default "
                     "20 colours, A 179)");
  command.add_flag("--draw-boxes", arguments.draw_boxes, "draw the boxes too");
}

}  // namespace

void AddMaskCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "mask", "Turn prototypes into masks, or draw them over a picture");
  auto arguments = std::make_shared<Arguments>();
  command
      .add_option("PROTOTYPES", arguments->prototypes,
                  ".npy [H,W,K], f32 f16 i8")
      ->required();
  command.add_option("--coefficients", arguments->coefficients,
                     ".npy [N,K], f32 f16 i8 i16");
  command.add_option("--boxes", arguments->boxes,
                     ".npy f32 [N,4..7]: x0 y0 x1 y1 score label track, "
                     "corners normalised to the model input");
  command
      .add_option("-o,--output", arguments->output,
                  "result: .npy [N,H,W], .json, or a picture with --draw-on")
      ->required();
  command.add_flag("--chw", arguments->chw, "prototypes are [K,H,W]");
  command.add_flag("--semantic", arguments->semantic,
                   "PROTOTYPES are scores, one plane per class");
  AddParsed(command, "--prototype-quant", &arguments->prototype_quantization,
            ParseQuantization, "SCALE,ZERO_POINT of integer prototypes");
  AddParsed(command, "--coefficient-quant",
            &arguments->coefficient_quantization, ParseQuantization,
            "SCALE,ZERO_POINT of integer coefficients");
  AddParsed(command, "--size", &arguments->size, ParseSize,
            "WxH of the masks (default the prototypes')");
  AddParsed(command, "--content", &arguments->content, ParseRect,
            "X,Y,W,H of the letterboxed picture inside the model input");
  AddParsed(command, "--input", &arguments->input, ParseSize,
            "WxH of the model input, with --content");
  AddParsed(command, "--values", &arguments->values, ParseEnum<v1::MaskValues>,
            "binary | continuous (default binary)");
  AddParsed(command, "--dtype", &arguments->dtype, ParseEnum<v1::DataType>,
            "u8 | f32 of a .npy (default u8)");
  command.add_flag("--uncropped", arguments->uncropped,
                   "boxes do not cut the masks of a .npy");
  AddParsed(command, "--form", &arguments->form, ParseEnum<v1::MaskOutput>,
            "rle | rle-text | polygons of a .json (default rle-text)");
  AddDrawing(command, *arguments);
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunMask(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
