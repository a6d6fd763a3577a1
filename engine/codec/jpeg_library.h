// libjpeg-turbo's own headers, in the one order in which they compile.
// Included by jpeg_*.cc only. Thread-safety: safe (declarations).
#ifndef ENGINE_CODEC_JPEG_LIBRARY_H_
#define ENGINE_CODEC_JPEG_LIBRARY_H_

// clang-format off
// jpeglib.h uses size_t and FILE without including them.
#include <cstddef>
#include <cstdio>

#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#endif  // ENGINE_CODEC_JPEG_LIBRARY_H_
