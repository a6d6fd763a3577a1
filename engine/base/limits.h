// Every fixed bound of the engine and the defaults of every configurable one
// (DESIGN: no queue, table or loop without a bound). What happens at the
// bound is said beside it. Thread-safety: safe (constants).
#ifndef ENGINE_BASE_LIMITS_H_
#define ENGINE_BASE_LIMITS_H_

#include <cstdint>

namespace preprocd {

// Images: beyond these the answer is INVALID_ARGUMENT, reason TOO_LARGE.
inline constexpr int kMaxImageAxis = 16384;
inline constexpr int64_t kMaxDecodedPixels = 100'000'000;
inline constexpr int64_t kMaxEncodedBytes = 256LL << 20;
inline constexpr int kMaxPlanes = 4;
inline constexpr int kMaxChannels = 4;
inline constexpr int kMaxBatch = 64;
inline constexpr int kMaxRectangles = 50;
// Progressive scans and ancillary chunks beyond these are refused, because a
// small file can otherwise keep a decoder busy for minutes.
inline constexpr int kMaxJpegScans = 500;
inline constexpr int kMaxPngAncillaryChunks = 1000;

// Buffers: beyond these RESOURCE_EXHAUSTED, reason QUOTA.
inline constexpr int kMaxSessions = 64;
inline constexpr int kMaxBuffersPerSession = 1024;
inline constexpr int64_t kMaxBytesPerSession = 1LL << 30;
inline constexpr int kMaxRequestsInFlightPerSession = 32;
// Bytes carried inside a message, for clients without fds.
inline constexpr int64_t kMaxInlineBytes = 4LL << 20;

// Direct transport: a larger frame is answered FRAME_INVALID and dropped.
inline constexpr int kMaxFrameBytes = 64 << 10;
inline constexpr int kMaxFdsPerFrame = 8;

// Scheduler: jobs waiting per executor; beyond it QUEUE_FULL with a hint.
inline constexpr int kMaxQueuedJobs = 256;

}  // namespace preprocd

#endif  // ENGINE_BASE_LIMITS_H_
