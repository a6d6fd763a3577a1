// Backends that break while they run, as values: who does the work instead,
// and that nothing is done twice.
#include "engine/failover.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/error_detail.h"

namespace preprocd {
namespace {

absl::Status Broken(ErrorReason reason, absl::StatusCode code) {
  ErrorDetail detail;
  detail.reason = reason;
  detail.backend = "gl";
  return MakeError(code, std::move(detail), "the device is gone");
}

// Breaks `failures` times, after finishing `finishes` plans of a batch.
class FakeConverter : public Converter {
 public:
  FakeConverter(int failures, absl::Status how, size_t finishes = 0)
      : failures_(failures), how_(std::move(how)), finishes_(finishes) {}
  const Capabilities& capabilities() const override { return capabilities_; }
  absl::StatusOr<uint64_t> Convert(const ConvertPlan&, const PictureBuffers&,
                                   const PictureBuffers&, RowPool&) override {
    ++calls;
    if (failures_-- > 0) return how_;
    return 7;
  }
  absl::StatusOr<uint64_t> ConvertMany(std::span<const ConvertPlan> plans,
                                       const PictureBuffers&,
                                       const PictureBuffers&, RowPool&,
                                       PictureFinished finished) override {
    ++calls;
    const bool breaks = failures_-- > 0;
    const size_t count = breaks ? finishes_ : plans.size();
    for (size_t i = 0; i < count; ++i) {
      widths.push_back(plans[i].destination.width);
      finished(i);
    }
    if (breaks) return how_;
    return 7;
  }
  int calls = 0;
  std::vector<int> widths;

 private:
  Capabilities capabilities_;
  int failures_;
  const absl::Status how_;
  const size_t finishes_;
};

class FailoverTest : public testing::Test {
 protected:
  FailoverTest() : pool_(1) {}
  void Add(const std::string& name, FakeConverter& converter) {
    converters_[name] = &converter;
  }
  static ConvertPlan Plan(std::vector<BackendChoice> ranking) {
    ConvertPlan plan;
    plan.backend = "gl";
    plan.ranking = std::move(ranking);
    return plan;
  }
  absl::StatusOr<uint64_t> Run(const ConvertPlan& plan) {
    return ConvertWithFailover(
        plan, {}, {}, pool_,
        [this](absl::string_view name) {
          return converters_[std::string(name)];
        },
        report_);
  }
  const absl::Status gone_ =
      Broken(ErrorReason::kBackendFailed, absl::StatusCode::kUnavailable);
  RowPool pool_;
  std::map<std::string, Converter*> converters_;
  FailoverReport report_;
};

TEST_F(FailoverTest, AHealthyBackendIsAskedOnceAndNothingIsReported) {
  FakeConverter gl(0, gone_);
  Add("gl", gl);
  EXPECT_EQ(*Run(Plan({{"gl", true, ""}, {"cpu", true, ""}})), 7u);
  EXPECT_EQ(gl.calls, 1);
  EXPECT_EQ(report_.backend, "");
  EXPECT_TRUE(report_.failures.empty());
}

TEST_F(FailoverTest, TheNextBackendThatAcceptsDoesTheWork) {
  FakeConverter gl(9, gone_);
  FakeConverter g2d(0, gone_);
  FakeConverter cpu(0, gone_);
  Add("gl", gl);
  Add("g2d", g2d);
  Add("cpu", cpu);
  EXPECT_EQ(*Run(Plan({{"ev74", true, ""},
                       {"gl", true, ""},
                       {"g2d", false, "no"},
                       {"cpu", true, ""}})),
            7u);
  EXPECT_EQ(gl.calls, 1);
  EXPECT_EQ(g2d.calls, 0);
  EXPECT_EQ(cpu.calls, 1);
  EXPECT_EQ(report_.backend, "cpu");
  ASSERT_EQ(report_.failures.size(), 1u);
  EXPECT_EQ(report_.failures[0].backend, "gl");
  EXPECT_EQ(report_.failures[0].reason, "the device is gone");
}

TEST_F(FailoverTest, ABackendWithoutSubstituteIsAskedOnceMore) {
  FakeConverter gl(1, gone_);
  Add("gl", gl);
  EXPECT_EQ(*Run(Plan({{"gl", true, ""}})), 7u);
  EXPECT_EQ(gl.calls, 2);
  FakeConverter dead(9, gone_);
  Add("gl", dead);
  EXPECT_EQ(Run(Plan({{"gl", true, ""}})).status(), gone_);
  EXPECT_EQ(dead.calls, 2);
}

TEST_F(FailoverTest, RefusalsOfTheRequestAreNotTriedElsewhere) {
  FakeConverter cpu(0, gone_);
  Add("cpu", cpu);
  for (const absl::Status& status :
       {InvalidField("source", "source: no"),
        Broken(ErrorReason::kDmaBuf, absl::StatusCode::kUnavailable),
        Broken(ErrorReason::kBackendFailed, absl::StatusCode::kInternal)}) {
    FakeConverter gl(9, status);
    Add("gl", gl);
    EXPECT_EQ(Run(Plan({{"gl", true, ""}, {"cpu", true, ""}})).status(),
              status);
  }
  EXPECT_EQ(cpu.calls, 0);
}

TEST_F(FailoverTest, FinishedPlansOfABatchAreNotRunAgain) {
  FakeConverter gl(9, gone_, /*finishes=*/2);
  FakeConverter cpu(0, gone_);
  Add("gl", gl);
  Add("cpu", cpu);
  std::vector<ConvertPlan> plans(5,
                                 Plan({{"gl", true, ""}, {"cpu", true, ""}}));
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].destination.width = static_cast<int>(i);
  }
  std::vector<size_t> finished;
  const auto ran = ConvertManyWithFailover(
      plans, {}, {}, pool_, [&](size_t i) { finished.push_back(i); },
      [this](absl::string_view name) { return converters_[std::string(name)]; },
      report_);
  EXPECT_EQ(*ran, 7u);
  EXPECT_EQ(finished, (std::vector<size_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(gl.widths, (std::vector<int>{0, 1}));
  EXPECT_EQ(cpu.widths, (std::vector<int>{2, 3, 4}));
  EXPECT_EQ(report_.backend, "cpu");
}

}  // namespace
}  // namespace preprocd
