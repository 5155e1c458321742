// The core's refusals as the contract has them: canonical codes with ErrorInfo and RetryInfo. Pure.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/action.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal);

// FAILED_PRECONDITION, VERSION_MISMATCH: the coordinator's version of the fragment is `have`.
absl::Status VersionMismatch(int fragment, int64_t wanted, int64_t have);

}  // namespace longhaul::coordinator
