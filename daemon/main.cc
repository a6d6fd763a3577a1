#include <cstdio>
#include <memory>
#include <string>

#include "daemon/daemon.h"
#include "daemon/options.h"

namespace {

constexpr int kBadUsage = 2;
constexpr int kFailed = 1;

}  // namespace

int main(int argc, char** argv) {
  const auto parsed = preprocd::ParseOptions(argc, argv);
  if (!parsed.ok()) {
    fprintf(stderr, "preprocd: %s\nTry preprocd --help.\n",
            std::string(parsed.status().message()).c_str());
    return kBadUsage;
  }
  if (!parsed->exit_text.empty()) {
    fputs(parsed->exit_text.c_str(), stdout);
    return 0;
  }
  auto daemon = preprocd::Daemon::Start(parsed->options);
  if (!daemon.ok()) {
    fprintf(stderr, "preprocd: %s\n",
            std::string(daemon.status().message()).c_str());
    return absl::IsInvalidArgument(daemon.status()) ? kBadUsage : kFailed;
  }
  return (*daemon)->Run();
}
