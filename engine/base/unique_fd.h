// Owns one file descriptor and closes it once.
// Owns: the descriptor. Thread-safety: compatible.
#ifndef ENGINE_BASE_UNIQUE_FD_H_
#define ENGINE_BASE_UNIQUE_FD_H_

#include <utility>

#include "absl/status/statusor.h"

namespace preprocd {

class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership of `fd`; -1 means none.
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor to the caller, who must close it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes the held descriptor (errno is preserved) and takes `fd`.
  void reset(int fd = -1);

  // A second descriptor of the same open file, close-on-exec.
  // Errors: kResourceExhausted  the process is out of descriptors
  //         kFailedPrecondition  this object holds none
  absl::StatusOr<UniqueFd> Duplicate() const;

 private:
  int fd_ = -1;
};

}  // namespace preprocd

#endif  // ENGINE_BASE_UNIQUE_FD_H_
