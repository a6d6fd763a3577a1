#include "tools/bench/codec_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/codec/image_decoder.h"
#include "engine/codec/image_encoder.h"
#include "engine/memory/allocator.h"

namespace preprocd {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int kQuality = 90;

struct Picture {
  Picture(PixelFormat format, int width, int height)
      : memory(
            RequiredBytes(*MakeImageDesc(format, DType::kU8, width, height))) {
    const std::span<std::byte> span(memory);
    view = *MakeImageView(*MakeImageDesc(format, DType::kU8, width, height),
                          std::span(&span, 1));
  }
  Bytes memory;
  ImageView view;
};

// Waves of several lengths with grain, the same in every run.
std::shared_ptr<Picture> MakePhoto(PixelFormat format, int width, int height) {
  auto picture = std::make_shared<Picture>(format, width, height);
  const auto channels =
      static_cast<size_t>(GetPixelFormatInfo(format).channels);
  uint32_t state = 1;
  for (int y = 0; y < height; ++y) {
    std::byte* row = picture->view.row(0, y);
    for (int x = 0; x < width; ++x) {
      state = state * 1664525u + 1013904223u;
      const double wave = 50 * std::sin(x * 0.004 + y * 0.011) +
                          30 * std::sin(x * 0.07) * std::cos(y * 0.05) +
                          12 * std::sin(x * 0.9 + y * 0.7);
      const int grain = (x / 240 + y / 135) % 2 == 0
                            ? static_cast<int>(state >> 28)
                            : static_cast<int>(state >> 31);
      for (size_t c = 0; c < channels; ++c) {
        const int value =
            118 + static_cast<int>(wave) + grain + static_cast<int>(c) * 9;
        row[static_cast<size_t>(x) * channels + c] =
            static_cast<std::byte>(std::clamp(value, 0, 255));
      }
    }
  }
  return picture;
}

std::optional<Bytes> ReadFile(const std::string& folder,
                              const std::string& name) {
  if (folder.empty()) return std::nullopt;
  std::ifstream in(folder + "/" + name, std::ios::binary);
  if (!in) return std::nullopt;
  const std::vector<char> text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return Bytes(bytes.begin(), bytes.end());
}

struct Size {
  const char* name;
  int width;
  int height;
};

constexpr Size k720p = {"720p", 1280, 720};
constexpr Size k1080p = {"1080p", 1920, 1080};
constexpr Size k4k = {"4k", 3840, 2160};

std::string PixelsOf(const Size& size) {
  return std::to_string(size.width) + "x" + std::to_string(size.height);
}

Bytes JpegOf(const std::string& data, const Size& size,
             JpegSubsampling subsampling, const std::string& sampling_name,
             const std::string& photo = "mid") {
  auto file = ReadFile(
      data, photo + "_" + PixelsOf(size) + "_" + sampling_name + ".jpg");
  if (file) return *file;
  Bytes made;
  const auto picture = MakePhoto(PixelFormat::kRgb, size.width, size.height);
  const absl::Status status =
      EncodeJpeg(picture->view.as_const(), {kQuality, subsampling}, made);
  if (!status.ok()) abort();
  return made;
}

bool AddDecode(const std::string& name, Bytes file, PixelFormat format,
               const AddBenchCase& add) {
  const auto info = PeekImage(file);
  auto decoder = std::make_shared<ImageDecoder>();
  std::shared_ptr<Picture> picture;
  absl::Status status = info.status();
  if (info.ok()) {
    picture = std::make_shared<Picture>(format, info->width, info->height);
    status = decoder->Decode(file, {}, picture->view).status();
  }
  if (!status.ok()) {
    fprintf(stderr, "%s: %s\n", name.c_str(), status.ToString().c_str());
    return false;
  }
  add(name, [file = std::move(file), decoder, picture] {
    if (!decoder->Decode(file, {}, picture->view).ok()) abort();
  });
  return true;
}

bool AddJpegDecodes(const std::string& data, const AddBenchCase& add) {
  bool good = true;
  for (const Size& size : {k720p, k1080p, k4k}) {
    const Bytes file = JpegOf(data, size, JpegSubsampling::k420, "420");
    const std::string name = std::string("W1/") + size.name + "_420/preprocd_";
    good &= AddDecode(name + "nv12", file, PixelFormat::kNv12, add);
    good &= AddDecode(name + "rgb", file, PixelFormat::kRgb, add);
    good &= AddDecode(name + "rgba", file, PixelFormat::kRgba, add);
  }
  const struct {
    const char* name;
    JpegSubsampling subsampling;
    PixelFormat format;
  } others[] = {{"422", JpegSubsampling::k422, PixelFormat::kNv16},
                {"444", JpegSubsampling::k444, PixelFormat::kNv24}};
  for (const auto& other : others) {
    const Bytes file = JpegOf(data, k1080p, other.subsampling, other.name);
    const std::string name = std::string("W1/1080p_") + other.name;
    good &= AddDecode(name + "/preprocd_native", file, other.format, add);
    good &= AddDecode(name + "/preprocd_rgb", file, PixelFormat::kRgb, add);
  }
  for (const std::string photo : {"lo", "hi"}) {
    const Bytes file =
        JpegOf(data, k1080p, JpegSubsampling::k420, "420", photo);
    const std::string name = "W1/1080p_420_" + photo + "/preprocd_";
    good &= AddDecode(name + "nv12", file, PixelFormat::kNv12, add);
  }
  return good;
}

Bytes PngOf(const std::string& data) {
  auto file = ReadFile(data, "mid_1920x1080.png");
  if (file) return *file;
  Bytes made;
  const auto picture = MakePhoto(PixelFormat::kRgb, 1920, 1080);
  if (!EncodePng(picture->view.as_const(), {}, made).ok()) abort();
  return made;
}

void AddEncode(const std::string& name, std::shared_ptr<Picture> picture,
               JpegSubsampling subsampling, const AddBenchCase& add) {
  auto out = std::make_shared<Bytes>();
  add(name, [picture = std::move(picture), out, subsampling] {
    const JpegEncodeOptions options = {kQuality, subsampling};
    if (!EncodeJpeg(picture->view.as_const(), options, *out).ok()) abort();
  });
}

bool AddJpegEncodes(const std::string& data, const AddBenchCase& add) {
  const Bytes png = PngOf(data);
  const auto info = PeekImage(png);
  if (!info.ok()) return false;
  auto rgb =
      std::make_shared<Picture>(PixelFormat::kRgb, info->width, info->height);
  ImageDecoder decoder;
  if (!decoder.Decode(png, {}, rgb->view).ok()) return false;
  auto nv12 =
      std::make_shared<Picture>(PixelFormat::kNv12, info->width, info->height);
  const Bytes jpeg = JpegOf(data, k1080p, JpegSubsampling::k420, "420");
  if (!decoder.Decode(jpeg, {}, nv12->view).ok()) return false;
  AddEncode("W9/preprocd_420", rgb, JpegSubsampling::k420, add);
  AddEncode("W9/preprocd_422", rgb, JpegSubsampling::k422, add);
  AddEncode("W9/preprocd_444", rgb, JpegSubsampling::k444, add);
  AddEncode("W9/preprocd_from_nv12_420", nv12, JpegSubsampling::k420, add);
  return true;
}

// W4: JPEG bytes to a letterboxed 640x640 planar f32 tensor.
bool AddLetterbox(const std::string& name, const Bytes& file,
                  const ConvertSpec& spec, Engine& engine,
                  const AddBenchCase& add,
                  DecodeScaling scaling = DecodeScaling::kFull) {
  struct Work {
    ConvertPlan plan;
    DecodeOptions decode;
    std::shared_ptr<Buffer> buffer;
  };
  auto work = std::make_shared<Work>();
  const ImageDesc to =
      *MakeImageDesc(PixelFormat::kPlanarRgb, DType::kF32, 640, 640);
  absl::StatusOr<ConvertPlan> plan = engine.Plan(
      *Engine::DecodedDesc(*PeekImage(file), to.format), to, spec, true);
  if (!plan.ok()) {
    fprintf(stderr, "%s: %s\n", name.c_str(), plan.status().ToString().c_str());
    return false;
  }
  work->plan = *std::move(plan);
  work->decode.fancy_chroma = spec.chroma != ChromaUpsampling::kReplicate;
  work->buffer =
      *AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(to), "bench");
  add(name, [file, work, scaling, &engine] {
    PictureBuffers out;
    out.buffers[0] = work->buffer.get();
    out.count = 1;
    WorkReport report;
    if (!engine
             .DecodeAndConvert(file, work->decode, work->plan, out, report,
                               scaling)
             .ok()) {
      abort();
    }
  });
  return true;
}

}  // namespace

bool AddFusedCases(const std::string& data, Engine& engine,
                   const AddBenchCase& add) {
  const Bytes file = JpegOf(data, k1080p, JpegSubsampling::k420, "420");
  const Bytes large = JpegOf(data, k4k, JpegSubsampling::k420, "420");
  ConvertSpec spec;
  spec.fit = Fit::kLetterbox;
  spec.filter = Filter::kBilinear;
  bool good = AddLetterbox("W4/preprocd_bilinear", file, spec, engine, add);
  good &= AddLetterbox("W4/preprocd_bilinear_4k", large, spec, engine, add);
  good &= AddLetterbox("W4/preprocd_bilinear_fast_scale", file, spec, engine,
                       add, DecodeScaling::kFast);
  spec.chroma = ChromaUpsampling::kReplicate;
  good &=
      AddLetterbox("W4/preprocd_bilinear_replicate", file, spec, engine, add);
  spec.chroma = ChromaUpsampling::kFancy;
  spec.filter = Filter::kArea;
  good &= AddLetterbox("W4/preprocd_area", file, spec, engine, add);
  return good;
}

bool AddCodecCases(const std::string& data, const AddBenchCase& add) {
  const bool jpeg = AddJpegDecodes(data, add);
  const bool png =
      AddDecode("W8/preprocd", PngOf(data), PixelFormat::kRgb, add);
  return AddJpegEncodes(data, add) && jpeg && png;
}

}  // namespace preprocd
