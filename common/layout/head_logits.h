// How many logits of the head exist at a time: passes compute those of some rows, and the planner
// counts their memory. Plain values.
#pragma once

#include <cstdint>

namespace longhaul {

// Of autograd: 512 MiB in float32 on a device, whose products are fast with many rows; 128 MiB in
// host memory. At least one row.
inline constexpr int64_t kDeviceLogitsMax = int64_t{1} << 27, kHostLogitsMax = int64_t{1} << 25;
// Of our kernels, which take at least so many rows.
inline constexpr int64_t kKernelLogitsMax = int64_t{1} << 23, kKernelRowsMin = 64;

}  // namespace longhaul
