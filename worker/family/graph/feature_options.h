// How the rows of features are to reach the model. Plain values.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/graph/feature_table.h"

namespace longhaul {

// See GraphSource of job.proto.
struct FeatureOptions {
  // Unset: the fastest, as measured.
  std::optional<FeatureAccess> access;
  // Of rows that are kept in the device's memory.
  int64_t cache_bytes = 0;
};

}  // namespace longhaul
