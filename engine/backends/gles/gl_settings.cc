#include "engine/backends/gles/gl_settings.h"

#include <array>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd {
namespace {

constexpr std::array<absl::string_view, 9> kNames = {
    "enabled", "device",         "transfer", "yuv_path",     "serialisation",
    "workers", "cached_imports", "stall_ms", "rank_software"};

constexpr std::array<absl::string_view, 3> kTransfers = {"zero-copy", "pbo",
                                                         "memory"};
constexpr std::array<absl::string_view, 2> kYuvPaths = {"texel-fetch",
                                                        "external"};
constexpr std::array<absl::string_view, 2> kSerialisations = {"lifecycle",
                                                              "full"};

absl::Status Invalid(absl::string_view name, absl::string_view value,
                     absl::string_view expected) {
  return InvalidField(
      absl::StrCat("gl.", name),
      absl::StrCat("gl.", name, ": \"", value, "\" is not ", expected));
}

// "auto" leaves the choice to the policy.
template <typename E, size_t N>
absl::Status ParseEnum(absl::string_view name, absl::string_view value,
                       const std::array<absl::string_view, N>& names,
                       std::optional<E>& out) {
  if (value == "auto") {
    out.reset();
    return absl::OkStatus();
  }
  std::string expected = "auto";
  for (size_t i = 0; i < N; ++i) {
    if (value == names[i]) {
      out = static_cast<E>(i);
      return absl::OkStatus();
    }
    absl::StrAppend(&expected, ", ", names[i]);
  }
  return Invalid(name, value, expected);
}

absl::Status ParseBool(absl::string_view name, absl::string_view value,
                       bool& out) {
  if (!absl::SimpleAtob(value, &out)) return Invalid(name, value, "a boolean");
  return absl::OkStatus();
}

absl::Status ParseInt(absl::string_view name, absl::string_view value, int low,
                      int high, int& out) {
  int parsed = 0;
  if (!absl::SimpleAtoi(value, &parsed) || parsed < low || parsed > high) {
    return Invalid(name, value, absl::StrCat("in ", low, "..", high));
  }
  out = parsed;
  return absl::OkStatus();
}

}  // namespace

absl::Status SetGlSetting(absl::string_view name, absl::string_view value,
                          GlSettings& settings) {
  if (name == "enabled") return ParseBool(name, value, settings.enabled);
  if (name == "device") {
    settings.device = std::string(value);
    return absl::OkStatus();
  }
  if (name == "transfer") {
    return ParseEnum(name, value, kTransfers, settings.transfer);
  }
  if (name == "yuv_path") {
    return ParseEnum(name, value, kYuvPaths, settings.yuv_path);
  }
  if (name == "serialisation") {
    return ParseEnum(name, value, kSerialisations, settings.serialisation);
  }
  if (name == "workers") {
    return ParseInt(name, value, 0, kMaxGlWorkers, settings.workers);
  }
  if (name == "cached_imports") {
    return ParseInt(name, value, 1, kMaxCachedImports, settings.cached_imports);
  }
  if (name == "stall_ms") {
    return ParseInt(name, value, 50, 600'000, settings.stall_ms);
  }
  if (name == "rank_software") {
    return ParseBool(name, value, settings.rank_software);
  }
  return InvalidField(absl::StrCat("gl.", name),
                      absl::StrCat("gl.", name, ": no such setting"));
}

absl::Status ApplyGlEnvironment(const char* (*get)(const char* name),
                                GlSettings& settings) {
  for (const absl::string_view name : kNames) {
    const std::string variable =
        absl::StrCat("PREPROCD_GL_", absl::AsciiStrToUpper(name));
    const char* value = get(variable.c_str());
    if (value == nullptr) continue;
    RETURN_IF_ERROR(SetGlSetting(name, value, settings));
  }
  return absl::OkStatus();
}

absl::string_view GlTransferName(GlTransfer transfer) {
  return kTransfers[static_cast<size_t>(transfer)];
}
absl::string_view GlYuvPathName(GlYuvPath path) {
  return kYuvPaths[static_cast<size_t>(path)];
}
absl::string_view GlSerialisationName(GlSerialisation serialisation) {
  return kSerialisations[static_cast<size_t>(serialisation)];
}

}  // namespace preprocd
