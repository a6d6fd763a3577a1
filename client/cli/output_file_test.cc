#include "client/cli/output_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "client/cli/exit_code.h"

namespace preprocd::cli {
namespace {

class OutputFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "output_file_XXXXXX")
            .string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  size_t FilesInFolder() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(folder_)) {
      ++count;
    }
    return count;
  }
  static std::span<const std::byte> Bytes(const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  }

  std::string folder_;
};

TEST_F(OutputFileTest, ExtensionSaysTheKindInEitherCase) {
  EXPECT_EQ(*OutputKindOf("a.NPY"), OutputKind::kNpy);
  EXPECT_EQ(*OutputKindOf("a.jpeg"), OutputKind::kJpeg);
  for (const std::string path : {"a", "a.bmp", "npy", "a.npy.gz", ""}) {
    EXPECT_EQ(ExitCodeOf(OutputKindOf(path).status()), kExitUsage) << path;
  }
}

TEST_F(OutputFileTest, FloatsAndPlanesAreNoPicture) {
  v1::Destination rgb;
  rgb.mutable_layout()->set_format(v1::PIXEL_FORMAT_RGB);
  v1::Destination planar;
  planar.mutable_layout()->set_format(v1::PIXEL_FORMAT_PLANAR_RGB);
  v1::Destination chw = rgb;
  chw.set_tensor_layout(v1::TENSOR_LAYOUT_CHW);
  v1::Destination tiled = rgb;
  tiled.set_tensor_layout(v1::TENSOR_LAYOUT_TILED_PAD16);
  const auto code = [](OutputKind kind, v1::DataType dtype,
                       const v1::Destination& destination) {
    return ExitCodeOf(CheckOutput(kind, dtype, destination));
  };
  const auto u8 = v1::DATA_TYPE_U8;
  EXPECT_EQ(code(OutputKind::kPng, u8, rgb), kExitOk);
  EXPECT_EQ(code(OutputKind::kPng, v1::DATA_TYPE_U16, rgb), kExitOk);
  EXPECT_EQ(code(OutputKind::kJpeg, v1::DATA_TYPE_U16, rgb), kExitUsage);
  EXPECT_EQ(code(OutputKind::kPng, v1::DATA_TYPE_F32, rgb), kExitUsage);
  EXPECT_EQ(code(OutputKind::kPpm, v1::DATA_TYPE_I8, rgb), kExitUsage);
  EXPECT_EQ(code(OutputKind::kPng, u8, planar), kExitUsage);
  EXPECT_EQ(code(OutputKind::kPng, u8, chw), kExitUsage);
  EXPECT_EQ(code(OutputKind::kNpy, v1::DATA_TYPE_F32, chw), kExitOk);
  EXPECT_EQ(code(OutputKind::kNpy, u8, tiled), kExitUsage);
  EXPECT_EQ(code(OutputKind::kRaw, u8, tiled), kExitOk);
}

TEST_F(OutputFileTest, WriteThenReadGivesTheBytesAndNoOtherFile) {
  const std::string path = folder_ + "/a.raw";
  ASSERT_EQ(WriteFile(path, "old and longer", {}), absl::OkStatus());
  ASSERT_EQ(WriteFile(path, "head", Bytes("body")), absl::OkStatus());
  EXPECT_EQ(*ReadFile(path), "headbody");
  EXPECT_EQ(FilesInFolder(), 1U);
}

TEST_F(OutputFileTest, WriteIntoNowhereIsAFileError) {
  const absl::Status status = WriteFile(folder_ + "/no/a.raw", "x", {});
  EXPECT_EQ(ExitCodeOf(status), kExitOther);
  EXPECT_EQ(ReasonOf(status), kReasonFile);
  EXPECT_EQ(FilesInFolder(), 0U);
}

TEST_F(OutputFileTest, DeviceIsWrittenInPlace) {
  EXPECT_EQ(WriteFile("/dev/null", "x", {}), absl::OkStatus());
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(OutputFileTest, MissingFileIsNotFound) {
  const absl::Status status = ReadFile(folder_ + "/missing").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ExitCodeOf(status), kExitRefused);
  EXPECT_EQ(ReasonOf(status), kReasonFile);
}

TEST_F(OutputFileTest, FolderAsInputIsRefused) {
  EXPECT_EQ(ReadFile(folder_).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace preprocd::cli
