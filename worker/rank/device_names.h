// Whether the ranks of a pool compute on devices of one type. Each step takes as long as on the
// slowest; and where each rank computes the same update for itself (ddp), other devices may round
// it in another way.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace longhaul {

// As Replica::AllGather.
using GatherWords = absl::FunctionRef<absl::StatusOr<std::vector<std::vector<int64_t>>>(
    absl::Span<const int64_t> words)>;

// A warning that names the types and their ranks, or nothing. `name`: of this rank's device, of
// which 64 bytes count. Collective, blocks; errors: those of `gather`.
absl::StatusOr<std::string> WarningOfDevices(absl::string_view name, GatherWords gather);

}  // namespace longhaul
