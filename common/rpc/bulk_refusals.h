// Refusals of bulk streams. Only for their reactors.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/server_context.h"

namespace longhaul {

// INVALID_ARGUMENT (MISSING_DEADLINE) unless the call ends within `max` from now.
absl::Status CheckBulkDeadline(const grpc::CallbackServerContext& context, absl::Duration max);

// INVALID_ARGUMENT (MISSING_HEADER): the first message does not say what the stream brings.
absl::Status MissingHeader(absl::string_view what);

// RESOURCE_EXHAUSTED with RetryInfo: the executor's queue is full.
absl::Status TooManyBulkCalls();

}  // namespace longhaul
