// Private memory that is kept between calls and grows when it must. Sizes
// come from foreign files, so running out is an answer, not a crash.
// Owns: the memory. Thread-safety: compatible.
#ifndef ENGINE_CODEC_SCRATCH_BYTES_H_
#define ENGINE_CODEC_SCRATCH_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace preprocd {

class ScratchBytes {
 public:
  // At least `size` bytes with unspecified content from here on.
  // Errors: kResourceExhausted
  absl::Status Reserve(size_t size) {
    if (size <= size_) return absl::OkStatus();
    bytes_.reset();
    size_ = 0;
    bytes_.reset(new (std::nothrow) uint8_t[size]);
    if (bytes_ == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("no memory for ", size, " bytes"));
    }
    size_ = size;
    return absl::OkStatus();
  }
  // Gives memory back that one large file took; data() is invalid then.
  void ReleaseAbove(size_t kept) {
    if (size_ <= kept) return;
    bytes_.reset();
    size_ = 0;
  }
  uint8_t* data() const { return bytes_.get(); }

 private:
  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
};

}  // namespace preprocd

#endif  // ENGINE_CODEC_SCRATCH_BYTES_H_
