// The GL backend against the reference, once per way that pixels can travel:
// through memory, through pixel buffers and, where the driver imports memfds,
// without a copy. GL_CONFORMANCE_STRIDE=9 in the environment runs a ninth of
// the battery, with every pair of what is combined in it.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/backends/gles/gles_converter.h"
#include "engine/backends/registry.h"
#include "tests/conformance/battery.h"
#include "tests/conformance/random_case.h"

namespace preprocd {
namespace {

std::unique_ptr<Converter> Reference() {
  for (std::unique_ptr<Converter>& backend : MakeBackends()) {
    if (backend->capabilities().name == "reference") return std::move(backend);
  }
  return nullptr;
}

size_t Stride() {
  const char* value = getenv("GL_CONFORMANCE_STRIDE");
  return value != nullptr ? static_cast<size_t>(atoi(value)) : 1;
}

// Every n-th case, and each first case of a pair of formats, of a filter with
// an orientation, of a type with a source, of a colour encoding.
std::vector<BatteryCase> Sample(size_t stride) {
  std::set<std::tuple<int, int, int>> seen;
  std::vector<BatteryCase> sample;
  const std::vector<BatteryCase> all = AllCases();
  for (size_t i = 0; i < all.size(); ++i) {
    const BatteryCase& c = all[i];
    const auto is_new = [&seen](int axis, auto a, auto b) {
      return seen.insert({axis, static_cast<int>(a), static_cast<int>(b)})
          .second;
    };
    bool take = i % stride == 0;
    take |= is_new(0, c.source, c.destination);
    take |= is_new(1, c.spec.filter, c.spec.orientation);
    take |= is_new(2, c.source, c.dtype);
    take |= is_new(3, c.destination, c.dtype);
    take |= is_new(4, c.source_color.matrix, c.source_color.range);
    take |= is_new(5, c.spec.filter, c.dtype);
    if (take) sample.push_back(c);
  }
  return sample;
}

std::vector<BatteryCase> RandomCases(int count, int max_side, unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<BatteryCase> cases;
  for (int i = 0; i < count; ++i) {
    std::array<uint8_t, kRandomCaseBytes> bytes = {};
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random() >> 9);
    cases.push_back(CaseFromBytes(bytes, max_side));
  }
  return cases;
}

struct Way {
  const char* name;
  GlTransfer transfer;
  AllocatorKind memory;
};

class GlConformanceTest : public testing::TestWithParam<Way> {
 protected:
  void SetUp() override {
    GlSettings settings;
    ASSERT_TRUE(
        ApplyGlEnvironment(
            [](const char* name) -> const char* { return getenv(name); },
            settings)
            .ok());
    settings.transfer = GetParam().transfer;
    gl_ = std::make_unique<GlesConverter>(settings);
    if (!gl_->capabilities().available) {
      printf("backend gl skipped: %s\n", gl_->capabilities().detail.c_str());
      GTEST_SKIP() << gl_->capabilities().detail;
    }
    reference_ = Reference();
  }

  void Prove(const std::vector<BatteryCase>& cases, int least) {
    const BatteryResult result =
        RunBattery(*gl_, *reference_, cases, 20, GetParam().memory);
    ASSERT_NE(gl_->features(), nullptr) << absl::StrJoin(result.failures, "\n");
    const GlFeatures& f = *gl_->features();
    printf("%s on %s (%s), imports: %s\n", f.version.c_str(),
           f.renderer.c_str(), f.platform.c_str(), f.import_detail.c_str());
    EXPECT_TRUE(result.failures.empty())
        << absl::StrJoin(result.failures, "\n");
    EXPECT_GT(result.proven, least);
    const GlCounters& n = gl_->counts();
    printf(
        "%s: %d proven, %d declined; uploads %d, imports %d, hits %d, "
        "refusals %d, programs %d\n",
        GetParam().name, result.proven, result.declined,
        static_cast<int>(n.uploads), static_cast<int>(n.imports),
        static_cast<int>(n.import_hits), static_cast<int>(n.import_refusals),
        static_cast<int>(n.programs));
  }

  bool Imports() const {
    return gl_->features() != nullptr && gl_->features()->import_memfd;
  }

  std::unique_ptr<GlesConverter> gl_;
  std::unique_ptr<Converter> reference_;
};

TEST_P(GlConformanceTest, TheBatteryIsWithinTheTolerances) {
  Prove(Sample(Stride()), 500);
  if (HasFailure()) return;
  printf("backend gl proven: by %s on %s\n", GetParam().name,
         gl_->features()->renderer.c_str());
}

TEST_P(GlConformanceTest, RandomRequestsAreWithinTheTolerances) {
  Prove(RandomCases(150, 150, 21), 60);
}

INSTANTIATE_TEST_SUITE_P(
    Ways, GlConformanceTest,
    testing::Values(Way{"Memory", GlTransfer::kMemory, AllocatorKind::kHeap},
                    Way{"Pbo", GlTransfer::kPbo, AllocatorKind::kHeap},
                    Way{"ZeroCopy", GlTransfer::kZeroCopy,
                        AllocatorKind::kMemfd}),
    [](const testing::TestParamInfo<Way>& way) {
      return std::string(way.param.name);
    });

}  // namespace
}  // namespace preprocd
