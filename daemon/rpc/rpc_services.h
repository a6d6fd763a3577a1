// The gRPC services of this daemon, as objects to register with a server.
// Owns: each returned service borrows `callers`, which must outlive it.
// Thread-safety: safe.
#ifndef DAEMON_RPC_RPC_SERVICES_H_
#define DAEMON_RPC_RPC_SERVICES_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "daemon/rpc/caller_resolver.h"

namespace preprocd {

std::unique_ptr<grpc::Service> MakePreprocRpc(CallerResolver& callers);
std::unique_ptr<grpc::Service> MakeBuffersRpc(CallerResolver& callers);
// `on_drain` gets the bound in milliseconds, 0 = the configured one.
std::unique_ptr<grpc::Service> MakeAdminRpc(
    CallerResolver& callers, std::function<void(int64_t)> on_drain);

}  // namespace preprocd

#endif  // DAEMON_RPC_RPC_SERVICES_H_
