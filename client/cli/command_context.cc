#include "client/cli/command_context.h"

#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/exit_code.h"
#include "client/cli/text_format.h"
#include "engine/base/error_detail.h"
#include "engine/base/status_macros.h"

namespace preprocd::cli {
namespace {

// A daemon that refuses gives a detail or another code; what is left means
// that none is there.
absl::Status ExplainAbsence(absl::Status status) {
  if (!absl::IsUnavailable(status) || GetErrorDetail(status)) return status;
  return WithReason(
      absl::UnavailableError(absl::StrCat(
          "no daemon: ", status.message(),
          " (is preprocd running? --private starts one for this call)")),
      kReasonNoDaemon);
}

}  // namespace

absl::Status Context::StartDaemon() {
  if (!options_.private_daemon || daemon_ != nullptr) return absl::OkStatus();
  const auto begin = std::chrono::steady_clock::now();
  auto daemon = PrivateDaemon::Start(options_.daemon_backends);
  if (!daemon.ok()) return WithReason(daemon.status(), kReasonNoDaemon);
  daemon_ = *std::move(daemon);
  options_.runtime_dir = daemon_->runtime_dir();
  const std::chrono::nanoseconds taken =
      std::chrono::steady_clock::now() - begin;
  Print(absl::StrCat("private daemon, pid ", daemon_->pid(), " in ",
                     daemon_->runtime_dir(), ", ready after ",
                     DurationText(taken.count()), "\n"));
  return absl::OkStatus();
}

SessionOptions Context::MakeSessionOptions(Transport transport) const {
  SessionOptions options;
  options.runtime_dir = options_.runtime_dir;
  options.client_name = "preprocctl";
  options.transport = transport;
  options.call_timeout = absl::Seconds(options_.timeout_s);
  return options;
}

absl::StatusOr<std::unique_ptr<Session>> Context::NewSession(
    Transport transport) {
  SessionOptions options = MakeSessionOptions(transport);
  auto made =
      options_.address.empty()
          ? Session::Connect(std::move(options))
          : Session::ConnectInline(options_.address, std::move(options));
  if (!made.ok()) return ExplainAbsence(made.status());
  return made;
}

absl::StatusOr<Session*> Context::session() {
  if (session_ == nullptr) {
    RETURN_IF_ERROR(StartDaemon());
    ASSIGN_OR_RETURN(session_, NewSession(options_.transport));
  }
  return session_.get();
}

absl::StatusOr<Admin*> Context::admin() {
  if (admin_ == nullptr) {
    RETURN_IF_ERROR(StartDaemon());
    auto made = Admin::Connect(options_.address.empty()
                                   ? AdminAddress(options_.runtime_dir)
                                   : options_.address,
                               absl::Seconds(options_.timeout_s));
    if (!made.ok()) return ExplainAbsence(made.status());
    admin_ = *std::move(made);
  }
  return admin_.get();
}

void Context::Print(absl::string_view text) { absl::StrAppend(&text_, text); }

std::string DumpJson(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace preprocd::cli
