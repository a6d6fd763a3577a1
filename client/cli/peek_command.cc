#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/json_format.h"
#include "client/cli/option_values.h"
#include "client/cli/output_file.h"
#include "client/cli/picture_io.h"
#include "client/cli/text_format.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

nlohmann::ordered_json FactsOf(const std::string& file, uint64_t size_bytes,
                               const v1::ImageInfo& info) {
  nlohmann::ordered_json facts;
  facts["file"] = file;
  facts["size_bytes"] = size_bytes;
  facts["format"] = info.file_format();
  facts.update(MessageToJson(info));
  facts.erase("file_format");
  facts["matrix"] = nullptr;
  facts["range"] = nullptr;
  if (info.color().matrix() != v1::MATRIX_COEFFICIENTS_UNSPECIFIED) {
    facts["matrix"] = EnumText(info.color().matrix());
  }
  if (info.color().range() != v1::COLOR_RANGE_UNSPECIFIED) {
    facts["range"] = EnumText(info.color().range());
  }
  return facts;
}

absl::Status PeekOne(Context& context, const std::string& file,
                     nlohmann::ordered_json& files) {
  ASSIGN_OR_RETURN(std::string bytes, ReadFile(file));
  const uint64_t size_bytes = bytes.size();
  ASSIGN_OR_RETURN(Session* const session, context.session());
  ASSIGN_OR_RETURN(
      const SourcePicture source,
      SourcePicture::Create(*session, std::move(bytes), std::nullopt));
  v1::PeekRequest request;
  *request.mutable_source() = source.source();
  ASSIGN_OR_RETURN(const v1::PeekReply reply, session->Peek(request));
  const v1::ImageInfo& info = reply.info();
  files.push_back(FactsOf(file, size_bytes, info));
  context.Print(absl::StrCat(file, "\n", Line("picture", InfoText(info)),
                             Line("bytes", BytesText(size_bytes)),
                             Line("native", EnumText(info.native_format()))));
  if (info.color().matrix() != v1::MATRIX_COEFFICIENTS_UNSPECIFIED) {
    context.Print(
        Line("colour", absl::StrCat(EnumText(info.color().matrix()), ", ",
                                    EnumText(info.color().range()), " range")));
  }
  context.Print(
      Line("orientation",
           absl::StrCat(info.orientation(),
                        info.has_orientation() ? " (EXIF)" : " (not stated)")));
  return absl::OkStatus();
}

// One file's facts lie at the top of the object too. Every file is looked at;
// the first refusal is the answer of the call.
absl::Status RunPeek(Context& context, const std::vector<std::string>& files) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  absl::Status first_refusal;
  for (const std::string& file : files) {
    absl::Status status = PeekOne(context, file, list);
    if (status.ok()) continue;
    if (files.size() > 1) {
      context.Print(
          absl::StrCat(file, "\n", Line("refused", status.message())));
    }
    if (first_refusal.ok()) first_refusal = std::move(status);
  }
  if (files.size() == 1 && list.size() == 1) context.json() = list[0];
  context.json()["files"] = std::move(list);
  return first_refusal;
}

}  // namespace

void AddPeekCommand(CLI::App& app, Selection& selection) {
  CLI::App& command = *app.add_subcommand(
      "info", "Say what encoded files are, from their headers");
  auto files = std::make_shared<std::vector<std::string>>();
  command.add_option("FILE", *files, "JPEG or PNG files")->required();
  command.callback([&selection, files] {
    selection = [files](Context& context) { return RunPeek(context, *files); };
  });
}

}  // namespace preprocd::cli
