// W7. The scene is the peers': the same generator, the same order of draws,
// prototypes grown from 10x10 noise by the cubic of parameter -3/4.
#include "tools/bench/masks_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "engine/masks/draw_masks.h"
#include "engine/masks/materialize.h"

namespace preprocd {
namespace {

constexpr int kDetections = 50;
constexpr int kPrototypes = 32;
constexpr int kGrid = 160;
constexpr int kInput = 640;
// Rows of the letterboxed 16:9 picture.
constexpr int kContentTop = 140;
constexpr int kContentRows = 360;
constexpr int kWidth = 1920;
constexpr int kHeight = 1080;

class Noise {
 public:
  uint32_t Bits() { return state_ = state_ * 1664525u + 1013904223u; }
  double Unit() { return double(Bits() >> 8) / double(1 << 24); }

 private:
  uint32_t state_ = 7;
};

double Cubic(double x) {
  constexpr double kA = -0.75;
  x = std::abs(x);
  if (x <= 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  if (x < 2) return kA * (((x - 5) * x + 8) * x - 4);
  return 0;
}

// 10x10 -> kGrid x kGrid, half-pixel centres, clamped edges.
void Grow(const double* small, float* big) {
  const double step = 10.0 / kGrid;
  for (int y = 0; y < kGrid; ++y) {
    for (int x = 0; x < kGrid; ++x) {
      const double sx = (x + 0.5) * step - 0.5;
      const double sy = (y + 0.5) * step - 0.5;
      const int ix = static_cast<int>(std::floor(sx));
      const int iy = static_cast<int>(std::floor(sy));
      double sum = 0;
      for (int j = iy - 1; j <= iy + 2; ++j) {
        for (int i = ix - 1; i <= ix + 2; ++i) {
          sum += Cubic(sx - i) * Cubic(sy - j) *
                 small[std::clamp(j, 0, 9) * 10 + std::clamp(i, 0, 9)];
        }
      }
      big[y * kGrid + x] = static_cast<float>(sum);
    }
  }
}

struct Scene {
  std::vector<float> prototypes;  // [K, H, W]
  std::vector<float> pixels;      // the same as [H, W, K]
  std::vector<float> coefficients;
  std::vector<MaskBox> boxes;
  std::vector<MaskColor> colors;
  std::vector<DrawnObject> objects;

  Scene() {
    Noise noise;
    constexpr size_t kPlane = size_t{kGrid} * kGrid;
    prototypes.resize(kPrototypes * kPlane);
    for (int k = 0; k < kPrototypes; ++k) {
      double small[100];
      for (double& v : small) v = noise.Unit() * 4 - 2;
      Grow(small, prototypes.data() + static_cast<size_t>(k) * kPlane);
    }
    pixels.resize(prototypes.size());
    for (size_t k = 0; k < kPrototypes; ++k) {
      for (size_t i = 0; i < kPlane; ++i) {
        pixels[i * kPrototypes + k] = prototypes[k * kPlane + i];
      }
    }
    for (int i = 0; i < kDetections * kPrototypes; ++i) {
      coefficients.push_back(static_cast<float>(noise.Unit() * 2 - 1));
    }
    for (int i = 0; i < kDetections; ++i) AddBox(noise);
    objects.resize(kDetections);
  }

  PrototypeTensor Planes() const {
    return {reinterpret_cast<const std::byte*>(prototypes.data()),
            DType::kF32,
            true,
            kGrid,
            kGrid,
            kPrototypes,
            {}};
  }
  PrototypeTensor Pixels() const {
    return {reinterpret_cast<const std::byte*>(pixels.data()),
            DType::kF32,
            false,
            kGrid,
            kGrid,
            kPrototypes,
            {}};
  }
  CoefficientTensor Rows() const {
    return {reinterpret_cast<const std::byte*>(coefficients.data()),
            DType::kF32,
            kDetections,
            kPrototypes,
            {}};
  }

 private:
  void AddBox(Noise& noise) {
    const double w_a = noise.Unit();
    const double w_b = noise.Unit();
    const double h_a = noise.Unit();
    const double h_b = noise.Unit();
    const int w = 24 + static_cast<int>(280 * w_a * w_b);
    const int h = 24 + static_cast<int>(280 * h_a * h_b);
    const int x = static_cast<int>(noise.Unit() * (kInput - w));
    const int y =
        kContentTop + static_cast<int>(noise.Unit() * (kContentRows - h));
    boxes.push_back({float(x) / kInput, float(y) / kInput,
                     float(x + w) / kInput, float(y + h) / kInput});
    MaskColor color;
    color.r = static_cast<uint8_t>(noise.Bits() >> 24);
    color.g = static_cast<uint8_t>(noise.Bits() >> 24);
    color.b = static_cast<uint8_t>(noise.Bits() >> 24);
    color.a = 128;
    colors.push_back(color);
  }
};

const Scene& SharedScene() {
  static const Scene scene;
  return scene;
}

// Page-aligned, as shared memory is.
class Pages {
 public:
  std::span<std::byte> Of(size_t size) {
    if (size > size_) {
      size_ = (size + 4095) / 4096 * 4096;
      memory_.reset(static_cast<std::byte*>(aligned_alloc(4096, size_)));
      memset(memory_.get(), 0, size_);
    }
    return {memory_.get(), size};
  }
  const uint8_t* data() const {
    return reinterpret_cast<const uint8_t*>(memory_.get());
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { free(p); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t size_ = 0;
};

// All of a call: plan, fold, compute.
struct Materializer {
  PrototypeTensor prototypes;
  CoefficientTensor coefficients;
  MaskSpec spec;
  MaskPlan plan;
  MaskWorkspace workspace;
  RowPool pool;
  Pages out;

  Materializer(const PrototypeTensor& tensor, const MaskSpec& wanted,
               int threads)
      : prototypes(tensor),
        coefficients(SharedScene().Rows()),
        spec(wanted),
        pool(threads) {}

  void Run() {
    if (!PlanMasks(prototypes, coefficients, SharedScene().boxes, spec, plan)
             .ok()) {
      abort();
    }
    workspace.Prepare(plan, prototypes, coefficients);
    if (!MaterializeMasks(workspace, out.Of(plan.size_bytes), pool).ok()) {
      abort();
    }
  }
};

BenchCase Materialize(const char* name, const PrototypeTensor& prototypes,
                      Size size, MaskExtent extent, MaskValues values,
                      DType dtype, int threads) {
  MaskSpec spec;
  spec.size = size;
  spec.extent = extent;
  spec.values = values;
  spec.dtype = dtype;
  auto work = std::make_shared<Materializer>(prototypes, spec, threads);
  return {name, [work] { work->Run(); }};
}

struct Overlay {
  Materializer masks;
  ImageDesc desc;
  Pages background_pages;
  Pages out_pages;
  std::span<std::byte> background;
  std::span<std::byte> out;

  Overlay(PixelFormat format, const MaskSpec& spec, int threads)
      : masks(SharedScene().Planes(), spec, threads),
        desc(*MakeImageDesc(format, DType::kU8, kWidth, kHeight)) {
    background = background_pages.Of(RequiredBytes(desc));
    out = out_pages.Of(background.size());
    for (size_t i = 0; i < background.size(); ++i) {
      background[i] = static_cast<std::byte>(i / 13);
    }
  }

  void Draw(DrawnMasks& drawn) {
    const Scene& scene = SharedScene();
    DrawStyle style;
    style.palette = scene.colors;
    style.color_mode = ColorMode::kInstance;
    drawn.objects = scene.objects;
    const std::span<const std::byte> from(background);
    const std::span<std::byte> to(out);
    const ConstImageView below = *MakeConstImageView(desc, {&from, 1});
    DrawMasks(drawn, style, Backdrop::kPicture, &below,
              *MakeImageView(desc, {&to, 1}), masks.pool);
  }

  void FromPrototypes() {
    if (!PlanMasks(masks.prototypes, masks.coefficients, SharedScene().boxes,
                   masks.spec, masks.plan)
             .ok()) {
      abort();
    }
    masks.workspace.Prepare(masks.plan, masks.prototypes, masks.coefficients);
    DrawnMasks drawn;
    drawn.workspace = &masks.workspace;
    Draw(drawn);
  }

  // Masks made before; the peers time no more than this either.
  void FromDense() {
    std::vector<DenseMask> dense;
    for (const MaskPlacement& mask : masks.plan.masks) {
      dense.push_back({mask.bounds, masks.out.data() + mask.offset_bytes,
                       static_cast<size_t>(mask.bounds.width)});
    }
    DrawnMasks drawn;
    drawn.dense = dense;
    drawn.dense_grid = masks.plan.size;
    Draw(drawn);
  }
};

MaskSpec ContentSpec(Size size) {
  MaskSpec spec;
  spec.size = size;
  spec.content = Rect{0, kContentTop, kInput, kContentRows};
  spec.input = {kInput, kInput};
  return spec;
}

BenchCase Draw(const char* name, PixelFormat format, int threads) {
  auto work = std::make_shared<Overlay>(format, ContentSpec({kWidth, kHeight}),
                                        threads);
  return {name, [work] { work->FromPrototypes(); }};
}

BenchCase DrawDense(const char* name, int threads) {
  auto work = std::make_shared<Overlay>(
      PixelFormat::kRgba, ContentSpec({kInput, kContentRows}), threads);
  work->masks.Run();
  return {name, [work] { work->FromDense(); }};
}

}  // namespace

std::vector<BenchCase> MaskCases(int threads) {
  const PrototypeTensor planes = SharedScene().Planes();
  const PrototypeTensor pixels = SharedScene().Pixels();
  constexpr Size kProto = {};
  constexpr Size kScaled = {kInput, kInput};
  constexpr auto kBinary = MaskValues::kBinary;
  constexpr auto kSigmoid = MaskValues::kContinuous;
  return {
      Materialize("W7a/preprocd_whole_planes", planes, kProto,
                  MaskExtent::kUncropped, kBinary, DType::kU8, threads),
      Materialize("W7a/preprocd_whole_planes_sigmoid_u8", planes, kProto,
                  MaskExtent::kUncropped, kSigmoid, DType::kU8, threads),
      Materialize("W7a/preprocd_whole_planes_sigmoid_f32", planes, kProto,
                  MaskExtent::kUncropped, kSigmoid, DType::kF32, threads),
      Materialize("W7a/preprocd_boxes", planes, kProto, MaskExtent::kBox,
                  kBinary, DType::kU8, threads),
      Materialize("W7a/preprocd_boxes_sigmoid_f32", planes, kProto,
                  MaskExtent::kBox, kSigmoid, DType::kF32, threads),
      Materialize("W7a/preprocd_boxes_nhwc", pixels, kProto, MaskExtent::kBox,
                  kBinary, DType::kU8, threads),
      Materialize("W7b/preprocd_full_planes", planes, kScaled,
                  MaskExtent::kPlane, kBinary, DType::kU8, threads),
      Materialize("W7b/preprocd_boxes", planes, kScaled, MaskExtent::kBox,
                  kBinary, DType::kU8, threads),
      Materialize("W7b/preprocd_boxes_nhwc", pixels, kScaled, MaskExtent::kBox,
                  kBinary, DType::kU8, threads),
      Draw("W7c/preprocd_from_prototypes", PixelFormat::kRgba, threads),
      DrawDense("W7c/preprocd_from_masks", threads),
      Draw("W7c/preprocd_from_prototypes_rgb", PixelFormat::kRgb, threads),
      Draw("W7c/preprocd_from_prototypes_nv12", PixelFormat::kNv12, threads),
  };
}

}  // namespace preprocd
