// Gathers rows of a table in host memory. Rows lie far from each other, so a block of them is asked
// for while the one before is copied; then the loads of many rows are under way at once. Pure.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/base/thread_team.h"

namespace longhaul {

// Row i of `out` becomes row ids[i] of `table`. The ids are in range; the memory does not overlap.
// `team` may be null.
void GatherRows(const uint8_t* table, int64_t row_bytes, absl::Span<const int64_t> ids,
                uint8_t* out, ThreadTeam* team);

}  // namespace longhaul
