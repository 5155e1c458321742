// Checks what a request says of its pool: its name (common/base/names.h), whether the caller may
// use it, its ranks. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/names.h"
#include "coordinator/access/caller.h"

namespace longhaul::coordinator {

// INVALID_ARGUMENT with one violation for each of `pool` and `incarnation` that is malformed.
absl::Status CheckPool(absl::string_view pool, absl::string_view incarnation);

// The same, and PERMISSION_DENIED unless the caller may act for the pool. Every method that names a
// pool calls it.
absl::Status CheckPool(const PoolCaller& caller, absl::string_view pool,
                       absl::string_view incarnation);

// INVALID_ARGUMENT with a violation of `ranks`, unless it is 1 to kRanksMax.
absl::Status CheckRanks(int ranks);

}  // namespace longhaul::coordinator
