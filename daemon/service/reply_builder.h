// The engine's values -> reply messages.
// Thread-safety: safe (no state).
#ifndef DAEMON_SERVICE_REPLY_BUILDER_H_
#define DAEMON_SERVICE_REPLY_BUILDER_H_

#include <cstdint>
#include <span>
#include <vector>

#include "daemon/sessions/session.h"
#include "engine/convert/capabilities.h"
#include "engine/engine.h"
#include "preproc/v1/buffers.pb.h"
#include "preproc/v1/image.pb.h"
#include "preproc/v1/preproc.pb.h"

namespace preprocd {

// Complete: every plane with its stride.
void FillLayout(const ImageDesc& desc, preproc::v1::ImageLayout* layout);

// Source rectangle in stored source pixels, destination in destination
// pixels, and the map between them.
void FillPlacement(const ConvertPlan& plan, preproc::v1::Placement* placement);

void FillImageInfo(const ImageInfo& info, preproc::v1::ImageInfo* out);

// Stages measured outside the engine, monotonic nanoseconds.
struct CallTimes {
  int64_t arrival_ns = 0;
  int64_t submitted_ns = 0;
  int64_t queue_ns = 0;
  int64_t finished_ns = 0;
};
// `plan` may be null (no conversion). Copies and warnings come from `work`.
void FillReport(const WorkReport& work, const CallTimes& times,
                const ConvertPlan* plan, preproc::v1::Report* report);

void FillDescription(const RegisteredBuffer& buffer,
                     preproc::v1::BufferDescription* out);

// Where an explained source comes from.
struct ExplainedSource {
  bool encoded = false;
  ImageInfo info;  // encoded only
};
// Everything of a planned convert; ranking and reasons too when no backend
// accepts.
void FillExplain(const ConvertPlan& plan, const ExplainedSource& source,
                 preproc::v1::ExplainReply* reply);

// `rank` from 1 in the automatic order; 0 = only when forced.
void FillBackend(const Capabilities& capabilities, int rank,
                 preproc::v1::BackendCapability* out);

}  // namespace preprocd

#endif  // DAEMON_SERVICE_REPLY_BUILDER_H_
