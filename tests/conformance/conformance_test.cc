// Every backend against the reference, and broken backends against the
// battery: a check that cannot fail proves nothing.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "engine/backends/registry.h"
#include "engine/base/status_macros.h"
#include "tests/conformance/battery.h"

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
    if (name == "reference") continue;
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

// Wraps the real CPU backend and spoils its result.
class BrokenConverter : public Converter {
 public:
  enum class Fault { kPadding, kLastRow, kOneStep };
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
    std::byte* last = view.row(0, plan.destination.height - 1);
    const uint64_t row_bytes =
        PlaneRowBytes(plan.destination.format, plan.destination.dtype, 0,
                      plan.destination.width);
    switch (fault_) {
      case Fault::kPadding:
        last[row_bytes] ^= std::byte{1};
        break;
      case Fault::kLastRow:
        for (uint64_t i = 0; i < row_bytes; ++i) last[i] ^= std::byte{0x40};
        break;
      case Fault::kOneStep:
        last[0] ^= std::byte{4};
        break;
    }
    return 0;
  }

 private:
  const Fault fault_;
  const std::unique_ptr<Converter> inner_;
};

TEST(ConformanceTest, BrokenBackendsAreCaught) {
  const auto reference = Make("reference");
  std::vector<BatteryCase> cases = AllCases();
  cases.resize(200);
  for (const auto fault :
       {BrokenConverter::Fault::kPadding, BrokenConverter::Fault::kLastRow,
        BrokenConverter::Fault::kOneStep}) {
    BrokenConverter broken(fault);
    const BatteryResult result = RunBattery(broken, *reference, cases, 1000);
    EXPECT_EQ(result.proven, 0) << static_cast<int>(fault);
    EXPECT_GT(result.failures.size(), 100u);
  }
}

}  // namespace
}  // namespace preprocd
