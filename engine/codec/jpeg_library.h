// libjpeg-turbo's own headers, in the one order in which they compile; with
// the marker reader's state, which alone tells of bytes that were dropped.
// Included by jpeg_*.cc only. Thread-safety: safe (declarations).
#ifndef ENGINE_CODEC_JPEG_LIBRARY_H_
#define ENGINE_CODEC_JPEG_LIBRARY_H_

// clang-format off
// jpeglib.h uses size_t and FILE without including them.
#include <cstddef>
#include <cstdio>

#define JPEG_INTERNALS
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#endif  // ENGINE_CODEC_JPEG_LIBRARY_H_
