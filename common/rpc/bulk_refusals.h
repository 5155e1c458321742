// Refusals of both pushes and pulls. Only for the reactors of fragment_server.h.
#pragma once

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"

namespace longhaul {

// INVALID_ARGUMENT (MISSING_DEADLINE) unless the call ends within `max` from now.
absl::Status CheckBulkDeadline(const grpc::CallbackServerContext& context, absl::Duration max);

// RESOURCE_EXHAUSTED with RetryInfo: the executor's queue is full.
absl::Status TooManyBulkCalls();

}  // namespace longhaul
