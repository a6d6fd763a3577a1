// NumPy's .npy header; version 1.0 is written.
// Thread-safety: safe (no state).
// Source: numpy.lib.format: magic, version, little-endian header length,
// a Python dict padded with spaces so that the data begin at a multiple of
// 64 bytes, newline last.
#ifndef CLIENT_CLI_NPY_FILE_H_
#define CLIENT_CLI_NPY_FILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "preproc/v1/image.pb.h"

namespace preprocd::cli {

namespace v1 = ::preproc::v1;

// "|u1", "|i1", "<u2", "<i2", "<f2", "<u2" for bf16 (NumPy has none), "<f4".
absl::string_view NpyDescr(v1::DataType dtype);

// Everything before the data, which follow in C order.
std::string NpyHeader(v1::DataType dtype, const std::vector<int64_t>& shape);

// An array in a file.
struct NpyArray {
  v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
  std::vector<int64_t> shape;
  // First byte of the data, C order; they reach the shape's size.
  size_t data_offset = 0;
};

// Reads the header of versions 1 to 3, little-endian, C order; "<u2" is u16.
// Errors: reason FILE for anything else, and for data shorter than the shape
absl::StatusOr<NpyArray> ParseNpy(const std::string& path,
                                  absl::string_view bytes);

// Shape under which a picture without gaps is stored: [H,W,C] for packed
// formats, [C,H,W] for planar ones (and for grey when `channels_first`),
// [rows,W] for the YUV formats whose planes have the same row length, [bytes]
// for what is no rectangle (odd sizes).
std::vector<int64_t> NpyShape(const v1::ImageLayout& layout,
                              bool channels_first);

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_NPY_FILE_H_
