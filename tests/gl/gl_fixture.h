// Pictures in memfds, and the GL backend beside the reference.
#ifndef TESTS_GL_GL_FIXTURE_H_
#define TESTS_GL_GL_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/gles/gles_converter.h"
#include "engine/convert/converter.h"
#include "engine/convert/planner.h"
#include "engine/memory/allocator.h"

namespace preprocd {

struct GlPicture {
  ImageDesc desc;
  std::vector<std::shared_ptr<Buffer>> memory;
  PictureBuffers buffers() const;
  std::span<std::byte> bytes(size_t buffer = 0) const;
};

// All planes in one memfd of exactly the needed size, or of `extra_bytes`
// more, strides rounded up to `alignment`.
GlPicture MakeGlPicture(PixelFormat format, DType dtype, int width, int height,
                        uint64_t alignment = 4, uint64_t extra_bytes = 0);
// Pixels that depend on their place and on `seed`.
void Paint(const GlPicture& picture, uint32_t seed);

class GlTest : public testing::Test {
 protected:
  // The environment's settings, so that a run can force a device.
  static GlSettings Settings();
  // Skips the test when there is no GL at all.
  void Start(const GlSettings& settings);
  // Skips when the driver does not import memfds.
  void NeedImports();

  static ConvertPlan Plan(const GlPicture& from, const GlPicture& to,
                          const ConvertSpec& spec = {});
  absl::Status Convert(const ConvertPlan& plan, const GlPicture& from,
                       const GlPicture& to);
  // What the reference makes of it, in a picture like `to`.
  GlPicture Reference(const ConvertPlan& plan, const GlPicture& from,
                      const GlPicture& to);
  // The largest difference of bytes.
  static int Distance(const GlPicture& a, const GlPicture& b);

  std::unique_ptr<GlesConverter> gl_;
  RowPool pool_{1};
};

// Descriptors that this process has open.
int OpenDescriptors();

}  // namespace preprocd

#endif  // TESTS_GL_GL_FIXTURE_H_
