// How the display is found. It is the process's for good, so each case has a
// process of its own.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "absl/functional/function_ref.h"
#include "engine/backends/gles/egl_display.h"

namespace preprocd {
namespace {

// "<platform> <device>", or the message of the error.
std::string Opened(const GlSettings& settings,
                   absl::FunctionRef<void()> prepare) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    prepare();
    const absl::StatusOr<const EglDisplayFacts*> opened =
        OpenEglDisplay(settings);
    const std::string text = opened.ok()
                                 ? (*opened)->platform + " " + (*opened)->device
                                 : std::string(opened.status().message());
    const ssize_t wrote = write(ends[1], text.data(), text.size());
    _exit(wrote == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string text(1024, ' ');
  const ssize_t got = read(ends[0], text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  close(ends[0]);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  return text;
}

class GlBringUpTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!survey_.libraries) GTEST_SKIP() << survey_.detail;
  }
  const EglSurvey survey_ = SurveyEgl();
};

TEST_F(GlBringUpTest, AnUnknownDeviceIsRefusedWithTheListOfDevices) {
  GlSettings settings;
  settings.device = "no such gpu";
  const std::string message = Opened(settings, [] {});
  EXPECT_NE(message.find("no such gpu"), std::string::npos) << message;
  EXPECT_NE(message.find(survey_.detail), std::string::npos) << message;
}

TEST_F(GlBringUpTest, ADeviceIsChosenByItsNameNotItsIndex) {
  if (!survey_.software) GTEST_SKIP() << "devices: " << survey_.detail;
  GlSettings settings;
  settings.device = "software";
  EXPECT_EQ(Opened(settings, [] {}), "device software");
}

// The default display, which waits for a window system, is never asked.
TEST_F(GlBringUpTest, WindowSystemsThatAreNotThereAreNotWaitedFor) {
  const std::string usual = Opened({}, [] {});
  EXPECT_EQ(Opened({},
                   [] {
                     setenv("WAYLAND_DISPLAY", "wayland-99", 1);
                     setenv("DISPLAY", ":99", 1);
                     setenv("EGL_PLATFORM", "x11", 1);
                     unsetenv("XDG_RUNTIME_DIR");
                     alarm(30);
                   }),
            usual);
}

TEST_F(GlBringUpTest, ExtensionsAreWholeWords) {
  EXPECT_TRUE(HasExtension("a EGL_x b", "EGL_x"));
  EXPECT_TRUE(HasExtension("EGL_x", "EGL_x"));
  EXPECT_FALSE(HasExtension("EGL_xy", "EGL_x"));
  EXPECT_FALSE(HasExtension("EGL_y_EGL_x", "EGL_x"));
  EXPECT_FALSE(HasExtension(nullptr, "EGL_x"));
  EXPECT_EQ(EglErrorName(0x3003), "EGL_BAD_ALLOC (0x3003)");
  EXPECT_EQ(EglErrorName(7), "EGL error (0x7)");
}

}  // namespace
}  // namespace preprocd
