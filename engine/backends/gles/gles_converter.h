// The GL backend: EGL and GLES on whatever device there is, software
// rasterisers only when they are named.
// Owns: GL workers and their contexts. Thread-safety: safe; any thread may
// convert, the work is done by the workers' threads.
#ifndef ENGINE_BACKENDS_GLES_GLES_CONVERTER_H_
#define ENGINE_BACKENDS_GLES_GLES_CONVERTER_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/backends/gles/gl_counters.h"
#include "engine/backends/gles/gl_features.h"
#include "engine/backends/gles/gl_settings.h"
#include "engine/convert/converter.h"

namespace preprocd {

class GlesConverter : public Converter {
 public:
  // Looks for devices; starts the first worker when there is one that is not
  // a software rasteriser, whose worker starts with the first convert. Never
  // fails: capabilities().available and .detail say what became of it.
  explicit GlesConverter(const GlSettings& settings);
  ~GlesConverter() override;

  const Capabilities& capabilities() const override;
  // Errors also: kUnavailable BACKEND_FAILED  no worker, a lost worker, or
  // the device failed; the destination may then have been written.
  absl::StatusOr<uint64_t> Convert(const ConvertPlan& plan,
                                   const PictureBuffers& source,
                                   const PictureBuffers& destination,
                                   RowPool& pool) override;
  // One upload or import of the source, one fence for all plans.
  absl::StatusOr<uint64_t> ConvertMany(std::span<const ConvertPlan> plans,
                                       const PictureBuffers& source,
                                       const PictureBuffers& destination,
                                       RowPool& pool,
                                       PictureFinished finished) override;

  const GlCounters& counts() const;
  std::vector<BackendCounter> counters() const override;
  // What the device can do; null before the first worker has started.
  const GlFeatures* features() const;
  std::string health() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::unique_ptr<Converter> MakeGlesConverter(const GlSettings& settings);

}  // namespace preprocd

#endif  // ENGINE_BACKENDS_GLES_GLES_CONVERTER_H_
