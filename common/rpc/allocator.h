// The allocator's settings for bulk transfer. By default glibc maps and unmaps memory for each 1
// MiB message, which costs a third of the throughput of the receiving side.
#pragma once

namespace longhaul {

// Call once at the beginning of main, before other threads start. False where the allocator does
// not take such settings (sanitizers, a preloaded malloc): everything works, slower.
bool TuneAllocatorForBulk();

}  // namespace longhaul
