// A JPEG becomes a 640x640 RGB tensor in this process's own memory; no pixel
// crosses a socket.
//
//   letterbox_photo photo.jpg tensor.raw [RUNTIME_DIR]
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "preprocd/client.h"

namespace {

constexpr int kSide = 640;

std::vector<char> ReadAll(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

absl::Status LetterboxPhoto(const char* photo_path, const char* tensor_path,
                            const char* runtime_dir) {
  preprocd::SessionOptions options;
  options.runtime_dir = runtime_dir;
  options.client_name = "letterbox_photo";
  auto session = preprocd::Session::Connect(options);
  if (!session.ok()) return session.status();

  // The file goes into memory that nobody can change any more, so that the
  // daemon decodes it in place.
  const std::vector<char> file = ReadAll(photo_path);
  auto photo =
      (*session)->CreateBufferFromBytes(std::as_bytes(std::span(file)));
  if (!photo.ok()) return photo.status();

  // The result is written straight into this buffer.
  preprocd::v1::ImageLayout layout;
  layout.set_format(preprocd::v1::PIXEL_FORMAT_RGB);
  layout.set_width(kSide);
  layout.set_height(kSide);
  auto tensor = (*session)->CreateBuffer(kSide * kSide * 3, layout);
  if (!tensor.ok()) return tensor.status();

  preprocd::v1::ConvertRequest request;
  *request.mutable_source()->mutable_buffer() = photo->ref();
  *request.mutable_destination()->mutable_buffer() = tensor->ref();
  *request.mutable_destination()->mutable_layout() = layout;
  request.mutable_spec()->set_fit(preprocd::v1::FIT_LETTERBOX);
  const auto reply = (*session)->Convert(request);
  if (!reply.ok()) return reply.status();

  const preprocd::v1::Rect& shown = reply->placement().destination();
  printf("%d x %d at (%d, %d), by %s, %.2f ms, %llu bytes copied\n",
         shown.width(), shown.height(), shown.x(), shown.y(),
         reply->report().backend().c_str(),
         static_cast<double>(reply->report().times().total_ns()) / 1e6,
         static_cast<unsigned long long>(reply->report().bytes_copied()));
  std::ofstream(tensor_path, std::ios::binary)
      .write(reinterpret_cast<const char*>(tensor->bytes().data()),
             static_cast<std::streamsize>(tensor->bytes().size()));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || argc > 4) {
    fprintf(stderr,
            "usage: letterbox_photo PHOTO.jpg TENSOR.raw "
            "[RUNTIME_DIR]\n");
    return 2;
  }
  const absl::Status status =
      LetterboxPhoto(argv[1], argv[2], argc == 4 ? argv[3] : "");
  if (status.ok()) return 0;
  fprintf(stderr, "letterbox_photo: %s\n", status.ToString().c_str());
  return 1;
}
