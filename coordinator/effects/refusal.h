// The core's refusals as the contract has them: canonical codes with ErrorInfo and RetryInfo. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "coordinator/core/decision.h"

namespace longhaul::coordinator {

absl::Status ToStatus(const Refuse& refusal);
// UNAVAILABLE: nothing takes effect any more.
Refuse HaltedRefusal();
// RESOURCE_EXHAUSTED, with RetryInfo.
absl::Status DiskFullError(absl::string_view why);
// RESOURCE_EXHAUSTED, with RetryInfo: too many calls wait for the owner thread.
absl::Status Overloaded();

}  // namespace longhaul::coordinator
