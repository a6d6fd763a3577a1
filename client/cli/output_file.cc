#include "client/cli/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cli/exit_code.h"
#include "client/cli/npy_file.h"
#include "client/cli/option_values.h"
#include "client/cli/picture_io.h"
#include "client/cli/pixel_layout.h"
#include "engine/base/limits.h"
#include "engine/base/status_macros.h"
#include "engine/base/unique_fd.h"

namespace preprocd::cli {
namespace {

struct Extension {
  absl::string_view suffix;
  OutputKind kind;
};
constexpr std::array<Extension, 7> kExtensions = {
    {{".npy", OutputKind::kNpy},
     {".raw", OutputKind::kRaw},
     {".ppm", OutputKind::kPpm},
     {".pgm", OutputKind::kPgm},
     {".png", OutputKind::kPng},
     {".jpg", OutputKind::kJpeg},
     {".jpeg", OutputKind::kJpeg}}};

absl::Status FileError(absl::StatusCode code, const std::string& path,
                       absl::string_view what) {
  return WithReason(absl::Status(code, absl::StrCat(path, ": ", what)),
                    kReasonFile);
}

absl::Status WriteAll(int fd, const std::byte* data, size_t size) {
  while (size > 0) {
    const ssize_t written = write(fd, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return absl::InternalError(strerror(errno));
    data += written;
    size -= static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status WriteDescriptor(int fd, const std::string& header,
                             std::span<const std::byte> bytes) {
  RETURN_IF_ERROR(WriteAll(
      fd, reinterpret_cast<const std::byte*>(header.data()), header.size()));
  return WriteAll(fd, bytes.data(), bytes.size());
}

bool IsTensorOnly(v1::TensorLayout layout) {
  return layout == v1::TENSOR_LAYOUT_TILED_COMPACT ||
         layout == v1::TENSOR_LAYOUT_TILED_PAD16;
}

// P6 or P5 with rows of R G B or Y.
absl::Status WritePnm(const std::string& path, OutputKind kind,
                      const v1::ImageLayout& layout,
                      std::vector<std::byte> bytes) {
  const bool grey = layout.format() == v1::PIXEL_FORMAT_GREY;
  const bool color = layout.format() == v1::PIXEL_FORMAT_RGB ||
                     layout.format() == v1::PIXEL_FORMAT_BGR;
  if ((kind == OutputKind::kPgm && !grey) ||
      (kind == OutputKind::kPpm && !color)) {
    return UsageError(absl::StrCat(
        path, ": a ", EnumText(layout.format()), " picture is no ",
        kind == OutputKind::kPgm ? ".pgm (grey)" : ".ppm (rgb or bgr)"));
  }
  if (layout.format() == v1::PIXEL_FORMAT_BGR) {
    for (size_t i = 0; i + 2 < bytes.size(); i += 3) {
      std::swap(bytes[i], bytes[i + 2]);
    }
  }
  return WriteFile(path,
                   absl::StrCat(grey ? "P5\n" : "P6\n", layout.width(), " ",
                                layout.height(), "\n255\n"),
                   bytes);
}

absl::Status WriteEncoded(Session& session, const std::string& path,
                          OutputKind kind, const ResultPicture& picture,
                          int quality) {
  ASSIGN_OR_RETURN(const ResultPlace place,
                   ResultPlace::Create(session, EncodedBound(picture.layout)));
  v1::EncodeRequest request;
  *request.mutable_source() = picture.source;
  *request.mutable_source()->mutable_layout() = picture.layout;
  place.FillLocation(*request.mutable_destination());
  request.set_format(kind == OutputKind::kPng ? v1::FILE_FORMAT_PNG
                                              : v1::FILE_FORMAT_JPEG);
  request.set_quality(quality);
  ASSIGN_OR_RETURN(const v1::EncodeReply reply, session.Encode(request));
  const std::span<const std::byte> bytes = place.bytes(reply.inline_bytes());
  if (reply.size_bytes() > bytes.size()) {
    return absl::InternalError(absl::StrCat(
        "the daemon reports ", reply.size_bytes(), " bytes > ", bytes.size()));
  }
  return WriteFile(path, "", bytes.first(reply.size_bytes()));
}

}  // namespace

absl::StatusOr<OutputKind> OutputKindOf(const std::string& path) {
  const std::string lower = absl::AsciiStrToLower(path);
  for (const Extension& extension : kExtensions) {
    if (absl::EndsWith(lower, extension.suffix)) return extension.kind;
  }
  return UsageError(absl::StrCat(
      path, ": the extension is none of .npy .raw .ppm .pgm .png .jpg"));
}

absl::Status CheckOutput(OutputKind kind, v1::DataType dtype,
                         const v1::Destination& destination) {
  if (kind == OutputKind::kRaw) return absl::OkStatus();
  if (IsTensorOnly(destination.tensor_layout())) {
    return UsageError("tiled tensors can be written as .raw only");
  }
  if (kind == OutputKind::kNpy) return absl::OkStatus();
  const bool u8 =
      dtype == v1::DATA_TYPE_U8 || dtype == v1::DATA_TYPE_UNSPECIFIED;
  if (!u8 && !(kind == OutputKind::kPng && dtype == v1::DATA_TYPE_U16)) {
    return UsageError(absl::StrCat(
        EnumText(dtype), " values are no picture; write them as .npy or .raw"));
  }
  const auto planes = PlanesOf(destination.layout().format());
  if (destination.tensor_layout() == v1::TENSOR_LAYOUT_CHW ||
      (planes.size() > 1 && planes[1].x_step == 1 && planes[1].elements == 1)) {
    return UsageError(
        "planar pixels are no picture; write them as .npy or .raw");
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    return FileError(errno == EACCES ? absl::StatusCode::kPermissionDenied
                                     : absl::StatusCode::kNotFound,
                     path, strerror(errno));
  }
  std::string bytes;
  struct stat facts = {};
  if (fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode)) {
    bytes.reserve(static_cast<size_t>(facts.st_size));
  }
  std::array<char, 1 << 16> chunk;
  while (true) {
    const ssize_t count = read(fd.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return FileError(absl::StatusCode::kInvalidArgument, path,
                       strerror(errno));
    }
    if (count == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(count));
    if (bytes.size() > static_cast<size_t>(kMaxBytesPerSession)) {
      return FileError(
          absl::StatusCode::kInvalidArgument, path,
          absl::StrCat("larger than ", kMaxBytesPerSession, " bytes"));
    }
  }
}

absl::Status WriteFile(const std::string& path, const std::string& header,
                       std::span<const std::byte> bytes) {
  struct stat facts = {};
  const bool special =
      stat(path.c_str(), &facts) == 0 && !S_ISREG(facts.st_mode);
  const std::string target =
      special ? path : absl::StrCat(path, ".", getpid(), ".part");
  UniqueFd fd(
      open(target.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!fd.valid()) {
    return FileError(absl::StatusCode::kInternal, target, strerror(errno));
  }
  absl::Status written = WriteDescriptor(fd.get(), header, bytes);
  fd.reset();
  if (written.ok() && !special && rename(target.c_str(), path.c_str()) != 0) {
    written = absl::InternalError(strerror(errno));
  }
  if (written.ok()) return written;
  if (!special) unlink(target.c_str());
  return FileError(absl::StatusCode::kInternal, path, written.message());
}

uint64_t EncodedBound(const v1::ImageLayout& layout) {
  // JPEG 4:4:4 at quality 100 needs at most 6 bytes per pixel of whole
  // 16x16 blocks (libjpeg-turbo, tjBufSize); PNG stores at most 8 and what
  // deflate adds.
  const auto width = (static_cast<uint64_t>(layout.width()) + 15) / 16 * 16;
  const auto height = (static_cast<uint64_t>(layout.height()) + 15) / 16 * 16;
  const uint64_t raw = TightBytes(layout).value_or(0);
  return width * height * 6 + raw + raw / 512 + (64 << 10);
}

absl::Status WriteResult(Session& session, const std::string& path,
                         OutputKind kind, const ResultPicture& picture,
                         int quality) {
  if (kind == OutputKind::kPng || kind == OutputKind::kJpeg) {
    return WriteEncoded(session, path, kind, picture, quality);
  }
  if (IsTensorOnly(picture.tensor_layout)) {
    return WriteFile(path, "", picture.bytes);
  }
  ASSIGN_OR_RETURN(std::vector<std::byte> bytes,
                   GatherTight(picture.layout, picture.bytes));
  if (kind == OutputKind::kPpm || kind == OutputKind::kPgm) {
    return WritePnm(path, kind, picture.layout, std::move(bytes));
  }
  std::string header;
  if (kind == OutputKind::kNpy) {
    header = NpyHeader(picture.layout.dtype(),
                       NpyShape(picture.layout, picture.tensor_layout ==
                                                    v1::TENSOR_LAYOUT_CHW));
  }
  return WriteFile(path, header, bytes);
}

}  // namespace preprocd::cli
