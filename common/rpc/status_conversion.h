// Converts absl::Status to grpc::Status and back. Codes map one to one. Payloads travel as
// google.rpc.Status details in the trailer (grpc-status-details-bin), so a status arrives with
// everything that status_details.h put into it. Pure functions.
#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace longhaul {

// The peer bounds trailers (8 KiB by default), and a larger status would arrive as
// RESOURCE_EXHAUSTED. So the message is cut at 1 KiB, and if the details are larger than 3 KiB
// together, the last ones are dropped.
grpc::Status ToGrpcStatus(const absl::Status& status);

// Details that do not parse are left out. A code that gRPC does not define becomes UNKNOWN.
// Messages of gRPC itself about a failed connection are put into plain words. If a web server or
// proxy answers in the server's place, the status is UNAVAILABLE.
absl::Status FromGrpcStatus(const grpc::Status& status);

// Whether FromGrpcStatus saw that the connection of a call was given up, since nothing came over
// it, or nothing that was sent was acknowledged. Other connections to the same peer may be as
// silent without a sign of it.
bool WasSilent(const absl::Status& status);

}  // namespace longhaul
