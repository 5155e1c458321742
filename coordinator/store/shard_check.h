// Whether a shard from outside may go into the log: the last check before its bytes count. Pure
// functions.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "coordinator/store/round_records.h"

namespace longhaul {

// INVALID_ARGUMENT: no segments; a segment that is out of order, outside the fragment, across a
// tile, or not of whole blocks; a payload of another size; bytes that the codec's Validate refuses;
// a decoded magnitude beyond 2^64. The bound keeps an outer step finite whatever pools send
// (weights are bounded too); no real gradient comes near it.
absl::Status CheckShard(const ShardInfo& shard, absl::Span<const uint8_t> payload,
                        int64_t fragment_elements);

}  // namespace longhaul
