// Who holds what inside a pool: for each kind of state, over which level it is split. The named
// modes (ddp, zero1, zero2) are presets of this map and nothing else. Pure values.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"

namespace longhaul {

enum class PartitionLevel {
  kNone,  // Every rank holds all of it.
  kPool,  // Split over the ranks of the pool.
};

struct PartitionMap {
  PartitionLevel weights = PartitionLevel::kNone;
  PartitionLevel gradients = PartitionLevel::kNone;
  PartitionLevel optimizer = PartitionLevel::kNone;
};

// "ddp" (or empty), and "zero1" and "zero2" (Rajbhandari et al., "ZeRO": P_os, P_os+g).
// UNIMPLEMENTED: a preset that this version does not have. INVALID_ARGUMENT: no preset has this
// name.
absl::StatusOr<PartitionMap> PartitionPreset(std::string_view name);

}  // namespace longhaul
