#include "tests/gl/gl_fixture.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "engine/backends/reference/reference_converter.h"

namespace preprocd {

PictureBuffers GlPicture::buffers() const {
  PictureBuffers result;
  for (const std::shared_ptr<Buffer>& buffer : memory) {
    result.buffers[static_cast<size_t>(result.count++)] = buffer.get();
  }
  return result;
}

std::span<std::byte> GlPicture::bytes(size_t buffer) const {
  return memory[buffer]->Map(Access::kReadWrite)->bytes();
}

GlPicture MakeGlPicture(PixelFormat format, DType dtype, int width, int height,
                        uint64_t alignment, uint64_t extra_bytes) {
  GlPicture picture;
  picture.desc = *MakeImageDesc(format, dtype, width, height, alignment);
  picture.memory.push_back(*AllocateBuffer(
      AllocatorKind::kMemfd, RequiredBytes(picture.desc) + extra_bytes, "gl"));
  return picture;
}

void Paint(const GlPicture& picture, uint32_t seed) {
  for (size_t b = 0; b < picture.memory.size(); ++b) {
    uint32_t state = seed * 2654435761U + static_cast<uint32_t>(b);
    for (std::byte& byte : picture.bytes(b)) {
      state = state * 1664525U + 1013904223U;
      byte = static_cast<std::byte>(state >> 24);
    }
  }
}

GlSettings GlTest::Settings() {
  GlSettings settings;
  const absl::Status status = ApplyGlEnvironment(
      [](const char* name) -> const char* { return getenv(name); }, settings);
  EXPECT_TRUE(status.ok()) << status;
  return settings;
}

void GlTest::Start(const GlSettings& settings) {
  gl_ = std::make_unique<GlesConverter>(settings);
  if (!gl_->capabilities().available) {
    GTEST_SKIP() << gl_->capabilities().detail;
  }
  // A first convert makes a lazy worker start, so that features are known.
  const GlPicture a = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 4, 4);
  const GlPicture b = MakeGlPicture(PixelFormat::kRgba, DType::kU8, 4, 4);
  const absl::Status ran = Convert(Plan(a, b), a, b);
  ASSERT_TRUE(ran.ok()) << ran;
}

void GlTest::NeedImports() {
  if (!gl_->features()->import_memfd) {
    GTEST_SKIP() << gl_->features()->version << ": "
                 << gl_->features()->import_detail;
  }
}

ConvertPlan GlTest::Plan(const GlPicture& from, const GlPicture& to,
                         const ConvertSpec& spec) {
  absl::StatusOr<ConvertPlan> plan =
      PlanConvert(from.desc, to.desc, spec, false);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

absl::Status GlTest::Convert(const ConvertPlan& plan, const GlPicture& from,
                             const GlPicture& to) {
  return gl_->Convert(plan, from.buffers(), to.buffers(), pool_).status();
}

GlPicture GlTest::Reference(const ConvertPlan& plan, const GlPicture& from,
                            const GlPicture& to) {
  GlPicture result;
  result.desc = to.desc;
  for (size_t i = 0; i < to.memory.size(); ++i) {
    result.memory.push_back(*AllocateBuffer(
        AllocatorKind::kMemfd, to.memory[i]->size_bytes(), "reference"));
    std::ranges::copy(to.bytes(i), result.bytes(i).begin());
  }
  const auto ran = MakeReferenceConverter()->Convert(plan, from.buffers(),
                                                     result.buffers(), pool_);
  EXPECT_TRUE(ran.ok()) << ran.status();
  return result;
}

int GlTest::Distance(const GlPicture& a, const GlPicture& b) {
  int largest = 0;
  for (size_t i = 0; i < a.memory.size(); ++i) {
    const std::span<std::byte> x = a.bytes(i);
    const std::span<std::byte> y = b.bytes(i);
    for (size_t k = 0; k < x.size(); ++k) {
      largest = std::max(largest, std::abs(std::to_integer<int>(x[k]) -
                                           std::to_integer<int>(y[k])));
    }
  }
  return largest;
}

int OpenDescriptors() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

}  // namespace preprocd
