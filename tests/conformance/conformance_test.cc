// Every backend against the reference, and broken backends against the
// battery: a check that cannot fail proves nothing.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/backends/registry.h"
#include "engine/base/status_macros.h"
#include "tests/conformance/battery.h"
#include "tests/conformance/random_case.h"

namespace preprocd {
namespace {

std::unique_ptr<Converter> Make(absl::string_view name) {
  for (std::unique_ptr<Converter>& backend : MakeBackends()) {
    if (backend->capabilities().name == name) return std::move(backend);
  }
  return nullptr;
}

TEST(ConformanceTest, EveryAvailableBackendMatchesTheReference) {
  const auto reference = Make("reference");
  ASSERT_NE(reference, nullptr);
  const std::vector<BatteryCase> cases = AllCases();
  for (const std::unique_ptr<Converter>& backend : MakeBackends()) {
    const Capabilities& c = backend->capabilities();
    const std::string name(c.name);
    // gl_conformance_test runs it every way it has.
    if (c.name == "gl") continue;
    if (!c.available) {
      printf("backend %s skipped: %s\n", name.c_str(), c.detail.c_str());
      continue;
    }
    const BatteryResult result = RunBattery(*backend, *reference, cases, 20);
    EXPECT_TRUE(result.failures.empty())
        << name << ":\n"
        << absl::StrJoin(result.failures, "\n");
    EXPECT_GT(result.proven, 1000) << name;
    printf("backend %s proven: %d cases, %d declined with a reason\n",
           name.c_str(), result.proven, result.declined);
  }
}

// Whole vectors and every combination: what the lists above cannot
// enumerate.
TEST(ConformanceTest, RandomRequestsMatchTheReference) {
  constexpr int kCases = 1500;
  constexpr int kMaxSide = 150;
  const auto reference = Make("reference");
  std::minstd_rand random(20);
  std::vector<BatteryCase> cases;
  for (int i = 0; i < kCases; ++i) {
    std::array<uint8_t, kRandomCaseBytes> bytes = {};
    for (uint8_t& b : bytes) b = static_cast<uint8_t>(random() >> 9);
    cases.push_back(CaseFromBytes(bytes, kMaxSide));
  }
  for (const std::unique_ptr<Converter>& backend : MakeBackends()) {
    const Capabilities& c = backend->capabilities();
    if (!c.available || c.name == "reference" || c.name == "gl") continue;
    const BatteryResult result = RunBattery(*backend, *reference, cases, 20);
    EXPECT_TRUE(result.failures.empty())
        << c.name << ":\n"
        << absl::StrJoin(result.failures, "\n");
    // A third is declined: YUV destinations take u8 without a dtype stage.
    EXPECT_GT(result.proven, kCases / 2);
    printf("backend %s: %d random requests proven, %d declined\n",
           std::string(c.name).c_str(), result.proven, result.declined);
  }
}

// Wraps the real CPU backend and spoils its result.
class BrokenConverter : public Converter {
 public:
  enum class Fault {
    kPadding,    // writes a byte between rows
    kLastPlane,  // writes a byte behind the last plane
    kLastRow,    // forgets the last row
    kRowUp,      // every row shows the row below
    kTooFar,     // one value beyond the widest tolerance
    kOneOff,     // one value off by one, allowed only to weighted filters
  };
  explicit BrokenConverter(Fault fault) : fault_(fault), inner_(Make("cpu")) {}
  const Capabilities& capabilities() const override {
    return inner_->capabilities();
  }
  absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   RowPool& pool) override {
    RETURN_IF_ERROR(inner_->Convert(plan, source, destination, pool).status());
    MappedDestination to;
    RETURN_IF_ERROR(to.Map(plan.destination, destination));
    const ImageView& view = to.view();
    const int height = plan.destination.height;
    const auto row_bytes = static_cast<size_t>(
        PlaneRowBytes(plan.destination.format, plan.destination.dtype, 0,
                      plan.destination.width));
    std::byte* last = view.row(0, height - 1);
    switch (fault_) {
      case Fault::kPadding:
        last[row_bytes] ^= std::byte{1};
        break;
      case Fault::kLastPlane:
        BehindLastPlane(view) ^= std::byte{1};
        break;
      case Fault::kLastRow:
        memset(last, 0xa5, row_bytes);
        break;
      case Fault::kRowUp:
        for (int y = 0; y + 1 < height; ++y) {
          memcpy(view.row(0, y), view.row(0, y + 1), row_bytes);
        }
        break;
      case Fault::kTooFar:
        last[0] ^= std::byte{4};
        break;
      case Fault::kOneOff:
        last[0] ^= std::byte{1};
        break;
    }
    return 0;
  }

 private:
  static std::byte& BehindLastPlane(const ImageView& view) {
    const ImageDesc& desc = view.desc;
    const int plane = GetPixelFormatInfo(desc.format).plane_count - 1;
    const int rows = PlaneRows(desc.format, plane, desc.height);
    return view.row(
        plane,
        rows - 1)[PlaneRowBytes(desc.format, desc.dtype, plane, desc.width)];
  }

  const Fault fault_;
  const std::unique_ptr<Converter> inner_;
};

std::vector<BatteryCase> ExactCases() {
  std::vector<BatteryCase> cases = AllCases();
  std::erase_if(cases, [](const BatteryCase& c) {
    return c.source != PixelFormat::kRgb ||
           GetPixelFormatInfo(c.destination).family != ColorFamily::kRgb ||
           c.dtype != DType::kU8 || c.spec.filter != Filter::kNearest ||
           c.spec.normalization || c.spec.precision == Precision::kFull;
  });
  return cases;
}

TEST(ConformanceTest, BackendsThatAreAlwaysWrongNeverPass) {
  const auto reference = Make("reference");
  std::vector<BatteryCase> cases = AllCases();
  cases.resize(256);
  using enum BrokenConverter::Fault;
  for (const auto fault : {kPadding, kLastPlane, kLastRow, kTooFar}) {
    BrokenConverter broken(fault);
    const BatteryResult result = RunBattery(broken, *reference, cases, 1000);
    EXPECT_EQ(result.proven, 0) << static_cast<int>(fault);
    EXPECT_EQ(result.failures.size(), 256u) << static_cast<int>(fault);
  }
}

TEST(ConformanceTest, ShiftedRowsAreCaughtWherePicturesHaveRows) {
  const auto reference = Make("reference");
  std::vector<BatteryCase> cases = AllCases();
  cases.resize(256);
  std::erase_if(cases,
                [](const BatteryCase& c) { return c.source_size.height == 1; });
  BrokenConverter broken(BrokenConverter::Fault::kRowUp);
  const BatteryResult result = RunBattery(broken, *reference, cases, 1000);
  EXPECT_EQ(result.proven, 0);
  EXPECT_EQ(result.failures.size(), cases.size());
}

TEST(ConformanceTest, OneStepIsCaughtWhereTheResultIsExact) {
  const auto reference = Make("reference");
  const std::vector<BatteryCase> cases = ExactCases();
  ASSERT_GT(cases.size(), 20u);
  BrokenConverter broken(BrokenConverter::Fault::kOneOff);
  const BatteryResult result = RunBattery(broken, *reference, cases, 1000);
  EXPECT_EQ(result.proven, 0);
  EXPECT_EQ(result.failures.size(), cases.size());
}

// Says that it can do everything, as a backend with careless sets would.
class BoastfulConverter : public BrokenConverter {
 public:
  BoastfulConverter() : BrokenConverter(Fault::kPadding) {
    capabilities_ = BrokenConverter::capabilities();
    capabilities_.decline = nullptr;
  }
  const Capabilities& capabilities() const override { return capabilities_; }

 private:
  Capabilities capabilities_;
};

TEST(ConformanceTest, ClaimingWhatNoBackendCanDoIsCaught) {
  const auto reference = Make("reference");
  std::vector<BatteryCase> cases = AllCases();
  std::erase_if(cases, [](const BatteryCase& c) { return !c.must_decline; });
  ASSERT_FALSE(cases.empty());
  BoastfulConverter boastful;
  const BatteryResult result = RunBattery(boastful, *reference, cases, 1000);
  EXPECT_FALSE(result.failures.empty());
}

}  // namespace
}  // namespace preprocd
