// Pictures that begin at the first byte of a page and pictures that end at the
// last one, between pages that must not be touched: a vector that reaches over
// a row's end is harmless in the middle of a picture and kills the daemon
// here, whatever the build.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "engine/backends/cpu/cpu_converter.h"
#include "engine/backends/cpu/kernel_check_support.h"
#include "engine/convert/planner.h"
#include "engine/memory/borrowed_buffer.h"

namespace preprocd {
namespace {

// Readable and writable memory between two pages without any access.
class Fenced {
 public:
  explicit Fenced(size_t max_bytes) {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inner_ = (max_bytes + page_ - 1) / page_ * page_;
    void* memory = mmap(nullptr, inner_ + 2 * page_, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(memory, MAP_FAILED);
    base_ = static_cast<std::byte*>(memory);
    EXPECT_EQ(mprotect(base_ + page_, inner_, PROT_READ | PROT_WRITE), 0);
    std::fill_n(base_ + page_, inner_, std::byte{77});
  }
  ~Fenced() { munmap(base_, inner_ + 2 * page_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  std::span<std::byte> bytes(size_t size, bool at_end) {
    std::byte* inner = base_ + page_;
    return {at_end ? inner + inner_ - size : inner, size};
  }

 private:
  size_t page_ = 0;
  size_t inner_ = 0;
  std::byte* base_ = nullptr;
};

PictureBuffers One(Buffer& buffer) {
  PictureBuffers picture;
  picture.buffers[0] = &buffer;
  picture.count = 1;
  return picture;
}

class MemoryEdgesTest : public testing::Test {
 protected:
  void EveryFormatAndFilter();
  void EveryOrientation();
  void Convert(PixelFormat from, PixelFormat to, Size size, Size result,
               Filter filter, Orientation orientation) {
    const ImageDesc source =
        *MakeImageDesc(from, DType::kU8, size.width, size.height);
    const ImageDesc destination =
        *MakeImageDesc(to, DType::kU8, result.width, result.height);
    ConvertSpec spec;
    spec.filter = filter;
    spec.orientation = orientation;
    const auto plan = PlanConvert(source, destination, spec, false);
    ASSERT_TRUE(plan.ok()) << plan.status();
    for (const bool at_end : {false, true}) {
      BorrowedBuffer in(source_.bytes(RequiredBytes(source), at_end),
                        Access::kReadWrite);
      BorrowedBuffer out(destination_.bytes(RequiredBytes(destination), at_end),
                         Access::kReadWrite);
      ASSERT_TRUE(converter_->Convert(*plan, One(in), One(out), pool_).ok());
    }
  }

  const std::unique_ptr<Converter> converter_ = MakeCpuConverter();
  RowPool pool_{1};
  Fenced source_{64 << 10};
  Fenced destination_{64 << 10};
};

void MemoryEdgesTest::EveryFormatAndFilter() {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    for (int filter = 1; filter <= 7; ++filter) {
      for (const int side : {1, 2, 3, 5, 16, 17, 33, 64, 70}) {
        for (const int result : {1, 7, 17, side}) {
          for (const PixelFormat to :
               {PixelFormat::kRgb, PixelFormat::kRgba, PixelFormat::kGrey,
                PixelFormat::kPlanarRgb, PixelFormat::kNv12}) {
            Convert(from.format, to, {side, 3}, {result, 2},
                    static_cast<Filter>(filter), Orientation::kNormal);
            ASSERT_FALSE(HasFatalFailure());
          }
        }
      }
    }
  }
}

void MemoryEdgesTest::EveryOrientation() {
  for (const PixelFormatInfo& from : AllPixelFormats()) {
    for (int orientation = 1; orientation <= 8; ++orientation) {
      for (const int side : {1, 2, 15, 33, 65}) {
        for (const Filter filter : {Filter::kNearest, Filter::kArea}) {
          Convert(from.format, PixelFormat::kRgb, {side, 19}, {9, 11}, filter,
                  static_cast<Orientation>(orientation));
          ASSERT_FALSE(HasFatalFailure());
        }
      }
    }
  }
}

TEST_F(MemoryEdgesTest, OfEveryFormatAndFilter) {
  OnEveryTarget([this] { EveryFormatAndFilter(); });
}

TEST_F(MemoryEdgesTest, OfEveryOrientation) {
  OnEveryTarget([this] { EveryOrientation(); });
}

}  // namespace
}  // namespace preprocd
