// Pictures on their way to and from the daemon: buffers of the session, or
// inline bytes where the connection carries no descriptors.
// Owns: the buffers or bytes. Thread-safety: compatible.
#ifndef CLIENT_CLI_PICTURE_IO_H_
#define CLIENT_CLI_PICTURE_IO_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "preprocd/client.h"

namespace preprocd::cli {

// A picture to read: a sealed memfd.
class SourcePicture {
 public:
  // `layout` is given for raw pixels.
  static absl::StatusOr<SourcePicture> Create(
      Session& session, std::string bytes,
      const std::optional<v1::ImageLayout>& layout);
  const v1::Source& source() const { return source_; }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  v1::Source source_;
  Buffer buffer_;
  uint64_t size_bytes_ = 0;
};

// A place for a result: a memfd that this process owns.
class ResultPlace {
 public:
  static absl::StatusOr<ResultPlace> Create(Session& session,
                                            uint64_t size_bytes);
  // Sets the location of `destination`, nothing else.
  void FillLocation(v1::Destination& destination) const;
  // Where the result is after the call; `inline_bytes` as in its reply.
  std::span<const std::byte> bytes(const std::string& inline_bytes) const;
  // The result as the source of a next call.
  void FillSource(v1::Source& source, const std::string& inline_bytes) const;

 private:
  std::optional<Buffer> buffer_;
};

}  // namespace preprocd::cli

#endif  // CLIENT_CLI_PICTURE_IO_H_
