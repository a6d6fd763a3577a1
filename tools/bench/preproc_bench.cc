// Times the engine in process on fixed inputs, one line per case:
//   NAME median_ms min_ms runs
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <regex>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/exec/monotonic_clock.h"
#include "engine/memory/allocator.h"
#include "tools/bench/codec_cases.h"
#include "tools/bench/detection_cases.h"
#include "tools/bench/masks_cases.h"

namespace preprocd {
namespace {

struct Picture {
  ImageDesc desc;
  std::shared_ptr<Buffer> buffer;
  PictureBuffers buffers() const {
    PictureBuffers p;
    p.buffers[0] = buffer.get();
    p.count = 1;
    return p;
  }
};

Picture MakePicture(PixelFormat format, DType dtype, int width, int height) {
  Picture p;
  p.desc = *MakeImageDesc(format, dtype, width, height);
  p.desc.color = {MatrixCoefficients::kBt601, ColorRange::kLimited};
  p.buffer =
      *AllocateBuffer(AllocatorKind::kHeap, RequiredBytes(p.desc), "bench");
  // Smooth content with some noise, the same in every run.
  const auto bytes = p.buffer->Map(Access::kReadWrite)->bytes();
  uint32_t state = 1;
  for (size_t i = 0; i < bytes.size(); ++i) {
    state = state * 1664525u + 1013904223u;
    bytes[i] = static_cast<std::byte>((i / 13 + (state >> 28)) & 0xff);
  }
  return p;
}

// Cases take turns in this many rounds of several runs each, as the peers do:
// a noisy spell hits all of them, and caches are warm.
constexpr int kRounds = 5;

struct Case {
  std::string name;
  std::function<void()> run;
  std::vector<double> times_ms;
};

class Bench {
 public:
  explicit Bench(int threads) : threads_(threads) {
    EngineOptions options;
    options.row_threads = threads;
    engine_ = *Engine::Create(options);
  }

  void AddConvert(const std::string& name, Picture from, PixelFormat format,
                  DType dtype, Size size, Fit fit, Filter filter) {
    Picture to = MakePicture(format, dtype, size.width, size.height);
    ConvertSpec spec;
    spec.fit = fit;
    spec.filter = filter;
    const auto plan = engine_->Plan(from.desc, to.desc, spec, false);
    if (!plan.ok()) {
      fprintf(stderr, "%s: %s\n", name.c_str(),
              plan.status().ToString().c_str());
      failed_ = true;
      return;
    }
    cases_.push_back({name + "/t" + std::to_string(threads_),
                      [this, from, to, plan = *plan] {
                        WorkReport report;
                        const absl::Status status = engine_->Convert(
                            plan, from.buffers(), to.buffers(), report);
                        if (!status.ok()) abort();
                      },
                      {}});
  }

  void AddAll() {
    const Picture nv12 =
        MakePicture(PixelFormat::kNv12, DType::kU8, 1920, 1080);
    const Picture rgb4k =
        MakePicture(PixelFormat::kRgb, DType::kU8, 3840, 2160);
    const struct {
      const char* name;
      Filter filter;
    } filters[] = {{"bilinear", Filter::kBilinear},
                   {"area", Filter::kArea},
                   {"aa", Filter::kBilinearAa}};
    for (const auto& f : filters) {
      const std::string variant = std::string("preprocd_") + f.name;
      AddConvert("W2/" + variant, nv12, PixelFormat::kRgb, DType::kU8,
                 {640, 640}, Fit::kLetterbox, f.filter);
      AddConvert("W3/" + variant, nv12, PixelFormat::kPlanarRgb, DType::kF32,
                 {640, 640}, Fit::kLetterbox, f.filter);
      AddConvert("W3h/" + variant, nv12, PixelFormat::kPlanarRgb, DType::kF16,
                 {640, 640}, Fit::kLetterbox, f.filter);
      AddConvert("W5/" + variant, rgb4k, PixelFormat::kRgb, DType::kU8,
                 {640, 640}, Fit::kStretch, f.filter);
      AddConvert("W11/" + variant, nv12, PixelFormat::kRgb, DType::kI8,
                 {640, 640}, Fit::kStretch, f.filter);
    }
    AddConvert("W10/preprocd_rgb", nv12, PixelFormat::kRgb, DType::kU8,
               {1920, 1080}, Fit::kStretch, Filter::kNearest);
    AddConvert("W10/preprocd_rgba", nv12, PixelFormat::kRgba, DType::kU8,
               {1920, 1080}, Fit::kStretch, Filter::kNearest);
  }

  // W6: 640x640 tiles of a 4K frame at steps of 512, the last row and column
  // moved back inside, into one batch.
  void AddTiles() {
    constexpr int kSide = 640;
    const Picture frame =
        MakePicture(PixelFormat::kNv12, DType::kU8, 3840, 2160);
    const std::vector<int> columns = {0,    512,  1024, 1536,
                                      2048, 2560, 3072, 3200};
    const std::vector<int> rows = {0, 512, 1024, 1520};
    // One tall picture, higher than a picture may be by itself.
    Picture batch = MakePicture(PixelFormat::kRgb, DType::kU8, kSide, kSide);
    batch.buffer = *AllocateBuffer(
        AllocatorKind::kHeap,
        RequiredBytes(batch.desc) * columns.size() * rows.size(), "bench");
    std::vector<ConvertPlan> plans;
    for (const int y : rows) {
      for (const int x : columns) {
        ImageDesc tile =
            *MakeImageDesc(PixelFormat::kRgb, DType::kU8, kSide, kSide);
        tile.planes[0].offset_bytes =
            plans.size() * kSide * tile.planes[0].stride_bytes;
        ConvertSpec spec;
        spec.source_rect = Rect{x, y, kSide, kSide};
        plans.push_back(*engine_->Plan(frame.desc, tile, spec, false));
      }
    }
    cases_.push_back({"W6/preprocd_tiles/t" + std::to_string(threads_),
                      [this, frame, batch, plans] {
                        WorkReport report;
                        const absl::Status status = engine_->ConvertBatch(
                            plans, frame.buffers(), batch.buffers(),
                            [](size_t) {}, report);
                        if (!status.ok()) abort();
                      },
                      {}});
  }

  // Codec cases are the same with any number of threads, but for those that
  // convert.
  void AddCodec(const std::string& data) {
    const auto add = [this](const std::string& name,
                            std::function<void()> run) {
      cases_.push_back({name + "/t1", std::move(run), {}});
    };
    failed_ |= !AddCodecCases(data, add);
    failed_ |= !AddFusedCases(
        data, *engine_,
        [this](const std::string& name, std::function<void()> run) {
          cases_.push_back(
              {name + "/t" + std::to_string(threads_), std::move(run), {}});
        });
  }

  void AddDetections() {
    AddDetectionCases(
        [this](const std::string& name, std::function<void()> run) {
          cases_.push_back({name + "/t1", std::move(run), {}});
        });
  }

  void Add(std::vector<BenchCase> cases) {
    for (BenchCase& c : cases) {
      cases_.push_back(
          {c.name + "/t" + std::to_string(threads_), std::move(c.run), {}});
    }
  }

  // True when a case could not even be planned.
  bool failed() const { return failed_; }

  void Run(const std::regex& filter, int repeat) {
    std::erase_if(cases_, [&filter](const Case& c) {
      return !std::regex_search(c.name, filter);
    });
    for (Case& c : cases_) c.run();
    for (int done = 0; done < repeat;) {
      const int runs =
          std::min((repeat + kRounds - 1) / kRounds, repeat - done);
      for (Case& c : cases_) {
        for (int run = 0; run < runs; ++run) {
          const int64_t start_ns = MonotonicNs();
          c.run();
          c.times_ms.push_back(static_cast<double>(MonotonicNs() - start_ns) /
                               1e6);
        }
      }
      done += runs;
    }
    for (Case& c : cases_) {
      std::sort(c.times_ms.begin(), c.times_ms.end());
      printf("%s %.4f %.4f %zu\n", c.name.c_str(),
             c.times_ms[c.times_ms.size() / 2], c.times_ms.front(),
             c.times_ms.size());
    }
  }

 private:
  const int threads_;
  bool failed_ = false;
  std::unique_ptr<Engine> engine_;
  std::vector<Case> cases_;
};

}  // namespace
}  // namespace preprocd

int main(int argc, char** argv) {
  CLI::App app("Times the engine in process on fixed inputs.");
  std::string filter = ".*";
  std::string data;
  int threads = 1;
  int repeat = 21;
  app.add_option("--filter", filter, "Regular expression on the names");
  app.add_option("--data", data,
                 "Folder of pictures for the codec; made when empty");
  app.add_option("--threads", threads, "Threads per picture")
      ->check(CLI::Range(1, 64));
  app.add_option("--repeat", repeat, "Timed runs per case")
      ->check(CLI::Range(1, 100000));
  CLI11_PARSE(app, argc, argv);
  try {
    const std::regex regex(filter);
    preprocd::Bench bench(threads);
    bench.AddAll();
    bench.AddTiles();
    bench.AddCodec(data);
    bench.Add(preprocd::MaskCases(threads));
    bench.AddDetections();
    bench.Run(regex, repeat);
    if (bench.failed()) return 1;
  } catch (const std::regex_error& error) {
    fprintf(stderr, "--filter: %s\n", error.what());
    return 2;
  }
  return 0;
}
