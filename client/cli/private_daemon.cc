#include "client/cli/private_daemon.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"
#include "preprocd/admin.h"
#include "preprocd/client.h"
#include "proto/packet/packet_socket.h"

namespace preprocd::cli {
namespace {

constexpr std::chrono::seconds kStartBound{20};
constexpr std::chrono::milliseconds kProbeInterval{2};
constexpr std::chrono::seconds kStopBound{10};
// sun_path is 108 bytes; the folder's name and the sockets need their part.
constexpr size_t kMaxBaseLength = 64;
constexpr size_t kMaxPathLength = 128;
constexpr int kEndSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr size_t kMaxFiles = 8;

// What the signal handler needs, in plain memory: it may call nothing that
// allocates.
struct CleanUp {
  volatile sig_atomic_t pid = 0;
  char folder[kMaxPathLength] = {};
  char files[kMaxFiles][kMaxPathLength] = {};
};
CleanUp g_clean_up;

// What a daemon leaves in its folder when it is killed.
constexpr std::array<const char*, 5> kFileNames = {
    "grpc.sock", "direct.sock", "admin.sock", "preprocd.lock", "log"};
static_assert(kFileNames.size() <= kMaxFiles);

void OnEndSignal(int signal_number) {
  const int saved_errno = errno;
  if (g_clean_up.pid > 0) {
    kill(g_clean_up.pid, SIGTERM);
    while (waitpid(g_clean_up.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    for (const auto& file : g_clean_up.files) {
      if (file[0] != '\0') unlink(file);
    }
    rmdir(g_clean_up.folder);
  }
  errno = saved_errno;
  _exit(128 + signal_number);
}

void ArmSignals(pid_t pid, const std::string& folder) {
  if (folder.size() + 32 > kMaxPathLength) return;
  strncpy(g_clean_up.folder, folder.c_str(), kMaxPathLength - 1);
  for (size_t i = 0; i < kFileNames.size(); ++i) {
    const std::string path = absl::StrCat(folder, "/", kFileNames[i]);
    strncpy(g_clean_up.files[i], path.c_str(), kMaxPathLength - 1);
  }
  g_clean_up.pid = pid;
  struct sigaction action = {};
  action.sa_handler = OnEndSignal;
  for (const int number : kEndSignals) sigaction(number, &action, nullptr);
}

void DisarmSignals() {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (const int number : kEndSignals) sigaction(number, &action, nullptr);
  g_clean_up.pid = 0;
}

absl::StatusOr<std::string> MakeFolder() {
  const char* from_environment = getenv("TMPDIR");
  std::string base = from_environment == nullptr ? "" : from_environment;
  if (base.empty() || base.size() > kMaxBaseLength) base = "/tmp";
  std::string path = absl::StrCat(base, "/preprocd-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(
        absl::StrCat("mkdtemp ", path, ": ", strerror(errno)));
  }
  return path;
}

absl::StatusOr<std::string> ProgramBeside() {
  std::error_code error;
  const std::filesystem::path self =
      std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) {
    return absl::UnavailableError(
        absl::StrCat("/proc/self/exe: ", error.message()));
  }
  std::string program = (self.parent_path() / "preprocd").string();
  if (access(program.c_str(), X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat(program, ": ", strerror(errno)));
  }
  return program;
}

// Runs in the child between fork and exec.
[[noreturn]] void ExecDaemon(const std::vector<char*>& arguments, int log_fd,
                             pid_t parent) {
  // It goes with this process whatever ends it.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(1);
  dup2(log_fd, STDOUT_FILENO);
  dup2(log_fd, STDERR_FILENO);
  unsetenv("NOTIFY_SOCKET");
  unsetenv("LISTEN_FDS");
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(
    const std::string& backends) {
  ASSIGN_OR_RETURN(const std::string program, ProgramBeside());
  ASSIGN_OR_RETURN(std::string folder, MakeFolder());
  // Removes the folder again when one of the steps below returns early.
  std::unique_ptr<PrivateDaemon> daemon(new PrivateDaemon(std::move(folder)));
  RETURN_IF_ERROR(daemon->Spawn(program, backends));
  RETURN_IF_ERROR(daemon->AwaitReady());
  return daemon;
}

absl::Status PrivateDaemon::Spawn(const std::string& program,
                                  const std::string& backends) {
  const std::string log = absl::StrCat(runtime_dir_, "/log");
  const UniqueFd log_fd(
      open(log.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND, 0600));
  if (!log_fd.valid()) {
    return absl::UnavailableError(absl::StrCat(log, ": ", strerror(errno)));
  }
  std::vector<std::string> words = {program, "--runtime-dir", runtime_dir_};
  if (!backends.empty()) {
    words.insert(words.end(), {"--backend", backends});
  }
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) ExecDaemon(arguments, log_fd.get(), parent);
  if (pid_ < 0) {
    return absl::UnavailableError(absl::StrCat("fork: ", strerror(errno)));
  }
  ArmSignals(pid_, runtime_dir_);
  return absl::OkStatus();
}

absl::Status PrivateDaemon::AwaitReady() {
  const auto bound = std::chrono::steady_clock::now() + kStartBound;
  const std::string direct = absl::StrCat(runtime_dir_, "/direct.sock");
  std::unique_ptr<Admin> admin;
  std::string health;
  while (std::chrono::steady_clock::now() < bound) {
    if (Ended()) {
      return absl::UnavailableError(
          absl::StrCat("the private daemon ended: ", LastWords()));
    }
    if (ConnectPacketSocket(direct).ok()) {
      if (admin == nullptr) {
        if (auto made = Admin::Connect(AdminAddress(runtime_dir_)); made.ok()) {
          admin = *std::move(made);
        }
      }
      if (admin != nullptr) {
        health = admin->Health("").value_or("");
        if (health == "SERVING") return absl::OkStatus();
      }
    }
    std::this_thread::sleep_for(kProbeInterval);
  }
  return absl::UnavailableError(
      absl::StrCat("the private daemon was not ready in time: ", LastWords()));
}

bool PrivateDaemon::Ended() {
  if (pid_ <= 0) return true;
  if (waitpid(pid_, nullptr, WNOHANG) != pid_) return false;
  DisarmSignals();
  pid_ = -1;
  return true;
}

std::string PrivateDaemon::LastWords() const {
  std::ifstream file(absl::StrCat(runtime_dir_, "/log"));
  std::ostringstream text;
  text << file.rdbuf();
  const std::string all(absl::StripAsciiWhitespace(text.str()));
  constexpr size_t kTail = 600;
  return all.size() > kTail ? all.substr(all.size() - kTail) : all;
}

PrivateDaemon::~PrivateDaemon() {
  if (pid_ > 0) kill(pid_, SIGTERM);
  const auto bound = std::chrono::steady_clock::now() + kStopBound;
  while (!Ended()) {
    if (std::chrono::steady_clock::now() > bound) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
      DisarmSignals();
      break;
    }
    std::this_thread::sleep_for(kProbeInterval);
  }
  std::error_code ignored;
  std::filesystem::remove_all(runtime_dir_, ignored);
}

}  // namespace preprocd::cli
