// Packets to client frames and server frames to packets: pure, and the one
// place where bytes of the direct transport are parsed.
// Thread-safety: safe (no state). Limits: kMaxFrameBytes.
#ifndef DAEMON_DIRECT_FRAME_CODEC_H_
#define DAEMON_DIRECT_FRAME_CODEC_H_

#include <google/protobuf/message_lite.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "preproc/v1/direct.pb.h"

namespace preprocd {

// Parses one packet into `frame`, replacing what it held.
// Errors: kInvalidArgument FRAME_INVALID  not a ClientFrame
absl::Status ParseFrame(std::span<const std::byte> bytes,
                        preproc::v1::ClientFrame* frame);

// Checks what every request must have: an id and a known body.
// Errors: kInvalidArgument FIELD_INVALID  request_id is 0
//         kUnimplemented FRAME_INVALID    body unset or unknown here
absl::Status CheckFrame(const preproc::v1::ClientFrame& frame);

// Serialises into `out`, replacing it and keeping its capacity.
// Errors: kInvalidArgument TOO_LARGE  above kMaxFrameBytes
absl::Status SerializeFrame(const preproc::v1::ServerFrame& frame,
                            std::vector<std::byte>& out);

// The same for a ServerFrame whose body is `body`, the field `field_number` of
// it: a reply that is reused from request to request need not lie in a frame
// (a oneof frees its message when the frame is cleared).
absl::Status SerializeReply(uint64_t request_id, int field_number,
                            const google::protobuf::MessageLite& body,
                            std::vector<std::byte>& out);

// Turns `frame` into an error reply for the same request id; long messages
// are cut, so that the reply always fits.
void MakeErrorFrame(const absl::Status& status,
                    preproc::v1::ServerFrame* frame);

}  // namespace preprocd

#endif  // DAEMON_DIRECT_FRAME_CODEC_H_
