#include "daemon/rpc/status_to_grpc.h"

#include <string>

#include "daemon/service/service.h"
#include "preproc/v1/error.pb.h"

namespace preprocd {
namespace {

namespace v1 = preproc::v1;

#define PREPROCD_SAME(ABSL, GRPC)                              \
  static_assert(static_cast<int>(absl::StatusCode::k##ABSL) == \
                static_cast<int>(grpc::StatusCode::GRPC))
PREPROCD_SAME(Ok, OK);
PREPROCD_SAME(Cancelled, CANCELLED);
PREPROCD_SAME(Unknown, UNKNOWN);
PREPROCD_SAME(InvalidArgument, INVALID_ARGUMENT);
PREPROCD_SAME(DeadlineExceeded, DEADLINE_EXCEEDED);
PREPROCD_SAME(NotFound, NOT_FOUND);
PREPROCD_SAME(AlreadyExists, ALREADY_EXISTS);
PREPROCD_SAME(PermissionDenied, PERMISSION_DENIED);
PREPROCD_SAME(ResourceExhausted, RESOURCE_EXHAUSTED);
PREPROCD_SAME(FailedPrecondition, FAILED_PRECONDITION);
PREPROCD_SAME(Aborted, ABORTED);
PREPROCD_SAME(OutOfRange, OUT_OF_RANGE);
PREPROCD_SAME(Unimplemented, UNIMPLEMENTED);
PREPROCD_SAME(Internal, INTERNAL);
PREPROCD_SAME(Unavailable, UNAVAILABLE);
PREPROCD_SAME(DataLoss, DATA_LOSS);
PREPROCD_SAME(Unauthenticated, UNAUTHENTICATED);
#undef PREPROCD_SAME

// Cut before the middle of a UTF-8 character.
std::string CutMessage(absl::string_view message) {
  size_t size = message.size();
  if (size > static_cast<size_t>(kMaxStatusMessageBytes)) {
    size = kMaxStatusMessageBytes;
    while (size > 0 &&
           (static_cast<unsigned char>(message[size]) & 0xC0) == 0x80) {
      --size;
    }
  }
  return std::string(message.substr(0, size));
}

}  // namespace

grpc::Status StatusToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = CutMessage(status.message());
  v1::ErrorDetail detail;
  FillErrorDetail(status, &detail);
  v1::RpcStatus rpc;
  rpc.set_code(static_cast<int>(status.code()));
  rpc.set_message(message);
  rpc.add_details()->PackFrom(detail);
  return grpc::Status(
      static_cast<grpc::StatusCode>(static_cast<int>(status.code())), message,
      rpc.SerializeAsString());
}

}  // namespace preprocd
