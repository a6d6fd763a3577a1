// dma-bufs of real exporters through the daemon; runs in the guest, beside a
// daemon that device_job.sh started.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/vm/device_fixture.h"
#include "tests/vm/device_memory.h"

namespace preprocd {
namespace {

using ::testing::AllOf;
using ::testing::Combine;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Values;

// Small: pixels under emulation are dear.
constexpr int kWidth = 64;
constexpr int kHeight = 48;
// Distances that tight or page-sized reckoning would get wrong.
constexpr uint64_t kStride = 64 * 4 + 32;
constexpr uint64_t kOffset = 4096 + 256;
constexpr uint8_t kUntouched = 0xee;
constexpr uint64_t kBytes = 65536;

// Elements of a destination that are not its picture.
bool OnlyThePictureChanged(const v1::ImageLayout& layout,
                           std::span<const uint8_t> memory) {
  std::vector<bool> picture(memory.size(), false);
  for (int p = 0; p < layout.planes_size(); ++p) {
    for (int y = 0; y < Rows(layout, p); ++y) {
      const uint64_t from =
          layout.planes(p).offset_bytes() +
          static_cast<uint64_t>(y) * layout.planes(p).stride_bytes();
      std::fill_n(picture.begin() + static_cast<ptrdiff_t>(from),
                  RowBytes(layout, p), true);
    }
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    if (!picture[i] && memory[i] != kUntouched) return false;
  }
  return true;
}

class ExporterTest : public DeviceTest,
                     public ::testing::WithParamInterface<ExporterKind> {};

std::string KindOf(const ::testing::TestParamInfo<ExporterKind>& info) {
  return ExporterName(info.param);
}

INSTANTIATE_TEST_SUITE_P(Devices, ExporterTest,
                         Values(ExporterKind::kHeap, ExporterKind::kUdmabuf,
                                ExporterKind::kDumb, ExporterKind::kVideo),
                         KindOf);

#define OPEN_OR_SKIP(variable, kind)             \
  const auto variable = Open(kind);              \
  if (variable == nullptr) {                     \
    GTEST_SKIP() << "no " << ExporterName(kind); \
  }

class ConvertTest : public DeviceTest,
                    public ::testing::WithParamInterface<
                        std::tuple<ExporterKind, std::string>> {};

std::string KindAndBackend(
    const ::testing::TestParamInfo<std::tuple<ExporterKind, std::string>>&
        param) {
  return std::string(ExporterName(std::get<0>(param.param))) + "_" +
         std::get<1>(param.param);
}

INSTANTIATE_TEST_SUITE_P(
    Devices, ConvertTest,
    Combine(Values(ExporterKind::kHeap, ExporterKind::kUdmabuf,
                   ExporterKind::kDumb, ExporterKind::kVideo),
            Values("cpu")),
    KindAndBackend);
// gl_device_test has all exporters; here it is about the daemon around it.
INSTANTIATE_TEST_SUITE_P(
    Gl, ConvertTest,
    Combine(Values(ExporterKind::kHeap, ExporterKind::kDumb), Values("gl")),
    KindAndBackend);

struct ConvertCase {
  v1::ImageLayout source;
  v1::ImageLayout destination;
  v1::Filter filter;
};

std::vector<ConvertCase> ConvertCases() {
  const PlaneAt at = {0, kOffset, kStride};
  return {{Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight, {at}),
           Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight, {at}),
           v1::FILTER_NEAREST},
          {Picture(v1::PIXEL_FORMAT_NV12, kWidth, kHeight,
                   {{0, 256, 96}, {0, 8192, 128}}),
           Picture(v1::PIXEL_FORMAT_RGBA, 40, 24, {{0, kOffset, 192}}),
           v1::FILTER_BILINEAR},
          {Picture(v1::PIXEL_FORMAT_RGB, kWidth, kHeight, {{0, 64, 256}}),
           Picture(v1::PIXEL_FORMAT_RGB, 32, 24, {{0, kOffset, 128}}),
           v1::FILTER_BILINEAR},
          {Picture(v1::PIXEL_FORMAT_GREY, kWidth, kHeight, {{0, 0, 64}}),
           Picture(v1::PIXEL_FORMAT_GREY, 32, 24, {{0, 128, 64}}),
           v1::FILTER_BILINEAR}};
}

// Source and destination in device memory, with gaps between rows and bytes
// before and after that must stay as they are.
TEST_P(ConvertTest, DeviceMemoryIsReadAndWrittenInPlace) {
  const auto [kind, backend] = GetParam();
  if (!HasBackend(backend)) GTEST_SKIP() << "no backend " << backend;
  OPEN_OR_SKIP(exporter, kind);
  const int tolerance = backend == "gl" ? 2 : 1;
  const auto from = exporter->Export(kBytes, true);
  const auto to = exporter->Export(kBytes, true);
  ASSERT_TRUE(from.ok() && to.ok()) << from.status() << to.status();
  int seed = 0;
  for (const ConvertCase& test : ConvertCases()) {
    SCOPED_TRACE(testing::Message() << "case " << seed);
    std::string expected;
    {
      const CpuAccess source(from->get());
      const CpuAccess destination(to->get());
      ASSERT_FALSE(source.bytes().empty() || destination.bytes().empty());
      std::fill(source.bytes().begin(), source.bytes().end(), 0x55);
      Paint(test.source, source.bytes(), ++seed);
      std::fill(destination.bytes().begin(), destination.bytes().end(),
                kUntouched);
      expected =
          Expected(test.source, source.bytes(), test.destination, test.filter);
    }
    auto source = Register(from->get(), test.source, v1::BUFFER_ACCESS_READ);
    auto destination = Register(to->get(), test.destination);
    ASSERT_TRUE(source.ok()) << source.status();
    ASSERT_TRUE(destination.ok()) << destination.status();
    const auto reply = Convert(*source, *destination, backend, test.filter);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->report().backend(), backend);
    EXPECT_EQ(reply->report().bytes_copied(), 0u);
    const CpuAccess result(to->get(), false);
    ASSERT_FALSE(result.bytes().empty());
    ExpectNear(TightBytes(test.destination, result.bytes()), expected,
               tolerance);
    EXPECT_TRUE(OnlyThePictureChanged(test.destination, result.bytes()));
  }
}

// The daemon says what the kernel says, whatever the client asked for.
TEST_P(ExporterTest, KindAndSizeAreTheKernels) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto fd = exporter->Export(kBytes + 1, true);
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_GE(KernelSize(fd->get()), kBytes + 1);
  const auto buffer = Register(fd->get(), {});
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  EXPECT_EQ(buffer->size_bytes(), KernelSize(fd->get()));
  EXPECT_THAT(buffer->warnings(), ElementsAre());
  const auto listed = session().ListBuffers();
  ASSERT_TRUE(listed.ok()) << listed.status();
  ASSERT_EQ(listed->buffers_size(), 1);
  EXPECT_THAT(listed->buffers(0).kinds(), ElementsAre(v1::BUFFER_KIND_DMA_BUF));
  EXPECT_EQ(listed->buffers(0).size_bytes(), KernelSize(fd->get()));
}

// One byte less than the last row needs, at registration and in a request.
TEST_P(ExporterTest, APlaneThatEndsOutsideIsRefusedWithSizes) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto fd = exporter->Export(kBytes, true);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const uint64_t size = KernelSize(fd->get());
  const uint64_t picture = kStride * (kHeight - 1) + kWidth * 4;
  v1::ImageLayout layout = Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight,
                                   {{0, size - picture, kStride}});
  auto fits = Register(fd->get(), layout);
  ASSERT_TRUE(fits.ok()) << fits.status();

  layout.mutable_planes(0)->set_offset_bytes(size - picture + 1);
  const auto late = Register(fd->get(), layout);
  EXPECT_EQ(late.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(late.status()), ErrorReason::kBufferTooSmall);
  EXPECT_THAT(FieldOf(late.status()), HasSubstr("planes[0]"));
  EXPECT_THAT(std::string(late.status().message()),
              AllOf(HasSubstr("rgba 64x48"), HasSubstr("stride 288"),
                    HasSubstr("ends at " + std::to_string(size + 1)),
                    HasSubstr(std::to_string(size) + " bytes")));

  v1::ConvertRequest request;
  *request.mutable_source()->mutable_buffer() = fits->ref();
  *request.mutable_source()->mutable_layout() = layout;
  request.mutable_destination()->set_inline_(v1::INLINE_ENCODING_RAW);
  request.mutable_destination()->mutable_layout()->set_format(
      v1::PIXEL_FORMAT_RGB);
  request.mutable_destination()->mutable_layout()->set_width(8);
  request.mutable_destination()->mutable_layout()->set_height(8);
  const absl::Status status = session().Convert(request).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(status), ErrorReason::kBufferTooSmall);
  EXPECT_THAT(FieldOf(status), HasSubstr("source.layout.planes[0]"));

  // An end that wraps around 64 bits is an end outside too.
  layout.mutable_planes(0)->set_offset_bytes(UINT64_MAX - 64);
  EXPECT_EQ(Register(fd->get(), layout).status().code(),
            absl::StatusCode::kInvalidArgument);
  layout.mutable_planes(0)->set_offset_bytes(0);
  layout.mutable_planes(0)->set_stride_bytes(UINT64_MAX / 2);
  EXPECT_EQ(Register(fd->get(), layout).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_P(ExporterTest, AReadOnlyDescriptorIsASourceAndNothingElse) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto fd = exporter->Export(kBytes, false);
  if (absl::IsUnimplemented(fd.status())) GTEST_SKIP() << fd.status();
  ASSERT_TRUE(fd.ok()) << fd.status();
  ASSERT_EQ(fcntl(fd->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  const v1::ImageLayout layout =
      Picture(v1::PIXEL_FORMAT_RGB, kWidth, kHeight, {{0, 0, kWidth * 3}});
  for (const v1::BufferAccess access :
       {v1::BUFFER_ACCESS_READ_WRITE, v1::BUFFER_ACCESS_WRITE}) {
    const absl::Status refused = Register(fd->get(), layout, access).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(ReasonOf(refused), ErrorReason::kBufferSealed);
    EXPECT_EQ(FieldOf(refused), "fds[0].access");
  }
  auto source = Register(fd->get(), layout, v1::BUFFER_ACCESS_READ);
  ASSERT_TRUE(source.ok()) << source.status();
  auto destination =
      session().CreateBuffer(kWidth * kHeight * 3, Tight(layout));
  ASSERT_TRUE(destination.ok()) << destination.status();
  EXPECT_TRUE(Convert(*source, *destination).ok());
  const absl::Status refused = Convert(*destination, *source).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kBufferReadOnly);
  EXPECT_EQ(FieldOf(refused), "destination.buffer.buffer_id");
}

// Device and inode say what a descriptor is: the same memory under two ids is
// one buffer, which cannot be read and written at once; other memory behind
// a number that was used before is another.
TEST_P(ExporterTest, TheSameMemoryIsRecognisedAndARecycledNumberIsNot) {
  OPEN_OR_SKIP(exporter, GetParam());
  auto first = exporter->Export(kBytes, true);
  ASSERT_TRUE(first.ok()) << first.status();
  const v1::ImageLayout layout = Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight,
                                         {{0, 0, uint64_t{kWidth} * 4}});
  auto once = Register(first->get(), layout);
  auto again = Register(first->get(), layout);
  ASSERT_TRUE(once.ok() && again.ok()) << once.status() << again.status();
  const absl::Status overlap = Convert(*once, *again).status();
  EXPECT_EQ(overlap.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(overlap), ErrorReason::kBufferOverlap);

  { Paint(layout, CpuAccess(first->get()).bytes(), 1); }
  auto second = exporter->Export(kBytes, true);
  ASSERT_TRUE(second.ok()) << second.status();
  { Paint(layout, CpuAccess(second->get()).bytes(), 2); }
  // The client's descriptor goes; its number names the second buffer now.
  const int number = first->get();
  ASSERT_EQ(dup3(second->get(), number, O_CLOEXEC), number);
  auto recycled = Register(number, layout);
  ASSERT_TRUE(recycled.ok()) << recycled.status();
  auto result = session().CreateBuffer(kWidth * kHeight * 4, Tight(layout));
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<uint8_t> painted(kWidth * kHeight * 4);
  for (const auto& [buffer, seed] :
       {std::pair(&*once, 1), std::pair(&*recycled, 2),
        std::pair(&*again, 1)}) {
    Paint(layout, painted, seed);
    const auto reply = Convert(*buffer, *result);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(memcmp(result->bytes().data(), painted.data(), painted.size()), 0)
        << "seed " << seed;
  }
  EXPECT_TRUE(Convert(*once, *recycled).ok());
  const CpuAccess copied(second->get(), false);
  Paint(layout, painted, 1);
  EXPECT_EQ(memcmp(copied.bytes().data(), painted.data(), painted.size()), 0);
}

// What was exported stays when its exporter goes, and the client with its
// descriptor: the registration alone holds it.
TEST_P(ExporterTest, ABufferOutlivesItsDevice) {
  auto exporter = Open(GetParam());
  if (exporter == nullptr) GTEST_SKIP() << "no " << ExporterName(GetParam());
  const v1::ImageLayout layout = Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight,
                                         {{0, 0, uint64_t{kWidth} * 4}});
  Buffer source;
  {
    const auto fd = exporter->Export(kBytes, true);
    ASSERT_TRUE(fd.ok()) << fd.status();
    Paint(layout, CpuAccess(fd->get()).bytes(), 6);
    auto registered = Register(fd->get(), layout, v1::BUFFER_ACCESS_READ);
    ASSERT_TRUE(registered.ok()) << registered.status();
    source = *std::move(registered);
  }
  exporter.reset();
  auto result = session().CreateBuffer(kWidth * kHeight * 4, Tight(layout));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto reply = Convert(source, *result);
  ASSERT_TRUE(reply.ok()) << reply.status();
  std::vector<uint8_t> painted(kWidth * kHeight * 4);
  Paint(layout, painted, 6);
  EXPECT_EQ(memcmp(result->bytes().data(), painted.data(), painted.size()), 0);
}

// One piece of memory seen as three pictures, one after the other.
TEST_P(ExporterTest, EveryInterpretationOfOneBufferIsRight) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto fd = exporter->Export(kBytes, true);
  ASSERT_TRUE(fd.ok()) << fd.status();
  const std::vector<v1::ImageLayout> layouts = {
      Picture(v1::PIXEL_FORMAT_RGBA, 64, 48, {{0, 0, 256}}),
      Picture(v1::PIXEL_FORMAT_NV12, 128, 64, {{0, 0, 128}, {0, 8192, 128}}),
      Picture(v1::PIXEL_FORMAT_RGBA, 32, 24, {{0, 4096, 128}})};
  v1::ImageLayout wanted;
  wanted.set_format(v1::PIXEL_FORMAT_RGB);
  wanted.set_width(24);
  wanted.set_height(16);
  auto result = session().CreateBuffer(24 * 16 * 3, wanted);
  auto buffer = Register(fd->get(), {});
  ASSERT_TRUE(result.ok() && buffer.ok()) << result.status() << buffer.status();
  for (int round = 0; round < 2; ++round) {
    for (const v1::ImageLayout& layout : layouts) {
      std::string expected;
      {
        const CpuAccess memory(fd->get());
        Paint(layout, memory.bytes(), round);
        expected =
            Expected(layout, memory.bytes(), wanted, v1::FILTER_BILINEAR);
      }
      v1::ConvertRequest request;
      *request.mutable_source()->mutable_buffer() = buffer->ref();
      *request.mutable_source()->mutable_layout() = layout;
      *request.mutable_destination()->mutable_buffer() = result->ref();
      request.mutable_spec()->set_filter(v1::FILTER_BILINEAR);
      request.mutable_options()->add_backends("cpu");
      const auto reply = session().Convert(request);
      ASSERT_TRUE(reply.ok()) << reply.status();
      ExpectNear(
          std::string(reinterpret_cast<const char*>(result->bytes().data()),
                      expected.size()),
          expected, 1);
    }
  }
}

// Y and UV in buffers of their own, as V4L2's multi-planar formats give them.
TEST_P(ExporterTest, PlanesMayLieInBuffersOfTheirOwn) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto luma = exporter->Export(kBytes, true);
  const auto chroma = exporter->Export(kBytes, true);
  const auto small = exporter->Export(4096, true);
  ASSERT_TRUE(luma.ok() && chroma.ok() && small.ok());
  const v1::ImageLayout layout = Picture(v1::PIXEL_FORMAT_NV12, kWidth, kHeight,
                                         {{0, 0, 704}, {1, 4096, 768}});
  {
    Paint(layout, CpuAccess(luma->get()).bytes(), 3, 0);
    Paint(layout, CpuAccess(chroma->get()).bytes(), 3, 1);
  }
  const auto register_pair = [&](const UniqueFd& y, const UniqueFd& uv) {
    ImportOptions options;
    options.fds.emplace_back(dup(y.get()));
    options.fds.emplace_back(dup(uv.get()));
    options.layout = layout;
    return session().ImportBuffer(std::move(options));
  };
  auto source = register_pair(*luma, *chroma);
  ASSERT_TRUE(source.ok()) << source.status();
  const v1::ImageLayout together = Picture(
      v1::PIXEL_FORMAT_NV12, kWidth, kHeight, {{0, 0, 64}, {0, 3072, 64}});
  std::vector<uint8_t> memory(kWidth * kHeight * 3 / 2);
  Paint(together, memory, 3);
  v1::ImageLayout wanted;
  wanted.set_format(v1::PIXEL_FORMAT_RGB);
  wanted.set_width(32);
  wanted.set_height(24);
  auto result = session().CreateBuffer(32 * 24 * 3, wanted);
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_TRUE(Convert(*source, *result, "cpu", v1::FILTER_BILINEAR).ok());
  ExpectNear(std::string(reinterpret_cast<const char*>(result->bytes().data()),
                         result->bytes().size()),
             Expected(together, memory, wanted, v1::FILTER_BILINEAR), 1);

  if (KernelSize(small->get()) >= kBytes) return;  // capture buffers: one size
  const absl::Status refused = register_pair(*luma, *small).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(refused), ErrorReason::kBufferTooSmall);
  EXPECT_THAT(FieldOf(refused), HasSubstr("planes[1]"));
  const absl::Status swapped = register_pair(*small, *luma).status();
  EXPECT_EQ(ReasonOf(swapped), ErrorReason::kBufferTooSmall);
  EXPECT_THAT(FieldOf(swapped), HasSubstr("planes[0]"));
}

// A layout that the pixels do not have is never read as linear.
TEST_P(ExporterTest, AModifierIsRefusedNotIgnored) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto fd = exporter->Export(kBytes, true);
  ASSERT_TRUE(fd.ok()) << fd.status();
  v1::ImageLayout layout =
      Picture(v1::PIXEL_FORMAT_RGBA, kWidth, kHeight, {{0, 0, 256}});
  layout.set_modifier((1ull << 56) | 1);  // Intel, X tiles
  const absl::Status refused = Register(fd->get(), layout).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_EQ(FieldOf(refused), "layout.modifier");
  EXPECT_THAT(std::string(refused.message()), HasSubstr("0x100000000000001"));
}

// The daemon keeps one descriptor per registration and none per convert.
TEST_P(ExporterTest, NoDescriptorIsLeftBehind) {
  OPEN_OR_SKIP(exporter, GetParam());
  const auto to = exporter->Export(kBytes, true);
  const auto from = exporter->Export(kBytes, true);
  ASSERT_TRUE(to.ok() && from.ok());
  const v1::ImageLayout layout =
      Picture(v1::PIXEL_FORMAT_GREY, 16, 16, {{0, 0, 16}});
  const int before = DaemonDescriptors();
  ASSERT_GT(before, 0);
  ASSERT_TRUE(Await([] { return DaemonDmaBufs() == 0; }));
  for (int i = 0; i < 30; ++i) {
    auto source = Register(from->get(), layout);
    auto destination = Register(to->get(), layout);
    ASSERT_TRUE(source.ok() && destination.ok())
        << source.status() << destination.status();
    ASSERT_TRUE(Convert(*source, *destination).ok());
    ASSERT_TRUE(Await([] { return DaemonDmaBufs() == 2; }));
    // A registration that is refused keeps nothing.
    v1::ImageLayout wrong = layout;
    wrong.set_height(16384);
    wrong.mutable_planes(0)->set_stride_bytes(64);
    ASSERT_FALSE(Register(from->get(), wrong).ok());
    ASSERT_TRUE(source->Release().ok() && destination->Release().ok());
  }
  EXPECT_TRUE(Await([] { return DaemonDmaBufs() == 0; }));
  EXPECT_TRUE(Await([&] { return DaemonDescriptors() == before; }));
}

}  // namespace
}  // namespace preprocd
