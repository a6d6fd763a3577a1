#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands.h"
#include "client/cli/convert_options.h"
#include "client/cli/exit_code.h"
#include "client/cli/json_format.h"
#include "client/cli/npy_file.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "client/cli/text_format.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

struct Arguments {
  std::string file;
  std::string output;
  std::string format;  // "native", a format, or empty = by output
  v1::ChromaUpsampling chroma = v1::CHROMA_UPSAMPLING_UNSPECIFIED;
  std::string orient = "report";
  bool strict = false;
  bool lenient = false;
  int quality = 0;
  std::vector<std::string> backends;
};

// A picture file holds grey, rgb or rgba whatever the decoder's own format.
v1::PixelFormat PictureFormat(const v1::ImageInfo& info, OutputKind kind) {
  if (kind == OutputKind::kPgm) return v1::PIXEL_FORMAT_GREY;
  if (kind == OutputKind::kPpm) return v1::PIXEL_FORMAT_RGB;
  if (info.native_format() == v1::PIXEL_FORMAT_GREY) {
    return v1::PIXEL_FORMAT_GREY;
  }
  if (kind == OutputKind::kPng && info.has_alpha()) {
    return v1::PIXEL_FORMAT_RGBA;
  }
  return v1::PIXEL_FORMAT_RGB;
}

absl::StatusOr<v1::PixelFormat> WantedFormat(const Arguments& arguments,
                                             const v1::ImageInfo& info,
                                             OutputKind kind) {
  if (arguments.format == "native") return info.native_format();
  if (!arguments.format.empty()) {
    return ParseEnum<v1::PixelFormat>(arguments.format);
  }
  const bool picture = kind != OutputKind::kNpy && kind != OutputKind::kRaw;
  return picture ? PictureFormat(info, kind) : info.native_format();
}

void Present(Context& context, const Arguments& arguments,
             const v1::DecodeReply& reply) {
  const auto shape = NpyShape(reply.layout(), false);
  nlohmann::ordered_json& json = context.json();
  json["file"] = arguments.file;
  json["output"] = arguments.output;
  json["width"] = reply.layout().width();
  json["height"] = reply.layout().height();
  json["format"] = EnumText(reply.layout().format());
  json["dtype"] = EnumText(reply.layout().dtype());
  json["shape"] = shape;
  json.update(MessageToJson(reply));
  context.Print(absl::StrCat(arguments.file, " -> ", arguments.output, "\n"));
  context.Print(Line("source", InfoText(reply.info())));
  context.Print(Line("result", absl::StrCat(LayoutText(reply.layout()), ", [",
                                            absl::StrJoin(shape, ","), "]")));
  if (reply.orientation_applied() > 1) {
    context.Print(Line("orientation",
                       absl::StrCat(reply.orientation_applied(), " applied")));
  }
  context.Print(ReportText(reply.report()));
}

absl::Status RunDecode(Context& context, const Arguments& arguments) {
  ASSIGN_OR_RETURN(const OutputKind kind, OutputKindOf(arguments.output));
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.file));
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(
      const SourcePicture source,
      SourcePicture::Create(*session, std::move(bytes), std::nullopt));
  v1::PeekRequest peek;
  *peek.mutable_source() = source.source();
  ASSIGN_OR_RETURN(const v1::PeekReply peeked, session->Peek(peek));
  const v1::ImageInfo& info = peeked.info();

  v1::DecodeRequest request;
  *request.mutable_source() = source.source();
  v1::ImageLayout& layout = *request.mutable_destination()->mutable_layout();
  ASSIGN_OR_RETURN(const v1::PixelFormat format,
                   WantedFormat(arguments, info, kind));
  layout.set_format(format);
  RETURN_IF_ERROR(CheckOutput(kind, layout.dtype(), request.destination()));
  request.set_apply_orientation(arguments.orient == "apply");
  const bool turned = request.apply_orientation() && info.orientation() >= 5;
  v1::ImageLayout expected = layout;
  expected.set_width(turned ? info.height() : info.width());
  expected.set_height(turned ? info.width() : info.height());
  if (info.bit_depth() > 8) expected.set_dtype(v1::DATA_TYPE_U16);
  request.set_chroma(arguments.chroma);
  request.set_lenient(arguments.lenient);
  for (const std::string& name : arguments.backends) {
    request.mutable_options()->add_backends(name);
  }
  ASSIGN_OR_RETURN(
      const ResultPlace place,
      ResultPlace::Create(*session, TightBytes(expected).value_or(1)));
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::DecodeReply reply, session->Decode(request));

  ResultPicture picture;
  picture.layout = reply.layout();
  picture.bytes = place.bytes(reply.inline_bytes());
  place.FillSource(picture.source, reply.inline_bytes());
  RETURN_IF_ERROR(WriteResult(*session, arguments.output, kind, picture,
                              arguments.quality));
  Present(context, arguments, reply);
  return absl::OkStatus();
}

struct EncodeArguments {
  std::string file;
  std::string output;
  std::optional<v1::ImageLayout> raw;
  int quality = 0;
  int compression = 0;
  std::string subsampling;
};

// Encoded input is decoded first, so that PNG and JPEG turn into each other.
absl::StatusOr<v1::ImageLayout> DecodeFor(Session& session,
                                          const SourcePicture& source,
                                          OutputKind kind,
                                          std::optional<ResultPlace>& place,
                                          std::string& inline_bytes) {
  v1::PeekRequest peek;
  *peek.mutable_source() = source.source();
  ASSIGN_OR_RETURN(const v1::PeekReply peeked, session.Peek(peek));
  v1::DecodeRequest request;
  *request.mutable_source() = source.source();
  v1::ImageLayout expected;
  expected.set_format(PictureFormat(peeked.info(), kind));
  expected.set_width(peeked.info().width());
  expected.set_height(peeked.info().height());
  if (peeked.info().bit_depth() > 8) expected.set_dtype(v1::DATA_TYPE_U16);
  request.mutable_destination()->mutable_layout()->set_format(
      expected.format());
  ASSIGN_OR_RETURN(
      place, ResultPlace::Create(session, TightBytes(expected).value_or(1)));
  place->FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(v1::DecodeReply reply, session.Decode(request));
  inline_bytes = std::move(*reply.mutable_inline_bytes());
  return reply.layout();
}

absl::Status RunEncode(Context& context, const EncodeArguments& arguments) {
  ASSIGN_OR_RETURN(const OutputKind kind, OutputKindOf(arguments.output));
  if (kind != OutputKind::kJpeg && kind != OutputKind::kPng) {
    return UsageError(
        absl::StrCat(arguments.output, ": encode writes .jpg and .png only"));
  }
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(arguments.file));
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(
      const SourcePicture source,
      SourcePicture::Create(*session, std::move(bytes), arguments.raw));
  v1::EncodeRequest request;
  std::optional<ResultPlace> pixels;
  if (arguments.raw) {
    *request.mutable_source() = source.source();
  } else {
    std::string inline_bytes;
    ASSIGN_OR_RETURN(const v1::ImageLayout layout,
                     DecodeFor(*session, source, kind, pixels, inline_bytes));
    pixels->FillSource(*request.mutable_source(), inline_bytes);
    *request.mutable_source()->mutable_layout() = layout;
  }
  request.set_format(kind == OutputKind::kPng ? v1::FILE_FORMAT_PNG
                                              : v1::FILE_FORMAT_JPEG);
  request.set_quality(arguments.quality);
  request.set_subsampling(arguments.subsampling);
  request.set_compression(arguments.compression);
  ASSIGN_OR_RETURN(
      const ResultPlace place,
      ResultPlace::Create(*session, EncodedBound(request.source().layout())));
  place.FillLocation(*request.mutable_destination());
  ASSIGN_OR_RETURN(const v1::EncodeReply reply, session->Encode(request));
  const auto memory = place.bytes(reply.inline_bytes());
  if (reply.size_bytes() > memory.size()) {
    return absl::InternalError(absl::StrCat(
        "the daemon reports ", reply.size_bytes(), " bytes > ", memory.size()));
  }
  RETURN_IF_ERROR(
      WriteFile(arguments.output, "", memory.first(reply.size_bytes())));
  context.json()["file"] = arguments.file;
  context.json()["output"] = arguments.output;
  context.json().update(MessageToJson(reply));
  context.Print(absl::StrCat(arguments.file, " -> ", arguments.output, "\n"));
  context.Print(Line("source", LayoutText(request.source().layout())));
  context.Print(Line("result", BytesText(reply.size_bytes())));
  context.Print(ReportText(reply.report()));
  return absl::OkStatus();
}

}  // namespace

void AddDecodeCommand(CLI::App& app, Selection& selection) {
  CLI::App& command =
      *app.add_subcommand("decode", "Decode a JPEG or PNG, nothing more");
  auto arguments = std::make_shared<Arguments>();
  command.add_option("FILE", arguments->file, "JPEG or PNG")->required();
  command
      .add_option("-o,--output", arguments->output,
                  "result: .npy .raw .ppm .pgm .png .jpg")
      ->required();
  command
      .add_option("--format", arguments->format,
                  "native, or a pixel format (default native for .npy and "
                  ".raw, grey, rgb or rgba for pictures)")
      ->check([](const std::string& text) -> std::string {
        if (text == "native") return "";
        const auto format = ParseEnum<v1::PixelFormat>(text);
        return format.ok() ? "" : std::string(format.status().message());
      });
  command
      .add_option("--orient", arguments->orient,
                  "apply the file's EXIF orientation, or only report it "
                  "(default)")
      ->check(CLI::IsMember({"apply", "report"}));
  AddParsed(command, "--chroma", &arguments->chroma,
            ParseEnum<v1::ChromaUpsampling>,
            "replicate | fancy (default fancy)");
  CLI::Option* strict = command.add_flag("--strict", arguments->strict,
                                         "refuse damaged files (the default)");
  command
      .add_flag("--lenient", arguments->lenient,
                "damaged files: give what can be read, with a warning")
      ->excludes(strict);
  command
      .add_option("--quality", arguments->quality,
                  "of a .jpg result, 1..100 (default 90)")
      ->check(CLI::Range(1, 100));
  AddParsed(command, "--backend", &arguments->backends, ParseBackends,
            "auto or a backend");
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunDecode(context, *arguments);
    };
  });
}

void AddEncodeCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "encode", "Encode raw pixels, or the pixels of another file");
  auto arguments = std::make_shared<EncodeArguments>();
  command.add_option("FILE", arguments->file, "JPEG, PNG or raw pixels")
      ->required();
  command.add_option("-o,--output", arguments->output, "result: .jpg or .png")
      ->required();
  AddParsed(command, "--raw", &arguments->raw, ParseRaw,
            "FILE holds raw pixels: FORMAT:WxH[:stride=N][:offset=N]");
  command
      .add_option("--quality", arguments->quality,
                  "of a JPEG, 1..100 (default 90)")
      ->check(CLI::Range(1, 100));
  command.add_option("--subsampling", arguments->subsampling,
                     "of a JPEG: 4:2:0 (default), 4:2:2 or 4:4:4");
  command
      .add_option("--compression", arguments->compression,
                  "of a PNG, 1..9 (default 6)")
      ->check(CLI::Range(1, 9));
  command.callback([&selection, arguments] {
    selection = [arguments](Context& context) {
      return RunEncode(context, *arguments);
    };
  });
}

}  // namespace preprocd::cli
