// Drawing against the blend formula, pixel by pixel, on every vector target.
#include "engine/masks/draw_masks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "engine/base/error_detail.h"
#include "hwy/targets.h"

namespace preprocd {
namespace {

struct Canvas {
  ImageDesc desc;
  std::vector<std::byte> bytes;

  Canvas(PixelFormat format, int width, int height, uint32_t seed)
      : desc(*MakeImageDesc(format, DType::kU8, width, height, 16)) {
    desc.color = {MatrixCoefficients::kBt601, ColorRange::kLimited};
    bytes.resize(RequiredBytes(desc) + 64);
    for (std::byte& b : bytes) {
      seed = seed * 1664525u + 1013904223u;
      b = static_cast<std::byte>(seed >> 24);
    }
  }
  ImageView view() {
    const std::span<std::byte> all(bytes);
    return *MakeImageView(desc, {&all, 1});
  }
  ConstImageView const_view() const {
    const std::span<const std::byte> all(bytes);
    return *MakeConstImageView(desc, {&all, 1});
  }
};

// `weight` in 256ths.
int Blend(int color, int weight, int old) {
  return (color * weight + old * (256 - weight) + 128) / 256;
}

int Weight(double alpha) {
  return static_cast<int>(std::floor(alpha * 256 / 255 + 0.5));
}

// Three prototypes whose masks are easy to say: x - 5.5, y - 4.5, a ring.
struct Scene {
  static constexpr int kW = 20;
  static constexpr int kH = 16;
  std::vector<float> planes;
  std::vector<float> rows = {1, 0, 0, 0, 1, 0, 0, 0, 1, -1, 0, 0};
  std::vector<MaskBox> boxes = {{0.0f, 0.1f, 0.55f, 0.95f},
                                {0.3f, 0.0f, 1.0f, 0.8f},
                                {0.21f, 0.33f, 0.77f, 0.71f},
                                {0.9f, 0.9f, 1.0f, 1.0f}};
  std::vector<DrawnObject> objects = {{3, 7}, {21, 0}, {5, 7}, {14, 2}};
  PrototypeTensor prototypes;
  CoefficientTensor coefficients;
  MaskPlan plan;
  MaskWorkspace workspace;

  explicit Scene(Size size) {
    for (int k = 0; k < 3; ++k) {
      for (int y = 0; y < kH; ++y) {
        for (int x = 0; x < kW; ++x) {
          const double r = std::hypot(x - 9.3, y - 7.7);
          const double value = k == 0 ? x - 5.37 : k == 1 ? y - 4.41 : 4.9 - r;
          planes.push_back(static_cast<float>(value));
        }
      }
    }
    prototypes = {reinterpret_cast<const std::byte*>(planes.data()),
                  DType::kF32,
                  true,
                  kH,
                  kW,
                  3,
                  {}};
    coefficients = {
        reinterpret_cast<const std::byte*>(rows.data()), DType::kF32, 4, 3, {}};
    MaskSpec spec;
    spec.size = size;
    EXPECT_TRUE(PlanMasks(prototypes, coefficients, boxes, spec, plan).ok());
    workspace.Prepare(plan, prototypes, coefficients);
  }

  bool IsSet(size_t mask, int x, int y) const {
    const Rect& b = plan.masks[mask].box;
    if (x < b.x || y < b.y || x >= b.x + b.width || y >= b.y + b.height) {
      return false;
    }
    const auto axis = [](const MaskAxis& a, int i) {
      return a.tap[static_cast<size_t>(i)] +
             double(a.fraction[static_cast<size_t>(i)]);
    };
    const double sx = axis(plan.x, x);
    const double sy = axis(plan.y, y);
    const auto at = [&](int k, int px, int py) {
      px = std::min(px, kW - 1);
      py = std::min(py, kH - 1);
      return double(planes[static_cast<size_t>((k * kH + py) * kW + px)]);
    };
    double sum = 0;
    for (int k = 0; k < 3; ++k) {
      const int x0 = static_cast<int>(sx);
      const int y0 = static_cast<int>(sy);
      const double fx = sx - x0;
      const double fy = sy - y0;
      const double v =
          (1 - fy) * ((1 - fx) * at(k, x0, y0) + fx * at(k, x0 + 1, y0)) +
          fy * ((1 - fx) * at(k, x0, y0 + 1) + fx * at(k, x0 + 1, y0 + 1));
      sum += double(rows[mask * 3 + static_cast<size_t>(k)]) * v;
    }
    return sum > 0;
  }
};

class Target : public ::testing::TestWithParam<int64_t> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam());
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

std::string TargetName(const ::testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

INSTANTIATE_TEST_SUITE_P(
    All, Target, ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets()),
    TargetName);

// Channel positions of R, G, B in memory.
std::array<size_t, 3> OrderOf(PixelFormat format) {
  const auto& order = GetPixelFormatInfo(format).channel_order;
  return {static_cast<size_t>(order[0]), static_cast<size_t>(order[1]),
          static_cast<size_t>(order[2])};
}

TEST_P(Target, PackedFormatsBlendByTheFormula) {
  const std::vector<MaskColor> palette = {
      {255, 0, 10, 128}, {1, 200, 90, 179}, {40, 50, 255, 255}};
  RowPool pool(2);
  for (const PixelFormat format : {PixelFormat::kRgba, PixelFormat::kBgra,
                                   PixelFormat::kRgb, PixelFormat::kBgr}) {
    for (const Size size : {Size{101, 73}, Size{20, 16}, Size{7, 5}}) {
      for (const auto backdrop :
           {Backdrop::kZeros, Backdrop::kPicture, Backdrop::kKeep}) {
        Scene scene(size);
        Canvas background(format, size.width, size.height, 1);
        Canvas out(format, size.width, size.height, 2);
        const Canvas before = out;
        DrawStyle style;
        style.palette = palette;
        style.color_mode = ColorMode::kInstance;
        style.opacity = 0.75;
        DrawnMasks masks;
        masks.workspace = &scene.workspace;
        masks.objects = scene.objects;
        const ConstImageView below = background.const_view();
        DrawMasks(masks, style, backdrop,
                  backdrop == Backdrop::kPicture ? &below : nullptr, out.view(),
                  pool);
        const bool has_alpha = GetPixelFormatInfo(format).has_alpha;
        const size_t channels = has_alpha ? 4 : 3;
        const auto order = OrderOf(format);
        const Canvas& base =
            backdrop == Backdrop::kPicture ? background : before;
        for (int y = 0; y < size.height; ++y) {
          for (int x = 0; x < size.width; ++x) {
            for (size_t c = 0; c < channels; ++c) {
              const size_t at = static_cast<size_t>(x) * channels + c;
              int want =
                  backdrop == Backdrop::kZeros
                      ? 0
                      : static_cast<int>(base.const_view().row(0, y)[at]);
              for (size_t i = 0; i < 4; ++i) {
                if (!scene.IsSet(i, x, y)) continue;
                const MaskColor& m = palette[i % 3];
                const int color = c == order[0]   ? m.r
                                  : c == order[1] ? m.g
                                  : c == order[2] ? m.b
                                                  : 255;
                want = Blend(color, Weight(m.a * 0.75), want);
              }
              ASSERT_EQ(static_cast<int>(out.view().row(0, y)[at]), want)
                  << PixelFormatName(format) << " " << x << "," << y << ":"
                  << c;
            }
          }
        }
        // Between rows and behind the last one nothing is written.
        const size_t row = PlaneRowBytes(format, DType::kU8, 0, size.width);
        for (size_t i = 0; i < out.bytes.size(); ++i) {
          if (i % out.desc.planes[0].stride_bytes < row &&
              i / out.desc.planes[0].stride_bytes <
                  static_cast<size_t>(size.height)) {
            continue;
          }
          ASSERT_EQ(out.bytes[i], before.bytes[i]) << i;
        }
      }
    }
  }
}

TEST_P(Target, Nv12BlendsLumaPerPixelAndChromaByShare) {
  RowPool pool(2);
  const std::vector<MaskColor> palette = {{200, 30, 60, 200}};
  for (const Size size : {Size{101, 73}, Size{40, 32}, Size{5, 3}}) {
    Scene scene(size);
    Canvas background(PixelFormat::kNv12, size.width, size.height, 3);
    Canvas out(PixelFormat::kNv12, size.width, size.height, 4);
    DrawStyle style;
    style.palette = palette;
    DrawnMasks masks;
    masks.workspace = &scene.workspace;
    masks.objects = scene.objects;
    const ConstImageView below = background.const_view();
    DrawMasks(masks, style, Backdrop::kPicture, &below, out.view(), pool);
    const RgbToYuvCoefficients m =
        GetRgbToYuvCoefficients(background.desc.color);
    int yuv[3];
    for (size_t i = 0; i < 3; ++i) {
      yuv[i] = static_cast<int>(
          std::floor(m.matrix[i][0] * 200 + m.matrix[i][1] * 30 +
                     m.matrix[i][2] * 60 + m.offset[i] + 0.5));
    }
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        const auto at = static_cast<size_t>(x);
        int want = static_cast<int>(below.row(0, y)[at]);
        for (size_t i = 0; i < 4; ++i) {
          if (scene.IsSet(i, x, y)) want = Blend(yuv[0], Weight(200), want);
        }
        ASSERT_EQ(static_cast<int>(out.view().row(0, y)[at]), want)
            << x << "," << y;
      }
    }
    for (int y = 0; y < (size.height + 1) / 2; ++y) {
      for (int x = 0; x < (size.width + 1) / 2; ++x) {
        for (size_t c = 0; c < 2; ++c) {
          const size_t at = 2 * static_cast<size_t>(x) + c;
          int want = static_cast<int>(below.row(1, y)[at]);
          for (size_t i = 0; i < 4; ++i) {
            int set = 0;
            int all = 0;
            for (int py = 2 * y; py < std::min(2 * y + 2, size.height); ++py) {
              for (int px = 2 * x; px < std::min(2 * x + 2, size.width); ++px) {
                set += scene.IsSet(i, px, py) ? 1 : 0;
                ++all;
              }
            }
            if (set > 0) {
              want = Blend(yuv[c + 1], (Weight(200) * set * 4 / all + 2) / 4,
                           want);
            }
          }
          ASSERT_EQ(static_cast<int>(out.view().row(1, y)[at]), want)
              << x << "," << y;
        }
      }
    }
  }
}

TEST(DrawMasksTest, NoMasksStillWritesEverything) {
  RowPool pool(1);
  for (const PixelFormat format :
       {PixelFormat::kRgba, PixelFormat::kRgb, PixelFormat::kNv12}) {
    Canvas background(format, 33, 35, 5);
    Canvas out(format, 33, 35, 6);
    const DrawnMasks nothing;
    const ConstImageView below = background.const_view();
    DrawMasks(nothing, DrawStyle(), Backdrop::kPicture, &below, out.view(),
              pool);
    for (int plane = 0; plane < GetPixelFormatInfo(format).plane_count;
         ++plane) {
      const size_t row = PlaneRowBytes(format, DType::kU8, plane, 33);
      for (int y = 0; y < PlaneRows(format, plane, 35); ++y) {
        EXPECT_EQ(memcmp(out.view().row(plane, y), below.row(plane, y), row),
                  0);
      }
    }
    DrawMasks(nothing, DrawStyle(), Backdrop::kZeros, nullptr, out.view(),
              pool);
    const bool yuv = format == PixelFormat::kNv12;
    EXPECT_EQ(static_cast<int>(out.view().row(0, 34)[32]), yuv ? 16 : 0);
    if (yuv) {
      EXPECT_EQ(static_cast<int>(out.view().row(1, 17)[33]), 128);
    }
  }
}

TEST(DrawMasksTest, DenseMasksAreSampledAtPixelCentres) {
  RowPool pool(1);
  // A 4x2 grid over 10x6 pixels; the mask covers grid columns 1..2.
  const std::vector<uint8_t> pixels = {255, 127, 128, 0};
  for (const Size size : {Size{10, 6}, Size{4, 2}, Size{3, 1}}) {
    Canvas out(PixelFormat::kRgb, size.width, size.height, 7);
    const DenseMask dense = {{1, 0, 2, 2}, pixels.data(), 2};
    const DrawnObject object;
    const std::vector<MaskColor> palette = {{10, 20, 30, 255}};
    DrawStyle style;
    style.palette = palette;
    DrawnMasks masks;
    masks.dense = {&dense, 1};
    masks.dense_grid = {4, 2};
    masks.objects = {&object, 1};
    DrawMasks(masks, style, Backdrop::kZeros, nullptr, out.view(), pool);
    for (int y = 0; y < size.height; ++y) {
      for (int x = 0; x < size.width; ++x) {
        const int gx = static_cast<int>((x + 0.5) * 4 / size.width);
        const int gy = static_cast<int>((y + 0.5) * 2 / size.height);
        const bool set = gx >= 1 && gx < 3 &&
                         pixels[static_cast<size_t>(gy * 2 + gx - 1)] >= 128;
        EXPECT_EQ(
            static_cast<int>(out.view().row(0, y)[3 * static_cast<size_t>(x)]),
            set ? 10 : 0)
            << x << "," << y << " of " << size.width;
      }
    }
  }
}

// Every ratio of grid and picture, masks at every offset, in memory that ends
// with the mask.
TEST(DrawMasksTest, DenseMasksOfAnySizeOnEveryVectorTarget) {
  RowPool pool(1);
  uint32_t seed = 5;
  const auto draw = [&seed](int n) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<int>((seed >> 8) % static_cast<uint32_t>(n));
  };
  const std::vector<MaskColor> palette = {{10, 20, 30, 255}};
  const DrawnObject object;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (int round = 0; round < 120; ++round) {
      const Size grid = {1 + draw(round % 2 == 0 ? 40 : 400), 1 + draw(9)};
      const Size size = {1 + draw(300), 1 + draw(7)};
      const int x0 = draw(grid.width);
      const int y0 = draw(grid.height);
      const Rect bounds = {x0, y0, 1 + draw(grid.width - x0),
                           1 + draw(grid.height - y0)};
      std::vector<uint8_t> pixels(
          static_cast<size_t>(bounds.width * bounds.height));
      for (uint8_t& p : pixels) p = static_cast<uint8_t>(draw(256));
      pixels.shrink_to_fit();
      const DenseMask dense = {bounds, pixels.data(),
                               static_cast<size_t>(bounds.width)};
      Canvas out(PixelFormat::kRgba, size.width, size.height, 7);
      DrawStyle style;
      style.palette = palette;
      DrawnMasks masks;
      masks.dense = {&dense, 1};
      masks.dense_grid = grid;
      masks.objects = {&object, 1};
      DrawMasks(masks, style, Backdrop::kZeros, nullptr, out.view(), pool);
      for (int y = 0; y < size.height; ++y) {
        for (int x = 0; x < size.width; ++x) {
          const int gx = (2 * x + 1) * grid.width / (2 * size.width) - x0;
          const int gy = (2 * y + 1) * grid.height / (2 * size.height) - y0;
          const bool set =
              gx >= 0 && gx < bounds.width && gy >= 0 && gy < bounds.height &&
              pixels[static_cast<size_t>(gy * bounds.width + gx)] >= 128;
          ASSERT_EQ(static_cast<int>(
                        out.view().row(0, y)[4 * static_cast<size_t>(x) + 1]),
                    set ? 20 : 0)
              << x << "," << y << " round " << round << " "
              << hwy::TargetName(target);
        }
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
}

// A track keeps its colour wherever it stands in the list.
TEST(DrawMasksTest, ColoursFollowLabelPositionOrTrack) {
  RowPool pool(1);
  const std::vector<uint8_t> on(4, 255);
  const auto color_of = [&](ColorMode mode, size_t position,
                            const DrawnObject& object) {
    std::vector<DenseMask> dense(position + 1);
    std::vector<DrawnObject> objects(position + 1);
    std::vector<uint8_t> off(4);
    for (DenseMask& d : dense) d = {{0, 0, 2, 2}, off.data(), 2};
    dense[position].pixels = on.data();
    objects[position] = object;
    Canvas out(PixelFormat::kRgb, 2, 2, 8);
    DrawStyle style;
    style.color_mode = mode;
    DrawnMasks masks;
    masks.dense = dense;
    masks.dense_grid = {2, 2};
    masks.objects = objects;
    DrawMasks(masks, style, Backdrop::kZeros, nullptr, out.view(), pool);
    return std::vector<std::byte>(out.view().row(0, 0),
                                  out.view().row(0, 0) + 3);
  };
  const DrawnObject a = {4, 11};
  EXPECT_EQ(color_of(ColorMode::kTrack, 0, a),
            color_of(ColorMode::kTrack, 5, a));
  EXPECT_NE(color_of(ColorMode::kTrack, 0, a),
            color_of(ColorMode::kTrack, 0, {4, 12}));
  EXPECT_EQ(color_of(ColorMode::kClass, 0, a),
            color_of(ColorMode::kClass, 5, {4, 1}));
  EXPECT_EQ(color_of(ColorMode::kClass, 0, {24, 0}),
            color_of(ColorMode::kClass, 0, {4, 0}));
  EXPECT_NE(color_of(ColorMode::kInstance, 0, a),
            color_of(ColorMode::kInstance, 1, a));
  // Label 0 of the default palette: green at 179.
  EXPECT_EQ(
      color_of(ColorMode::kClass, 0, {0, 0}),
      (std::vector<std::byte>{std::byte{0}, std::byte{179}, std::byte{0}}));
}

TEST(DrawMasksTest, BoxLinesLieOutsideTheBox) {
  RowPool pool(1);
  for (const PixelFormat format : {PixelFormat::kRgba, PixelFormat::kNv12}) {
    const std::vector<uint8_t> off(100);
    const DenseMask dense = {{10, 12, 20, 40}, off.data(), 0};
    const DrawnObject object;
    Canvas out(format, 64, 64, 9);
    const std::vector<MaskColor> palette = {{255, 255, 255, 7}};
    DrawStyle style;
    style.boxes = true;
    style.palette = palette;
    DrawnMasks masks;
    masks.dense = {&dense, 1};
    masks.dense_grid = {64, 64};
    masks.objects = {&object, 1};
    DrawMasks(masks, style, Backdrop::kZeros, nullptr, out.view(), pool);
    const size_t bytes = format == PixelFormat::kRgba ? 4 : 1;
    const int white = format == PixelFormat::kRgba ? 255 : 235;
    const int black = format == PixelFormat::kRgba ? 0 : 16;
    for (int y = 0; y < 64; ++y) {
      for (int x = 0; x < 64; ++x) {
        const bool outer = x >= 7 && x < 33 && y >= 9 && y < 55;
        const bool inner = x >= 10 && x < 30 && y >= 12 && y < 52;
        EXPECT_EQ(static_cast<int>(
                      out.view().row(0, y)[bytes * static_cast<size_t>(x)]),
                  outer && !inner ? white : black)
            << x << "," << y;
      }
    }
  }
}

TEST(DrawMasksTest, ClassMapsLeaveTheBackgroundClassOut) {
  // Three classes in thirds of the height; the last is the background.
  std::vector<float> scores;
  for (int c = 0; c < 3; ++c) {
    for (int y = 0; y < 6; ++y) {
      for (int x = 0; x < 4; ++x) scores.push_back(y / 2 == c ? 1.0f : 0.0f);
    }
  }
  const PrototypeTensor tensor = {
      reinterpret_cast<const std::byte*>(scores.data()),
      DType::kF32,
      true,
      6,
      4,
      3,
      {}};
  MaskSpec spec;
  spec.semantic = true;
  spec.size = {40, 60};
  MaskPlan plan;
  ASSERT_TRUE(PlanMasks(tensor, {}, {}, spec, plan).ok());
  MaskWorkspace workspace;
  workspace.Prepare(plan, tensor, {});
  std::vector<uint8_t> map(plan.size_bytes);
  Canvas out(PixelFormat::kRgb, 40, 60, 10);
  DrawnMasks masks;
  masks.workspace = &workspace;
  masks.class_map = map;
  RowPool pool(2);
  DrawMasks(masks, DrawStyle(), Backdrop::kZeros, nullptr, out.view(), pool);
  const auto green = [&](int y) {
    return static_cast<int>(out.view().row(0, y)[3 * 17 + 1]);
  };
  EXPECT_EQ(green(5), 179);
  EXPECT_EQ(green(30), Blend(142, Weight(179), 0));
  EXPECT_EQ(green(55), 0);
}

TEST(DrawMasksTest, RefusesWhatItCannotDraw) {
  const ImageDesc rgb = *MakeImageDesc(PixelFormat::kRgb, DType::kU8, 8, 8);
  const auto field = [](const absl::Status& status) {
    const auto detail = GetErrorDetail(status);
    return detail ? detail->field : std::string("no detail");
  };
  EXPECT_TRUE(CheckDraw(rgb, nullptr, DrawStyle(), {}).ok());
  const ImageDesc grey = *MakeImageDesc(PixelFormat::kGrey, DType::kU8, 8, 8);
  EXPECT_EQ(field(CheckDraw(grey, nullptr, DrawStyle(), {})),
            "destination.layout.format");
  const ImageDesc wide = *MakeImageDesc(PixelFormat::kRgb, DType::kU8, 9, 8);
  EXPECT_EQ(field(CheckDraw(rgb, &wide, DrawStyle(), {})), "background");
  DrawStyle style;
  style.opacity = std::nan("");
  EXPECT_EQ(field(CheckDraw(rgb, nullptr, style, {})), "opacity");
  style.opacity = 1.01;
  EXPECT_EQ(field(CheckDraw(rgb, nullptr, style, {})), "opacity");
  const DrawnObject bad = {-1, 0};
  EXPECT_EQ(field(CheckDraw(rgb, nullptr, DrawStyle(), {&bad, 1})),
            "masks.boxes[0].label");
}

}  // namespace
}  // namespace preprocd
