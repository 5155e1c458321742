// The core's refusals as the contract has them: canonical codes with ErrorInfo and RetryInfo. Pure.
#pragma once

#include "absl/status/status.h"
#include "coordinator/core/decision.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal);
// RESOURCE_EXHAUSTED, with RetryInfo: too many calls wait for the owner thread.
absl::Status Overloaded();

}  // namespace longhaul::coordinator
