// absl::Status <-> grpc::Status. Codes map one to one; payloads travel as google.rpc.Status details
// in the trailer (grpc-status-details-bin), so that a status arrives with all that status_details.h
// put into it. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace longhaul {

// Trailers are bounded by the peer (8 KiB by default), and a status beyond that would arrive as
// RESOURCE_EXHAUSTED. So the message is cut at 1 KiB, and details that are larger than 3 KiB
// together are dropped, the last first.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Details that do not parse are left out. A code that gRPC does not define becomes UNKNOWN.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace longhaul
