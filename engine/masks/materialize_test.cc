// Masks against a scalar double-precision oracle written from the formula in
// mask_plan.h, on every vector target of this machine.
#include "engine/masks/materialize.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "hwy/targets.h"

namespace {
std::atomic<uint64_t> allocations = 0;
}  // namespace

// Counts what the code under test allocates.
void* operator new(size_t size) {
  ++allocations;
  if (void* memory = malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }

namespace preprocd {
namespace {

// Deterministic numbers in [low, high).
class Numbers {
 public:
  explicit Numbers(uint32_t seed) : state_(seed * 2654435761u + 1) {}
  double Next(double low, double high) {
    state_ = state_ * 1664525u + 1013904223u;
    return low + (high - low) * (state_ >> 8) / double(1 << 24);
  }
  int Int(int low, int high) {
    return low + static_cast<int>(Next(0, high - low + 1));
  }

 private:
  uint32_t state_;
};

uint16_t HalfOf(float value) {
  // Exact for the small dyadic numbers of these tests.
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) == 0) return 0;
  const int exponent = static_cast<int>((bits >> 23) & 0xff) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000u) |
                               static_cast<uint32_t>(exponent) << 10 |
                               (bits >> 13 & 0x3ffu));
}

struct Stored {
  std::vector<std::byte> bytes;
  std::vector<double> values;  // dequantised
  std::vector<float> scales;
  std::vector<int32_t> zero_points;
};

template <typename T>
void Put(std::vector<std::byte>& bytes, size_t i, T value) {
  std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
}

// `count` elements; channel_of(i) picks the quantisation of element i.
template <class F>
Stored MakeTensor(Numbers& numbers, DType dtype, size_t count, int channels,
                  bool per_channel, F channel_of) {
  Stored t;
  const bool integer = dtype == DType::kI8 || dtype == DType::kI16;
  if (integer) {
    for (int k = 0; k < (per_channel ? channels : 1); ++k) {
      t.scales.push_back(static_cast<float>(numbers.Next(0.01, 0.05)));
      t.zero_points.push_back(numbers.Int(-20, 20));
    }
  }
  t.bytes.resize(count * 4);
  t.values.resize(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t q = per_channel ? static_cast<size_t>(channel_of(i)) : 0;
    // Dyadic, so that half precision holds it exactly.
    const float v = static_cast<float>(numbers.Int(-256, 256)) / 128.0f;
    switch (dtype) {
      case DType::kF16:
        Put(t.bytes, i, HalfOf(v));
        t.values[i] = v;
        break;
      case DType::kI8: {
        const auto raw = static_cast<int8_t>(numbers.Int(-128, 127));
        Put(t.bytes, i, raw);
        t.values[i] = double(raw - t.zero_points[q]) * double(t.scales[q]);
        break;
      }
      case DType::kI16: {
        const auto raw = static_cast<int16_t>(numbers.Int(-3000, 3000));
        Put(t.bytes, i, raw);
        t.values[i] = double(raw - t.zero_points[q]) * double(t.scales[q]);
        break;
      }
      default:
        Put(t.bytes, i, v);
        t.values[i] = v;
    }
  }
  return t;
}

struct Scene {
  PrototypeTensor prototypes;
  CoefficientTensor coefficients;
  Stored p;
  Stored c;
  std::vector<MaskBox> boxes;

  double Prototype(int k, int y, int x) const {
    const auto w = static_cast<size_t>(prototypes.width);
    const auto h = static_cast<size_t>(prototypes.height);
    const auto n = static_cast<size_t>(prototypes.channels);
    const size_t pixel = static_cast<size_t>(y) * w + static_cast<size_t>(x);
    const auto channel = static_cast<size_t>(k);
    return p.values[prototypes.channels_first ? channel * w * h + pixel
                                              : pixel * n + channel];
  }
  double Logit(int n, int y, int x) const {
    double sum = 0;
    for (int k = 0; k < prototypes.channels; ++k) {
      sum += c.values[static_cast<size_t>(n * prototypes.channels + k)] *
             Prototype(k, y, x);
    }
    return sum;
  }
};

struct SceneShape {
  int width;
  int height;
  int channels;
  int masks;
  bool channels_first;
  DType prototypes;
  DType coefficients;
  bool per_channel;
};

Scene MakeScene(uint32_t seed, const SceneShape& shape) {
  Numbers numbers(seed);
  Scene s;
  const auto k = static_cast<size_t>(shape.channels);
  const size_t pixels =
      static_cast<size_t>(shape.width) * static_cast<size_t>(shape.height);
  s.p = MakeTensor(
      numbers, shape.prototypes, pixels * k, shape.channels, shape.per_channel,
      [&](size_t i) { return shape.channels_first ? i / pixels : i % k; });
  s.c = MakeTensor(numbers, shape.coefficients,
                   static_cast<size_t>(shape.masks) * k, shape.channels,
                   shape.per_channel, [&](size_t i) { return i % k; });
  s.prototypes = {s.p.bytes.data(),
                  shape.prototypes,
                  shape.channels_first,
                  shape.height,
                  shape.width,
                  shape.channels,
                  {}};
  s.coefficients = {
      s.c.bytes.data(), shape.coefficients, shape.masks, shape.channels, {}};
  for (int i = 0; i < shape.masks; ++i) {
    s.boxes.push_back({static_cast<float>(numbers.Next(0, 1)),
                       static_cast<float>(numbers.Next(0, 1)),
                       static_cast<float>(numbers.Next(0, 1)),
                       static_cast<float>(numbers.Next(0, 1))});
  }
  return s;
}

// The scene's spans must point at its final place.
void Point(Scene& s) {
  s.prototypes.data = s.p.bytes.data();
  s.prototypes.quantization = {s.p.scales, s.p.zero_points};
  s.coefficients.data = s.c.bytes.data();
  s.coefficients.quantization = {s.c.scales, s.c.zero_points};
}

// Bilinear logit at output pixel (x, y), from the formula.
double ScaledLogit(const Scene& s, const MaskSpec& spec, int n, int x, int y) {
  if (spec.size == Size()) return s.Logit(n, y, x);
  const auto axis = [](double content, double length, double input, int planes,
                       int pixel, int pixels, int* tap) {
    const double begin = content / input * planes;
    const double span = length / input * planes;
    const double low = std::floor(begin + 1e-9);
    const double high = std::ceil(begin + span - 1e-9) - 1;
    const double at =
        std::clamp(begin + (pixel + 0.5) / pixels * span - 0.5, low, high);
    *tap = static_cast<int>(std::floor(at));
    return at - std::floor(at);
  };
  const Rect content = spec.content.value_or(Rect{0, 0, 1, 1});
  const Size input = spec.content ? spec.input : Size{1, 1};
  int tx = 0;
  int ty = 0;
  const double fx = axis(content.x, content.width, input.width,
                         s.prototypes.width, x, spec.size.width, &tx);
  const double fy = axis(content.y, content.height, input.height,
                         s.prototypes.height, y, spec.size.height, &ty);
  double sum = 0;
  for (int dy = 0; dy < 2; ++dy) {
    for (int dx = 0; dx < 2; ++dx) {
      const double weight = (dx != 0 ? fx : 1 - fx) * (dy != 0 ? fy : 1 - fy);
      if (weight == 0) continue;
      sum += weight * s.Logit(n, ty + dy, tx + dx);
    }
  }
  return sum;
}

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

  std::vector<std::byte> Materialize(Scene& s, const MaskSpec& spec,
                                     int threads = 1) {
    Point(s);
    const absl::Status planned =
        PlanMasks(s.prototypes, s.coefficients, s.boxes, spec, plan_);
    EXPECT_TRUE(planned.ok()) << planned;
    MaskWorkspace workspace;
    workspace.Prepare(plan_, s.prototypes, s.coefficients);
    // Guard bytes behind the last mask.
    std::vector<std::byte> out(plan_.size_bytes + 16, std::byte{0xa5});
    RowPool pool(threads);
    EXPECT_TRUE(MaterializeMasks(workspace,
                                 std::span(out).first(plan_.size_bytes), pool)
                    .ok());
    for (size_t i = plan_.size_bytes; i < out.size(); ++i) {
      EXPECT_EQ(out[i], std::byte{0xa5});
    }
    out.resize(plan_.size_bytes);
    return out;
  }

  // Logits this close to 0 may round to either side in single precision.
  static constexpr double kTie = 2e-3;

  void ExpectMasks(const Scene& s, const MaskSpec& spec,
                   const std::vector<std::byte>& out) {
    for (size_t i = 0; i < plan_.masks.size(); ++i) {
      const MaskPlacement& mask = plan_.masks[i];
      const Rect& b = mask.box;
      size_t at = mask.offset_bytes;
      for (int y = mask.bounds.y; y < mask.bounds.y + mask.bounds.height; ++y) {
        for (int x = mask.bounds.x; x < mask.bounds.x + mask.bounds.width;
             ++x, ++at) {
          const auto got = static_cast<int>(out[at]);
          const bool inside =
              x >= b.x && y >= b.y && x < b.x + b.width && y < b.y + b.height;
          if (!inside && spec.extent != MaskExtent::kUncropped) {
            ASSERT_EQ(got, 0) << "mask " << i << " " << x << "," << y;
            continue;
          }
          const double v = ScaledLogit(s, spec, static_cast<int>(i), x, y);
          if (spec.values == MaskValues::kContinuous) {
            ASSERT_NEAR(got, 255 / (1 + std::exp(-v)), 0.51)
                << "mask " << i << " " << x << "," << y << " logit " << v;
          } else if (std::abs(v) > kTie) {
            ASSERT_EQ(got, v > 0 ? 255 : 0)
                << "mask " << i << " " << x << "," << y << " logit " << v;
          }
        }
      }
    }
  }

  MaskPlan plan_;
};

std::string TargetName(const ::testing::TestParamInfo<int64_t>& info) {
  return hwy::TargetName(info.param);
}

std::vector<int64_t> Targets() { return hwy::SupportedAndGeneratedTargets(); }

INSTANTIATE_TEST_SUITE_P(All, Target, ::testing::ValuesIn(Targets()),
                         TargetName);

TEST_P(Target, EveryTypeAndLayoutEqualsTheFormula) {
  uint32_t seed = 1;
  for (const DType p : {DType::kF32, DType::kF16, DType::kI8}) {
    for (const DType c : {DType::kF32, DType::kF16, DType::kI8, DType::kI16}) {
      for (const bool planes : {false, true}) {
        for (const bool per_channel : {false, true}) {
          ++seed;
          Scene s = MakeScene(seed, {37, 23, 1 + static_cast<int>(seed % 40), 3,
                                     planes, p, c, per_channel});
          SCOPED_TRACE(testing::Message()
                       << DTypeName(p) << " " << DTypeName(c) << " planes "
                       << planes << " per channel " << per_channel);
          for (const Size size : {Size(), Size{131, 90}, Size{20, 17}}) {
            for (const auto extent : {MaskExtent::kBox, MaskExtent::kPlane,
                                      MaskExtent::kUncropped}) {
              for (const auto values :
                   {MaskValues::kBinary, MaskValues::kContinuous}) {
                MaskSpec spec;
                spec.size = size;
                spec.extent = extent;
                spec.values = values;
                ExpectMasks(s, spec, Materialize(s, spec));
                if (HasFatalFailure()) return;
              }
            }
          }
        }
      }
    }
  }
}

TEST_P(Target, TinyPrototypesAndOddSizes) {
  for (int w = 1; w <= 20; ++w) {
    const bool planes = w % 2 == 0;
    Scene s = MakeScene(
        static_cast<uint32_t>(w),
        {w, 1 + w % 3, 1 + w % 7, 5, planes, DType::kF32, DType::kF32, false});
    for (const Size size : {Size(), Size{w * 3 + 1, 5}, Size{1, 1}}) {
      MaskSpec spec;
      spec.size = size;
      ExpectMasks(s, spec, Materialize(s, spec));
      spec.extent = MaskExtent::kUncropped;
      ExpectMasks(s, spec, Materialize(s, spec));
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Target, LetterboxIsUndone) {
  Scene s =
      MakeScene(5, {160, 160, 8, 6, true, DType::kF32, DType::kF32, false});
  MaskSpec spec;
  spec.size = {640, 360};
  spec.content = Rect{0, 139, 640, 361};
  spec.input = {640, 640};
  ExpectMasks(s, spec, Materialize(s, spec, 2));
  spec.extent = MaskExtent::kUncropped;
  spec.values = MaskValues::kContinuous;
  ExpectMasks(s, spec, Materialize(s, spec, 2));
}

TEST_P(Target, ContinuousFloatsAreTheSigmoid) {
  Scene s =
      MakeScene(6, {19, 11, 32, 3, true, DType::kF32, DType::kF32, false});
  MaskSpec spec;
  spec.values = MaskValues::kContinuous;
  spec.dtype = DType::kF32;
  for (const auto extent : {MaskExtent::kBox, MaskExtent::kUncropped}) {
    spec.extent = extent;
    const std::vector<std::byte> out = Materialize(s, spec);
    for (size_t i = 0; i < plan_.masks.size(); ++i) {
      const MaskPlacement& mask = plan_.masks[i];
      size_t at = mask.offset_bytes;
      for (int y = mask.bounds.y; y < mask.bounds.y + mask.bounds.height; ++y) {
        for (int x = mask.bounds.x; x < mask.bounds.x + mask.bounds.width;
             ++x, at += 4) {
          float got = 0;
          std::memcpy(&got, out.data() + at, 4);
          const double v = s.Logit(static_cast<int>(i), y, x);
          ASSERT_NEAR(got, 1 / (1 + std::exp(-v)), 1e-5) << v;
        }
      }
    }
  }
}

// The documented rule at ties: a logit of exactly 0 is outside. Integers make
// every sum exact.
TEST_P(Target, ZeroLogitsAndNotANumberAreOutside) {
  const std::vector<int8_t> protos = {0, 1, -1, 2, 5, 5, 5, 5};  // [1,4,2]
  const std::vector<int8_t> coefs = {1, -1};
  const std::vector<float> scale = {1e-30f};
  const MaskBox all = {0, 0, 1, 1};
  PrototypeTensor p = {reinterpret_cast<const std::byte*>(protos.data()),
                       DType::kI8,
                       false,
                       1,
                       4,
                       2,
                       {scale, {}}};
  CoefficientTensor c = {reinterpret_cast<const std::byte*>(coefs.data()),
                         DType::kI8,
                         1,
                         2,
                         {scale, {}}};
  // Logits -1, -3, 0, 0, though the product of the scales underflows.
  RowPool pool(1);
  MaskWorkspace workspace;
  std::vector<std::byte> out(4);
  ASSERT_TRUE(PlanMasks(p, c, {&all, 1}, MaskSpec(), plan_).ok());
  workspace.Prepare(plan_, p, c);
  ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
  EXPECT_EQ(out, std::vector<std::byte>(4));
  const std::vector<float> nan = {NAN, INFINITY, -INFINITY, 1};
  const std::vector<float> one = {1};
  p = {reinterpret_cast<const std::byte*>(nan.data()),
       DType::kF32,
       true,
       1,
       4,
       1,
       {}};
  c = {reinterpret_cast<const std::byte*>(one.data()), DType::kF32, 1, 1, {}};
  MaskSpec spec;
  for (const auto values : {MaskValues::kBinary, MaskValues::kContinuous}) {
    spec.values = values;
    ASSERT_TRUE(PlanMasks(p, c, {&all, 1}, spec, plan_).ok());
    workspace.Prepare(plan_, p, c);
    ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
    EXPECT_EQ(static_cast<int>(out[0]), 0);
    EXPECT_EQ(static_cast<int>(out[1]), 255);
    EXPECT_EQ(static_cast<int>(out[2]), 0);
    EXPECT_EQ(static_cast<int>(out[3]),
              values == MaskValues::kBinary ? 255 : 186);
  }
}

TEST_P(Target, SemanticMasksAreTheArgmax) {
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI8}) {
    for (const bool planes : {false, true}) {
      Scene s = MakeScene(9, {21, 18, 5, 0, planes, dtype, DType::kF32, false});
      for (const Size size : {Size(), Size{50, 47}}) {
        MaskSpec spec;
        spec.semantic = true;
        spec.size = size;
        const std::vector<std::byte> out = Materialize(s, spec, 2);
        ASSERT_EQ(plan_.masks.size(), 1u);
        Scene one = s;
        one.c.values.assign(5, 0);
        for (int y = 0; y < plan_.size.height; ++y) {
          for (int x = 0; x < plan_.size.width; ++x) {
            double best = -1e30;
            double second = -1e30;
            int index = 0;
            for (int k = 0; k < 5; ++k) {
              one.c.values.assign(5, 0);
              one.c.values[static_cast<size_t>(k)] = 1;
              const double v = ScaledLogit(one, spec, 0, x, y);
              if (v > best) {
                second = best;
                best = v;
                index = k;
              } else {
                second = std::max(second, v);
              }
            }
            // Equal scores: the lower class, exactly on the prototype grid.
            if (size != Size() && best - second < 1e-4) continue;
            ASSERT_EQ(static_cast<int>(
                          out[static_cast<size_t>(y * plan_.size.width + x)]),
                      index)
                << x << "," << y;
          }
        }
      }
    }
  }
}

// M-01: nothing of an object that fills the content is lost at its borders,
// however odd the padding.
TEST_P(Target, OddPaddingLosesNoRow) {
  const struct {
    Size picture;
    Rect content;
    Size input;
    Size prototypes;
  } cases[] = {
      {{1279, 721}, {0, 139, 640, 361}, {640, 640}, {160, 160}},
      {{1600, 2128}, {40, 0, 241, 320}, {320, 320}, {80, 80}},
  };
  for (const auto& c : cases) {
    std::vector<float> protos;
    const auto touches = [](int i, int n, int begin, int length, int whole) {
      return (i + 1) * whole > begin * n && i * whole < (begin + length) * n;
    };
    for (int y = 0; y < c.prototypes.height; ++y) {
      for (int x = 0; x < c.prototypes.width; ++x) {
        const bool in = touches(x, c.prototypes.width, c.content.x,
                                c.content.width, c.input.width) &&
                        touches(y, c.prototypes.height, c.content.y,
                                c.content.height, c.input.height);
        protos.push_back(in ? 4.0f : -4.0f);
      }
    }
    const float one = 1;
    const MaskBox box = {0, 0, 1, 1};
    const PrototypeTensor p = {
        reinterpret_cast<const std::byte*>(protos.data()),
        DType::kF32,
        true,
        c.prototypes.height,
        c.prototypes.width,
        1,
        {}};
    const CoefficientTensor k = {
        reinterpret_cast<const std::byte*>(&one), DType::kF32, 1, 1, {}};
    MaskSpec spec;
    spec.size = c.picture;
    spec.content = c.content;
    spec.input = c.input;
    ASSERT_TRUE(PlanMasks(p, k, {&box, 1}, spec, plan_).ok());
    EXPECT_EQ(plan_.masks[0].box,
              (Rect{0, 0, c.picture.width, c.picture.height}));
    MaskWorkspace workspace;
    workspace.Prepare(plan_, p, k);
    std::vector<std::byte> out(plan_.size_bytes);
    RowPool pool(2);
    ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
    EXPECT_EQ(std::count(out.begin(), out.end(), std::byte{255}),
              static_cast<std::ptrdiff_t>(out.size()));
  }
}

// M-02: a disc in the letterboxed input is a disc in the picture.
TEST_P(Target, PaddingIsRemovedBeforeScaling) {
  std::vector<float> protos;
  for (int y = 0; y < 160; ++y) {
    for (int x = 0; x < 160; ++x) {
      protos.push_back(
          static_cast<float>(40 - std::hypot(x + 0.5 - 80, y + 0.5 - 80)));
    }
  }
  const float one = 1;
  const MaskBox box = {0, 0, 1, 1};
  const PrototypeTensor p = {reinterpret_cast<const std::byte*>(protos.data()),
                             DType::kF32,
                             true,
                             160,
                             160,
                             1,
                             {}};
  const CoefficientTensor k = {
      reinterpret_cast<const std::byte*>(&one), DType::kF32, 1, 1, {}};
  MaskSpec spec;
  spec.size = {1920, 1080};
  spec.content = Rect{0, 140, 640, 360};
  spec.input = {640, 640};
  ASSERT_TRUE(PlanMasks(p, k, {&box, 1}, spec, plan_).ok());
  MaskWorkspace workspace;
  workspace.Prepare(plan_, p, k);
  std::vector<std::byte> out(plan_.size_bytes);
  RowPool pool(1);
  ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
  int left = 1920;
  int right = 0;
  int top = 1080;
  int bottom = 0;
  for (int y = 0; y < 1080; ++y) {
    for (int x = 0; x < 1920; ++x) {
      if (out[static_cast<size_t>(y * 1920 + x)] == std::byte{0}) continue;
      left = std::min(left, x);
      right = std::max(right, x + 1);
      top = std::min(top, y);
      bottom = std::max(bottom, y + 1);
    }
  }
  // Radius 40 of 160 prototype pixels = 480 of 1920 pixels.
  EXPECT_NEAR(right - left, 960, 8);
  EXPECT_NEAR(static_cast<double>(right - left) / (bottom - top), 1, 0.01);
  EXPECT_NEAR(left + right, 1920, 1);
  EXPECT_NEAR(top + bottom, 1080, 1);
}

// M-03: edges stay where they are, half-pixel centres, no bias to a side.
TEST_P(Target, EdgesAreSymmetric) {
  std::vector<float> protos(160 * 160);
  for (int y = 0; y < 160; ++y) {
    for (int x = 0; x < 160; ++x) {
      protos[static_cast<size_t>(y * 160 + x)] = x >= 40 && x < 80 ? 4 : -4;
    }
  }
  const float one = 1;
  const MaskBox box = {0, 0, 1, 1};
  const PrototypeTensor p = {reinterpret_cast<const std::byte*>(protos.data()),
                             DType::kF32,
                             true,
                             160,
                             160,
                             1,
                             {}};
  const CoefficientTensor k = {
      reinterpret_cast<const std::byte*>(&one), DType::kF32, 1, 1, {}};
  MaskSpec spec;
  spec.size = {640, 640};
  ASSERT_TRUE(PlanMasks(p, k, {&box, 1}, spec, plan_).ok());
  MaskWorkspace workspace;
  workspace.Prepare(plan_, p, k);
  std::vector<std::byte> out(plan_.size_bytes);
  RowPool pool(1);
  ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
  for (int x = 0; x < 640; ++x) {
    EXPECT_EQ(static_cast<int>(out[static_cast<size_t>(x)]),
              x >= 160 && x < 320 ? 255 : 0)
        << x;
  }
}

TEST(MaterializeTest, AllocatesNothingWhenWarm) {
  for (const Size size : {Size(), Size{320, 200}}) {
    for (const auto extent :
         {MaskExtent::kBox, MaskExtent::kPlane, MaskExtent::kUncropped}) {
      Scene s =
          MakeScene(3, {40, 30, 32, 20, true, DType::kF32, DType::kF32, false});
      Point(s);
      MaskSpec spec;
      spec.size = size;
      spec.extent = extent;
      MaskPlan plan;
      MaskWorkspace workspace;
      RowPool pool(1);
      std::vector<std::byte> out;
      uint64_t before = 0;
      for (int run = 0; run < 3; ++run) {
        if (run == 2) before = allocations;
        ASSERT_TRUE(
            PlanMasks(s.prototypes, s.coefficients, s.boxes, spec, plan).ok());
        workspace.Prepare(plan, s.prototypes, s.coefficients);
        out.resize(plan.size_bytes);
        ASSERT_TRUE(MaterializeMasks(workspace, out, pool).ok());
      }
      EXPECT_EQ(allocations, before)
          << size.width << " " << static_cast<int>(extent);
    }
  }
}

TEST(MaterializeTest, RefusesADestinationThatIsTooSmall) {
  Scene s = MakeScene(3, {8, 8, 4, 2, true, DType::kF32, DType::kF32, false});
  Point(s);
  MaskPlan plan;
  ASSERT_TRUE(
      PlanMasks(s.prototypes, s.coefficients, s.boxes, MaskSpec(), plan).ok());
  MaskWorkspace workspace;
  workspace.Prepare(plan, s.prototypes, s.coefficients);
  std::vector<std::byte> out(plan.size_bytes - 1, std::byte{7});
  RowPool pool(1);
  const absl::Status status = MaterializeMasks(workspace, out, pool);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(std::count(out.begin(), out.end(), std::byte{7}),
            static_cast<std::ptrdiff_t>(out.size()));
}

}  // namespace
}  // namespace preprocd
