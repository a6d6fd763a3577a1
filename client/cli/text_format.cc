#include "client/cli/text_format.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/option_values.h"

namespace preprocd::cli {

std::string DurationText(int64_t nanoseconds) {
  const auto value = static_cast<double>(nanoseconds);
  if (nanoseconds >= 1'000'000'000) {
    return absl::StrFormat("%.2f s", value / 1e9);
  }
  if (nanoseconds >= 1'000'000) return absl::StrFormat("%.2f ms", value / 1e6);
  return absl::StrFormat("%.1f us", value / 1e3);
}

std::string BytesText(uint64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1ULL << 30) {
    return absl::StrFormat("%.2f GiB", value / (1 << 30));
  }
  if (bytes >= 1ULL << 20) {
    return absl::StrFormat("%.1f MiB", value / (1 << 20));
  }
  if (bytes >= 1ULL << 10) {
    return absl::StrFormat("%.1f KiB", value / (1 << 10));
  }
  return absl::StrCat(bytes, " bytes");
}

std::string LayoutText(const v1::ImageLayout& layout) {
  std::string text = absl::StrCat(layout.width(), "x", layout.height(), " ",
                                  EnumText(layout.format()));
  if (layout.dtype() != v1::DATA_TYPE_UNSPECIFIED &&
      layout.dtype() != v1::DATA_TYPE_U8) {
    absl::StrAppend(&text, " ", EnumText(layout.dtype()));
  }
  if (layout.format() >= v1::PIXEL_FORMAT_NV12 &&
      layout.color().matrix() != v1::MATRIX_COEFFICIENTS_UNSPECIFIED) {
    absl::StrAppend(&text, " (", EnumText(layout.color().matrix()), " ",
                    EnumText(layout.color().range()), ")");
  }
  return text;
}

std::string RectText(const v1::Rect& rect) {
  return absl::StrCat(rect.width(), "x", rect.height(), " at (", rect.x(), ",",
                      rect.y(), ")");
}

std::string InfoText(const v1::ImageInfo& info) {
  std::vector<std::string> parts = {
      absl::StrCat(info.width(), "x", info.height(), " ", info.file_format())};
  if (!info.process().empty()) parts.push_back(info.process());
  if (!info.color_space().empty()) parts.push_back(info.color_space());
  if (!info.subsampling().empty()) parts.push_back(info.subsampling());
  parts.push_back(
      absl::StrCat(info.components(), " x ", info.bit_depth(), " bit"));
  if (info.has_orientation()) {
    parts.push_back(absl::StrCat("orientation ", info.orientation()));
  }
  return absl::StrJoin(parts, ", ");
}

std::string Line(absl::string_view name, absl::string_view value) {
  return absl::StrFormat("  %-12s %s\n", name, value);
}

std::string PlacementText(const v1::Placement& placement) {
  const v1::AffineMap& map = placement.map();
  std::string text = Line(
      "placement",
      absl::StrCat(RectText(placement.destination()), " of the result, from ",
                   RectText(placement.source()), " of the source"));
  const auto row = [](double x, double y, double offset) {
    std::vector<std::string> terms;
    if (x != 0) terms.push_back(absl::StrFormat("%.6g x", x));
    if (y != 0) terms.push_back(absl::StrFormat("%.6g y", y));
    terms.push_back(absl::StrFormat("%.6g", offset));
    return absl::StrJoin(terms, " + ");
  };
  return text + Line("map", absl::StrCat(
                                "x' = ", row(map.xx(), map.xy(), map.x0()),
                                ",  y' = ", row(map.yx(), map.yy(), map.y0())));
}

std::string ReportText(const v1::Report& report) {
  std::string text;
  if (!report.backend().empty()) text += Line("backend", report.backend());
  for (const v1::Decline& decline : report.declines()) {
    text += Line(
        "", absl::StrCat("not ", decline.backend(), ": ", decline.reason()));
  }
  const v1::StageTimes& times = report.times();
  const std::pair<const char*, int64_t> stages[] = {
      {"admit", times.admit_ns()},   {"queue", times.queue_ns()},
      {"decode", times.decode_ns()}, {"convert", times.convert_ns()},
      {"encode", times.encode_ns()}, {"device", times.device_ns()},
      {"total", times.total_ns()}};
  std::vector<std::string> parts;
  for (const auto& [name, nanoseconds] : stages) {
    if (nanoseconds == 0) continue;
    parts.push_back(absl::StrCat(name, " ", DurationText(nanoseconds)));
  }
  if (!parts.empty()) text += Line("times", absl::StrJoin(parts, ", "));
  text += Line("copied", BytesText(report.bytes_copied()));
  for (const std::string& warning : report.warnings()) {
    text += Line("warning", warning);
  }
  return text;
}

}  // namespace preprocd::cli
