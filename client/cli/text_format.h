// Facts of a reply as lines for people.
// Thread-safety: safe (no state).
#ifndef CLIENT_CLI_TEXT_FORMAT_H_
#define CLIENT_CLI_TEXT_FORMAT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd::cli {

namespace v1 = ::preproc::v1;

// "12.3 ms", "840 us".
std::string DurationText(int64_t nanoseconds);
// "1.2 MiB", "640 bytes".
std::string BytesText(uint64_t bytes);
// "640x480 nv12 (bt601 full)", dtype included unless it is u8.
std::string LayoutText(const v1::ImageLayout& layout);
// "640x400 at (0,120)".
std::string RectText(const v1::Rect& rect);
// "1920x1200 jpeg, baseline, 4:2:0, 8 bit, orientation 6".
std::string InfoText(const v1::ImageInfo& info);
// One aligned line: "  name       value\n".
std::string Line(absl::string_view name, absl::string_view value);
// The lines of a placement.
std::string PlacementText(const v1::Placement& placement);
// The lines of a report: backend, declines, times, bytes copied, warnings.
std::string ReportText(const v1::Report& report);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_TEXT_FORMAT_H_
